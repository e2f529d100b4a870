"""Runs the Python programs of the guides against a server started like `make run`."""

from __future__ import annotations

import asyncio
import importlib
import json
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import jwt
import psycopg
import pytest
import requests
from cryptography.hazmat.primitives import serialization
from django.contrib.sessions.backends.cache import SessionStore
from django.test import RequestFactory
from jwt.algorithms import RSAAlgorithm

from tests import ports
from tests.live import servers
from tests.live.documentation import pages
from tests.live.documentation.conftest import Installation
from tokens.jwt import signing_keys

HOW_TO = pages.DOCS / "how-to"
PYTHON_CLIENT = HOW_TO / "python-client.md"
VERIFY_TOKENS = HOW_TO / "verify-tokens.md"
ROW_LEVEL_SECURITY = HOW_TO / "row-level-security.md"
PASSWORD = "correct horse 1"

# Reads authorization headers from standard input and prints the answer of each view to them.
DJANGO_PROJECT = """
import json, sys
import django
from django.conf import settings
from django.urls import path
import settings as printed

settings.configure(
    ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], INSTALLED_APPS=["rest_framework"], REST_FRAMEWORK=printed.REST_FRAMEWORK
)
django.setup()
from django.test import Client
import plain_views, views

urlpatterns = [
    path("notes", views.Notes.as_view()),
    path("payouts", views.Payouts.as_view()),
    path("plain", plain_views.notes),
]
answers = []
for method, path, token in json.load(sys.stdin):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = Client(raise_request_exception=False).generic(method, path, headers=headers)
    answers.append([answer.status_code, answer.headers.get("WWW-Authenticate"), json.loads(answer.content)])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def session(installation: Installation) -> dict[str, Any]:
    """The response of a password sign-in."""
    email = f"verified-{uuid4().hex}@example.com"
    service = {"Authorization": f"Bearer {sign(installation, {'role': 'service_role', 'exp': time.time() + 60})}"}
    user = {"email": email, "password": PASSWORD, "email_confirm": True}
    requests.post(f"{installation.url}/admin/users", json=user, headers=service, timeout=60).raise_for_status()
    return sign_in(installation, email)


def sign_in(installation: Installation, email: str) -> dict[str, Any]:
    body = {"email": email, "password": PASSWORD}
    response = requests.post(f"{installation.url}/token?grant_type=password", json=body, timeout=60)
    response.raise_for_status()
    signed_in: dict[str, Any] = response.json()
    return signed_in


def sign(installation: Installation, claims: dict[str, Any], **header: str) -> str:
    """A token with the signature of the service."""
    key = RSAAlgorithm.from_jwk(installation.signing_key)
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": installation.signing_key["kid"], **header})  # type: ignore[arg-type]  # a private key


def claims_of(session: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The claims of the session's access token; None removes a claim."""
    claims = jwt.decode(session["access_token"], options={"verify_signature": False}) | changes
    return {name: value for name, value in claims.items() if value is not None}


@pytest.fixture
def load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installation: Installation
) -> Iterator[Callable[..., ModuleType]]:
    """`load(page, "main")` writes the programs of a page to a directory and imports one of them."""
    loaded: set[str] = set()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TOKEN_ISSUER", installation.url)
    monkeypatch.setenv("AUTHSERVER_URL", installation.url)

    def start(page: Path, name: str) -> ModuleType:
        programs = pages.programs(page)
        for title, program in programs.items():
            (tmp_path / title).write_text(program)
        loaded.update(Path(title).stem for title in programs)
        return importlib.import_module(name)

    yield start
    for name in loaded:
        module = sys.modules.pop(name, None)
        if name == "auth_session" and module:
            module.connections.close()


@pytest.fixture
def api(load: Callable[..., ModuleType]) -> Any:
    """The FastAPI application of the guide."""
    return load(VERIFY_TOKENS, "main").app


def ask(api: Any, token: str | None, *, path: str = "/notes", method: str = "GET") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def request() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://api") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(request())


def test_fastapi_accepts_token_of_user(api: Any, session: dict[str, Any]) -> None:
    response = ask(api, session["access_token"])
    assert (response.status_code, response.json()["owner"]) == (200, session["user"]["id"])
    assert ask(api, session["access_token"], method="POST").status_code == 200


