"""Linking a further identity: /user/identities/authorize, and the callback that follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.messaging import EmailKind
from tests import factories
from tests.accounts.administration import admin_requests
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, CHALLENGE, VERIFIER, SignIn, make_user
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.browser import (
    SITE,
    Browser,
    GitHub,
    address,
    configured,
    link,
    location_of,
    refused_with,
    state_of,
)
from tests.observations import assert_error, audit_trail, redirect_fragment
from tokens.models import FlowState, OneTimeToken, Session, TokenType
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"
MAILED = "Unverified email with github. A confirmation email has been sent to your github email"
ADMIN = Administrator(role="svc_admin")
CALLER = Caller(audience=AUDIENCE)
TAKEN = "A user with this email address has already been registered"


def ask(api: Api, bearer: str = "", **query: str) -> Answer:
    return api.get(f"/user/identities/authorize?{urlencode({'provider': 'github', **query})}", bearer=bearer)


def visitor(api: Api, auth_config: ChangeConfig) -> tuple[User, str]:
    """Somebody whom only their session knows."""
    auth_config(signup={"anonymous_enabled": True})
    token = api.post("/signup", {}).json()["access_token"]
    return User.objects.get(is_anonymous=True), token


# On the way there


def test_linking_is_off_unless_it_is_switched_on(github: GitHub, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": False})
    token = factories.make_session().access_token

    assert_error(ask(api, token), 404, "manual_linking_disabled", "Manual linking is disabled")


def test_linking_is_for_those_who_are_signed_in(github: GitHub, api: Api) -> None:
    assert_error(ask(api), 401, "no_authorization", "This endpoint requires a valid Bearer token")
    assert_error(
        ask(api, factories.make_session().access_token, provider="nobody"),
        400,
        "validation_failed",
        "Unsupported provider: Provider nobody could not be found",
    )
    assert not FlowState.objects.exists()


@pytest.mark.parametrize("skip", ["true", "True", "1", ""])
def test_a_client_may_be_told_where_to_go_instead_of_sent(skip: str, github: GitHub, api: Api) -> None:
    signed_in = factories.make_session()

    answer = ask(api, signed_in.access_token, skip_http_redirect=skip, redirect_to=f"{SITE}/me")

    flow = FlowState.objects.get()
    url = answer.json()["url"] if skip == "true" else answer.headers["Location"]
    assert answer.status_code == (200 if skip == "true" else 302)
    assert url.startswith(f"{github.peer.url}/login/oauth/authorize?client_id=cid&")
    assert state_of(url) == str(flow.id)
    assert (flow.linking_target_id, flow.referrer, flow.user_id) == (signed_in.user.id, f"{SITE}/me", None)


# And back


def test_a_new_identity_is_added(github: GitHub, browser: Browser, api: Api, mailbox: Mailbox) -> None:
    signed_in = factories.make_session(make_user(email="work@example.com", data={"name": "Work"}))
    github.is_visited_by(address(EMAIL, verified=False))

    answer = browser.come_back(link(api, signed_in.access_token))

    me = api.get("/user", bearer=redirect_fragment(answer)["access_token"]).json()
    identity = Identity.objects.get(provider="github")
    assert (me["id"], me["email"]) == (str(signed_in.user.id), "work@example.com")
    assert [each["provider"] for each in me["identities"]] == ["email", "github"]
    assert me["app_metadata"]["providers"] == ["email", "github"]
    assert me["user_metadata"]["name"] == "Work"
    linked = {"identity_id": str(identity.id), "provider": "github", "provider_id": "7"}
    assert audit_trail() == [("identity_linked", linked)]
    assert [(mail.kind, mail.to, mail.variables["Provider"]) for mail in mailbox.emails] == [
        (EmailKind.IDENTITY_LINKED, "work@example.com", "github")
    ]


def test_linking_works_with_pkce(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = link(api, signed_in.access_token, code_challenge=CHALLENGE, code_challenge_method="s256")

    answer = browser.come_back(state)

    code = dict(location_of(answer)[1])["code"]
    body = {"auth_code": code, "code_verifier": VERIFIER}
    tokens = api.post("/token?grant_type=pkce", body).json()
    assert tokens["user"]["id"] == str(signed_in.user.id)
    assert tokens["provider_token"] == "gho_x"


def test_sign_ups_that_are_closed_close_no_linking(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"disabled": True})

    answer = browser.come_back(link(api, factories.make_session().access_token))

    assert "access_token" in redirect_fragment(answer)


def test_an_identity_that_somebody_has_is_not_linked_again(github: GitHub, browser: Browser, api: Api) -> None:
    mine = redirect_fragment(browser.sign_in())["access_token"]
    others = factories.make_session().access_token

    for token, text in [
        (mine, "Identity is already linked"),
        (others, "Identity is already linked to another user"),
    ]:
        answer = browser.come_back(link(api, token))
        refused_with(answer, "server_error", "identity_already_exists", text)
    assert Identity.objects.filter(provider="github").count() == 1


def test_a_user_deleted_meanwhile_is_not_linked_to(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = link(api, signed_in.access_token)
    User.objects.filter(id=signed_in.user.id).delete()

    answer = browser.come_back(state)

    told = [
        ("error", "server_error"),
        ("error_code", "user_not_found"),
        ("error_description", "Linking target user not found"),
    ]
    assert (answer.status_code, location_of(answer)) == (303, (SITE, told, []))


# What ends a linking


NOT_FOUND = [
    ("error", "invalid_request"),
    ("error_code", "bad_oauth_state"),
    ("error_description", "OAuth state not found or expired"),
]


def reuse_refresh_token(api: Api, signed_in: SignIn) -> None:
    Session.objects.filter(id=signed_in.session.id).update(refresh_token_counter=5)
    answer = api.post("/token?grant_type=refresh_token", {"refresh_token": signed_in.refresh_token})
    assert answer.json()["error_code"] == "refresh_token_already_used"


ENDINGS: dict[str, Callable[[Api, SignIn], object]] = {
    "global": lambda api, owner: api.post("/logout?scope=global", bearer=owner.access_token),
    "others": lambda api, owner: api.post("/logout?scope=others", bearer=owner.access_token),
    "eviction": lambda _api, owner: revocation.revoke_session_as_operator(
        owner.session.id, actor=ADMIN, caller=CALLER, at=timezone.now()
    ),
    "eviction of all": lambda _api, owner: revocation.revoke_all_sessions_as_operator(
        owner.user.id, actor=ADMIN, caller=CALLER, at=timezone.now()
    ),
    "reuse": reuse_refresh_token,
    "password": lambda api, owner: api.put("/user", {"password": "another horse"}, bearer=owner.access_token),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("pkce", [{}, {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}], ids=["", "pkce"])
def test_where_sign_ins_end_so_does_the_linking_they_began(
    pkce: dict[str, str], ending: str, github: GitHub, browser: Browser, api: Api
) -> None:
    thief = factories.make_session()
    owner = factories.make_session(thief.user)
    others = browser.depart()
    state = link(api, thief.access_token, **pkce)

    ENDINGS[ending](api, owner)

    answer = browser.come_back(state)
    assert (answer.status_code, location_of(answer)) == (303, (SITE, NOT_FOUND, []))
    assert not Identity.objects.filter(provider="github").exists()
    assert "access_token" in redirect_fragment(browser.come_back(others))


def test_a_code_of_a_linking_is_good_for_nothing_after_a_logout(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = link(api, signed_in.access_token, code_challenge=CHALLENGE, code_challenge_method="s256")
    code = dict(location_of(browser.come_back(state))[1])["code"]

    api.post("/logout", bearer=signed_in.access_token)

    answer = api.post("/token?grant_type=pkce", {"auth_code": code, "code_verifier": VERIFIER})
    assert (answer.status_code, answer.json()["error_code"]) == (404, "flow_state_not_found")


def test_a_logout_here_ends_no_linking_that_was_begun_elsewhere(github: GitHub, browser: Browser, api: Api) -> None:
    elsewhere = factories.make_session()
    state = link(api, elsewhere.access_token)

    api.post("/logout?scope=local", bearer=factories.make_session(elsewhere.user).access_token)

    assert "access_token" in redirect_fragment(browser.come_back(state))


def test_a_logout_ends_no_linking_of_somebody_else(github: GitHub, browser: Browser, api: Api) -> None:
    state = link(api, factories.make_session().access_token)

    api.post("/logout", bearer=factories.make_session().access_token)

    assert "access_token" in redirect_fragment(browser.come_back(state))


def test_somebody_banned_meanwhile_is_not_linked_to(github: GitHub, browser: Browser, api: Api) -> None:
    signed_in = factories.make_session()
    state = link(api, signed_in.access_token)
    admin_requests.done(api, "PUT", f"/admin/users/{signed_in.user.id}", {"ban_duration": "1h"})

    refused_with(browser.come_back(state), "access_denied", "user_banned", "User is banned")

    assert not Identity.objects.filter(provider="github").exists()


# Users without an address


def test_a_visitor_becomes_somebody_by_a_verified_address(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    user, token = visitor(api, auth_config)

    answer = browser.come_back(link(api, token))

    assert "access_token" in redirect_fragment(answer)
    user.refresh_from_db()
    assert (user.email, user.is_anonymous, user.raw_user_meta_data) == (EMAIL, False, {"email_verified": True})
    assert user.email_confirmed_at is not None
    assert user.raw_app_meta_data == {"provider": "github", "providers": ["github"]}
    assert [mail.kind for mail in mailbox.emails] == [EmailKind.IDENTITY_LINKED]


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_an_unverified_address_is_mailed_before_a_visitor_is_somebody(
    autoconfirm: bool, github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"autoconfirm": autoconfirm})
    user, token = visitor(api, auth_config)
    github.is_visited_by(address(EMAIL, verified=False))

    answer = browser.come_back(link(api, token, redirect_to=f"{SITE}/in"))

    refused_with(answer, "server_error", "email_not_confirmed", MAILED, to=f"{SITE}/in")
    user.refresh_from_db()
    assert (user.email, user.email_confirmed_at, user.is_anonymous) == (EMAIL, None, True)
    assert Identity.objects.get().user_id == user.id
    (mail,) = mailbox.emails
    assert (mail.kind, mail.to) == (EmailKind.CONFIRMATION, EMAIL)
    assert mail.variables["ConfirmationURL"].endswith(f"&redirect_to={SITE}/in")


def test_a_visitor_may_bring_no_address(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig, mailbox: Mailbox, peer: HttpPeer
) -> None:
    auth_config(providers={"github": configured(url=peer.url, email_optional=True)})
    user, token = visitor(api, auth_config)
    github.is_visited_by()

    answer = browser.come_back(link(api, token))

    assert "access_token" in redirect_fragment(answer)
    user.refresh_from_db()
    assert (user.email, user.is_anonymous, mailbox.emails) == (None, False, [])
    assert "access_token" in redirect_fragment(browser.sign_in())
    assert User.objects.count() == 1


@pytest.mark.parametrize("audience", ["authenticated", "elsewhere"])
@pytest.mark.parametrize("verified", [True, False])
def test_somebody_elses_address_is_not_taken_along(
    verified: bool, audience: str, github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig,
    mailbox: Mailbox,
) -> None:  # fmt: skip
    make_user(email=EMAIL, audience=audience)
    user, token = visitor(api, auth_config)
    github.is_visited_by(address(EMAIL, verified=verified))

    refused_with(browser.come_back(link(api, token)), "invalid_request", "email_exists", TAKEN)

    assert not user.identities.exists()
    assert mailbox.emails == []


def test_somebody_known_by_a_number_gets_the_address_of_the_identity(
    github: GitHub, browser: Browser, api: Api
) -> None:
    user = make_user(email="", phone="15551234567", phone_confirmed_at=timezone.now())
    Identity.objects.filter(user=user).update(provider="phone", identity_data={"sub": str(user.id)})
    factories.make_one_time_token(user, TokenType.PHONE_CHANGE)

    browser.come_back(link(api, factories.make_session(user).access_token))

    user.refresh_from_db()
    known: Any = user.raw_app_meta_data
    assert (user.email, user.phone, known["providers"]) == (EMAIL, "15551234567", ["phone", "github"])
    assert user.email_confirmed_at is not None
    assert not OneTimeToken.objects.exists()
