"""Entries of the audit log: their transaction, log types and IP addresses."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from authsvc import audit
from authsvc.audit import Action, Administrator
from authsvc.caller import Caller
from authsvc.models import AuditLogEntry
from tests.accounts.administration.admin_requests import ask
from tests.conftest import Api, ChangeConfig
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_without_table_entry_is_logged(api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> None:
    user = make_user(email="ann@example.com")
    auth_config(audit={"disable_postgres": True})
    caplog.set_level(logging.INFO, logger="authsvc.audit")
    ask(api, "DELETE", f"/admin/users/{user.id}", headers={"User-Agent": "support desk"})
    assert AuditLogEntry.objects.count() == 0
    [line] = [record for record in caplog.records if record.getMessage() == "audit_event"]
    event: dict[str, Any] = vars(line)["auth_audit_event"]
    assert (event["action"], event["traits"]["user_email"]) == ("user_deleted", "ann@example.com")
    assert (event["actor_username"], event["user_agent"]) == ("service_role", "support desk")
    assert event["request_id"]


def test_failed_deletion_leaves_no_entry(api: Api) -> None:
    user = make_user()
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '22000'; END $$"
        )
        cursor.execute("CREATE TRIGGER refuse BEFORE DELETE ON users FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        assert ask(api, "DELETE", f"/admin/users/{user.id}").status_code == 500
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER refuse ON users")
            cursor.execute("DROP FUNCTION refuse()")
    assert AuditLogEntry.objects.count() == 0


def test_every_action_has_log_type() -> None:
    user = make_user()
    caller, at = Caller(address="203.0.113.7"), timezone.now()
    for action in Action:
        audit.record(
            action, actor=Administrator(role="service_role"), caller=caller, at=at, traits={"user_id": str(user.id)}
        )
    kinds = dict(AuditLogEntry.objects.values_list("payload__action", "payload__log_type"))
    assert set(kinds) == {str(action) for action in Action}
    assert set(kinds.values()) == {"account", "team", "user", "token", "factor"}


@pytest.mark.parametrize(
    ("action", "has_address"),
    [
        (Action.LOGIN, False),
        (Action.DELETED, False),
        (Action.FACTOR_UPDATED, False),
        (Action.FACTOR_DELETED, True),
        (Action.IDENTITY_LINKED, True),
        (Action.PASSKEY_CREATED, True),
    ],
)
def test_selected_entries_contain_ip_address(action: Action, has_address: bool) -> None:
    audit.record(action, actor=Administrator(role="x"), caller=Caller(address="203.0.113.7"), at=timezone.now())
    assert AuditLogEntry.objects.get().ip_address == ("203.0.113.7" if has_address else "")
