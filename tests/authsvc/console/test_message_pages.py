"""Waiting and failed messages in the console: lists, search by recipient, and retries."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from authsvc import audit, messaging
from authsvc.caller import Caller
from authsvc.conf import Secret
from authsvc.messaging import Email, EmailType, Sms, SmsType
from mailer import errors
from mailer.delivery import undelivered_messages
from mailer.delivery.undelivered_messages import RetryResult
from mailer.models import Attempt, Message
from tests import factories
from tests.authsvc.console.conftest import Console
from tests.conftest import ChangeConfig

pytestmark = pytest.mark.django_db

LIST = "/operator/mailer/message/"
ATTEMPTS = "/operator/mailer/attempt/"
OPERATOR = audit.Administrator(role="svc_admin")
CODE, LINK = "493027", "https://auth.example.com/verify?token=5ec7e7"


def send_email(
    to: str = "ada@example.com", *, failed: bool = True, expires_at: datetime | None = None, user_id: UUID | None = None
) -> Email:
    """Send an email; with `failed`, leave it as the worker does after a failed attempt."""
    message = Email(
        type=EmailType.RECOVERY,
        to=to,
        variables={"Token": CODE, "ConfirmationURL": LINK, "SiteURL": "http://localhost:3000"},
        expires_at=expires_at,
        user_id=user_id,
    )
    store(message, failed=failed)
    return message


def store(message: Email | Sms, *, failed: bool = True) -> None:
    with transaction.atomic():
        messaging.send(message)
    if failed:
        finish(message)


def finish(message: Email | Sms, error: str = "550 mailbox full") -> None:
    Attempt.objects.create(
        message_id=message.id, channel="email", kind=message.type, user_id=message.user_id, attempt=1,
        outcome="failed", error=error,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'failed', attempts = 1 WHERE args ->> 'message_id' = %s",
            [str(message.id)],
        )


def row_of(message: Email | Sms) -> Message:
    return undelivered_messages.messages().get(args__message_id=str(message.id))


def retry(console: Console, *messages: Email) -> str:
    rows: list[str] = [str(row_of(message).pk) for message in messages]
    chosen: object = rows
    done = console.submit(LIST, action="retry", _selected_action=chosen)  # type: ignore[arg-type]
    assert done.status_code == 302, done.content
    return console.get(done.headers["Location"]).content.decode()


def test_the_list_shows_recipient_type_and_error(inside: Console) -> None:
    send_email()
    send_email("bob@example.com", failed=False)
    text = inside.get(LIST).content.decode()
    for shown in ("Recovery", "ada@example.com", "bob@example.com", "550 mailbox full", "failed", "waiting", "now"):
        assert shown in text


def test_no_code_link_or_ciphertext_is_shown(inside: Console) -> None:
    user = factories.make_user(email="ada@example.com")
    row = row_of(send_email(user_id=user.pk))
    attempt = Attempt.objects.get()
    pages = [
        LIST,
        f"{LIST}{row.pk}/change/",
        f"{LIST}?q=ada",
        ATTEMPTS,
        f"{ATTEMPTS}{attempt.pk}/change/",
        "/operator/",
    ]
    for path in [*pages, f"/operator/accounts/user/{user.pk}/change/"]:
        page = inside.get(path)
        assert page.status_code == 200
        text = page.content.decode()
        assert CODE not in text
        assert "5ec7e7" not in text
        assert row.args["sealed"][:20] not in text


@pytest.mark.parametrize("lookup", ["args__sealed__startswith=A", "args__message_id=x", "args=x"])
def test_filters_on_the_encrypted_text_are_rejected(inside: Console, lookup: str) -> None:
    send_email()
    page = inside.get(f"{LIST}?{lookup}")
    assert page.status_code == 400
    assert b"ada@example.com" not in page.content


def test_a_page_shows_the_details_of_a_message(inside: Console) -> None:
    user = factories.make_user(email="ada@example.com")
    expires_at = timezone.now() + timedelta(hours=1)
    message = send_email(user_id=user.pk, expires_at=expires_at)
    text = inside.get(f"{LIST}{row_of(message).pk}/change/").content.decode()
    for shown in (str(message.id), "ada@example.com", f"/user/{user.pk}/", f"{expires_at:%Y-%m-%d %H:%M}", "550"):
        assert shown in text
    assert 'value="retry"' in text


def test_the_number_of_statements_of_a_list_is_bounded(inside: Console) -> None:
    for number in range(10):
        send_email(f"user{number}@example.com")
    with CaptureQueriesContext(connection) as statements:
        assert b"user9@example.com" in inside.get(LIST).content
    assert len(statements) <= 8


def test_a_failed_message_is_retried(inside: Console) -> None:
    message = send_email()
    assert "Retrying now: Recovery for ada@example.com" in retry(inside, message)
    row = row_of(message)
    assert row.status == "todo"
    assert row.scheduled_at is not None
    assert row.scheduled_at <= timezone.now()


def test_waiting_and_running_messages_are_not_retried(inside: Console) -> None:
    message = send_email(failed=False)
    assert "has not failed" in retry(inside, message)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    assert "has not failed" in retry(inside, message)
    assert row_of(message).status == "doing"


def test_an_expired_message_is_not_retried(inside: Console) -> None:
    message = send_email(expires_at=timezone.now() - timedelta(seconds=1))
    assert "has expired" in retry(inside, message)
    assert row_of(message).status == "failed"


def test_an_undecryptable_message_is_listed_and_not_retried(inside: Console, auth_config: ChangeConfig) -> None:
    message = send_email()
    auth_config(jwt={"secret": Secret("another-secret-of-at-least-32-characters")})
    inside.sign_in("op@example.com")  # the key of the session cookie has changed too
    assert "cannot be decrypted" in inside.get(LIST).content.decode()
    with pytest.raises(errors.MessageUndecryptable):
        undelivered_messages.retry_message(row_of(message).pk, actor=OPERATOR, caller=Caller(), at=timezone.now())
    assert row_of(message).status == "failed"


def test_all_failed_messages_are_retried(inside: Console) -> None:
    helped = [send_email(f"user{number}@example.com") for number in range(3)]
    expired = send_email(expires_at=timezone.now() - timedelta(seconds=1))
    page = inside.get(f"{LIST}retry/")
    assert b"4 messages failed" in page.content
    assert [row_of(job).status for job in helped] == ["failed"] * 3
    done = inside.submit(f"{LIST}retry/")
    text = inside.get(done.headers["Location"]).content.decode()
    assert "Retrying 3 messages. Skipped 1: expired" in text
    assert [row_of(job).status for job in helped] == ["todo"] * 3
    assert row_of(expired).status == "failed"


def test_the_number_of_retries_is_limited() -> None:
    send_email()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)"
            " SELECT queue_name, task_name, args, status, attempts FROM procrastinate_jobs, generate_series(1, %s)",
            [undelivered_messages.MAX_RETRIED + 1],
        )
    result = undelivered_messages.retry_failed(actor=OPERATOR, caller=Caller(), at=timezone.now())
    assert result == RetryResult(retried=undelivered_messages.MAX_RETRIED, not_retryable=0)
    assert undelivered_messages.messages().filter(status="failed").count() == 2


def test_without_failures_there_is_no_retry_button(inside: Console) -> None:
    send_email(failed=False)
    page = inside.get(f"{LIST}retry/").content.decode()
    assert "No message has failed" in page
    assert 'id="ask"' not in page


def test_retrying_all_needs_an_operator_and_a_csrf_token(inside: Console, operator: User) -> None:
    message = send_email()
    assert inside.client.post(f"{LIST}retry/").status_code == 403
    User.objects.filter(pk=operator.pk).update(role="authenticated")
    token = {"csrfmiddlewaretoken": inside.cookie("operator_csrf")}
    assert inside.client.post(f"{LIST}retry/", token).status_code == 302
    assert row_of(message).status == "failed"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("status=failed", {"ada", "bob"}),
        ("status=todo", {"eve"}),
        ("kind=recovery", {"ada", "bob", "eve"}),
        ("kind=invite", set()),
        ("q=BOB@", {"bob"}),
        ("q=example.com", {"ada", "bob", "eve"}),
        ("q=nobody", set()),
    ],
)
def test_messages_are_found(inside: Console, query: str, shown: set[str]) -> None:
    for name in ("ada", "bob", "eve"):
        send_email(f"{name}@example.com", failed=name != "eve")
    text = inside.get(f"{LIST}?{query}").content.decode()
    assert {name for name in ("ada", "bob", "eve") if f"{name}@example.com" in text} == shown
    assert ("No matches" in text) == (not shown)


def test_a_message_is_found_by_its_id(inside: Console) -> None:
    send_email("bob@example.com")
    message = send_email()
    text = inside.get(f"{LIST}?q={message.id}").content.decode()
    assert "ada@example.com" in text
    assert "bob@example.com" not in text


@pytest.mark.parametrize("query", ["status=", "status=x", "kind=x", "kind="])
def test_an_unknown_filter_shows_nothing(inside: Console, query: str) -> None:
    send_email()
    page = inside.get(f"{LIST}?{query}")
    page = inside.get(page.headers["Location"]) if page.status_code == 302 else page
    assert page.status_code == 400


def test_sms_messages_are_shown_with_their_phone(inside: Console) -> None:
    number = Sms(type=SmsType.CONFIRMATION, to="4930123456", channel="sms", variables={"Code": CODE})
    store(number, failed=False)
    text = inside.get(LIST).content.decode()
    assert "+4930123456" in text
    assert "SMS" in text
    assert "+4930123456" in inside.get(f"{LIST}?q=%2B4930123").content.decode()


def test_messages_of_another_installation_are_not_shown(inside: Console, auth_config: ChangeConfig) -> None:
    auth_config(database={"namespace": "second"})
    message = send_email("far@example.com")
    theirs = row_of(message).pk
    auth_config(database={"namespace": ""})
    assert b"far@example.com" not in inside.get(LIST).content
    with pytest.raises(errors.NotFailed):
        undelivered_messages.retry_message(theirs, actor=OPERATOR, caller=Caller(), at=timezone.now())
    assert undelivered_messages.retry_failed(actor=OPERATOR, caller=Caller(), at=timezone.now()).retried == 0


def test_the_dashboard_warns_of_failed_messages(inside: Console) -> None:
    send_email()
    text = inside.get().content.decode()
    assert f'href="{LIST}?status=failed"' in text
    assert "Failed messages" in text
    assert 'class="alarming"' in text


def test_an_empty_queue_is_reported(inside: Console) -> None:
    assert "No undelivered messages" in inside.get(LIST).content.decode()


# --- attempts ---------------------------------------------------------------------------------------------------------


def test_attempts_are_listed_and_found_by_message_and_user(inside: Console) -> None:
    user = factories.make_user()
    message = send_email(user_id=user.pk)
    other = uuid4()
    Attempt.objects.create(
        message_id=other, channel="sms", kind="phone_change", attempt=1, outcome="delivered", gateway_id="SM123"
    )
    text = inside.get(ATTEMPTS).content.decode()
    assert "550 mailbox full" in text
    assert "SM123" in text
    for query in (f"q={message.id}", f"q={user.pk}", "outcome=failed", "kind=recovery"):
        text = inside.get(f"{ATTEMPTS}?{query}").content.decode()
        assert "550 mailbox full" in text, query
        assert "SM123" not in text, query
    assert "No matches" in inside.get(f"{ATTEMPTS}?q=ada").content.decode()


def test_the_page_of_a_user_lists_messages(inside: Console) -> None:
    user, other = factories.make_user(), factories.make_user()
    send_email(user_id=user.pk)
    assert "550 mailbox full" in inside.get(f"/operator/accounts/user/{user.pk}/change/").content.decode()
    assert "550 mailbox full" not in inside.get(f"/operator/accounts/user/{other.pk}/change/").content.decode()
