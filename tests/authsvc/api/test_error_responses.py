"""Error responses: the format of the client's API version, without internal details."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from authsvc.api.exception_handler import is_raised_by_function, is_unavailable
from authsvc.conf import AuthConfig
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD, make_session, make_user
from tests.observations import assert_error, audit_trail, table_contents
from tokens.models import Session

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

VERSION = "X-Supabase-Api-Version"
EMAIL = "user@example.com"
SIGN_UP = {"email": EMAIL, "password": PASSWORD}


@contextlib.contextmanager
def trigger(*, raising: str, table: str = "users", when: str = "BEFORE INSERT") -> Iterator[None]:
    """An operator's trigger on `table` that raises; `raising` are the arguments of RAISE EXCEPTION."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION {raising}; END $$"
        )
        cursor.execute(f"CREATE TRIGGER refuse {when} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse CASCADE")


# The two formats


@pytest.mark.parametrize(
    "version",
    ["", "Not a date", "2023-12-31", "2024-13-01", "2024-1-1", "20240101", "2024-W01-1", "2024-01-01T00", "0000-00-00"],
)
def test_requests_before_the_first_version_get_the_initial_format(api: Api, version: str) -> None:
    response = api.get("/user", headers={VERSION: version})
    assert_error(response, 401, "no_authorization", "This endpoint requires a valid Bearer token")
    assert VERSION not in response.headers


@pytest.mark.parametrize("version", ["2024-01-01", "2024-01-02", "2999-12-31", "9999-12-31"])
def test_later_versions_get_the_versioned_format(api: Api, version: str) -> None:
    response = api.get("/user", headers={VERSION: version})
    assert response.status_code == 401
    assert response.json() == {
        "code": "no_authorization", "message": "This endpoint requires a valid Bearer token",
    }  # fmt: skip
    assert response.headers[VERSION] == "2024-01-01"
    assert response.headers["X-Sb-Error-Code"] == "no_authorization"


def test_an_invalid_version_is_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        api.get("/user", headers={VERSION: "2024-W01-1"})
    assert "invalid API version header, using the initial form" in caplog.messages


def test_successes_have_no_version_header(api: Api) -> None:
    for path in ("/health", "/settings"):
        assert VERSION not in api.get(path, headers={VERSION: "2024-01-01"}).headers


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nope", None, 404, "unknown"),
        ("DELETE", "/signup", None, 405, "unknown"),
        ("POST", "/signup", "{", 400, "bad_json"),
        ("POST", "/signup", " " * 1_048_577, 413, "request_entity_too_large"),
        ("POST", "/token", None, 400, "invalid_credentials"),
        ("GET", "/verify", None, 400, "validation_failed"),
        ("POST", "/logout", None, 401, "no_authorization"),
    ],
)
def test_both_formats_have_the_same_code_and_message(
    api: Api, method: str, path: str, body: Any, status: int, code: str
) -> None:
    initial = api.request(method, path, body)
    versioned = api.request(method, path, body, headers={VERSION: "2024-06-01"})
    assert initial.status_code == versioned.status_code == status
    assert list(initial.json()) == ["code", "error_code", "msg"]
    assert (initial.json()["code"], initial.json()["error_code"]) == (status, code)
    assert versioned.json() == {"code": code, "message": initial.json()["msg"]}
    for response in (initial, versioned):
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["X-Sb-Error-Code"] == code


def test_redirect_errors_have_no_version(api: Api) -> None:
    response = api.get("/verify?type=signup&token=x", headers={VERSION: "2024-01-01"})
    assert response.status_code == 303
    assert VERSION not in response.headers


# Paths, methods, origins


