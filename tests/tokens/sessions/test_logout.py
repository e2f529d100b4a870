"""POST /logout: the revoked sessions, and the validity of their tokens."""

from __future__ import annotations

import jwt
import pytest

from authsvc.models import AuditLogEntry
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import SignIn
from tests.observations import audit_payloads
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    SESSION_NOT_FOUND,
    error_of,
    read_claims,
    refresh,
    rotate,
    session_exists,
)
from tokens.jwt import signing_keys
from tokens.models import AmrClaim, LegacyRefreshToken, OneTimeToken, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def sign_ins() -> list[SignIn]:
    """Three sessions of one user; another user has a session too."""
    user = factories.make_user()
    factories.make_session()
    return [factories.make_session(user) for _ in range(3)]


def sessions_exist(sign_ins: list[SignIn]) -> list[bool]:
    return [session_exists(sign_in.session) for sign_in in sign_ins]


@pytest.mark.parametrize(
    ("query", "remaining"),
    [
        ("", [False, False, False]),
        ("?scope=", [False, False, False]),
        ("?scope=global", [False, False, False]),
        ("?scope=local", [True, False, True]),
        ("?scope=others", [False, True, False]),
    ],
)
def test_scope_selects_revoked_sessions(query: str, remaining: list[bool], sign_ins: list[SignIn], api: Api) -> None:
    response = api.post(f"/logout{query}", bearer=sign_ins[1].access_token)
    assert (response.status_code, response.content) == (204, b"")
    assert sessions_exist(sign_ins) == remaining
    assert Session.objects.exclude(user=sign_ins[0].user).count() == 1
    assert AmrClaim.objects.count() == sum(remaining) + 1
    [entry] = audit_payloads(with_ids=True)
    assert entry.pop("request_id")
    assert entry == {
        "actor_id": str(sign_ins[0].user.id),
        "actor_via_sso": False,
        "actor_username": sign_ins[0].user.email,
        "action": "logout",
        "log_type": "account",
        "session_id": str(sign_ins[1].session.id),
    }


@pytest.mark.parametrize("scope", ["foo", "GLOBAL", "local "])
def test_unknown_scope_gets_400(scope: str, sign_ins: list[SignIn], api: Api) -> None:
    response = api.post(f"/logout?scope={scope}", bearer=sign_ins[0].access_token)
    assert error_of(response) == (400, "validation_failed", f'Unsupported logout scope "{scope}"')
    assert sessions_exist(sign_ins) == [True, True, True]
    assert not AuditLogEntry.objects.exists()


@pytest.mark.parametrize("scope", ["", "global", "local", "others"])
def test_token_without_session_revokes_all_sessions(scope: str, sign_ins: list[SignIn], api: Api) -> None:
    claims = read_claims(sign_ins[0].access_token)
    del claims["session_id"]
    token = jwt.encode(claims, "test-secret-of-at-least-32-characters")
    assert api.post(f"/logout?scope={scope}", bearer=token).status_code == 204
    assert sessions_exist(sign_ins) == [False, False, False]


def test_request_body_is_ignored(sign_ins: list[SignIn], api: Api) -> None:
    assert api.post("/logout", "no JSON", bearer=sign_ins[0].access_token).status_code == 204


def test_logout_without_token_or_by_get_is_rejected(sign_ins: list[SignIn], api: Api) -> None:
    assert api.post("/logout").status_code == 401
    assert api.get("/logout", bearer=sign_ins[0].access_token).status_code == 405
    assert sessions_exist(sign_ins) == [True, True, True]


def test_logout_invalidates_tokens_of_the_session(sign_ins: list[SignIn], api: Api) -> None:
    revoked = sign_ins[0]
    legacy_tokens = factories.make_legacy_tokens(revoked.user)
    api.post("/logout", bearer=revoked.access_token)
    assert error_of(refresh(api, revoked.refresh_token)) == REFRESH_TOKEN_NOT_FOUND
    assert error_of(refresh(api, legacy_tokens[1].token or "")) == REFRESH_TOKEN_NOT_FOUND
    assert not LegacyRefreshToken.objects.exists()
    assert error_of(api.get("/user", bearer=revoked.access_token)) == SESSION_NOT_FOUND
    assert error_of(api.post("/logout", bearer=revoked.access_token)) == SESSION_NOT_FOUND


def test_local_logout_leaves_other_sessions(sign_ins: list[SignIn], api: Api) -> None:
    api.post("/logout?scope=local", bearer=sign_ins[0].access_token)
    assert rotate(api, sign_ins[1].refresh_token) == factories.refresh_token(sign_ins[1].session, 1)
    assert api.get("/user", bearer=sign_ins[1].access_token).status_code == 200


def test_logout_leaves_one_time_tokens(sign_ins: list[SignIn], api: Api) -> None:
    secret = factories.make_one_time_token(sign_ins[0].user)
    api.post("/logout", bearer=sign_ins[0].access_token)
    assert OneTimeToken.objects.count() == 1
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200


def test_access_token_still_verifies_with_published_key_after_logout(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (signing_keys.generate(algorithm="ES256") | {"kid": "es256"},)})
    signed_in = factories.make_session()
    assert api.post("/logout", bearer=signed_in.access_token).status_code == 204
    (published,) = jwt.PyJWKSet.from_dict(api.get("/.well-known/jwks.json").json()).keys
    claims = jwt.decode(signed_in.access_token, published.key, algorithms=["ES256"], audience="authenticated")
    assert claims["session_id"] == str(signed_in.session.id)
