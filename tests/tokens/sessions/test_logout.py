"""POST /logout: which sessions end, and what is left of their tokens."""

from __future__ import annotations

import jwt
import pytest

from authsvc.models import AuditLogEntry
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import SignIn
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
def three() -> list[SignIn]:
    """Three sessions of one user, and behind their back one of somebody else."""
    user = factories.make_user()
    factories.make_session()
    return [factories.make_session(user) for _ in range(3)]


def alive(sign_ins: list[SignIn]) -> list[bool]:
    return [session_exists(each.session) for each in sign_ins]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", [False, False, False]),
        ("?scope=", [False, False, False]),
        ("?scope=global", [False, False, False]),
        ("?scope=local", [True, False, True]),
        ("?scope=others", [False, True, False]),
    ],
)
def test_the_scope_decides_which_sessions_end(query: str, left: list[bool], three: list[SignIn], api: Api) -> None:
    answer = api.post(f"/logout{query}", bearer=three[1].access_token)
    assert (answer.status_code, answer.content) == (204, b"")
    assert alive(three) == left
    assert Session.objects.exclude(user=three[0].user).count() == 1
    assert AmrClaim.objects.count() == sum(left) + 1
    assert AuditLogEntry.objects.get().payload == {
        "actor_id": str(three[0].user.id),
        "actor_via_sso": False,
        "actor_username": three[0].user.email,
        "action": "logout",
        "log_type": "account",
    }


@pytest.mark.parametrize("scope", ["foo", "GLOBAL", "local "])
def test_another_scope_is_refused(scope: str, three: list[SignIn], api: Api) -> None:
    answer = api.post(f"/logout?scope={scope}", bearer=three[0].access_token)
    assert error_of(answer) == (400, "validation_failed", f'Unsupported logout scope "{scope}"')
    assert alive(three) == [True, True, True]
    assert not AuditLogEntry.objects.exists()


@pytest.mark.parametrize("scope", ["", "global", "local", "others"])
def test_a_token_without_a_session_ends_them_all(scope: str, three: list[SignIn], api: Api) -> None:
    claims = read_claims(three[0].access_token)
    del claims["session_id"]
    token = jwt.encode(claims, "test-secret-of-at-least-32-characters")
    assert api.post(f"/logout?scope={scope}", bearer=token).status_code == 204
    assert alive(three) == [False, False, False]


def test_a_body_is_not_looked_at(three: list[SignIn], api: Api) -> None:
    assert api.post("/logout", "no JSON", bearer=three[0].access_token).status_code == 204


def test_nobody_logs_out_without_a_token_or_by_get(three: list[SignIn], api: Api) -> None:
    assert api.post("/logout").status_code == 401
    assert api.get("/logout", bearer=three[0].access_token).status_code == 405
    assert alive(three) == [True, True, True]


def test_the_tokens_of_a_session_end_with_it(three: list[SignIn], api: Api) -> None:
    gone = three[0]
    imported = factories.make_legacy_tokens(gone.user)
    api.post("/logout", bearer=gone.access_token)
    assert error_of(refresh(api, gone.refresh_token)) == REFRESH_TOKEN_NOT_FOUND
    assert error_of(refresh(api, imported[1].token or "")) == REFRESH_TOKEN_NOT_FOUND
    assert not LegacyRefreshToken.objects.exists()
    assert error_of(api.get("/user", bearer=gone.access_token)) == SESSION_NOT_FOUND
    assert error_of(api.post("/logout", bearer=gone.access_token)) == SESSION_NOT_FOUND


def test_others_go_on_after_a_local_logout(three: list[SignIn], api: Api) -> None:
    api.post("/logout?scope=local", bearer=three[0].access_token)
    assert rotate(api, three[1].refresh_token) == factories.refresh_token(three[1].session, 1)
    assert api.get("/user", bearer=three[1].access_token).status_code == 200


def test_a_mail_on_its_way_outlives_a_logout(three: list[SignIn], api: Api) -> None:
    secret = factories.make_one_time_token(three[0].user)
    api.post("/logout", bearer=three[0].access_token)
    assert OneTimeToken.objects.count() == 1
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200


def test_elsewhere_an_access_token_holds_until_it_expires(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (signing_keys.generate(algorithm="ES256") | {"kid": "here"},)})
    signed_in = factories.make_session()
    assert api.post("/logout", bearer=signed_in.access_token).status_code == 204
    (published,) = jwt.PyJWKSet.from_dict(api.get("/.well-known/jwks.json").json()).keys
    told = jwt.decode(signed_in.access_token, published.key, algorithms=["ES256"], audience="authenticated")
    assert told["session_id"] == str(signed_in.session.id)
