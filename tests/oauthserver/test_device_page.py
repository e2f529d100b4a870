"""The page at which users connect devices: codes, confirmation, requirements of clients, wrong codes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from oauthserver.device import decisions
from oauthserver.models import DeviceAuthorization, OAuthConsent
from tests.conftest import Api, ChangeConfig
from tests.factories import make_user
from tests.oauthserver.device_requests import poll, start, television
from tests.oauthserver.test_consent_page import HOME, location_of, make_old, sign_in_new_user
from tests.page_browser import PageBrowser

pytestmark = pytest.mark.django_db

PAGE = "/oauth/device"


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True}, api={"external_url": HOME})


def test_user_types_the_code_and_connects_the_device(api: Api) -> None:
    browser, application = sign_in_new_user(), television(api, client_name="Television")
    started = start(application)
    typed = started["user_code"].lower().replace("-", " ")

    asked = browser.submit(PAGE, user_code=typed)

    text = asked.content.decode()
    assert asked.status_code == 200
    for shown in (started["user_code"], "Television", "See your email address", "ada@example.com", "your own device"):
        assert shown in text
    assert DeviceAuthorization.objects.get().status == "pending"
    response = browser.submit(PAGE, user_code=started["user_code"], action="approve")
    assert location_of(response) == "/oauth/device/approved"
    assert "Your device signs in now" in browser.text("/oauth/device/approved")
    assert poll(application, started).status_code == 200
    assert OAuthConsent.objects.get().user.email == "ada@example.com"
    # A code connects one device.
    assert browser.submit(PAGE, user_code=started["user_code"], action="approve").status_code == 404


def test_link_with_the_code_asks_before_anything_happens(api: Api) -> None:
    started = start(television(api))
    path = started["verification_uri_complete"].removeprefix("https://auth.example.com")
    make_user(email="ada@example.com")
    browser = PageBrowser()
    sign_in = location_of(browser.get(path))
    query = sign_in.partition("?")[2]
    assert location_of(browser.sign_in("ada@example.com", query=f"?{query}")) == path

    assert f'value="{started["user_code"]}"' in browser.text(path)

    row = DeviceAuthorization.objects.get()
    assert (row.status, row.user_id) == ("pending", None)
    assert browser.submit(path, user_code=started["user_code"]).status_code == 200
    response = browser.submit(path, user_code=started["user_code"], action="deny")
    assert location_of(response) == "/oauth/device/denied"
    assert DeviceAuthorization.objects.get().status == "denied"
    assert "gets no access" in browser.text("/oauth/device/denied")


def test_forged_and_foreign_decisions_are_refused(api: Api) -> None:
    first, second = sign_in_new_user(), sign_in_new_user("eve@example.com")
    code = start(television(api))["user_code"]
    forged: Any = first.client.post(PAGE, {"user_code": code, "action": "approve"})
    assert forged.status_code == 403
    # Neither a user who has not seen the request nor an action of another name decides.
    assert first.submit(PAGE, user_code=code, action="approve").status_code == 404
    assert first.submit(PAGE, user_code=code).status_code == 200
    assert first.submit(PAGE, user_code=code, action="maybe").status_code == 400
    assert second.submit(PAGE, user_code=code, action="approve").status_code == 404
    assert DeviceAuthorization.objects.get().status == "pending"
    response = first.get(PAGE)
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    assert "form-action 'self'" in response.headers["Content-Security-Policy"]


def test_wrong_codes_are_limited(api: Api) -> None:
    browser, code = sign_in_new_user(), start(television(api))["user_code"]
    for _ in range(decisions.MAX_ATTEMPTS):
        wrong = browser.submit(PAGE, user_code="BBBB-BBBB")
        assert wrong.status_code == 404
        assert "wrong or has expired" in wrong.content.decode()
    refused = browser.submit(PAGE, user_code=code)
    assert refused.status_code == 429
    assert DeviceAuthorization.objects.get().user_id is None


def test_device_requires_a_new_sign_in_or_a_second_factor(api: Api) -> None:
    browser, application = sign_in_new_user(), television(api)
    code = start(application, max_age="3600")["user_code"]
    form = {"user_code": code}
    browser.submit(PAGE, **form)
    make_old()
    sign_in = location_of(browser.submit(PAGE, **form))
    assert f"next=%2Foauth%2Fdevice%3Fuser_code%3D{code}&prompt=login" in sign_in
    assert location_of(browser.submit(PAGE, **form, action="approve")) == f"{PAGE}?user_code={code}"
    strict = browser.submit(PAGE, user_code=start(application, acr_values="aal2")["user_code"])
    assert strict.status_code == 403
    assert "Second factor required" in strict.content.decode()


def test_expired_code(api: Api) -> None:
    browser, code = sign_in_new_user(), start(television(api))["user_code"]
    DeviceAuthorization.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert browser.submit(PAGE, user_code=code).status_code == 404


def test_disabled_server_has_no_page(auth_config: ChangeConfig) -> None:
    browser = sign_in_new_user()
    auth_config(oauth_server={"enabled": False})
    assert browser.get(PAGE).status_code == 404