def test_fastapi_tolerates_small_clock_difference(
    api: Any, session: dict[str, Any], installation: Installation
) -> None:
    assert ask(api, sign(installation, claims_of(session, exp=int(time.time()) - 2))).status_code == 200


def test_fastapi_refuses_listed_tokens(api: Any, session: dict[str, Any], installation: Installation) -> None:
    claims = claims_of(session)
    public_key = RSAAlgorithm.from_jwk(installation.signing_key).public_key()  # type: ignore[union-attr]  # a private key
    pem = public_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    other_key = RSAAlgorithm.from_jwk(signing_keys.generate(algorithm="RS256"))
    kid = installation.signing_key["kid"]
    refused = {
        "garbage": "garbage",
        "expired": sign(installation, claims | {"exp": int(time.time()) - 60}),
        "other issuer": sign(installation, claims | {"iss": "https://staging.example.com"}),
        "no issuer": sign(installation, claims_of(session, iss=None)),
        "other audience": sign(installation, claims | {"aud": "other"}),
        "service token": sign(installation, {"role": "service_role", "exp": claims["exp"], "iss": claims["iss"]}),
        "other application": sign(installation, claims | {"client_id": str(uuid4())}),
        "unknown key ID": sign(installation, claims, kid="unknown"),
        "other key": jwt.encode(claims, other_key, algorithm="RS256", headers={"kid": kid}),  # type: ignore[arg-type]  # a private key
        "public key as secret": hs256(claims, pem, kid=kid),
        "no signature": jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
    }
    responses = {name: ask(api, token) for name, token in refused.items()}
    assert {name: response.status_code for name, response in responses.items() if response.status_code != 401} == {}
    assert 'error_description="the token is expired"' in responses["expired"].headers["WWW-Authenticate"]
    assert ask(api, None).headers["WWW-Authenticate"] == "Bearer"


def hs256(claims: dict[str, Any], secret: bytes, *, kid: str) -> str:
    """A token that PyJWT refuses to issue, because its secret is a public key."""
    header, payload, _ = jwt.encode(claims, "s" * 32, algorithm="HS256", headers={"kid": kid}).split(".")
    hmac = jwt.get_algorithm_by_name("HS256")
    signature = hmac.sign(f"{header}.{payload}".encode(), secret)
    return f"{header}.{payload}.{jwt.utils.base64url_encode(signature).decode()}"


def test_fastapi_distinguishes_anonymous_users_and_levels(
    api: Any, session: dict[str, Any], installation: Installation
) -> None:
    anonymous = sign(installation, claims_of(session, is_anonymous=True))
    assert ask(api, anonymous).status_code == 200
    assert ask(api, anonymous, method="POST").status_code == 403
    assert ask(api, session["access_token"], path="/payouts", method="POST").status_code == 403


def test_fastapi_notices_end_of_session_only_by_asking(
    api: Any, session: dict[str, Any], installation: Installation
) -> None:
    own = sign_in(installation, session["user"]["email"])
    token = sign(installation, claims_of(own, aal="aal2"))
    assert ask(api, token, path="/payouts", method="POST").json() == {"recipient": own["user"]["email"]}

    headers = {"Authorization": f"Bearer {token}"}
    requests.post(f"{installation.url}/logout?scope=local", headers=headers, timeout=60).raise_for_status()
    assert ask(api, token).status_code == 200
    assert ask(api, token, path="/payouts", method="POST").status_code == 401


def test_keys_are_cached_and_fetched_again_for_unknown_key_id(
    load: Callable[..., ModuleType], session: dict[str, Any], installation: Installation
) -> None:
    access_tokens = load(VERIFY_TOKENS, "access_tokens")
    unreachable = f"http://127.0.0.1:{ports.free_port()}/.well-known/jwks.json"
    reachable, access_tokens.keys.uri = access_tokens.keys.uri, unreachable
    with pytest.raises(access_tokens.ServiceUnavailable):
        access_tokens.verify(session["access_token"])

    access_tokens.keys.uri = reachable
    access_tokens.verify(session["access_token"])
    access_tokens.keys.uri = unreachable
    access_tokens.verify(session["access_token"])
    unknown = sign(installation, claims_of(session), kid="unknown")
    with pytest.raises(access_tokens.InvalidToken):
        access_tokens.verify(unknown)
    access_tokens.keys.cooldown_duration = 0
    with pytest.raises(access_tokens.ServiceUnavailable):
        access_tokens.verify(unknown)


