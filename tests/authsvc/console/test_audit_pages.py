"""The audit trail in the console: filters by action and day, search by user and text, bounded reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from authsvc import audit
from authsvc.audit import Action, admin
from authsvc.caller import Caller
from authsvc.console import filters
from authsvc.models import AuditLogEntry
from tests import factories
from tests.authsvc.console.conftest import Console

pytestmark = pytest.mark.django_db

LIST = "/operator/core/auditlogentry/"


def record_entry(name: str, *, action: Action = Action.MODIFIED, at: datetime | None = None, **traits: Any) -> UUID:
    """Record an administrator's entry about a user of that name, which need not exist, and return the user ID."""
    user_id = uuid4()
    audit.record(
        action,
        actor=audit.Administrator(role="service_role"),
        caller=Caller(address="192.0.2.7", audience="authenticated"),
        at=at or timezone.now(),
        traits={"user_id": str(user_id), "user_email": f"{name}@example.com", "user_phone": "", **traits},
    )
    return user_id


def list_names(console: Console, **query: Any) -> set[str]:
    """The names in the rows that a list shows."""
    response: Any = console.client.get(LIST, query)
    assert response.status_code == 200, response.content
    return {name for name in ("ada", "bob", "eve") if f"{name}@example.com" in response.content.decode()}


def test_the_list_shows_action_actor_and_subject(inside: Console) -> None:
    user_id = record_entry("ada", action=Action.DELETED, provider="email")
    text = inside.get(LIST).content.decode()
    for text_part in (
        "Deleted",
        "service_role (administrator)",
        "ada@example.com",
        "provider: email",
        f"/user/{user_id}/",
    ):
        assert text_part in text


def test_entries_are_filtered_by_action(inside: Console) -> None:
    record_entry("ada", action=Action.DELETED)
    record_entry("bob", action=Action.INVITED)
    assert list_names(inside, payload__action="user_deleted") == {"ada"}
    assert list_names(inside, payload__action="token_revoked") == set()


def test_entries_are_filtered_by_day(inside: Console) -> None:
    today = timezone.now()
    record_entry("ada")
    record_entry("bob", at=today - timedelta(days=1))
    long_ago = datetime(2024, 2, 29, 12, tzinfo=UTC)
    record_entry("eve", at=long_ago)
    assert list_names(inside) == {"ada", "bob", "eve"}
    assert list_names(inside, day=today.date().isoformat()) == {"ada"}
    assert list_names(inside, day=(today - timedelta(days=1)).date().isoformat()) == {"bob"}
    assert list_names(inside, day="2024-02-29") == {"eve"}
    assert "2024-02-29" in inside.get(f"{LIST}?day=2024-02-29").content.decode()


@pytest.mark.parametrize("query", ["day=", "day=x", "day=2024-13-01", "payload__action=", "payload__action=x"])
def test_an_unknown_filter_shows_nothing(inside: Console, query: str) -> None:
    record_entry("ada")
    page = inside.get(f"{LIST}?{query}")
    page = inside.get(page.headers["Location"]) if page.status_code == 302 else page
    assert page.status_code == 400
    assert b"ada@example.com" not in page.content


def test_without_a_day_only_the_latest_rows_are_read(inside: Console) -> None:
    before = timezone.now() - timedelta(days=2)
    day = before.date().isoformat()
    user_id = record_entry("ada", action=Action.DELETED, at=before)
    payload = {"action": "user_modified", "traits": {"user_id": str(uuid4()), "user_email": "bob@example.com"}}
    factories.make_audit_entries(filters.MAX_LATEST_ROWS, payload=payload, at=before + timedelta(days=1))
    assert list_names(inside) == {"bob"}
    assert list_names(inside, payload__action="user_deleted") == set()
    assert list_names(inside, q="ada@") == set()
    assert list_names(inside, day=day) == {"ada"}
    assert list_names(inside, q="ada@", day=day) == {"ada"}
    assert list_names(inside, q=str(user_id)) == {"ada"}
    assert list_names(inside, payload__action="user_deleted", created_at__gte=before.isoformat()) == {"ada"}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("ADA@example", {"ada"}), ("192.0.2.9", {"eve"}), ("user_invited", {"bob"}), ("100%", set()), ("nobody", set())],
)
def test_entries_are_found_by_their_text(inside: Console, typed: str, expected: set[str]) -> None:
    record_entry("ada")
    record_entry("bob", action=Action.INVITED)
    record_entry("eve")
    AuditLogEntry.objects.filter(payload__traits__user_email="eve@example.com").update(ip_address="192.0.2.9")
    assert list_names(inside, q=typed) == expected


def test_entries_about_a_user_have_the_user_as_actor_or_subject(inside: Console) -> None:
    user = factories.make_user(email="ada@example.com")
    browser = Console()
    User.objects.filter(pk=user.pk).update(role="svc_admin")
    browser.sign_in("ada@example.com")
    audit.record(
        Action.MODIFIED,
        actor=audit.Administrator(role="svc_admin"),
        caller=Caller(),
        at=timezone.now(),
        traits={"user_id": str(user.pk)},
    )
    record_entry("bob")
    response: Any = inside.client.get(LIST, {"q": str(user.pk)})
    table = response.content.decode().partition('id="result_list"')[2]
    assert table.count("field-actor") == 2
    assert "Signed in" in table
    assert "Account changed" in table
    page = inside.get(f"/operator/accounts/user/{user.pk}/change/").content.decode()
    assert "svc_admin (administrator)" in page


def test_a_page_shows_the_whole_entry(inside: Console) -> None:
    record_entry("ada", note="<b>x</b>")
    entry = AuditLogEntry.objects.get(payload__traits__user_email="ada@example.com")
    text = inside.get(f"{LIST}{entry.pk}/change/").content.decode().replace("&quot;", '"')
    assert '"user_email": "ada@example.com"' in text
    assert "<b>x</b>" not in text
    assert 'name="action"' not in text


@pytest.mark.parametrize("payload", [None, {}, {"action": "of_tomorrow", "traits": None}, {"traits": "x"}, [1]])
def test_an_entry_of_any_shape_can_be_shown(inside: Console, payload: Any) -> None:
    entry = AuditLogEntry.objects.create(payload=payload, created_at=timezone.now())
    assert inside.get(LIST).status_code == 200
    assert inside.get(f"{LIST}{entry.pk}/change/").status_code == 200


def test_the_list_costs_a_bounded_number_of_statements(inside: Console) -> None:
    for _ in range(5):
        record_entry("ada")
    with CaptureQueriesContext(connection) as statements:
        inside.get(f"{LIST}?payload__action=user_modified")
    assert len(statements) <= 9


def test_every_action_has_a_title() -> None:
    assert {action for action, _ in admin.ActionFilter.options} == {action.value for action in Action}
    assert not [title for action, title in admin.ActionFilter.options if title == action]
