"""Entries of the audit trail: their transaction, log types and IP addresses."""

from __future__ import annotations

import logging
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from accounts.users import queries
from authsvc import audit
from authsvc.audit import Action, Administrator, erasure
from authsvc.caller import AuditContext, Caller
from authsvc.models import AuditLogEntry
from authsvc.personal_data import DataSubject
from tests.accounts.administration.admin_requests import ask
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_user
from tests.observations import audit_payloads
from tests.tokens.token_requests import refresh

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


def test_refreshes_are_only_logged_if_they_are_not_stored(
    api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(audit={"refreshes_stored": False})
    caplog.set_level(logging.INFO, logger="authsvc.audit")
    body = {"email": make_user().email, "password": PASSWORD}
    signed_in = api.post("/token?grant_type=password", body).json()
    assert refresh(api, signed_in["refresh_token"]).status_code == 200
    assert [payload["action"] for payload in audit_payloads()] == ["login"]
    logged = [vars(record)["auth_audit_event"]["action"] for record in caplog.records]
    assert logged == ["login", "token_refreshed"]


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
    assert set(kinds.values()) == {
        "account",
        "team",
        "user",
        "token",
        "factor",
        "custom_provider",
        "message",
        "oauth_client",
        "webhook",
    }


def test_every_entry_contains_the_client_address_the_request_and_the_session() -> None:
    session_id = uuid4()
    context = AuditContext(session_id=session_id)
    caller = Caller(address="203.0.113.7", request_id="r1", audit=context)
    for action in Action:
        audit.record(action, actor=Administrator(role="x"), caller=caller, at=timezone.now())
    keys = ("payload__action", "ip_address", "payload__request_id", "payload__session_id")
    assert set(AuditLogEntry.objects.values_list(*keys)) == {
        (str(action), "203.0.113.7", "r1", str(session_id)) for action in Action
    }


def test_entries_of_users_contain_the_device() -> None:
    user = queries.require(make_user(password="").id)
    caller = Caller(user_agent="phone\0" + "x" * 600)
    for actor in (user, Administrator(role="x")):
        for action in Action:
            audit.record(action, actor=actor, caller=caller, at=timezone.now())
    entries = [entry.payload or {} for entry in AuditLogEntry.objects.all()]
    with_device = [entry for entry in entries if "user_agent" in entry]
    assert {entry["action"] for entry in with_device} == set(Action) - {Action.TOKEN_REFRESHED}
    assert {entry["user_agent"] for entry in with_device} == {"phone" + "x" * 250}
    assert {entry["actor_id"] for entry in with_device} == {str(user.id)}
    erased = erasure.pseudonymise_payload(with_device[0], data_subject=DataSubject(id=user.id), keep_id=True)
    assert "user_agent" not in erased


def test_entry_names_the_administrator_and_the_reason() -> None:
    user_id = uuid4()
    actor = Administrator(role="svc_admin", user_id=user_id, address="op@example.com", reason="ticket 17")
    audit.record(Action.DELETED, actor=actor, caller=Caller(), at=timezone.now())
    [payload] = audit_payloads()
    assert (payload["actor_id"], payload["actor_username"]) == (str(user_id), "op@example.com")
    assert (payload["actor_role"], payload["reason"]) == ("svc_admin", "ticket 17")


def test_changes_hide_secrets_and_shorten_long_values() -> None:
    before = {"kept": 1, "role": "a", "secret": "x", "gone": [1]}
    after = {"kept": 1, "role": "b", "secret": "y", "long": "z" * 1000}
    changes = audit.describe_changes(before, after, secret=("secret",))
    assert changes["role"] == {"old": "a", "new": "b"}
    assert changes["secret"] == {"old": "[hidden]", "new": "[hidden]"}
    assert changes["gone"] == {"old": [1], "new": None}
    assert len(changes["long"]["new"]) == 257
    assert "kept" not in changes