@pytest.mark.parametrize("path", ["/", "/nope", "/signup/x", "/nope/", "//health"])
def test_an_unknown_path_is_a_json_error(api: Api, path: str) -> None:
    assert_error(api.get(path), 404, "unknown", "Not Found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/health", "GET, HEAD"),
        ("/settings", "GET"),
        ("/signup", "POST"),
        ("/token", "POST"),
        ("/verify", "GET, POST"),
        ("/otp", "POST"),
        ("/magiclink", "POST"),
        ("/recover", "POST"),
        ("/resend", "POST"),
        ("/logout", "POST"),
        ("/.well-known/jwks.json", "GET"),
        ("/.well-known/openid-configuration", "GET"),
    ],
)
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_method_is_checked_before_the_token(api: Api, path: str, allowed: str, slash: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - set(allowed.split(", ")):
        response = api.request(method, path + slash, bearer="garbage")
        assert_error(response, 405, "unknown", "Method Not Allowed")
        assert response.headers["Allow"] == allowed


def test_an_unsupported_method_consumes_no_rate_limit(api: Api) -> None:
    for _ in range(40):
        assert api.get("/otp").status_code == 405
    assert api.post("/otp", "{").status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("DELETE", "/signup", 405),
        ("POST", "/signup", 400),
        ("GET", "/user", 401),
        ("GET", "/health", 200),
    ],
)
def test_every_response_has_cors_headers(api: Api, method: str, path: str, status: int) -> None:
    response = api.request(method, path, headers={"Origin": "https://app.dev"})
    assert response.status_code == status
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Access-Control-Allow-Credentials"] == "true"
    assert response.headers["Access-Control-Expose-Headers"] == f"X-Total-Count, Link, {VERSION}"
    assert "Origin" in response.headers["Vary"]
    without = api.request(method, path)
    assert "Access-Control-Allow-Origin" not in without.headers
    assert without.headers["Vary"] == "Origin"


@pytest.mark.usefixtures("slow_refill")
def test_rate_limited_responses_have_cors_headers(api: Api) -> None:
    for _ in range(30):
        api.post("/otp", "{")
    response = api.post("/otp", "{", headers={"Origin": "https://app.dev"})
    assert response.status_code == 429
    assert response.headers["Access-Control-Allow-Origin"] == "*"


def test_a_preflight_is_answered_before_all_checks() -> None:
    headers = {
        "Origin": "https://app.dev",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-client-info,x-supabase-api-version",
    }
    for path in ("/token", "/user", "/verify", "/nope"):
        response = Client().options(path, headers=headers)
        assert (response.status_code, response.content) == (204, b"")
        assert response["Access-Control-Allow-Headers"] == headers["Access-Control-Request-Headers"]


