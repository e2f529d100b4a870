"""How many SQL statements a path may cost. Raising a number is a decision."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from authsvc.core.db import namespaced
from tests import factories
from tests.conftest import Answer, Api, ChangeConfig
from tests.factories import CHALLENGE, PASSWORD, VERIFIER
from tokens.models import TokenType

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[Api], Answer]

_TRANSACTION_CONTROL = re.compile(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b")


@dataclass(frozen=True)
class Path:
    """`prepare` makes what the request needs and returns the request."""

    name: str
    budget: int
    status: int
    prepare: Callable[[], Call]


def signed_in_user() -> Call:
    token = factories.make_session().access_token
    return lambda api: api.get("/user", bearer=token)


def logout(scope: str) -> Callable[[], Call]:
    def prepare() -> Call:
        user = factories.make_user()
        factories.make_session(user)
        token = factories.make_session(user).access_token
        return lambda api: api.post(f"/logout?scope={scope}", bearer=token)

    return prepare


def refresh(behind: int) -> Callable[[], Call]:
    def prepare() -> Call:
        session = factories.make_session(refresh_token_counter=5).session
        token = factories.refresh_token(session, 5 - behind)
        return lambda api: api.post("/token?grant_type=refresh_token", {"refresh_token": token})

    return prepare


def password_grant(*, stored: str | None = None, password: str = PASSWORD) -> Callable[[], Call]:
    def prepare() -> Call:
        user = factories.make_user(password_hash=stored)
        body = {"email": user.email, "password": password}
        return lambda api: api.post("/token?grant_type=password", body)

    return prepare


def pkce_grant() -> Call:
    flow = factories.make_flow(factories.make_user())
    body = {"auth_code": flow.auth_code, "code_verifier": VERIFIER}
    return lambda api: api.post("/token?grant_type=pkce", body)


def sign_up(*, pkce: bool = False, taken: bool = False) -> Callable[[], Call]:
    def prepare() -> Call:
        if taken:
            factories.make_user(email="ann@example.com")
        body = {"email": "ann@example.com", "password": PASSWORD}
        challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"} if pkce else {}
        return lambda api: api.post("/signup", body | challenge)

    return prepare


def verify(token_type: TokenType, *, code: bool = False) -> Callable[[], Call]:
    type = "signup" if token_type == TokenType.CONFIRMATION else "recovery"

    def prepare() -> Call:
        user = factories.make_user(confirmed=token_type != TokenType.CONFIRMATION)
        secret = factories.make_one_time_token(user, token_type)
        proof = {"email": user.email, "token": secret.code} if code else {"token_hash": secret.link_token}
        return lambda api: api.post("/verify", {"type": type, **proof})

    return prepare


PATHS = [
    Path("GET /health", 0, 200, lambda: lambda api: api.get("/health")),
    Path("GET /settings", 0, 200, lambda: lambda api: api.get("/settings")),
    Path("GET /.well-known/jwks.json", 0, 200, lambda: lambda api: api.get("/.well-known/jwks.json")),
    Path("a bearer token that is none", 0, 403, lambda: lambda api: api.get("/user", bearer="a.b.c")),
    Path("GET /user", 1, 200, signed_in_user),
    *(Path(f"POST /logout, {scope}", 3, 204, logout(scope)) for scope in ("global", "local", "others")),
    Path("refresh", 3, 200, refresh(0)),
    Path("refresh, once more", 3, 200, refresh(1)),
    Path("refresh, used again", 3, 400, refresh(2)),
    Path("password grant", 5, 200, password_grant()),
    Path(
        "password grant, imported hash",
        5,
        200,
        password_grant(stored="$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu", password="test"),
    ),
    Path("password grant, wrong password", 1, 400, password_grant(password="wrong")),
    Path("PKCE grant", 7, 200, pkce_grant),
    Path("POST /signup", 6, 200, sign_up()),
    Path("POST /signup with PKCE", 7, 200, sign_up(pkce=True)),
    Path("POST /signup, address taken", 2, 200, sign_up(taken=True)),
    Path("POST /verify, confirmation by link", 8, 200, verify(TokenType.CONFIRMATION)),
    Path("POST /verify, confirmation by code", 8, 200, verify(TokenType.CONFIRMATION, code=True)),
    Path("POST /verify, recovery by link", 7, 200, verify(TokenType.RECOVERY)),
    Path("POST /verify, recovery by code", 7, 200, verify(TokenType.RECOVERY, code=True)),
]


def counted(captured: CaptureQueriesContext) -> list[str]:
    """What was run, without transaction control and the counting of request and message limits."""
    statements = [" ".join(query["sql"].split()) for query in captured.captured_queries]
    return [sql for sql in statements if not _TRANSACTION_CONTROL.match(sql) and namespaced("rate_limits") not in sql]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_path_keeps_its_budget(path: Path, api: Api) -> None:
    call = path.prepare()

    with CaptureQueriesContext(connection) as captured:
        answer = call(api)

    assert answer.status_code == path.status, answer.content
    ran = counted(captured)
    listed = "\n".join(f"{number:3}  {sql}" for number, sql in enumerate(ran, start=1))
    assert len(ran) == path.budget, f"{path.name}: {len(ran)} statements instead of {path.budget}\n{listed}"


def test_statements_of_both_kinds_are_seen(api: Api, auth_config: ChangeConfig) -> None:
    # A count that misses the hand-written statements, or counts what it should not, would prove nothing.
    auth_config(audit={"disable_postgres": True})
    call = refresh(0)()

    with CaptureQueriesContext(connection) as captured:
        call(api)

    ran = counted(captured)
    assert [sql.split()[0] for sql in ran] == ["SELECT", "WITH"]
    assert len(captured) > len(ran)