def test_django_project_verifies_tokens(
    load: Callable[..., ModuleType], session: dict[str, Any], installation: Installation, tmp_path: Path
) -> None:
    load(VERIFY_TOKENS, "access_tokens")
    (tmp_path / "project.py").write_text(DJANGO_PROJECT)
    token, second = session["access_token"], sign(installation, claims_of(session, aal="aal2"))
    expired = sign(installation, claims_of(session, exp=1))
    ended = sign_in(installation, session["user"]["email"])
    headers = {"Authorization": f"Bearer {ended['access_token']}"}
    requests.post(f"{installation.url}/logout?scope=local", headers=headers, timeout=60).raise_for_status()
    asked = [
        ("GET", "/notes", token),
        ("GET", "/notes", None),
        ("GET", "/notes", expired),
        ("POST", "/payouts", token),
        ("POST", "/payouts", second),
        ("POST", "/payouts", sign(installation, claims_of(session, aal="aal2", is_anonymous=True))),
        ("POST", "/payouts", sign(installation, claims_of(ended, aal="aal2"))),
        ("GET", "/plain", token),
        ("GET", "/plain", expired),
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "project"],
        cwd=tmp_path,
        env={"TOKEN_ISSUER": installation.url, "PYTHONPATH": str(tmp_path)},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    responses = json.loads(ran.stdout)
    assert [status for status, _, _ in responses] == [200, 401, 401, 403, 200, 403, 401, 200, 401]
    assert {responses[index][1] for index in (1, 2, 6, 8)} == {"Bearer"}
    assert responses[0][2]["owner"] == responses[7][2]["owner"] == session["user"]["id"]
    assert responses[2][2]["detail"] == "the token is expired"
    assert responses[4][2] == {"recipient": session["user"]["email"]}