# Internal failures


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("versioned", [False, True])
def test_database_failures_hide_their_cause(api: Api, caplog: pytest.LogCaptureFixture, versioned: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE identities RENAME TO identities_away")
    try:
        response = api.post("/signup", SIGN_UP, headers={VERSION: "2024-01-01"} if versioned else None)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE identities_away RENAME TO identities")
    text = "Unexpected failure, please check server logs for more information"
    if versioned:
        assert response.json() == {"code": "unexpected_failure", "message": text}
    else:
        body = response.json()
        error_id = body["error_id"]
        assert_error(response, 500, "unexpected_failure", text, error_id=error_id)
        assert error_id in {getattr(record, "request_id", None) for record in caplog.records}
    assert "identities" not in response.content.decode()
    assert "database error" in caplog.messages
    assert audit_trail() == []


def test_other_failures_hide_their_cause(api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> None:
    made = make_session()
    auth_config(jwt={"keys": ({"kty": "oct"},)})
    response = api.get("/user", bearer=made.access_token)
    error_id = response.json()["error_id"]
    assert_error(response, 500, "unexpected_failure", "Internal Server Error", error_id=error_id)
    assert "request panicked" in caplog.messages


@pytest.mark.parametrize("state", ["P0001", "23000", "23001", "23502", "23503", "23514", "23P01"])
def test_the_message_of_a_trigger_reaches_the_client(api: Api, state: str) -> None:
    raising = f"'not today' USING ERRCODE = '{state}', HINT = 'try tomorrow', DETAIL = 'closed'"
    with trigger(raising=raising):
        response = api.post("/signup", SIGN_UP)
        versioned = api.post("/signup", {**SIGN_UP, "email": "b@example.com"}, headers={VERSION: "2024-01-01"})
    assert (response.status_code, response.json()) == (
        500,
        {"code": state, "message": "not today", "hint": "try tomorrow", "detail": "closed"},
    )
    assert versioned.status_code == 500
    assert versioned.json()["code"] == "unexpected_failure"
    assert "not today" not in versioned.content.decode()
    assert audit_trail() == []


def test_a_trigger_may_omit_hint_and_detail(api: Api) -> None:
    with trigger(raising="'not today'"):
        assert api.post("/signup", SIGN_UP).json() == {"code": "P0001", "message": "not today"}


@pytest.mark.parametrize(
    ("state", "status"), [("PT402", 402), ("PT418", 418), ("PT503", 503), ("PT200", 500), ("PT999", 500)]
)
def test_a_trigger_can_choose_the_status_of_an_error(api: Api, state: str, status: int) -> None:
    with trigger(raising=f"'pay first' USING ERRCODE = '{state}'"):
        response = api.post("/signup", SIGN_UP)
    assert response.status_code == status
    assert ("pay first" in response.content.decode()) is (status != 500)


@pytest.mark.parametrize(
    ("addition", "state"),
    [
        ("CHECK (email LIKE '%@corp.example') NOT VALID", "23514"),
        ("FOREIGN KEY (email) REFERENCES theirs", "23503"),
        ("ALTER email_confirmed_at SET NOT NULL", "23502"),
    ],
)
def test_a_constraint_of_the_operator_may_have_the_name_that_postgresql_gives_it(
    api: Api, addition: str, state: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE theirs (email varchar(255) PRIMARY KEY)")
        cursor.execute(f"ALTER TABLE users {'' if addition.startswith('ALTER') else 'ADD '}{addition}")
    try:
        response = api.post("/signup", SIGN_UP)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE users ALTER email_confirmed_at DROP NOT NULL")
            cursor.execute("ALTER TABLE users DROP CONSTRAINT IF EXISTS users_email_check")
            cursor.execute("DROP TABLE theirs CASCADE")
    assert (response.status_code, response.json().get("code")) == (500, state)


@pytest.mark.parametrize("versioned", [False, True])
def test_a_row_rejected_by_a_constraint_is_not_shown(
    api: Api, caplog: pytest.LogCaptureFixture, versioned: bool
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE users ADD CONSTRAINT theirs CHECK (email LIKE '%@corp.example') NOT VALID")
    try:
        response = api.post("/signup", SIGN_UP, headers={VERSION: "2024-01-01"} if versioned else None)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE users DROP CONSTRAINT theirs")
    assert response.status_code == 500
    if not versioned:
        text = 'new row for relation "users" violates check constraint "theirs"'
        assert response.json() == {"code": "23514", "message": text}
    logged = caplog.text + repr([vars(record) for record in caplog.records])
    assert "violates check constraint" in logged
    for text in (response.content.decode(), logged):
        assert "argon2id" not in text
        assert "Failing row" not in text


@pytest.mark.parametrize(
    ("columns", "values", "is_conflict"),
    [
        ("id, user_id", "gen_random_uuid(), gen_random_uuid()", True),  # the user does not exist
        ("id, user_id", "gen_random_uuid(), NULL", False),
        ("id, user_id, aal", "gen_random_uuid(), gen_random_uuid(), 'aal9'", False),
    ],
)
def test_an_own_constraint_is_no_trigger(columns: str, values: str, is_conflict: bool) -> None:
    statement = f"INSERT INTO sessions ({columns}) VALUES ({values})"
    errors = []
    for sql in (statement, f"DO $$ BEGIN {statement}; END $$"):
        with pytest.raises(IntegrityError) as caught, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
        errors.append(caught.value)

    own, of_function = errors
    assert (is_raised_by_function(own), is_unavailable(own)) == (False, is_conflict)
    assert (is_raised_by_function(of_function), is_unavailable(of_function)) == (True, False)


def test_an_error_of_a_session_trigger_rolls_the_sign_in_back(api: Api) -> None:
    make_user(email=EMAIL)
    before = table_contents()
    with trigger(raising="'no sessions' USING ERRCODE = 'PT403'", table="sessions"):
        response = api.post("/token?grant_type=password", SIGN_UP)
    assert (response.status_code, response.json()["message"]) == (403, "no sessions")
    assert table_contents() == before
    assert not Session.objects.exists()


def test_a_cancelled_statement_is_a_timeout(api: Api) -> None:
    with trigger(raising="'canceling statement due to statement timeout' USING ERRCODE = '57014'"):
        response = api.post("/signup", SIGN_UP)
    text = "Processing this request timed out, please retry after a moment."
    assert_error(response, 504, "request_timeout", text, error_id=response.json()["error_id"])


# Retry-After


def test_temporary_errors_have_retry_after(api: Api) -> None:
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    response = api.post("/recover", {"email": EMAIL})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "59")
    for _ in range(30):
        limited = api.post("/recover", "{")
    assert limited.status_code == 429
    assert 1 <= int(limited.headers["Retry-After"]) <= 10


def test_other_errors_have_no_retry_after(api: Api) -> None:
    responses: list[ApiResponse] = [api.get("/nope"), api.post("/signup", "{"), api.get("/user"), api.delete("/user")]
    assert not any("Retry-After" in response.headers for response in responses)
