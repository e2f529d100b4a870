"""GET and POST /verify: links and codes, their effects on the account, and the form of errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from authsvc.api.renderers import rfc3339
from authsvc.conf import AuthConfig
from authsvc.security import crypto
from tests.conftest import Api, ApiResponse, Mailbox, read_success
from tests.factories import (
    CHALLENGE,
    PASSWORD,
    VERIFIER,
    backdate,
    make_flow,
    make_one_time_token,
    make_session,
    make_user,
)
from tests.observations import (
    assert_error,
    audit_trail,
    backdate_rate_limits,
    redirect_fragment,
    redirect_query,
    table_contents,
)
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
SITE = "http://localhost:3000"
SIGN_UP = {"email": EMAIL, "password": PASSWORD}
SIGNED_UP = ("user_signedup", {"provider": "email"})
LOGIN = ("login", None)
LINK_DEAD = (403, "otp_expired", "Email link is invalid or has expired")
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
BANNED = (403, "user_banned", "User is banned")
SESSION_KEYS = ["access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"]

CONFIRMING = ["signup", "invite"]
RECOVERING = ["recovery", "magiclink"]
PURPOSE = {
    "signup": TokenType.CONFIRMATION,
    "invite": TokenType.CONFIRMATION,
    "recovery": TokenType.RECOVERY,
    "magiclink": TokenType.RECOVERY,
}


def open_link(api: Api, token: str, type: str, redirect_to: str = "", **options: Any) -> ApiResponse:
    """Open a link as a browser does."""
    target = f"&redirect_to={quote(redirect_to, safe='')}" if redirect_to else ""
    return api.get(f"/verify?token={token}&type={type}{target}", **options)


def assert_link_error(
    response: ApiResponse, error_code: str, description: str, *, error: str | None = "access_denied"
) -> None:
    """Assert a redirect to the site that tells of this refusal in its fragment, and only there."""
    assert response.status_code == 303
    parameters = {"error_code": error_code, "error_description": description, "sb": ""}
    assert redirect_fragment(response) == ({"error": error, **parameters} if error else parameters)
    assert response.headers["Location"].startswith(f"{SITE}#")
    assert redirect_query(response) == {}
    assert response.content == b""


def session_fragment(response: ApiResponse, type: str) -> dict[str, str]:
    """The fragment of a redirect that carries a session."""
    assert response.status_code == 303, response.content
    fragment = redirect_fragment(response)
    assert list(fragment) == ["access_token", "expires_at", "expires_in", "refresh_token", "sb", "token_type", "type"]
    assert (fragment["expires_in"], fragment["sb"], fragment["token_type"]) == ("3600", "", "bearer")
    assert fragment["type"] == type
    claims = access_tokens.decode(fragment["access_token"], at=timezone.now())
    assert str(claims.exp) == fragment["expires_at"] + ".0"
    assert [entry.method for entry in claims.amr] == ["otp"]
    assert response.headers["Cache-Control"] == "no-store"
    assert "Content-Type" not in response.headers
    return fragment


def read_session(response: ApiResponse, type: str | None) -> dict[str, Any]:
    """The session of a response that is one, and of this type."""
    session = read_success(response)
    assert list(session) == SESSION_KEYS + (["type"] if type else [])
    assert session.get("type") == type
    return session


# Opening a link


def test_the_link_of_a_sign_up_confirms_and_signs_in(api: Api, mailbox: Mailbox) -> None:
    shown = api.post("/signup?redirect_to=http://localhost:3000/cb%3Fx%3D1", {**SIGN_UP, "data": {"a": 1}}).json()
    link = mailbox.emails[0].variables["ConfirmationURL"]
    response = api.get(link.removeprefix("http://127.0.0.1:8081"), headers={"User-Agent": "browser"})

    fragment = session_fragment(response, "signup")
    assert response.headers["Location"].startswith("http://localhost:3000/cb?x=1#access_token=")
    user = User.objects.get()
    assert user.email_confirmed_at == user.last_sign_in_at == user.updated_at
    assert user.confirmation_sent_at is not None
    assert user.raw_user_meta_data == {**shown["user_metadata"], "email_verified": True}
    assert user.raw_app_meta_data == {"provider": "email", "providers": ["email"]}
    identity = Identity.objects.get()
    assert identity.identity_data == {**shown["user_metadata"], "email_verified": True}
    assert rfc3339(identity.updated_at or timezone.now()) == shown["identities"][0]["updated_at"]
    assert not OneTimeToken.objects.exists()
    session = Session.objects.get()
    assert (session.user_id, session.user_agent, session.ip, session.aal) == (user.id, "browser", "127.0.0.1", "aal1")
    assert list(AmrClaim.objects.values_list("authentication_method", flat=True)) == ["otp"]
    assert audit_trail()[1:] == [SIGNED_UP]
    me = api.get("/user", bearer=fragment["access_token"]).json()
    assert me["email_confirmed_at"] == me["confirmed_at"] == me["last_sign_in_at"]
    refreshed = api.post("/token?grant_type=refresh_token", {"refresh_token": fragment["refresh_token"]})
    assert refreshed.status_code == 200
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200


def test_a_link_opens_once(api: Api) -> None:
    token = make_one_time_token(make_user(email=EMAIL, confirmed=False), TokenType.CONFIRMATION).link_token
    session_fragment(open_link(api, token, "signup"), "signup")
    before = table_contents()
    assert_link_error(open_link(api, token, "signup"), "otp_expired", LINK_DEAD[2])
    assert table_contents() == before


@pytest.mark.parametrize("type", RECOVERING)
def test_a_recovery_link_of_a_confirmed_account_signs_in(api: Api, type: str) -> None:
    user = make_user(email=EMAIL, at=timezone.now() - timedelta(days=3))
    token = make_one_time_token(user).link_token
    make_one_time_token(user, TokenType.REAUTHENTICATION)
    session_fragment(open_link(api, token, type), type)
    after = User.objects.get()
    assert after.email_confirmed_at == user.email_confirmed_at
    assert after.password == user.password
    assert after.last_sign_in_at == after.updated_at
    assert audit_trail() == [LOGIN]
    assert not OneTimeToken.objects.exists()


@pytest.mark.parametrize("type", RECOVERING)
def test_a_recovery_link_of_an_unconfirmed_account_confirms_it_without_its_password(api: Api, type: str) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    make_one_time_token(user, TokenType.CONFIRMATION)
    session_fragment(open_link(api, make_one_time_token(user).link_token, type), type)
    after = User.objects.get()
    assert after.email_confirmed_at == after.last_sign_in_at
    assert after.password == ""
    assert (after.raw_user_meta_data or {})["email_verified"] is True
    assert Identity.objects.get().identity_data["email_verified"] is False
    assert audit_trail() == [SIGNED_UP]
    assert not OneTimeToken.objects.exists()
    assert_error(
        api.post("/token?grant_type=password", SIGN_UP), 400, "invalid_credentials", "Invalid login credentials"
    )


@pytest.mark.parametrize(
    ("purpose", "returned_type"), [(TokenType.CONFIRMATION, "signup"), (TokenType.RECOVERY, "magiclink")]
)
def test_the_type_email_accepts_any_emailed_code(api: Api, purpose: TokenType, returned_type: str) -> None:
    user = make_user(email=EMAIL, confirmed=returned_type != "signup")
    session_fragment(open_link(api, make_one_time_token(user, purpose).link_token, "email"), returned_type)
    assert audit_trail() == [SIGNED_UP if returned_type == "signup" else LOGIN]


def test_providers_are_recomputed_from_the_identities(api: Api) -> None:
    user = make_user(email=EMAIL, raw_app_meta_data={"provider": "old", "providers": ["old"], "plan": "gold"})
    at = timezone.now()
    Identity.objects.create(
        provider="google", provider_id="7", user=user, identity_data={"sub": "7"}, created_at=at, updated_at=at
    )
    session_fragment(open_link(api, make_one_time_token(user).link_token, "magiclink"), "magiclink")
    assert User.objects.get().raw_app_meta_data == {
        "provider": "email", "providers": ["email", "google"], "plan": "gold",
    }  # fmt: skip


def test_only_identities_with_the_address_become_verified(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    at = timezone.now()
    for provider, address in (("google", "USER@example.com"), ("github", "other@example.com")):
        data = {"sub": "7", "email": address, "email_verified": False}
        Identity.objects.create(
            provider=provider, provider_id="7", user=user, identity_data=data, created_at=at, updated_at=at
        )
    session_fragment(open_link(api, make_one_time_token(user, TokenType.CONFIRMATION).link_token, "signup"), "signup")
    verified = {identity.provider: identity.identity_data["email_verified"] for identity in Identity.objects.all()}
    assert verified == {"email": True, "google": True, "github": False}


@pytest.mark.parametrize(
    ("age", "opens"), [(timedelta(hours=23, minutes=59), True), (timedelta(days=1, seconds=1), False)]
)
def test_link_expires_after_one_day(api: Api, age: timedelta, opens: bool) -> None:
    user = make_user(email=EMAIL)
    token = make_one_time_token(user).link_token
    backdate(OneTimeToken.objects.get(), by=age)
    before = table_contents()
    response = open_link(api, token, "recovery")
    if opens:
        session_fragment(response, "recovery")
    else:
        assert_link_error(response, "otp_expired", LINK_DEAD[2])
        assert table_contents() == before


def test_link_lifetime_is_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"otp_exp": timedelta(seconds=60)})
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    backdate(OneTimeToken.objects.get(), by=timedelta(seconds=62))
    assert_link_error(open_link(api, token, "recovery"), "otp_expired", LINK_DEAD[2])


@pytest.mark.parametrize("type", [*CONFIRMING, *RECOVERING])
def test_a_ban_is_reported_only_with_the_link(api: Api, type: str) -> None:
    user = make_user(email=EMAIL, confirmed=type in RECOVERING, banned_until=timezone.now() + timedelta(hours=1))
    token = make_one_time_token(user, PURPOSE[type]).link_token
    before = table_contents()
    assert_link_error(open_link(api, token, type), "user_banned", "User is banned")
    assert_link_error(open_link(api, "0" * 56, type), "otp_expired", LINK_DEAD[2])
    assert_error(api.post("/verify", {"type": type, "token_hash": token}), *BANNED)
    assert table_contents() == before


def test_expired_ban_is_ignored(api: Api) -> None:
    user = make_user(email=EMAIL, banned_until=timezone.now() - timedelta(seconds=1))
    session_fragment(open_link(api, make_one_time_token(user).link_token, "recovery"), "recovery")


@pytest.mark.parametrize("type", ["sms", "phone_change", "reauthentication", "x", "SIGNUP", "signup "])
@pytest.mark.parametrize("mark", ["", "pkce_"])
def test_an_unknown_link_type_is_reported_by_redirect(api: Api, type: str, mark: str) -> None:
    response = open_link(api, mark + "0" * 56, quote(type))
    assert response.status_code == 303
    parameters = {"error_code": "validation_failed", "error_description": "Invalid email verification type"}
    assert redirect_fragment(response) == {"error": "invalid_request", **parameters, "sb": ""}
    assert redirect_query(response) == ({"error": "invalid_request", **parameters} if mark else {})


@pytest.mark.parametrize(
    ("purpose", "types"),
    [
        (TokenType.CONFIRMATION, RECOVERING),
        (TokenType.RECOVERY, CONFIRMING),
        (TokenType.REAUTHENTICATION, list(PURPOSE)),
    ],
)
def test_a_link_is_valid_for_its_purpose_only(api: Api, purpose: TokenType, types: list[str]) -> None:
    token = make_one_time_token(make_user(email=EMAIL, confirmed=False), purpose).link_token
    before = table_contents()
    for type in types:
        assert_link_error(open_link(api, token, type), "otp_expired", LINK_DEAD[2])
        assert_error(api.post("/verify", {"type": type, "token_hash": token}), *LINK_DEAD)
    assert table_contents() == before


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "Verify requires a verification type"),
        ("token=x", "Verify requires a verification type"),
        ("token=x&type=", "Verify requires a verification type"),
        ("type=signup", "Verify requires a token or a token hash"),
        ("type=signup&token=", "Verify requires a token or a token hash"),
        ("type=x&redirect_to=http://localhost:3000/", "Verify requires a token or a token hash"),
    ],
)
def test_link_without_type_or_token_is_rejected_as_json(api: Api, query: str, text: str) -> None:
    assert_error(api.get(f"/verify?{query}"), 400, "validation_failed", text)


def test_the_first_of_two_equal_parameters_counts(api: Api) -> None:
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    response = api.get(f"/verify?type=recovery&token={token}&token=x&type=signup")
    session_fragment(response, "recovery")


@pytest.mark.usefixtures("slow_refill")
def test_opening_links_and_typing_codes_share_a_limit(api: Api) -> None:
    for number in range(30):
        response = open_link(api, "x", "signup") if number % 2 else api.post("/verify", {"type": "signup"})
        assert response.status_code in (303, 400)
    assert_error(open_link(api, "x", "signup"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert_error(api.post("/verify", "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert open_link(api, "x", "signup", headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 303


@pytest.mark.parametrize("slash", ["", "/"])
def test_other_methods_do_not_redeem_link(api: Api, slash: str) -> None:
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    before = table_contents()
    for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
        response = api.request(method, f"/verify{slash}?token={token}&type=recovery")
        assert response.status_code == 405
        assert response.headers["Allow"] == "GET, POST"
    assert table_contents() == before
    session_fragment(api.get(f"/verify{slash}?token={token}&type=recovery"), "recovery")


def test_a_server_error_is_reported_by_redirect(api: Api) -> None:
    token = make_one_time_token(make_user(email=EMAIL, password="")).link_token
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mfa_amr_claims RENAME TO mfa_amr_claims_away")
    try:
        response = open_link(api, token, "recovery")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE mfa_amr_claims_away RENAME TO mfa_amr_claims")
    assert redirect_fragment(response)["error"] == "server_error"
    assert redirect_fragment(response)["error_code"] == "unexpected_failure"
    session_fragment(open_link(api, token, "recovery"), "recovery")


# Redirect targets


@pytest.mark.parametrize(
    ("site", "target", "start"),
    [
        (SITE, "http://localhost:3000/cb?x=1", "http://localhost:3000/cb?x=1#"),
        (SITE, "http://localhost:3000/cb#part", "http://localhost:3000/cb#part&"),
        (SITE, "https://evil.example/", "http://localhost:3000#"),
        (SITE, "javascript:alert(1)", "http://localhost:3000#"),
        (SITE, "http://localhost:3000\\@evil.example/", "http://localhost:3000/@evil.example/#"),
        (SITE, "http://localhost:3000/ü x", "http://localhost:3000/%C3%BC%20x#"),
        ("https://x/#/", "", "https://x/#/&"),
    ],
)
def test_a_session_is_added_to_the_target(
    api: Api, auth_config: ChangeConfig, site: str, target: str, start: str
) -> None:
    auth_config(site={"url": site})
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    location = open_link(api, token, "recovery", target).headers["Location"]
    assert location.startswith(f"{start}access_token=")
    assert location.isascii()


def test_an_error_preserves_the_fragment_and_the_query(api: Api) -> None:
    response = open_link(api, "x", "signup", "http://localhost:3000/?test=param#part")
    assert response.headers["Location"] == (
        "http://localhost:3000/?test=param#part&error=access_denied&error_code=otp_expired"
        "&error_description=Email+link+is+invalid+or+has+expired&sb="
    )


def test_pkce_error_is_in_query_and_fragment(api: Api) -> None:
    response = open_link(api, "pkce_x", "signup", "http://localhost:3000/cb?error=mine&z=1&a=2#part")
    parameters = "error=access_denied&error_code=otp_expired&error_description=Email+link+is+invalid+or+has+expired"
    assert response.headers["Location"] == f"http://localhost:3000/cb?a=2&{parameters}&z=1#part&{parameters}&sb="


def test_referer_can_be_redirect_target(api: Api) -> None:
    response = open_link(api, "x", "signup", headers={"Referer": "http://localhost:3000/mail"})
    assert response.headers["Location"].startswith("http://localhost:3000/mail#error=")


# Links of PKCE flows


@pytest.mark.parametrize(
    ("path", "body", "type", "method", "audits"),
    [
        ("/signup", SIGN_UP, "signup", "email/signup", [SIGNED_UP]),
        ("/recover", {"email": EMAIL}, "recovery", "recovery", [LOGIN]),
        ("/magiclink", {"email": EMAIL}, "magiclink", "magiclink", [LOGIN]),
        ("/otp", {"email": EMAIL}, "magiclink", "magiclink", [LOGIN]),
    ],
)
def test_pkce_link_returns_code_for_session(
    api: Api, mailbox: Mailbox, path: str, body: dict[str, str], type: str, method: str, audits: list[Any]
) -> None:
    if type != "signup":
        make_user(email=EMAIL)
    api.post(path, {**body, "code_challenge": CHALLENGE, "code_challenge_method": "s256"})
    token = mailbox.emails[0].variables["TokenHash"]
    response = open_link(api, token, type, "http://localhost:3000/cb?sb_flow_id=7&a=1#part")

    assert response.status_code == 303
    code = redirect_query(response)["code"]
    assert response.headers["Location"] == f"http://localhost:3000/cb?a=1&code={code}&sb_flow_id=7#part"
    assert not Session.objects.exists()
    assert not OneTimeToken.objects.exists()
    user = User.objects.get()
    assert user.last_sign_in_at is None
    assert user.email_confirmed_at is not None
    assert audit_trail()[1:] == audits
    flow = FlowState.objects.get()
    assert (flow.auth_code, flow.authentication_method) == (crypto.hash_auth_code(code), method)
    assert flow.auth_code_issued_at is not None

    body = {"auth_code": code, "code_verifier": VERIFIER}
    session = api.post("/token?grant_type=pkce", body)
    assert list(session.json()) == SESSION_KEYS
    claims = access_tokens.decode(session.json()["access_token"], at=timezone.now())
    assert [entry.method for entry in claims.amr] == [method]
    assert User.objects.get().last_sign_in_at is not None
    assert not FlowState.objects.exists()
    again = (404, "flow_state_not_found", "invalid flow state, no valid flow state found")
    assert_error(api.post("/token?grant_type=pkce", body), *again)


def test_pkce_link_without_flow_stays_valid(api: Api) -> None:
    user = make_user(email=EMAIL)
    token = make_one_time_token(user, pkce=True).link_token
    make_flow(user, method="recovery", code_challenge=None)
    before = table_contents()
    response = open_link(api, token, "magiclink")
    parameters = redirect_query(response)
    assert (parameters["error"], parameters["error_code"]) == ("invalid_request", "flow_state_not_found")
    assert parameters["error_description"].startswith("No associated flow state found. ")
    assert redirect_fragment(response) == {**parameters, "sb": ""}
    assert table_contents() == before


def test_newest_flow_gets_code(api: Api) -> None:
    user = make_user(email=EMAIL)
    at = timezone.now()
    older = make_flow(user, auth_code_issued_at=None, at=at - timedelta(seconds=5))
    newer = make_flow(user, auth_code_issued_at=None, at=at)
    token = make_one_time_token(user, pkce=True).link_token
    code = redirect_query(open_link(api, token, "magiclink"))["code"]
    newer.refresh_from_db()
    assert newer.auth_code == crypto.hash_auth_code(code)
    older.refresh_from_db()
    assert older.auth_code_issued_at is None


def test_the_type_email_does_not_open_pkce_links(api: Api) -> None:
    user = make_user(email=EMAIL)
    make_flow(user)
    token = make_one_time_token(user, pkce=True).link_token
    before = table_contents()
    assert redirect_query(open_link(api, token, "email"))["error_description"] == "Invalid email verification type"
    assert table_contents() == before


@pytest.mark.parametrize("type", ["magiclink", "recovery", "email"])
def test_posted_pkce_link_returns_session(api: Api, type: str) -> None:
    token = make_one_time_token(make_user(email=EMAIL), pkce=True).link_token
    read_session(api.post("/verify", {"type": type, "token_hash": token}), "recovery" if type == "recovery" else None)


def test_a_code_typed_by_hand_ends_a_pkce_flow_in_a_session(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/magiclink", {"email": EMAIL, "code_challenge": CHALLENGE, "code_challenge_method": "s256"})
    body = {"type": "magiclink", "email": EMAIL, "token": mailbox.emails[0].variables["Token"]}
    read_session(api.post("/verify", body), None)


# Posting


@pytest.mark.parametrize(
    ("type", "purpose", "returned_type"),
    [
        ("signup", TokenType.CONFIRMATION, "signup"),
        ("invite", TokenType.CONFIRMATION, "invite"),
        ("email", TokenType.CONFIRMATION, "signup"),
        ("recovery", TokenType.RECOVERY, "recovery"),
        ("magiclink", TokenType.RECOVERY, None),
        ("email", TokenType.RECOVERY, None),
    ],
)
@pytest.mark.parametrize("form", ["code", "upper-case address", "token_hash", "token"])
def test_every_form_of_verification_signs_in(
    api: Api, type: str, purpose: TokenType, returned_type: str | None, form: str
) -> None:
    user = make_user(email=EMAIL, confirmed=purpose == TokenType.RECOVERY)
    secret = make_one_time_token(user, purpose)
    forms: dict[str, dict[str, Any]] = {
        "code": {"email": EMAIL, "token": secret.code, "redirect_to": "https://evil.example", "options": {}},
        "upper-case address": {"email": "USER@Example.com", "token": secret.code},
        "token_hash": {"token_hash": secret.link_token},
        "token": {"token": secret.link_token, "redirect_to": SITE},
    }
    session = read_session(api.post("/verify", {"type": type, **forms[form]}), returned_type)
    shown = session["user"]
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert [entry.method for entry in claims.amr] == ["otp"]
    assert shown["email_confirmed_at"] == shown["confirmed_at"]
    assert shown["user_metadata"].get("email_verified") is True
    assert api.get("/user", bearer=session["access_token"]).json() == shown
    assert audit_trail() == [SIGNED_UP if purpose == TokenType.CONFIRMATION else LOGIN]
    assert not OneTimeToken.objects.exists()


def test_response_contains_confirmed_account(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    shown = api.post("/verify", {"type": "signup", "token_hash": secret.link_token}).json()["user"]
    assert shown["identities"][0]["identity_data"]["email_verified"] is True
    assert shown["email_confirmed_at"] == shown["last_sign_in_at"] == shown["updated_at"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({}, (400, "validation_failed", "Verify requires a verification type")),
        ({"token": "x", "token_hash": "x"}, (400, "validation_failed", "Verify requires a verification type")),
        ({"type": ""}, (400, "validation_failed", "Verify requires a verification type")),
        ({"type": "x"}, (400, "validation_failed", "Verify requires either a token or a token hash")),
        (
            {"type": "x", "token": "x", "token_hash": "x", "email": "x"},
            (400, "validation_failed", "Verify requires either a token or a token hash"),
        ),
        (
            {"type": "x", "token": "", "token_hash": "", "email": EMAIL},
            (400, "validation_failed", "Verify requires either a token or a token hash"),
        ),
        *(
            (
                {"type": "x", "token": token},
                (400, "validation_failed", "Only an email address or phone number should be provided on verify"),
            )
            for token in ("some-token", "123456", "A" * 56, "0" * 55, "0" * 57, "pkce_" + "0" * 55)
        ),
        (
            {"type": "x", "token": "123456", "email": EMAIL, "phone": "15551234567"},
            (400, "validation_failed", "Only an email address or phone number should be provided on verify"),
        ),
        *(
            (
                {"type": "sms", "token": "123456", "phone": phone},
                (400, "validation_failed", "Invalid phone number format (E.164 required)"),
            )
            for phone in ("15551234567-invalid", "0", "x")
        ),
        *(
            ({"type": "x", "token": "123456", "email": address}, (422, "validation_failed", "Invalid email format"))
            for address in ("not-an-address", "a@b..c", " user@example.com", "a" * 251 + "@b.co")
        ),
        *(
            (
                {"type": "x", "token_hash": "x", **further},
                (400, "validation_failed", "Only the token_hash and type should be provided"),
            )
            for further in ({"email": EMAIL}, {"phone": "1"}, {"redirect_to": SITE})
        ),
        *(
            (
                {"type": type, "token_hash": "0" * 56},
                (400, "validation_failed", "Invalid email verification type"),
            )
            for type in ("sms", "phone_change", "x", "reauthentication")
        ),
        ({"type": "signup", "token_hash": "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token_hash": "x"}, LINK_DEAD),
        ({"type": "signup", "token": "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token": "pkce_" + "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token": "123456", "email": "unknown@example.com"}, CODE_DEAD),
        ({"type": "no such type", "token": "123456", "email": EMAIL}, CODE_DEAD),
        ({"type": "sms", "token": "123456", "phone": "15551234567"}, CODE_DEAD),
        ({"type": "phone_change", "token": "123456", "phone": "+1 5551234567"}, CODE_DEAD),
    ],
)
def test_errors_have_documented_order(api: Api, body: dict[str, str], refusal: tuple[int, str, str]) -> None:
    make_one_time_token(make_user(email=EMAIL), token_type=TokenType.REAUTHENTICATION)
    before = table_contents()
    assert_error(api.post("/verify", body), *refusal)
    assert table_contents() == before


def test_wrong_code_is_counted_and_redeems_nothing(api: Api) -> None:
    user = make_user(email=EMAIL)
    secret = make_one_time_token(user)
    wrong = f"{(int(secret.code) + 1) % 10**6:06d}"
    body = {"type": "recovery", "email": EMAIL, "token": wrong}
    assert_error(api.post("/verify", body), *CODE_DEAD)
    assert OneTimeToken.objects.get().attempts == 1
    assert audit_trail() == []
    read_session(api.post("/verify", {**body, "token": secret.code}), "recovery")


def test_wrong_code_is_counted_on_all_compared_secrets(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    for purpose in (TokenType.CONFIRMATION, TokenType.RECOVERY, TokenType.REAUTHENTICATION):
        make_one_time_token(user, purpose, attempts=3)
    api.post("/verify", {"type": "email", "email": EMAIL, "token": "no code"})
    counted = dict(OneTimeToken.objects.values_list("token_type", "attempts"))
    assert counted == {"confirmation_token": 4, "recovery_token": 4, "reauthentication_token": 3}


@pytest.mark.parametrize(
    ("limit", "attempts", "alive"), [(10, 9, True), (10, 10, False), (2, 2, False), (0, 999, True)]
)
def test_too_many_wrong_codes_invalidate_code_and_keep_link(
    api: Api, auth_config: ChangeConfig, limit: int, attempts: int, alive: bool
) -> None:
    auth_config(codes={"max_attempts": limit})
    secret = make_one_time_token(make_user(email=EMAIL), attempts=attempts)
    response = api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code})
    if alive:
        read_session(response, "recovery")
    else:
        assert_error(response, *CODE_DEAD)
        read_session(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}), "recovery")


def test_ten_wrong_codes_invalidate_code(api: Api, auth_config: ChangeConfig) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    for _ in range(10):
        assert_error(api.post("/verify", {"type": "email", "email": EMAIL, "token": "wrong"}), *CODE_DEAD)
    assert_error(api.post("/verify", {"type": "email", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_a_new_email_invalidates_the_previous_code_and_link(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/recover", {"email": EMAIL})
    backdate_rate_limits(timedelta(minutes=2))
    api.post("/recover", {"email": EMAIL})
    old, new = (mail.variables for mail in mailbox.emails)
    assert OneTimeToken.objects.count() == 1
    assert_link_error(open_link(api, old["TokenHash"], "recovery"), "otp_expired", LINK_DEAD[2])
    read_session(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": new["Token"]}), "recovery")


@pytest.mark.parametrize("first", ["code", "link"])
def test_code_and_link_are_one_secret(api: Api, first: str) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    by_code = {"type": "recovery", "email": EMAIL, "token": secret.code}
    by_link = {"type": "recovery", "token_hash": secret.link_token}
    one, other = (by_code, by_link) if first == "code" else (by_link, by_code)
    read_session(api.post("/verify", one), "recovery")
    assert_error(api.post("/verify", other), *(LINK_DEAD if other is by_link else CODE_DEAD))
    assert_error(api.post("/verify", one), *(LINK_DEAD if one is by_link else CODE_DEAD))


def test_a_verification_invalidates_the_other_secrets_of_that_user_only(api: Api) -> None:
    user, other = make_user(email=EMAIL), make_user()
    secret = make_one_time_token(user)
    for purpose in (TokenType.EMAIL_CHANGE_NEW, TokenType.EMAIL_CHANGE_CURRENT, TokenType.REAUTHENTICATION):
        make_one_time_token(user, purpose)
    make_one_time_token(other)
    read_session(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}), "recovery")
    assert list(OneTimeToken.objects.values_list("user_id", flat=True)) == [other.id]


def test_a_code_is_valid_with_its_address_only(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    make_one_time_token(make_user(email="other@example.com"))
    assert_error(
        api.post("/verify", {"type": "recovery", "email": "other@example.com", "token": secret.code}), *CODE_DEAD
    )
    read_session(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), "recovery")


def test_a_code_is_valid_in_its_audience_only(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    body = {"type": "recovery", "email": EMAIL, "token": secret.code}
    assert_error(api.post("/verify", body, headers={"X-JWT-AUD": "staff"}), *CODE_DEAD)
    read_session(api.post("/verify", body), "recovery")


def test_code_of_sso_account_is_rejected(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL, is_sso_user=True))
    assert_error(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_expired_code_is_rejected(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    backdate(OneTimeToken.objects.get(), by=timedelta(days=1, seconds=1))
    assert_error(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_a_ban_is_reported_after_the_correct_code(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL, banned_until=timezone.now() + timedelta(hours=1)))
    body = {"type": "recovery", "email": EMAIL, "token": "wrong"}
    assert_error(api.post("/verify", body), *CODE_DEAD)
    assert_error(api.post("/verify", {**body, "token": secret.code}), *BANNED)
    assert not Session.objects.exists()


def test_confirmation_precedes_recovery_with_same_code(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    make_one_time_token(user, token_hash=OneTimeToken.objects.get().token_hash)
    read_session(api.post("/verify", {"type": "email", "email": EMAIL, "token": secret.code}), "signup")


# Accounts without a password


def invited(**columns: Any) -> User:
    return make_user(email=EMAIL, password="", confirmed=False, **{"invited_at": timezone.now(), **columns})


@pytest.mark.parametrize("type", ["signup", "invite", "email"])
@pytest.mark.parametrize("form", ["code", "token_hash"])
def test_the_first_password_can_be_set_during_verification(api: Api, type: str, form: str) -> None:
    user = invited(recovery_sent_at=timezone.now(), confirmation_sent_at=timezone.now())
    make_session(user)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    proof = {"token_hash": secret.link_token} if form == "token_hash" else {"token": secret.code, "email": EMAIL}
    response = api.post("/verify", {"type": type, "password": PASSWORD, **proof})
    shown = read_session(response, "invite" if type == "invite" else "signup")["user"]
    assert [name for name in shown if name.endswith("_sent_at")] == ["confirmation_sent_at"]
    assert Session.objects.count() == 1
    assert User.objects.get().confirmation_sent_at == user.confirmation_sent_at
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200
    assert audit_trail()[0] == SIGNED_UP


@pytest.mark.parametrize(
    ("password", "status", "error_code"),
    [("short", 422, "weak_password"), ("", 422, "weak_password"), ("x" * 73, 400, "validation_failed")],
)
def test_first_password_must_meet_policy(api: Api, password: str, status: int, error_code: str) -> None:
    secret = make_one_time_token(invited(), TokenType.CONFIRMATION)
    before = table_contents()
    response = api.post("/verify", {"type": "invite", "password": password, "token_hash": secret.link_token})
    assert (response.status_code, response.json()["error_code"]) == (status, error_code)
    assert table_contents() == before


@pytest.mark.parametrize("invitation", [True, False])
@pytest.mark.parametrize("form", ["code", "token_hash"])
def test_a_sign_up_is_not_confirmed_without_a_password(api: Api, invitation: bool, form: str) -> None:
    secret = make_one_time_token(invited(**({} if invitation else {"invited_at": None})), TokenType.CONFIRMATION)
    proof = {"token_hash": secret.link_token} if form == "token_hash" else {"token": secret.code, "email": EMAIL}
    before = table_contents()
    assert_error(
        api.post("/verify", {"type": "signup", **proof}), 422, "validation_failed", "Signup requires a valid password"
    )
    assert table_contents() == before


def test_an_account_of_a_provider_needs_no_password(api: Api) -> None:
    user = invited(invited_at=None)
    at = timezone.now()
    Identity.objects.create(
        provider="google", provider_id="7", user=user, identity_data={"sub": "7"}, created_at=at, updated_at=at
    )
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    read_session(api.post("/verify", {"type": "signup", "token_hash": secret.link_token}), "signup")
    assert User.objects.get().password == ""


@pytest.mark.parametrize("how", ["GET invite", "GET signup", "POST invite", "POST email"])
def test_an_invited_account_gets_an_unusable_password(api: Api, how: str) -> None:
    user = invited(confirmation_sent_at=timezone.now())
    make_session(user)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    method, type = how.split()
    if method == "GET":
        session_fragment(open_link(api, secret.link_token, type), type)
    else:
        response = api.post("/verify", {"type": type, "token_hash": secret.link_token})
        read_session(response, "invite" if type == "invite" else "signup")
    after = User.objects.get()
    assert after.password is not None
    assert after.password.startswith("$argon2id$")
    assert not hashing.verify_password("", after.password)
    assert after.confirmation_sent_at == user.confirmation_sent_at
    assert Session.objects.count() == 1


@pytest.mark.parametrize("how", ["GET signup", "POST invite", "POST email"])
def test_account_without_invitation_gets_no_password(api: Api, how: str) -> None:
    secret = make_one_time_token(invited(invited_at=None), TokenType.CONFIRMATION)
    method, type = how.split()
    if method == "GET":
        session_fragment(open_link(api, secret.link_token, type), type)
    else:
        response = api.post("/verify", {"type": type, "token_hash": secret.link_token})
        read_session(response, "invite" if type == "invite" else "signup")
    assert User.objects.get().password == ""


@pytest.mark.parametrize(
    ("type", "purpose", "had"),
    [
        ("signup", TokenType.CONFIRMATION, PASSWORD),
        ("invite", TokenType.CONFIRMATION, PASSWORD),
        ("recovery", TokenType.RECOVERY, PASSWORD),
        ("magiclink", TokenType.RECOVERY, PASSWORD),
        ("recovery", TokenType.RECOVERY, ""),
        ("email", TokenType.RECOVERY, ""),
    ],
)
def test_later_password_is_ignored(api: Api, type: str, purpose: TokenType, had: str) -> None:
    user = make_user(email=EMAIL, password=had, confirmed=purpose == TokenType.RECOVERY)
    secret = make_one_time_token(user, purpose)
    response = api.post("/verify", {"type": type, "token_hash": secret.link_token, "password": "x"})
    assert response.status_code == 200
    assert User.objects.get().password == user.password


# Passwords of unconfirmed accounts


def stranger_signs_up(api: Api) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": "a stranger's choice"}).status_code == 200
    backdate_rate_limits(timedelta(hours=1))


def can_sign_in(api: Api, password: str) -> bool:
    return api.post("/token?grant_type=password", {"email": EMAIL, "password": password}).status_code == 200


@pytest.mark.parametrize("path", ["/otp", "/magiclink"])
@pytest.mark.parametrize("form", ["link", "code", "type email"])
def test_a_magic_link_removes_a_password_set_before_verification(
    api: Api, mailbox: Mailbox, path: str, form: str
) -> None:
    stranger_signs_up(api)
    api.post(path, {"email": EMAIL})
    secret = mailbox.emails[-1].variables
    match form:
        case "link":
            response = open_link(api, secret["TokenHash"], "signup")
        case "code":
            response = api.post("/verify", {"type": "signup", "email": EMAIL, "token": secret["Token"]})
        case _:
            response = api.post("/verify", {"type": "email", "email": EMAIL, "token": secret["Token"]})
    assert response.status_code in (200, 303)
    assert User.objects.get().email_confirmed_at is not None
    assert not can_sign_in(api, "a stranger's choice")


def test_a_recovery_removes_a_password_set_before_verification(api: Api, mailbox: Mailbox) -> None:
    stranger_signs_up(api)
    api.post("/recover", {"email": EMAIL})
    session_fragment(open_link(api, mailbox.emails[-1].variables["TokenHash"], "recovery"), "recovery")
    assert not can_sign_in(api, "a stranger's choice")


def test_a_magic_link_request_invalidates_an_earlier_confirmation(api: Api, mailbox: Mailbox) -> None:
    stranger_signs_up(api)
    api.post("/magiclink", {"email": EMAIL})
    first = mailbox.emails[0].variables
    assert_link_error(open_link(api, first["TokenHash"], "signup"), "otp_expired", LINK_DEAD[2])
    assert User.objects.get().email_confirmed_at is None


def test_a_resent_confirmation_preserves_the_password_of_its_sign_up(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    backdate_rate_limits(timedelta(hours=1))
    api.post("/resend", {"type": "signup", "email": EMAIL})
    session_fragment(open_link(api, mailbox.emails[-1].variables["TokenHash"], "signup"), "signup")
    assert can_sign_in(api, PASSWORD)
