"""Hooks that are functions in the database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from authsvc.conf.sections.hooks import Hook
from authsvc.observability import logs
from hooks.errors import HookErrored, HookFunctionRefused, InvalidHookResponse
from hooks.invocation.invocation import NO_RESPONSE, invoke
from tests import factories
from tests.conftest import Api
from tests.factories import PASSWORD
from tests.hooks.conftest import SetHook

pytestmark = pytest.mark.django_db

HOOK = Hook.PASSWORD_VERIFICATION_ATTEMPT
PAYLOAD = {"user_id": "u", "valid": True}
URI = "pg-functions://postgres/public/Hook_of_test"


def create(body: str, *, argument: str = "jsonb", returns: str = "jsonb") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f'CREATE OR REPLACE FUNCTION public."Hook_of_test"(event {argument}) RETURNS {returns}'
            f" LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
        )


@pytest.fixture(autouse=True)
def _hook(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=URI)


def timeout_setting() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("argument", ["jsonb", "json", "text"])
def test_types_of_the_argument(argument: str) -> None:
    create("RETURN jsonb_build_object('seen', event::jsonb -> 'user_id');", argument=argument)
    assert invoke(HOOK, PAYLOAD) == {"seen": "u"}


def test_no_response() -> None:
    create("RETURN NULL;")
    assert invoke(HOOK, PAYLOAD) is NO_RESPONSE


def test_a_function_without_result_is_no_hook() -> None:
    create("NULL;", returns="void")
    with pytest.raises(InvalidHookResponse):
        invoke(HOOK, PAYLOAD)


def test_the_time_limit_ends_with_the_call(set_hook: SetHook) -> None:
    before = timeout_setting()
    create("PERFORM pg_sleep(20); RETURN '{}';")
    set_hook(HOOK, uri=URI, timeout=timedelta(milliseconds=200))
    with pytest.raises(HookErrored) as caught:
        invoke(HOOK, PAYLOAD)
    assert caught.value.message == f"Error running hook URI: {URI}"
    assert timeout_setting() == before
    create("RETURN jsonb_build_object('limit', current_setting('statement_timeout'));")
    limit: Any = invoke(HOOK, PAYLOAD)["limit"]
    assert 0 < int(limit.removesuffix("ms")) <= 200
    assert timeout_setting() == before


def test_a_missing_function() -> None:
    with pytest.raises(HookErrored):
        invoke(HOOK, PAYLOAD)
    assert timeout_setting()  # the transaction goes on


@pytest.mark.parametrize(
    ("statement", "status", "body"),
    [
        (
            "RAISE EXCEPTION 'nope' USING ERRCODE = 'PT402', HINT = 'pay';",
            402,
            {"code": "PT402", "message": "nope", "hint": "pay"},
        ),
        ("RAISE EXCEPTION 'nope';", 500, {"code": "P0001", "message": "nope"}),
    ],
)
def test_an_exception_of_the_function_is_the_response(
    api: Api, statement: str, status: int, body: dict[str, Any]
) -> None:
    factories.make_user(email="ada@example.com")
    create(statement)
    credentials = {"email": "ada@example.com", "password": PASSWORD}
    response = api.post("/token?grant_type=password", credentials)
    assert (response.status_code, response.json()) == (status, body)
    versioned = api.post("/token?grant_type=password", credentials, headers={"X-Supabase-Api-Version": "2024-01-01"})
    assert versioned.status_code == 500
    assert versioned.json() == {"code": "unexpected_failure", "message": f"Error running hook URI: {URI}"}


def test_an_exception_is_a_refusal_in_every_failure_mode(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=URI, on_failure="open")
    create("RAISE EXCEPTION 'nope';")
    with pytest.raises(HookFunctionRefused):
        invoke(HOOK, PAYLOAD)


def test_the_log_names_the_kind_of_a_database_error_and_not_its_text(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    factories.make_user(email="ada@example.com")
    create("RETURN (event ->> 'user_id')::date;")
    response = api.post("/token?grant_type=password", {"email": "ada@example.com", "password": PASSWORD})
    assert (response.status_code, response.json()["msg"]) == (500, f"Error running hook URI: {URI}")
    [failed] = [vars(record) for record in caplog.records if record.getMessage() == "hook function failed"]
    assert (failed["error"], failed["sqlstate"]) == ("InvalidDatetimeFormat", "22007")
    assert "invalid input syntax" not in logged(caplog)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Everything that is logged, with stacks."""
    return "\n".join(logs.JsonFormatter().format(record) for record in caplog.records)
