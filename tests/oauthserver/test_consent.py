"""Details and decisions of authorization requests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from authsvc.errors import ValidationFailed
from authsvc.security import crypto
from oauthserver.authorization import authorizations
from oauthserver.errors import AuthorizationNotFound
from oauthserver.models import OAuthAuthorization, OAuthConsent
from tests.accounts.administration import admin_requests
from tests.conftest import Api
from tests.factories import SignIn, backdate, make_factor, make_session, make_user
from tests.oauthserver.client_application import (
    CALLBACK,
    ISSUER,
    approve,
    authorize,
    decide,
    find_user,
    query_of,
    register,
    show,
    start,
)  # fmt: skip
from tests.observations import assert_error, audit_payloads
from tokens.models import Session

pytestmark = pytest.mark.django_db

NOT_FOUND = (404, "oauth_authorization_not_found", "authorization not found")


def row(authorization_id: str) -> OAuthAuthorization:
    return OAuthAuthorization.objects.get(authorization_id=authorization_id)


def test_details_bind_the_first_user(api: Api) -> None:
    application = register(api, client_name="Example", client_uri="https://example.com")
    user, other = make_session(), make_session()
    authorization_id = start(api, application)

    details = show(api, authorization_id, user).json()

    assert details == {
        "authorization_id": authorization_id,
        "redirect_uri": CALLBACK,
        "client": {"id": application.client_id, "name": "Example", "uri": "https://example.com"},
        "user": {"id": str(user.user.id), "email": user.user.email},
        "scope": "openid email",
    }
    assert show(api, authorization_id, user).json() == details
    assert_error(show(api, authorization_id, other), *NOT_FOUND)
    assert row(authorization_id).user_id == user.user.id


def test_details_that_do_not_exist(api: Api) -> None:
    session = make_session()
    assert_error(show(api, "a" * 32, session), *NOT_FOUND)
    assert_error(show(api, "%00", session), *NOT_FOUND)
    assert api.get("/oauth/authorizations/x").status_code == 401
    expired = start(api, register(api))
    backdate(row(expired), by=timedelta(minutes=11))
    assert_error(show(api, expired, session), *NOT_FOUND)
    assert row(expired).status == "expired"
    denied = start(api, register(api))
    show(api, denied, session)
    decide(api, denied, session, "deny")
    assert_error(show(api, denied, session), 400, "validation_failed", "authorization request cannot be processed")


def test_a_removed_redirect_uri_ends_the_requests_that_name_it(api: Api) -> None:
    session, application = make_session(), register(api)
    approve(api, application, session)
    silent, seen = start(api, application), start(api, application, prompt="consent")
    assert show(api, seen, session).status_code == 200
    path = f"/admin/oauth/clients/{application.client_id}"
    changed = admin_requests.ask(api, "PUT", path, {"redirect_uris": ["https://client.example.com/new"]})
    assert changed.status_code == 200
    assert_error(show(api, silent, session), *NOT_FOUND)
    assert_error(decide(api, seen, session), *NOT_FOUND)


def test_approval(api: Api) -> None:
    application, session = register(api), make_session()
    authorization_id = start(api, application, scope="openid  email openid")
    show(api, authorization_id, session)

    response = decide(api, authorization_id, session)

    url = response.json()["redirect_url"]
    code = query_of(url)["code"]
    assert url == f"{CALLBACK}?code={code}&iss=https%3A%2F%2Fauth.example.com&state=xyz"
    stored = row(authorization_id)
    assert (stored.status, stored.authorization_code) == ("approved", crypto.hash_auth_code(code))
    consent = OAuthConsent.objects.get()
    assert (consent.user_id, str(consent.client_id)) == (session.user.id, application.client_id)
    assert (consent.scopes, consent.revoked_at) == ("openid email", None)
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["traits"]["scopes"]) == ("oauth_grant_approved", "openid email")
    assert_error(
        decide(api, authorization_id, session),
        400,
        "validation_failed",
        "authorization request is no longer pending",
    )


def test_denial(api: Api) -> None:
    application, session = register(api), make_session()
    authorization_id = start(api, application)
    show(api, authorization_id, session)

    url = decide(api, authorization_id, session, "deny").json()["redirect_url"]

    assert query_of(url) == {
        "error": "access_denied",
        "error_description": "User denied the request",
        "iss": ISSUER,
        "state": "xyz",
    }
    assert (row(authorization_id).status, OAuthConsent.objects.count()) == ("denied", 0)
    assert audit_payloads()[-1]["action"] == "oauth_grant_denied"


def test_decisions_that_are_refused(api: Api) -> None:
    application, session, other = register(api), make_session(), make_session()
    authorization_id = start(api, application)
    assert_error(decide(api, authorization_id, session), *NOT_FOUND)  # the user has not seen it
    show(api, authorization_id, session)
    assert_error(decide(api, authorization_id, other), *NOT_FOUND)
    assert_error(decide(api, "a" * 32, session), *NOT_FOUND)
    path = f"/oauth/authorizations/{authorization_id}/consent"
    wrong = (400, "validation_failed", "action must be 'approve' or 'deny'")
    for body in ({"action": "maybe"}, {}):
        assert_error(api.post(path, body, bearer=session.access_token), *wrong)
    assert_error(api.post(path, "{", bearer=session.access_token), 400, "bad_json", "invalid JSON body")
    assert api.post(path, {"action": "approve"}).status_code == 401
    backdate(row(authorization_id), by=timedelta(minutes=11))
    assert_error(decide(api, authorization_id, session), *NOT_FOUND)
    assert row(authorization_id).status == "expired"
    assert not OAuthConsent.objects.exists()


def test_pages_of_other_origins_are_refused(api: Api) -> None:
    session, authorization_id = make_session(), start(api, register(api))
    refused = (400, "validation_failed", "unauthorized request origin")
    evil, own = {"Origin": "https://evil.example"}, {"Origin": "http://localhost:3000"}

    assert_error(show(api, authorization_id, session, headers=evil), *refused)
    assert row(authorization_id).user_id is None
    assert show(api, authorization_id, session, headers=own).status_code == 200
    assert_error(decide(api, authorization_id, session, headers=evil), *refused)
    assert row(authorization_id).status == "pending"
    assert decide(api, authorization_id, session, headers=own).status_code == 200


def test_former_consent_answers_at_once(api: Api) -> None:
    application, session = register(api), make_session()
    approve(api, application, session, scope="openid email")

    covered = show(api, start(api, application, scope="email"), session).json()
    more = show(api, start(api, application, scope="email phone"), session).json()
    another = show(api, start(api, register(api), scope="email"), session).json()

    assert set(query_of(covered["redirect_url"])) == {"code", "iss", "state"}
    assert "redirect_url" not in more
    assert "redirect_url" not in another
    # A later approval replaces the scopes.
    approve(api, application, session, scope="phone")
    assert OAuthConsent.objects.get().scopes == "phone"


@pytest.mark.parametrize("prompt", ["consent", "select_account", "login consent"])
def test_prompts_that_ask_again(prompt: str, api: Api) -> None:
    application, session = register(api), make_session()
    approve(api, application, session)
    authorization_id = start(api, application, prompt=prompt, login_hint="ada@example.com")
    details = show(api, authorization_id, make_session(session.user)).json()
    assert (details["prompt"], details["login_hint"]) == (prompt, "ada@example.com")


def an_old_session() -> SignIn:
    session = make_session()
    long_ago = timezone.now() - timedelta(hours=2)
    Session.objects.filter(id=session.session.id).update(created_at=long_ago)
    session.session.amr_claims.update(updated_at=long_ago)
    return session


def a_session_with_a_factor() -> SignIn:
    user = make_user()
    make_factor(user)
    return make_session(user)


@pytest.mark.parametrize(
    ("changes", "make", "required", "error"),
    [
        ({"prompt": "login"}, an_old_session, "reauthenticate", "reauthentication_needed"),
        ({"max_age": "3600"}, an_old_session, "reauthenticate", "reauthentication_needed"),
        ({"acr_values": "aal2"}, a_session_with_a_factor, "verify_second_factor", "insufficient_aal"),
    ],
)
def test_required_sign_in(
    changes: dict[str, Any], make: Callable[[], SignIn], required: str, error: str, api: Api
) -> None:
    application, session = register(api), make()
    approve(api, application, session)  # a former consent does not replace the sign-in
    authorization_id = start(api, application, **changes)

    assert show(api, authorization_id, session).json()["required_action"] == required
    assert row(authorization_id).user_id is None

    # The other account that signs in may continue, and the first one may not.
    other = make_session(aal="aal2")
    assert "required_action" not in show(api, authorization_id, other).json()
    assert_error(decide(api, authorization_id, session), *NOT_FOUND)
    # An older session of the account itself may not either.
    OAuthAuthorization.objects.filter(authorization_id=authorization_id).update(user_id=session.user.id)
    refused = decide(api, authorization_id, session)
    assert (refused.status_code, refused.json()["error_code"]) == (403, error)
    assert row(authorization_id).status == "pending"


@pytest.mark.parametrize(
    ("changes", "make"),
    [
        ({"prompt": "login"}, make_session),
        ({"max_age": "3600"}, make_session),
        ({"max_age": "10000"}, an_old_session),
        ({"acr_values": "aal1 aal2"}, a_session_with_a_factor),
        ({"acr_values": "urn:other"}, a_session_with_a_factor),
    ],
)
def test_sufficient_sign_in(changes: dict[str, Any], make: Callable[[], SignIn], api: Api) -> None:
    authorization_id = start(api, register(api), **changes)
    assert "required_action" not in show(api, authorization_id, make()).json()


@pytest.mark.parametrize(
    ("changes", "make", "error"),
    [
        ({}, make_session, "consent_required"),
        ({"max_age": "0"}, an_old_session, "login_required"),
        ({"acr_values": "aal2"}, a_session_with_a_factor, "interaction_required"),
    ],
)
def test_silent_requests(changes: dict[str, Any], make: Callable[[], SignIn], error: str, api: Api) -> None:
    application, session = register(api), make()
    authorization_id = start(api, application, prompt="none", **changes)

    redirect = show(api, authorization_id, session).json()["redirect_url"]

    assert query_of(redirect)["error"] == error
    assert row(authorization_id).status == "denied"
    if not changes:
        approve(api, application, session)
        granted = show(api, start(api, application, prompt="none"), session).json()
        assert "code" in query_of(granted["redirect_url"])


def test_unknown_prompts_are_ignored(api: Api) -> None:
    assert authorize(api, register(api), prompt="create").status_code == 302
    assert OAuthAuthorization.objects.get().prompt is None


def test_released_request_is_bound_to_the_next_user(api: Api) -> None:
    first, second = make_session(), make_session()
    authorization_id = start(api, register(api), login_hint="ada@example.com")
    assert authorizations.find_login_hint(authorization_id, at=timezone.now()) == "ada@example.com"
    show(api, authorization_id, first)
    assert authorizations.find_login_hint(authorization_id, at=timezone.now()) == ""

    with pytest.raises(AuthorizationNotFound):
        authorizations.release(authorization_id, signed_in=find_user(second), at=timezone.now())
    authorizations.release(authorization_id, signed_in=find_user(first), at=timezone.now())

    assert show(api, authorization_id, second).status_code == 200
    assert_error(show(api, authorization_id, first), *NOT_FOUND)
    assert decide(api, authorization_id, second).status_code == 200
    with pytest.raises(ValidationFailed):
        authorizations.release(authorization_id, signed_in=find_user(second), at=timezone.now())
    for unknown in ("a" * 32, "\0"):
        assert authorizations.find_login_hint(unknown, at=timezone.now()) == ""
        with pytest.raises(AuthorizationNotFound):
            authorizations.release(unknown, signed_in=find_user(first), at=timezone.now())
