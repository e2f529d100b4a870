"""The table of statements in docs/explanation/scaling.md, compared with the plans of the statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from authsvc.db.sql import fetch_rows, namespaced
from oauthserver.models import OAuthAuthorization, OAuthClient
from tests.conftest import Api
from tests.live.documentation import pages
from tests.observations import replace_table
from tests.performance.test_query_budgets import PATHS, counted_statements, enabled_sign_in_methods, provider
from tokens.models import FlowState, OneTimeToken, TokenType

__all__ = ["enabled_sign_in_methods", "provider"]

pytestmark = pytest.mark.django_db(transaction=True)

HOT = {
    "GET /user",
    "GET /authorize",
    "GET /callback, returning user",
    "PKCE grant",
    "POST /logout, local",
    "POST /oauth/token, code",
    "POST /oauth/token, refresh",
    "POST /otp",
    "POST /signup",
    "POST /verify, confirmation by code",
    "POST /verify, confirmation by link",
    "password grant",
    "password grant, wrong password",
    "refresh",
}
"""Names in PATHS of the requests that an installation gets most."""
_PARAMETER = re.compile(r"%(?:\((\w+)\))?s")
_COMPARED = re.compile(r"(?<![\w.'])\(?(\w+)\)?(?:::\w+)? = ")


def documented() -> dict[str, list[set[str]]]:
    """Path → the cells of its row in the page."""
    _, _, section = (pages.DOCS / "explanation" / "scaling.md").read_text().partition("## Statements of the hot paths")
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    return {
        path.strip().replace("`", ""): [set(re.findall(r"`([^`]+)`", cell)) for cell in cells] for path, *cells in rows
    }


def plan(statement: str) -> dict[str, Any]:
    """The plan for any values of the parameters; `statement` has those of psycopg."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match.group(1) or str(len(numbers)), len(numbers) + 1)}"

    prepared = _PARAMETER.sub(number, statement)
    values = f"({', '.join(['NULL'] * len(numbers))})" if numbers else ""
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE hot AS {prepared}")
        try:
            cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE hot{values}")
            ((plans,),) = cursor.fetchall()
        finally:
            cursor.execute("DEALLOCATE hot")
    return dict(plans[0]["Plan"])


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


def fill_tables() -> None:
    """Rows and statistics that let the planner prefer the index that it uses among many users."""
    models = (User, OneTimeToken, FlowState, OAuthAuthorization)
    for model in models:
        replace_table(model._meta.db_table)
    at, ids = timezone.now(), [uuid4() for _ in range(1000)]
    times = {"created_at": at, "updated_at": at}
    client = OAuthClient.objects.create(registration_type="manual", token_endpoint_auth_method="none")
    User.objects.bulk_create(User(id=id, aud="authenticated", email=f"{id}@example.com", **times) for id in ids)
    OneTimeToken.objects.bulk_create(
        OneTimeToken(
            id=id, user_id=id, token_type=TokenType.CONFIRMATION, token_hash=str(id), relates_to=str(id), **times
        )
        for id in ids
    )
    FlowState.objects.bulk_create(
        FlowState(id=id, user_id=id, auth_code=str(id), auth_code_issued_at=at, **times) for id in ids
    )
    OAuthAuthorization.objects.bulk_create(
        OAuthAuthorization(
            id=id,
            authorization_id=str(id),
            authorization_code=str(id),
            client=client,
            expires_at=at + timedelta(minutes=1),
        )
        for id in ids
    )
    fetch_rows(f"ANALYZE {', '.join(model._meta.db_table for model in models)}", ())
    for method in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
        fetch_rows(f"SET LOCAL enable_{method} = off", ())
    fetch_rows("SET LOCAL plan_cache_mode = force_generic_plan", ())


def keys_of(statements: list[str]) -> list[set[str]]:
    """Tables whose rows are found by user id, other keys of other tables, and tables with new rows."""
    by_user, by_other, inserted = set(), set(), set()
    for statement in statements:
        if "procrastinate_defer_jobs" in statement:
            inserted.add("procrastinate_jobs")
            continue
        for node in nodes(plan(statement)):
            table = node.get("Relation Name", "").removeprefix(namespaced(""))
            if node.get("Operation") == "Insert":
                inserted.add(table)
            elif table and node["Node Type"] != "ModifyTable":
                keys = _COMPARED.findall(node.get("Index Cond", ""))
                compared = [*keys, *_COMPARED.findall(node.get("Filter", ""))]
                if ("id" if table == "users" else "user_id") in compared:
                    by_user.add(table)
                else:
                    # Without statistics the planner may take any index that serves the statement.
                    by_other.add(f"{table}.{'id' if 'id' in compared else ', '.join(keys) or 'no key'}")
    return [by_user, by_other, inserted]


def test_page_names_the_keys_of_each_statement(api: Api) -> None:
    ran: dict[str, list[str]] = {}
    for path in (path for path in PATHS if path.name in HOT):
        call = path.prepare()
        with CaptureQueriesContext(connection) as captured:
            assert call(api).status_code == path.status
        ran[path.name] = counted_statements(captured)
        call_command("flush", database=connection.alias, interactive=False)

    with transaction.atomic():
        fill_tables()
        found = {name: keys_of(statements) for name, statements in ran.items()}
        transaction.set_rollback(True)
    assert found.keys() == HOT
    assert found == documented()
