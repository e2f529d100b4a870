"""Attack: two users of a provider whose profiles have no usable id become one account."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accounts.models import Identity, User
from oauthproviders.base import profiles
from oauthproviders.base.contract import InvalidProviderResponse
from tests.conftest import Api
from tests.factories import make_session
from tests.fakes.http_peer import Response as PeerResponse
from tests.fakes.http_peer import in_json
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, GitHub, start_link_flow
from tests.oauthproviders.custom.test_sign_ins import ADA, create_oauth2_provider
from tests.oauthproviders.custom.test_sign_ins import issuer as custom_issuer
from tests.oauthproviders.flow.id_token_requests import exchange
from tests.observations import redirect_fragment

__all__ = ["custom_issuer"]

pytestmark = pytest.mark.django_db

TEXTS = ("", "0", "00", " 0 ", "0.0", "-0", "\t", "\u00a0", "\u200b", "null", "None", "undefined", "NaN", "false",
         "true", "00000000-0000-0000-0000-000000000000", "{}", "\u0660")  # fmt: skip
UNUSABLE: tuple[Any, ...] = (*TEXTS, 0, -1, 0.0, 7.5, None, True, False, [], {}, [7], {"id": 7}, {"a": {"b": 1}})


@pytest.mark.parametrize("user_id", UNUSABLE, ids=json.dumps)
def test_two_profiles_of_github_become_no_account(user_id: Any, github: GitHub, browser: Browser) -> None:
    for email in ("ada@example.com", "mallory@example.com"):
        github.set_user(email, id=user_id)
        assert redirect_fragment(browser.sign_in())["error_code"] == "unexpected_failure"
    assert not User.objects.exists()

    for number, email in enumerate(("ada@example.com", "mallory@example.com"), start=7):
        github.set_user(email, id=number)
        assert "access_token" in redirect_fragment(browser.sign_in())
    assert User.objects.count() == 2


def test_a_profile_without_an_id_becomes_no_account(github: GitHub, browser: Browser) -> None:
    github.set_user("ada@example.com")
    github.server.respond(in_json({"login": "ada"}), path="/api/v3/user")
    assert redirect_fragment(browser.sign_in())["error_code"] == "unexpected_failure"
    github.server.respond(PeerResponse(body=b'{"id": NaN}'), path="/api/v3/user")
    assert redirect_fragment(browser.sign_in())["error_code"] == "unexpected_failure"
    assert not User.objects.exists()


@pytest.mark.parametrize("subject", UNUSABLE, ids=json.dumps)
def test_an_id_token_becomes_no_account(subject: Any, issuer: Issuer, api: Api) -> None:
    response = exchange(api, issuer.token(sub=subject))
    assert (response.status_code, response.json()["error"]) == (400, "invalid request")
    assert not User.objects.exists()
    assert exchange(api, issuer.token(sub="0a")).status_code == 200


@pytest.mark.usefixtures("no_request_limits")
def test_a_profile_of_a_custom_provider_becomes_no_account(custom_issuer: Issuer, api: Api) -> None:
    browser = create_oauth2_provider(api, custom_issuer)
    for subject in UNUSABLE:
        custom_issuer.server.respond(in_json({**ADA, "sub": subject}), path="/userinfo")
        assert redirect_fragment(browser.sign_in())["error_code"] == "unexpected_failure"
    assert not Identity.objects.exists()
    custom_issuer.server.respond(in_json(ADA), path="/userinfo")
    assert "access_token" in redirect_fragment(browser.sign_in())


def test_linking_refuses_the_profile_too(github: GitHub, browser: Browser, api: Api) -> None:
    session = make_session()
    github.set_user("ada@example.com", id=0)
    response = browser.callback(start_link_flow(api, session.access_token))
    assert redirect_fragment(response)["error_code"] == "unexpected_failure"
    assert not Identity.objects.filter(provider="github").exists()


@pytest.mark.parametrize("value", ["7", "0a", "a", "10", " 7", "\u00e9", 7, 10**30])
def test_every_other_id_is_used_unchanged(value: Any) -> None:
    assert profiles.subject(value) == str(value)


@pytest.mark.parametrize("value", UNUSABLE, ids=json.dumps)
def test_all_providers_share_the_check(value: Any) -> None:
    with pytest.raises(InvalidProviderResponse):
        profiles.identity_data(iss="https://id.example", sub=value)
    with pytest.raises(InvalidProviderResponse):
        profiles.standard_claims({"sub": value})
