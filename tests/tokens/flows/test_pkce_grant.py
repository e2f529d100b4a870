"""POST /token?grant_type=pkce: exchange of a code and its verifier for a session."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.api.renderers import rfc3339
from authsvc.security import crypto
from tests import factories, observations
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, VERIFIER
from tests.tokens.token_requests import error_of, exchange_code, read_claims
from tokens.models import AmrClaim, FlowState, Session

pytestmark = pytest.mark.django_db

NOT_FOUND = (404, "flow_state_not_found", "invalid flow state, no valid flow state found")
EXPIRED = (422, "flow_state_expired", "invalid flow state, flow state has expired")
BAD_VERIFIER = (400, "bad_code_verifier", "code challenge does not match previously saved code verifier")
SECOND = timedelta(seconds=1)


def open_link(api: Api, mailbox: Mailbox) -> str:
    """Open the link of the newest email and return the code in its redirect."""
    link = urlsplit(mailbox.emails[-1].variables["ConfirmationURL"])
    response = api.get(f"{link.path}?{link.query}")
    assert response.status_code == 303, response.content
    (code,) = parse_qs(urlsplit(response.headers["Location"]).query)["code"]
    return code


@pytest.mark.parametrize(
    ("path", "confirmed", "body", "provider_type", "method"),
    [
        ("/signup", None, {"password": PASSWORD}, "email", "email/signup"),
        ("/resend", False, {"type": "signup"}, "email/signup", "email/signup"),
        ("/otp", None, {}, "email", "email/signup"),
        ("/otp", True, {}, "magiclink", "magiclink"),
        ("/magiclink", True, {}, "magiclink", "magiclink"),
        ("/recover", True, {}, "recovery", "recovery"),
    ],
)
def test_emailed_link_yields_code_that_starts_session(
    path: str,
    confirmed: bool | None,
    body: dict[str, Any],
    provider_type: str,
    method: str,
    api: Api,
    mailbox: Mailbox,
) -> None:
    email = "ann@example.com"
    if confirmed is not None:
        factories.make_user(email=email, confirmed=confirmed)
    request = {"email": email, "code_challenge": CHALLENGE, "code_challenge_method": "s256", **body}
    assert api.post(path, request).status_code == 200
    flow = FlowState.objects.get()
    assert (flow.provider_type, flow.authentication_method, flow.auth_code_issued_at) == (provider_type, method, None)

    code = open_link(api, mailbox)

    assert not Session.objects.exists()
    assert flow.auth_code is None
    flow.refresh_from_db()
    assert flow.auth_code == crypto.hash_auth_code(code)
    assert flow.auth_code_issued_at is not None
    before = timezone.now()
    response = exchange_code(api, code)
    assert response.status_code == 200, response.content
    document = response.json()
    assert set(document) == {"access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"}
    user, session = User.objects.get(), Session.objects.get()
    assert document["user"]["id"] == str(user.id)
    assert document["refresh_token"] == factories.refresh_token(session, 0)
    assert [entry["method"] for entry in read_claims(document["access_token"])["amr"]] == [method]
    assert user.last_sign_in_at is not None
    assert user.last_sign_in_at >= before
    assert document["user"]["last_sign_in_at"] == rfc3339(user.last_sign_in_at)
    assert not FlowState.objects.exists()
    assert observations.audit_trail()[-1] == ("login", {"provider_type": provider_type})
    assert error_of(exchange_code(api, code)) == NOT_FOUND
    assert Session.objects.count() == 1


def test_plain_challenge_equals_verifier(api: Api) -> None:
    verifier = "x" * 43
    flow = factories.make_flow(factories.make_user(), code_challenge=verifier, code_challenge_method="plain")
    assert error_of(exchange_code(api, flow.auth_code, "y" * 43)) == BAD_VERIFIER
    assert exchange_code(api, flow.auth_code, verifier).status_code == 200


@pytest.mark.parametrize("verifier", [VERIFIER.upper(), VERIFIER + " ", CHALLENGE, "x"])
def test_wrong_verifier_leaves_code_valid(verifier: str, api: Api) -> None:
    flow = factories.make_flow(factories.make_user())
    assert error_of(exchange_code(api, flow.auth_code, verifier)) == BAD_VERIFIER
    assert not Session.objects.exists()
    assert observations.audit_trail() == []
    assert exchange_code(api, flow.auth_code).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"auth_code": str(uuid4())},
        {"code_verifier": VERIFIER},
        {"auth_code": "", "code_verifier": VERIFIER},
        {"auth_code": "11111111-2222-4333-8444-555555555555", "code_verifier": ""},
        {"auth_code": None, "code_verifier": None},
    ],
)
def test_code_and_verifier_are_required(body: dict[str, Any], api: Api) -> None:
    error = (400, "validation_failed", "invalid request: both auth code and code verifier should be non-empty")
    assert error_of(api.post("/token?grant_type=pkce", body)) == error


@pytest.mark.parametrize("code", ["11111111-2222-4333-8444-555555555555", "no uuid", "x" * 5000])
def test_unknown_code_gets_404(code: str, api: Api) -> None:
    factories.make_flow(factories.make_user())
    assert error_of(exchange_code(api, code)) == NOT_FOUND


def test_code_of_pending_flow_gets_404(api: Api) -> None:
    flow = factories.make_flow(factories.make_user(), user_id=None)
    assert error_of(exchange_code(api, flow.auth_code)) == NOT_FOUND


@pytest.mark.parametrize(
    ("method", "started_ago", "opened_ago", "error"),
    [
        ("recovery", 240, 0, None),
        ("recovery", 301, 0, EXPIRED),
        ("email/signup", 301, 0, EXPIRED),
        ("magiclink", 80_000, 240, None),
        ("magiclink", 80_000, 301, EXPIRED),
        ("magiclink", 240, None, NOT_FOUND),
        ("magiclink", 301, None, NOT_FOUND),
    ],
)
def test_code_expires_after_five_minutes(
    method: str, started_ago: int, opened_ago: int | None, error: tuple[int, str, str] | None, api: Api
) -> None:
    now = timezone.now()
    issued: datetime | None = None if opened_ago is None else now - opened_ago * SECOND
    flow = factories.make_flow(
        factories.make_user(), method=method, at=now - started_ago * SECOND, auth_code_issued_at=issued
    )
    response = exchange_code(api, flow.auth_code)
    assert (error_of(response) if response.status_code != 200 else None) == error
    assert FlowState.objects.exists() is (error is not None)


def test_code_lifetime_is_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(flows={"expiry": timedelta(hours=1)})
    flow = factories.make_flow(factories.make_user(), method="recovery", at=timezone.now() - timedelta(minutes=55))
    assert exchange_code(api, flow.auth_code).status_code == 200


def test_expiry_is_reported_before_wrong_verifier(api: Api) -> None:
    flow = factories.make_flow(factories.make_user(), at=timezone.now() - timedelta(hours=1))
    assert error_of(exchange_code(api, flow.auth_code, "wrong")) == EXPIRED


def test_ban_is_reported_only_with_correct_verifier(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    flow = factories.make_flow(user)
    assert error_of(exchange_code(api, flow.auth_code, "wrong")) == BAD_VERIFIER
    assert error_of(exchange_code(api, flow.auth_code)) == (
        400,
        "user_banned",
        "User is banned",
    )
    assert not Session.objects.exists()


@pytest.mark.parametrize("soft", [False, True])
def test_code_of_deleted_user_gets_404(api: Api, soft: bool) -> None:
    flow = factories.make_flow(factories.make_user())
    if soft:
        User.objects.all().update(deleted_at=timezone.now())
    else:
        User.objects.all().delete()
    status, error_code, _ = error_of(exchange_code(api, flow.auth_code))
    assert (status, error_code) == (404, "flow_state_not_found")


def test_code_of_flow_without_challenge_gets_400(api: Api) -> None:
    flow = factories.make_flow(factories.make_user(), code_challenge=None, code_challenge_method=None)
    error = (400, "bad_code_verifier", "code challenge method not supported")
    assert error_of(exchange_code(api, flow.auth_code)) == error


def test_provider_tokens_are_part_of_the_response(api: Api) -> None:
    flow = factories.make_flow(
        factories.make_user(),
        method="oauth",
        provider_type="github",
        provider_access_token="upstream",
        provider_refresh_token="upstream refresh",
    )
    body = exchange_code(api, flow.auth_code).json()
    assert (body["provider_token"], body["provider_refresh_token"]) == ("upstream", "upstream refresh")
    assert AmrClaim.objects.get().authentication_method == "oauth"
    assert observations.audit_trail() == [("login", {"provider_type": "github"})]


def test_empty_provider_token_is_omitted(api: Api) -> None:
    flow = factories.make_flow(factories.make_user(), provider_access_token="", provider_refresh_token=None)
    assert not {"provider_token", "provider_refresh_token"} & set(exchange_code(api, flow.auth_code).json())


def test_session_ends_at_the_time_set_by_the_flow(api: Api) -> None:
    end = timezone.now() + timedelta(hours=8)
    flow = factories.make_flow(factories.make_user(), method="sso/saml", session_not_after=end)
    assert exchange_code(api, flow.auth_code).status_code == 200
    assert Session.objects.get().not_after == end


def test_code_signs_in_user_of_its_flow(api: Api) -> None:
    flows = [factories.make_flow(factories.make_user()) for _ in range(2)]
    for flow in reversed(flows):
        assert exchange_code(api, flow.auth_code).json()["user"]["id"] == str(flow.user_id)
