"""Searches of the audit log."""

from __future__ import annotations

import pytest
from django.db import connection

from authsvc.audit import search
from tests.accounts.administration.admin_requests import done
from tests.conftest import Api
from tests.factories import make_session, make_user

pytestmark = pytest.mark.django_db


def test_entries_about_user_are_read_by_index(api: Api) -> None:
    user, other = make_user(), make_user()
    api.post("/logout", bearer=make_session(user).access_token)
    done(api, "PUT", f"/admin/users/{other.id}", {})
    done(api, "PUT", f"/admin/users/{user.id}", {})
    done(api, "DELETE", f"/admin/users/{user.id}")
    entries = search.entries_about_user(user.id, limit=3)
    assert [entry.payload_json.count("user_deleted") for entry in entries] == [1, 0, 0]
    assert "logout" in entries[-1].payload_json
    assert search.entries_about_user(user.id, limit=2) == entries[:2]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("SET enable_bitmapscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM audit_log_entries WHERE COALESCE(payload -> 'traits' ->> 'user_id',"
            " payload ->> 'actor_id') = 'x' ORDER BY created_at DESC, id DESC LIMIT 9"
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
        cursor.execute("RESET enable_bitmapscan")
    assert "audit_log_entries_user_idx" in plan
    assert "Sort" not in plan
