"""Messages of one user: found by recipient digests among many others, and among old messages without digests."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.db.migrations.state import ProjectState
from django.test.utils import CaptureQueriesContext

from authsvc import messaging
from authsvc.conf import Secret
from authsvc.db.sql import namespaced
from authsvc.jobs import registry
from authsvc.messaging import Email, EmailType, Sms, SmsType
from authsvc.personal_data import DataSubject
from mailer import personal_data
from mailer.delivery import encryption
from mailer.personal_data import MailerPersonalData, messages_of_recipients
from tests.conftest import ChangeConfig
from tests.mailer.conftest import Queue

ADDRESS, NUMBER = "ada@example.com", "15551234567"
ADA = DataSubject(id=uuid4(), addresses=frozenset({ADDRESS, NUMBER}))
INDEXES = ("messages_to_user_idx", "messages_to_address_idx", "messages_unmarked_idx")


def email_to(to: str, *, user_id: UUID | None) -> Email:
    return Email(type=EmailType.RECOVERY, to=to, variables={"Token": "123456"}, user_id=user_id)


def text(to: str, *, user_id: UUID | None) -> Sms:
    return Sms(type=SmsType.CONFIRMATION, to=to, channel="sms", variables={"Code": "123456"}, user_id=user_id)


def strangers(number: int) -> list[Email]:
    return [email_to(f"{index}@example.org", user_id=uuid4()) for index in range(number)]


def post(*messages: Email | Sms) -> None:
    with transaction.atomic():
        messaging.send(*messages)


def remove_recipient_digests() -> None:
    """Store messages as an earlier version did."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET args = args - 'to_user' - 'to_address'")


def export_ids() -> list[Any]:
    (name, rows), *_ = MailerPersonalData().export(ADA)
    assert name == "messages"
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(email_to(ADDRESS, user_id=ADA.id), id="to the address of the account"),
        pytest.param(email_to("former@example.com", user_id=ADA.id), id="to another address"),
        pytest.param(email_to(ADDRESS, user_id=uuid4()), id="of another account"),
        pytest.param(email_to(ADDRESS, user_id=None), id="of no account"),
        pytest.param(text(NUMBER, user_id=ADA.id), id="to the number of the account"),
        pytest.param(text(NUMBER, user_id=None), id="to the number alone"),
    ],
)
@pytest.mark.parametrize("marked", [True, False])
def test_messages_of_a_user_are_exported_and_removed(queue: Queue, message: Email | Sms, marked: bool) -> None:
    other = email_to("bob@example.com", user_id=uuid4())
    post(other, message)
    if not marked:
        remove_recipient_digests()
    assert export_ids() == [str(message.id)]
    assert MailerPersonalData().erase(ADA)["messages"] == 1
    (left,) = queue.jobs()
    assert str(other.id) in left["args"]


def test_removal_does_not_read_messages_of_others(queue: Queue) -> None:
    def removal() -> int:
        post(email_to(ADDRESS, user_id=ADA.id))
        with CaptureQueriesContext(connection) as statements:
            assert MailerPersonalData().erase(ADA)["messages"] == 1
        return len(statements)

    alone = removal()
    post(*strangers(personal_data._BATCH_SIZE + 1))
    assert removal() == alone


def test_messages_without_a_recipient_digest_are_decrypted(queue: Queue) -> None:
    mine = [email_to(ADDRESS, user_id=ADA.id), email_to(ADDRESS, user_id=ADA.id), email_to(ADDRESS, user_id=ADA.id)]
    post(mine[0], *strangers(personal_data._BATCH_SIZE), mine[1])
    remove_recipient_digests()
    post(mine[2])
    assert sorted(export_ids()) == sorted(str(message.id) for message in mine)
    assert MailerPersonalData().erase(ADA)["messages"] == 3
    assert len(queue.jobs()) == personal_data._BATCH_SIZE


def test_messages_are_found_by_an_index_for_each_condition(queue: Queue) -> None:
    with CaptureQueriesContext(connection) as statements:
        list(messages_of_recipients([encryption.recipient_digest(ADDRESS)]))
    with connection.cursor() as cursor, transaction.atomic():
        # Enough rows for the planner to prefer an index, with current statistics.
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args) SELECT %s, 'mailer.deliver',"
            " jsonb_build_object('to_user', 'a' || n, 'to_address', 'b' || n) FROM generate_series(1, 20000) n",
            (registry.queue(),),
        )
        cursor.execute("ANALYZE procrastinate_jobs")
        cursor.execute(f"EXPLAIN {statements[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        transaction.set_rollback(True)
    for index in INDEXES:
        assert namespaced(index) in plan


@pytest.mark.django_db
def test_a_role_that_does_not_own_the_queue_migrates_without_indexes() -> None:
    migration = import_module("mailer.migrations.0003_messages_by_recipient").Migration("0003", "mailer")
    state = ProjectState()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE ROLE guest")
        cursor.execute("GRANT USAGE ON SCHEMA public TO guest")
        cursor.execute("SET LOCAL ROLE guest")
        # The statements cannot run inside a transaction, so running one would fail.
        for operation in migration.operations:
            operation.database_forwards("mailer", connection.schema_editor(atomic=False), state, state)
        transaction.set_rollback(True)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_class WHERE relname = ANY(%s)", ([namespaced(index) for index in INDEXES],)
        )
        assert cursor.fetchone() == (len(INDEXES),)


def test_a_recipient_digest_depends_on_the_secret(auth_config: ChangeConfig) -> None:
    mark = encryption.recipient_digest(ADDRESS)
    assert mark == encryption.recipient_digest(ADDRESS) != encryption.recipient_digest("bob@example.com")
    auth_config(jwt={"secret": Secret("another secret of enough characters")})
    assert encryption.recipient_digest(ADDRESS) != mark
