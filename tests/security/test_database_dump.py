"""Sign-in with nothing but a read-only dump of the database: each stored value is tried where a client presents one."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Secret, Vonage
from authsvc.security import crypto
from tests import factories
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, VERIFIER, make_session, make_user
from tests.oauthproviders.browser import Browser, GitHub, start_link_flow
from tests.observations import redirect_query
from tokens.models import FlowState, LegacyRefreshToken, OneTimeToken, Session, TokenType
from tokens.sessions import refresh_tokens

pytestmark = pytest.mark.django_db

EMAIL = "victim@example.com"
PHONE = "15551234567"
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
PLAIN = {"code_challenge": VERIFIER * 2, "code_challenge_method": "plain"}


@pytest.fixture(autouse=True)
def _limits(auth_config: ChangeConfig) -> None:
    """Permit as many requests as a dump has values."""
    auth_config(limits={"verify": 1e9, "token_refresh": 1e9, "otp": 1e9}, codes={"max_failed_attempts": 0})


def dump() -> dict[str, list[dict[str, str]]]:
    """All rows of all tables, each value as text: table → rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        tables = [name for (name,) in cursor.fetchall()]
        contents: dict[str, list[dict[str, str]]] = {}
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            names = [column.name for column in cursor.description or []]
            contents[table] = [
                {name: str(value) for name, value in zip(names, row, strict=True) if value is not None}
                for row in cursor.fetchall()
            ]
    return contents


def candidates() -> list[str]:
    """Every value of the dump, and every word of it that has the length of a secret.

    The names and times of migrations are public: each installation has the same ones, before it has a user.
    """
    tables = dump()
    del tables["django_migrations"]
    values = {value for rows in tables.values() for row in rows for value in row.values()}
    words = {word for value in values for word in re.findall(r"[A-Za-z0-9_.=+/-]{12,}", value)}
    return sorted(value for value in values | words if 5 < len(value) < 2000)


def is_unkeyed(digest: str, *, identifier: str, code: str) -> bool:
    """True if a search of all codes recovers this one: its digest is a fast hash of address and code without a key."""
    text = f"{identifier}{code}".encode()
    return digest.removeprefix("pkce_") in (hashlib.sha224(text).hexdigest(), hashlib.sha256(text).hexdigest())


def assert_opens_nothing(response: Any) -> None:
    text = response.content.decode() + response.headers.get("Location", "")
    assert '"access_token"' not in text, text
    assert "access_token=" not in text, text
    assert "code=" not in response.headers.get("Location", "").replace("error_code=", "")


# Codes and links of messages


@pytest.mark.parametrize("path", ["/recover", "/otp", "/signup", "/magiclink"])
def test_an_emailed_code_is_not_recovered_from_its_digest(api: Api, mailbox: Mailbox, path: str) -> None:
    if path != "/signup":
        make_user(email=EMAIL)
    api.post(path, {"email": EMAIL, **({"password": PASSWORD} if path == "/signup" else {})})
    code = mailbox.emails[-1].variables["Token"]
    assert not is_unkeyed(OneTimeToken.objects.get().token_hash, identifier=EMAIL, code=code)
    assert api.post("/verify", {"type": "email", "email": EMAIL, "token": code}).status_code == 200


