"""An attacker's page frames a response of the service, or a response runs as a document with scripts and forms."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.conftest import Api, ChangeConfig
from tests.factories import make_session
from tests.observations import SECURITY_HEADERS
from tests.security.test_content_sniffing import PATHS

pytestmark = pytest.mark.django_db

DATA = SECURITY_HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "PROPFIND"])
def test_every_response_forbids_framing_and_plugins(method: str, path: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    policy = Client(headers={"Host": "localhost"}).generic(method, path).headers["Content-Security-Policy"]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"


def test_a_preflight_response_has_the_policy() -> None:
    headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "GET"}
    response = Client().options("/user", headers=headers)
    assert (response.status_code, response.headers["Content-Security-Policy"]) == (204, DATA)


def test_data_permit_nothing_and_pages_keep_their_own_policy(api: Api) -> None:
    response = api.get("/user", bearer=make_session().access_token)
    assert (response.status_code, response.headers["Content-Security-Policy"]) == (200, DATA)
    page = api.get("/operator/login/")
    assert (page.status_code, "style-src 'self'" in page.headers["Content-Security-Policy"]) == (200, True)