@pytest.mark.parametrize("program", ["tour", "admin", "async_tour"])
def test_client_programs_print_documented_output(
    program: str,
    load: Callable[..., ModuleType],
    installation: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    load(PYTHON_CLIENT, "auth_session")
    service_token = sign(installation, {"role": "service_role", "exp": time.time() + 60})
    monkeypatch.setenv("SERVICE_TOKEN", service_token)
    runpy.run_path(str(tmp_path / f"{program}.py"), run_name="__main__")

    [tour] = [block for block in pages.blocks(PYTHON_CLIENT, "text") if block.startswith("refused")]
    expected = {
        "tour": tour,
        "admin": "['bob@example.com']\n404 user_not_found\n",
        "async_tour": "invalid_credentials\n",
    }
    assert capsys.readouterr().out == expected[program]
    assert f"`{expected['admin'].splitlines()[0]}`" in PYTHON_CLIENT.read_text()


def test_client_refreshes_stored_session_and_drops_ended_one(
    load: Callable[..., ModuleType], session: dict[str, Any], installation: Installation
) -> None:
    auth_session = load(PYTHON_CLIENT, "auth_session")
    values: dict[str, Any] = {}
    assert auth_session.current_session(values) is None
    auth_session.client(values).sign_in_with_password({"email": session["user"]["email"], "password": PASSWORD})
    first = auth_session.current_session(values)
    assert auth_session.current_session(values).refresh_token == first.refresh_token

    expire(values)
    second = auth_session.current_session(values)
    assert second.refresh_token != first.refresh_token

    auth_session.client(dict(values)).sign_out({"scope": "local"})
    expire(values)
    assert auth_session.current_session(values) is None
    assert values == {}


def expire(values: dict[str, Any]) -> None:
    stored = json.loads(values["auth_session"])
    values["auth_session"] = json.dumps(stored | {"expires_at": int(time.time()) - 1})


def test_django_views_start_provider_sign_in(load: Callable[..., ModuleType], installation: Installation) -> None:
    load(PYTHON_CLIENT, "auth_session")
    views = importlib.import_module("views")
    started = RequestFactory().get("/auth/start", headers={"host": "localhost"})
    started.session = SessionStore()
    response = views.start_sign_in(started)
    target = urlsplit(response["Location"])
    assert response.status_code == 302
    assert response["Location"].startswith(f"{installation.url}/authorize?")
    assert parse_qs(target.query)["redirect_to"] == ["http://localhost/auth/callback"]
    assert parse_qs(target.query)["code_challenge"]
    assert started.session["auth_session-code-verifier"]

    for query in ("", "?code=8f1f1c0e-0000-4000-8000-000000000000", "?error_code=bad_oauth_state"):
        finished = RequestFactory().get(f"/auth/callback{query}")
        finished.session = started.session
        assert views.callback(finished).status_code == 400


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    """A connection whose roles, tables and rows of the guide disappear with its transaction."""
    programs = pages.programs(ROW_LEVEL_SECURITY)
    with psycopg.connect(servers.server_url()) as connection:
        for name in ("roles.sql", "claims.sql", "notes.sql"):
            connection.execute(programs[name].encode())
        yield connection
        connection.rollback()


def test_policies_show_users_their_rows(database: psycopg.Connection, load: Callable[..., ModuleType]) -> None:
    transaction_as = load(ROW_LEVEL_SECURITY, "database").transaction_as
    # The role of the program has no rights of its own.
    database.execute("SET SESSION AUTHORIZATION api")
    ada, eve = ({"sub": str(uuid4()), "role": "authenticated", "aal": "aal1", "is_anonymous": False} for _ in range(2))

    def run(claims: dict[str, Any] | None, statement: str) -> list[Any]:
        """The first column of the result, or of the changed rows."""
        with transaction_as(database, claims) as connection:
            rows = [row[0] for row in connection.execute(statement.encode()).fetchall()]
        # In the transaction of this test, the end of a transaction is that of a savepoint.
        database.execute("RESET ROLE")
        return rows

    def fails(claims: dict[str, Any] | None, statement: str) -> bool:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(claims, statement)
        database.execute("RESET ROLE")
        return True

    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.transaction():
        database.execute("SELECT * FROM notes")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.transaction():
        database.execute("SET LOCAL ROLE service_role")

    assert run(ada, "INSERT INTO notes (content) VALUES ('private') RETURNING owner::text") == [ada["sub"]]
    assert run(ada, "INSERT INTO notes (content, is_public) VALUES ('public', true) RETURNING content") == ["public"]
    assert run(ada, "SELECT content FROM notes ORDER BY id") == ["private", "public"]
    assert run(eve, "SELECT content FROM notes") == run(None, "SELECT content FROM notes") == ["public"]
    assert run(ada | {"client_id": str(uuid4())}, "SELECT content FROM notes") == []
    assert run(eve, "UPDATE notes SET content = 'changed' RETURNING id") == []
    assert fails(ada, f"UPDATE notes SET owner = '{eve['sub']}'")
    assert fails(eve, f"INSERT INTO notes (owner, content) VALUES ('{ada['sub']}', 'forged')")
    assert fails(eve | {"is_anonymous": True}, "INSERT INTO notes (content, is_public) VALUES ('x', true)")
    assert fails(None, "INSERT INTO notes (content) VALUES ('x')")
    assert run(ada, "DELETE FROM notes RETURNING id") == []
    assert len(run(ada | {"aal": "aal2"}, "DELETE FROM notes RETURNING id")) == 2
    with pytest.raises(PermissionError), transaction_as(database, ada | {"role": "service_role"}):
        pass


def test_policy_parses_claims_once_and_uses_index(database: psycopg.Connection) -> None:
    database.execute("SET LOCAL enable_seqscan = off; SET LOCAL ROLE authenticated")
    explain = pages.programs(ROW_LEVEL_SECURITY)["explain.sql"]
    plan = "\n".join(row[0] for row in database.execute(explain.replace("NOT is_public", "true").encode()))
    assert "InitPlan" in plan
    own = "EXPLAIN (COSTS OFF) SELECT * FROM notes WHERE owner = (SELECT auth.uid())"
    assert "notes_owner_idx" in "\n".join(row[0] for row in database.execute(own))


def test_claims_end_with_transaction(load: Callable[..., ModuleType]) -> None:
    module = load(ROW_LEVEL_SECURITY, "database")
    with psycopg.connect(servers.server_url()) as connection:
        role = connection.info.user
        module.ROLES.add(role)
        claims = {"sub": str(uuid4()), "role": role}
        state = "SELECT current_setting('role'), current_setting('request.jwt.claims', true)"
        with module.transaction_as(connection, claims):
            assert connection.execute(state).fetchone() == (role, json.dumps(claims))
        assert connection.execute(state).fetchone() == ("none", "")