def test_no_stored_value_opens_a_link(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/recover", {"email": EMAIL})
    api.post("/otp", {"email": "other@example.com"})
    admin_requests.expect_success(api, "POST", "/invite", {"email": "invited@example.com"})
    for value in candidates():
        for type in ("recovery", "signup", "invite"):
            assert_opens_nothing(api.get(f"/verify?type={type}&token={value}"))
            assert_opens_nothing(api.post("/verify", {"type": type, "token_hash": value}))
    link = next(mail for mail in mailbox.emails if mail.to == EMAIL).variables["TokenHash"]
    assert api.post("/verify", {"type": "recovery", "token_hash": link}).status_code == 200


def test_a_code_by_sms_is_not_recovered_from_its_digest(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    vonage = Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")
    auth_config(signup={"phone_enabled": True}, sms={"provider": "vonage", "vonage": vonage})
    make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    api.post("/otp", {"phone": PHONE})
    code = mailbox.sms[-1].variables["Code"]
    assert not is_unkeyed(OneTimeToken.objects.get().token_hash, identifier=PHONE, code=code)
    body = {"type": "sms", "phone": PHONE, "token": code}
    assert api.post("/verify", body).status_code == 200


def test_queued_messages_contain_no_code(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/recover", {"email": EMAIL})
    text = str(dump())
    variables = mailbox.emails[-1].variables
    assert variables["TokenHash"] not in text
    assert f"'{variables['Token']}'" not in text
    assert variables["ConfirmationURL"] not in text


def test_another_secret_key_ends_waiting_codes(api: Api, auth_config: ChangeConfig) -> None:
    user = make_user(email=EMAIL)
    secret = factories.make_one_time_token(user, TokenType.RECOVERY)
    auth_config(jwt={"secret": Secret("a new secret of this service, 32 characters")})
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 403
    assert api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}).status_code == 403


def test_a_code_of_the_former_version_is_valid_until_it_expires(api: Api) -> None:
    user = make_user(email=EMAIL)
    secret = factories.make_one_time_token(user)
    former = {
        "token_hash": hashlib.sha224(f"{EMAIL}{secret.code}".encode()).hexdigest(),
        "link_hash": hashlib.sha256(secret.link_token.encode()).hexdigest(),
    }
    OneTimeToken.objects.update(**former)
    body = {"type": "recovery", "email": EMAIL, "token": secret.code}
    OneTimeToken.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert api.post("/verify", body).status_code == 403
    OneTimeToken.objects.update(created_at=timezone.now())
    assert api.post("/verify", body).status_code == 200
    secret = factories.make_one_time_token(user)
    OneTimeToken.objects.update(link_hash=hashlib.sha256(secret.link_token.encode()).hexdigest())
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200


def test_an_invitation_of_the_former_version_is_accepted_at_a_provider(github: GitHub, browser: Browser) -> None:
    user = make_user(email=EMAIL, confirmed=False, password="", invited_at=timezone.now())
    link = factories.make_one_time_token(user, TokenType.CONFIRMATION).link_token
    OneTimeToken.objects.update(link_hash=hashlib.sha256(link.encode()).hexdigest())
    github.set_user(EMAIL)
    assert "access_token=" in browser.sign_in(invite_token=link).headers["Location"]


# PKCE flows and provider flows


@pytest.mark.parametrize("challenge", [PKCE, PLAIN], ids=["s256", "plain"])
@pytest.mark.parametrize("path", ["/recover", "/magiclink", "/signup", "/otp"])
def test_a_stored_flow_gives_no_code_before_or_after_the_link_is_opened(
    api: Api, mailbox: Mailbox, path: str, challenge: dict[str, str]
) -> None:
    if path != "/signup":
        make_user(email=EMAIL)
    api.post(path, {"email": EMAIL, **({"password": PASSWORD} if path == "/signup" else {}), **challenge})
    verifier = challenge["code_challenge"] if challenge is PLAIN else VERIFIER

    def try_all() -> None:
        for value in candidates():
            body = {"auth_code": value, "code_verifier": verifier}
            assert_opens_nothing(api.post("/token?grant_type=pkce", body))

    try_all()
    variables = mailbox.emails[-1].variables
    link_type = dict(parse_qsl(urlsplit(variables["ConfirmationURL"]).query))["type"]
    code = redirect_query(api.get(f"/verify?type={link_type}&token={variables['TokenHash']}"))["code"]
    try_all()
    body = {"auth_code": code, "code_verifier": verifier}
    assert api.post("/token?grant_type=pkce", body).status_code == 200
    assert api.post("/token?grant_type=pkce", body).status_code == 404


def test_a_stored_provider_flow_cannot_be_completed(
    api: Api, github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    # With the state of a linking flow an attacker would add an identity to the victim's account.
    auth_config(signup={"manual_linking_enabled": True})
    victim = make_session(make_user(email=EMAIL))
    state = start_link_flow(api, victim.access_token)
    browser.start(**PKCE)
    for value in candidates():
        assert_opens_nothing(browser.callback(value))
    assert api.get("/user", bearer=victim.access_token).json()["app_metadata"]["providers"] == ["email"]
    assert "access_token" in browser.callback(state).headers["Location"]


def test_tokens_of_a_provider_are_encrypted(api: Api, github: GitHub, browser: Browser) -> None:
    github.set_token_response({"access_token": "gho_secret", "refresh_token": "ghr_secret"})
    code = redirect_query(browser.callback(browser.start(**PKCE)))["code"]
    assert "gho_secret" not in str(dump())
    assert "ghr_secret" not in str(dump())
    for value in candidates():
        assert_opens_nothing(api.post("/token?grant_type=pkce", {"auth_code": value, "code_verifier": VERIFIER}))
    body = api.post("/token?grant_type=pkce", {"auth_code": code, "code_verifier": VERIFIER}).json()
    assert (body["provider_token"], body["provider_refresh_token"]) == ("gho_secret", "ghr_secret")


def test_a_code_of_the_former_version_is_exchanged(api: Api) -> None:
    code = str(uuid4())
    factories.make_flow(make_user())
    FlowState.objects.update(auth_code=code)
    body = {"auth_code": code, "code_verifier": VERIFIER}
    assert api.post("/token?grant_type=pkce", body).status_code == 200


def test_a_flow_of_the_former_version_is_completed(github: GitHub, browser: Browser) -> None:
    browser.start()
    state = uuid4()
    FlowState.objects.update(id=state)
    assert "access_token" in browser.callback(str(state)).headers["Location"]


# Sessions


def forged_tokens() -> list[str]:
    """Refresh tokens that are signed with the values in the columns of a session, for this counter and the next."""
    forged = []
    for session in Session.objects.all():
        stored = session.refresh_token_hmac_key or ""
        for key in {stored, *re.findall(r"[A-Za-z0-9+/_=-]{16,}", stored)}:
            for decode in (crypto.base64url_decode, str.encode):
                try:
                    material = decode(key)
                except ValueError:
                    continue
                forged += [
                    refresh_tokens.encode(session_id=session.id, counter=counter, key=material) for counter in range(3)
                ]
    return forged


def test_a_session_gives_no_refresh_token(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    for token in [*forged_tokens(), *candidates()]:
        assert_opens_nothing(api.post("/token?grant_type=refresh_token", {"refresh_token": token}))
        assert api.get("/user", bearer=token).status_code in (400, 401, 403)
    body = {"refresh_token": made.refresh_token}
    assert api.post("/token?grant_type=refresh_token", body).status_code == 200


def test_the_key_of_a_session_of_the_former_version_is_encrypted_at_its_refresh(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    key = crypto.generate_key()
    Session.objects.update(refresh_token_hmac_key=key)
    held = refresh_tokens.encode(session_id=made.session.id, counter=0, key=crypto.base64url_decode(key))
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": held})
    assert response.status_code == 200
    assert key not in str(dump())
    for token in forged_tokens():
        assert_opens_nothing(api.post("/token?grant_type=refresh_token", {"refresh_token": token}))
    body = {"refresh_token": response.json()["refresh_token"]}
    assert api.post("/token?grant_type=refresh_token", body).status_code == 200


def test_another_secret_key_ends_sessions(api: Api, auth_config: ChangeConfig) -> None:
    made = make_session(make_user(email=EMAIL))
    auth_config(jwt={"secret": Secret("a new secret of this service, 32 characters")})
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": made.refresh_token})
    assert (response.status_code, response.json()["error_code"]) == (400, "refresh_token_not_found")


def test_an_imported_refresh_token_is_a_digest(api: Api) -> None:
    first, second = factories.make_legacy_tokens(count=2)
    held = second.token or ""
    for row in (first, second):
        parent = crypto.key_digest(row.parent) if row.parent else None
        LegacyRefreshToken.objects.filter(id=row.id).update(token=crypto.key_digest(row.token or ""), parent=parent)
    for value in candidates():
        assert_opens_nothing(api.post("/token?grant_type=refresh_token", {"refresh_token": value}))
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": held})
    assert response.status_code == 200


# Passwords and the console


def test_no_stored_value_is_a_password_or_a_session_of_the_console(api: Api) -> None:
    user = make_user(email=EMAIL, role="svc_admin")
    make_session(user)
    for value in candidates():
        body = {"email": EMAIL, "password": value[:72]}
        assert api.post("/token?grant_type=password", body).status_code == 400
        console = api.get("/operator/", headers={"Cookie": f"operator_session={value}"})
        assert console.status_code == 302
    assert api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}).status_code == 200


def test_a_dump_has_no_column_that_no_test_knows() -> None:
    """A new column whose name suggests a secret needs an entry in docs/explanation/security.md and a test here."""
    names = {
        f"{model._meta.db_table}.{field.column}"
        for model in (User, Session, OneTimeToken, FlowState, LegacyRefreshToken)
        for field in model._meta.concrete_fields
        if re.search("token|key|secret|code|hash|password|nonce|verifier", str(field.column))
    }
    assert names == {
        "users.encrypted_password", "sessions.refresh_token_hmac_key", "sessions.refresh_token_counter",
        "one_time_tokens.token_type", "one_time_tokens.token_hash", "one_time_tokens.link_hash",
        "flow_state.auth_code", "flow_state.code_challenge", "flow_state.code_challenge_method",
        "flow_state.provider_access_token", "flow_state.provider_refresh_token", "flow_state.auth_code_issued_at",
        "flow_state.invite_token", "refresh_tokens.token",
    }  # fmt: skip
