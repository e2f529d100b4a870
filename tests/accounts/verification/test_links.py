"""GET /verify: links that a browser opens, redirects with sessions, codes and errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.api.renderers import rfc3339
from authsvc.security import crypto
from tests.accounts.verification.verify_requests import (
    BANNED,
    CONFIRMING,
    EMAIL,
    LINK_DEAD,
    LOGIN,
    PURPOSE,
    RECOVERING,
    SESSION_KEYS,
    SIGN_UP,
    SIGNED_UP,
    SITE,
    assert_link_error,
    open_link,
    read_session,
    session_fragment,
)
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, VERIFIER, backdate, make_flow, make_one_time_token, make_user
from tests.observations import assert_error, audit_trail, redirect_fragment, redirect_query, table_contents
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

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
