"""Linking another identity: /user/identities/authorize and the callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.messaging import EmailType
from tests import factories
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, CHALLENGE, VERIFIER, SignIn, make_user
from tests.oauthproviders.browser import (
    SITE,
    Browser,
    GitHub,
    address,
    assert_error_redirect,
    get_state,
    parse_location,
    provider_settings,
    start_link_flow,
)
from tests.observations import assert_error, audit_trail, redirect_fragment
from tokens.flows import flow_states
from tokens.models import FlowState, OneTimeToken, Session, TokenType
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"
MAILED = "Unverified email with github. A confirmation email has been sent to your github email"
ADMIN = Administrator(role="svc_admin")
CALLER = Caller(audience=AUDIENCE)
TAKEN = "A user with this email address has already been registered"


def authorize(api: Api, bearer: str = "", **query: str) -> ApiResponse:
    return api.get(f"/user/identities/authorize?{urlencode({'provider': 'github', **query})}", bearer=bearer)


def sign_up_anonymously(api: Api, auth_config: ChangeConfig) -> tuple[User, str]:
    """An anonymous user and the access token."""
    auth_config(signup={"anonymous_enabled": True})
    token = api.post("/signup", {}).json()["access_token"]
    return User.objects.get(is_anonymous=True), token


# Start of the flow


def test_disabled_linking_is_an_error(github: GitHub, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": False})
    token = factories.make_session().access_token

    assert_error(authorize(api, token), 404, "manual_linking_disabled", "Manual linking is disabled")


def test_linking_requires_a_session_and_a_provider(github: GitHub, api: Api) -> None:
    assert_error(authorize(api), 401, "no_authorization", "This endpoint requires a valid Bearer token")
    assert_error(
        authorize(api, factories.make_session().access_token, provider="unknown"),
        400,
        "validation_failed",
        "Unsupported provider: Provider unknown could not be found",
    )
    assert not FlowState.objects.exists()


@pytest.mark.parametrize("skip", ["true", "True", "1", ""])
def test_skip_http_redirect_returns_the_url(skip: str, github: GitHub, api: Api) -> None:
    signed_in = factories.make_session()

    response = authorize(api, signed_in.access_token, skip_http_redirect=skip, redirect_to=f"{SITE}/me")

    flow = FlowState.objects.get()
    url = response.json()["url"] if skip == "true" else response.headers["Location"]
    assert response.status_code == (200 if skip == "true" else 302)
    assert url.startswith(f"{github.server.url}/login/oauth/authorize?client_id=cid&")
    assert flow_states.flow_id(UUID(get_state(url))) == flow.id
    assert (flow.linking_target_id, flow.referrer, flow.user_id) == (signed_in.user.id, f"{SITE}/me", None)


# Callback


def test_an_identity_is_linked(github: GitHub, browser: Browser, api: Api, mailbox: Mailbox) -> None:
    signed_in = factories.make_session(make_user(email="work@example.com", data={"name": "Work"}))
    github.set_user(address(EMAIL, verified=False))

    response = browser.callback(start_link_flow(api, signed_in.access_token))

    me = api.get("/user", bearer=redirect_fragment(response)["access_token"]).json()
    identity = Identity.objects.get(provider="github")
    assert (me["id"], me["email"]) == (str(signed_in.user.id), "work@example.com")
    assert [identity["provider"] for identity in me["identities"]] == ["email", "github"]
    assert me["app_metadata"]["providers"] == ["email", "github"]
    assert me["user_metadata"]["name"] == "Work"
    linked = {"identity_id": str(identity.id), "provider": "github", "provider_id": "7"}
    assert audit_trail() == [("identity_linked", linked)]
    assert [(mail.type, mail.to, mail.variables["Provider"]) for mail in mailbox.emails] == [
        (EmailType.IDENTITY_LINKED, "work@example.com", "github")
    ]


def test_linking_works_with_pkce(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = start_link_flow(api, signed_in.access_token, code_challenge=CHALLENGE, code_challenge_method="s256")

    response = browser.callback(state)

    code = dict(parse_location(response)[1])["code"]
    body = {"auth_code": code, "code_verifier": VERIFIER}
    tokens = api.post("/token?grant_type=pkce", body).json()
    assert tokens["user"]["id"] == str(signed_in.user.id)
    assert tokens["provider_token"] == "gho_x"


def test_disabled_sign_up_does_not_affect_linking(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"disabled": True})

    response = browser.callback(start_link_flow(api, factories.make_session().access_token))

    assert "access_token" in redirect_fragment(response)


def test_an_identity_that_is_already_linked_is_an_error(github: GitHub, browser: Browser, api: Api) -> None:
    linked = redirect_fragment(browser.sign_in())["access_token"]
    other = factories.make_session().access_token

    for token, text in [
        (linked, "Identity is already linked"),
        (other, "Identity is already linked to another user"),
    ]:
        response = browser.callback(start_link_flow(api, token))
        assert_error_redirect(response, "server_error", "identity_already_exists", text)
    assert Identity.objects.filter(provider="github").count() == 1


def test_a_user_deleted_during_the_flow_is_an_error(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = start_link_flow(api, signed_in.access_token)
    User.objects.filter(id=signed_in.user.id).delete()

    response = browser.callback(state)

    parameters = [
        ("error", "server_error"),
        ("error_code", "user_not_found"),
        ("error_description", "Linking target user not found"),
    ]
    assert (response.status_code, parse_location(response)) == (303, (SITE, parameters, []))


# Revoked sessions


NOT_FOUND = [
    ("error", "invalid_request"),
    ("error_code", "bad_oauth_state"),
    ("error_description", "OAuth state not found or expired"),
]


def reuse_refresh_token(api: Api, signed_in: SignIn) -> None:
    Session.objects.filter(id=signed_in.session.id).update(refresh_token_counter=5)
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": signed_in.refresh_token})
    assert response.json()["error_code"] == "refresh_token_already_used"


ENDINGS: dict[str, Callable[[Api, SignIn], object]] = {
    "global": lambda api, owner: api.post("/logout?scope=global", bearer=owner.access_token),
    "others": lambda api, owner: api.post("/logout?scope=others", bearer=owner.access_token),
    "revoked session": lambda _api, owner: revocation.revoke_session_as_operator(
        owner.session.id, actor=ADMIN, caller=CALLER, at=timezone.now()
    ),
    "revoked sessions": lambda _api, owner: revocation.revoke_all_sessions_as_operator(
        owner.user.id, actor=ADMIN, caller=CALLER, at=timezone.now()
    ),
    "reuse": reuse_refresh_token,
    "password": lambda api, owner: api.put("/user", {"password": "another horse"}, bearer=owner.access_token),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("pkce", [{}, {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}], ids=["", "pkce"])
def test_a_revoked_session_ends_its_linking_flow(
    pkce: dict[str, str], ending: str, github: GitHub, browser: Browser, api: Api
) -> None:
    signed_in = factories.make_session()
    owner = factories.make_session(signed_in.user)
    other_flow = browser.start()
    state = start_link_flow(api, signed_in.access_token, **pkce)

    ENDINGS[ending](api, owner)

    response = browser.callback(state)
    assert (response.status_code, parse_location(response)) == (303, (SITE, NOT_FOUND, []))
    assert not Identity.objects.filter(provider="github").exists()
    assert "access_token" in redirect_fragment(browser.callback(other_flow))


def test_the_code_of_a_linking_flow_is_invalid_after_a_logout(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = start_link_flow(api, signed_in.access_token, code_challenge=CHALLENGE, code_challenge_method="s256")
    code = dict(parse_location(browser.callback(state))[1])["code"]

    api.post("/logout", bearer=signed_in.access_token)

    response = api.post("/token?grant_type=pkce", {"auth_code": code, "code_verifier": VERIFIER})
    assert (response.status_code, response.json()["error_code"]) == (404, "flow_state_not_found")


def test_a_local_logout_keeps_the_linking_flow_of_another_session(github: GitHub, browser: Browser, api: Api) -> None:
    other_session = factories.make_session()
    state = start_link_flow(api, other_session.access_token)

    api.post("/logout?scope=local", bearer=factories.make_session(other_session.user).access_token)

    assert "access_token" in redirect_fragment(browser.callback(state))


def test_a_logout_keeps_the_linking_flow_of_another_user(github: GitHub, browser: Browser, api: Api) -> None:
    state = start_link_flow(api, factories.make_session().access_token)

    api.post("/logout", bearer=factories.make_session().access_token)

    assert "access_token" in redirect_fragment(browser.callback(state))


def test_a_user_banned_during_the_flow_is_an_error(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = start_link_flow(api, signed_in.access_token)
    admin_requests.expect_success(api, "PUT", f"/admin/users/{signed_in.user.id}", {"ban_duration": "1h"})

    assert_error_redirect(browser.callback(state), "access_denied", "user_banned", "User is banned")

    assert not Identity.objects.filter(provider="github").exists()


# Users without an address


def test_a_verified_address_makes_an_anonymous_user_permanent(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    user, token = sign_up_anonymously(api, auth_config)

    response = browser.callback(start_link_flow(api, token))

    assert "access_token" in redirect_fragment(response)
    user.refresh_from_db()
    assert (user.email, user.is_anonymous, user.raw_user_meta_data) == (EMAIL, False, {"email_verified": True})
    assert user.email_confirmed_at is not None
    assert user.raw_app_meta_data == {"provider": "github", "providers": ["github"]}
    assert [mail.type for mail in mailbox.emails] == [EmailType.IDENTITY_LINKED]


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_an_unverified_address_of_an_anonymous_user_gets_a_confirmation_email(
    autoconfirm: bool, github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"autoconfirm": autoconfirm})
    user, token = sign_up_anonymously(api, auth_config)
    github.set_user(address(EMAIL, verified=False))

    response = browser.callback(start_link_flow(api, token, redirect_to=f"{SITE}/in"))

    assert_error_redirect(response, "server_error", "email_not_confirmed", MAILED, to=f"{SITE}/in")
    user.refresh_from_db()
    assert (user.email, user.email_change, user.email_confirmed_at, user.is_anonymous) == (None, EMAIL, None, True)
    assert user.raw_app_meta_data == {}
    assert Identity.objects.get().user_id == user.id
    (mail,) = mailbox.emails
    assert (mail.type, mail.to) == (EmailType.EMAIL_CHANGE, EMAIL)
    assert mail.variables["ConfirmationURL"].endswith(f"&redirect_to={SITE}/in")
    assert api.get(f"/verify?type=email_change&token={mail.variables['TokenHash']}").status_code == 303
    user.refresh_from_db()
    assert (user.email, user.is_anonymous) == (EMAIL, False)
    assert user.raw_app_meta_data == {"provider": "github", "providers": ["github", "email"]}
    assert "access_token" in redirect_fragment(browser.sign_in())


def test_an_anonymous_user_links_an_identity_without_an_address(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(providers={"github": provider_settings(url=github.server.url, email_optional=True)})
    user, token = sign_up_anonymously(api, auth_config)
    github.set_user()

    response = browser.callback(start_link_flow(api, token))

    assert "access_token" in redirect_fragment(response)
    user.refresh_from_db()
    assert (user.email, user.is_anonymous, mailbox.emails) == (None, False, [])
    assert "access_token" in redirect_fragment(browser.sign_in())
    assert User.objects.count() == 1


@pytest.mark.parametrize("audience", ["authenticated", "elsewhere"])
@pytest.mark.parametrize("verified", [True, False])
def test_an_address_of_another_user_is_an_error(
    verified: bool, audience: str, github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig,
    mailbox: Mailbox,
) -> None:  # fmt: skip
    make_user(email=EMAIL, audience=audience)
    user, token = sign_up_anonymously(api, auth_config)
    github.set_user(address(EMAIL, verified=verified))

    assert_error_redirect(browser.callback(start_link_flow(api, token)), "invalid_request", "email_exists", TAKEN)

    assert not user.identities.exists()
    assert mailbox.emails == []


def test_a_phone_user_gets_the_address_of_the_identity(github: GitHub, browser: Browser, api: Api) -> None:
    user = make_user(email="", phone="15551234567", phone_confirmed_at=timezone.now())
    Identity.objects.filter(user=user).update(provider="phone", identity_data={"sub": str(user.id)})
    factories.make_one_time_token(user, TokenType.PHONE_CHANGE)

    browser.callback(start_link_flow(api, factories.make_session(user).access_token))

    user.refresh_from_db()
    app_metadata: Any = user.raw_app_meta_data
    assert (user.email, user.phone, app_metadata["providers"]) == (EMAIL, "15551234567", ["phone", "github"])
    assert user.email_confirmed_at is not None
    assert not OneTimeToken.objects.exists()
