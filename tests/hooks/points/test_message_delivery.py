"""Delivery of queued messages through their hook: attempts, outcomes, failure mode and personal data."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from accounts.models import User
from authsvc import conf, jobs, personal_data
from authsvc.conf import Rate, Secret
from authsvc.conf.sections.hooks import Hook
from authsvc.jobs import registry
from authsvc.personal_data import DataSubject
from mailer.delivery import tasks
from mailer.models import Attempt
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user
from tests.fakes.http_peer import MockedServer, Response, in_json
from tests.fakes.smtp import FakeSmtp
from tests.hooks.conftest import SetHook
from tests.hooks.points.conftest import UseMessageHook
from tests.mailer.conftest import Queue, queue, smtp

__all__ = ["queue", "smtp"]  # fixtures

pytestmark = pytest.mark.django_db

EMAIL, NEW, PHONE = "user@example.com", "new@example.com", "15551234567"
DOWN = Response(status=503)
DONE = in_json({})
OUTCOMES = ("attempt", "channel", "kind", "outcome", "gateway_id", "error")


def only_job(queue: Queue) -> dict[str, Any]:
    """The arguments of the only job."""
    (job,) = queue.jobs()
    arguments: dict[str, Any] = json.loads(job["args"])
    return arguments


def run(queue: Queue, *, attempt: int = 1, pause: timedelta | None = timedelta(seconds=30)) -> type[Exception] | None:
    """Run the only job of the queue, as a worker does; the error that ends its attempt."""
    arguments = only_job(queue)
    try:
        tasks.deliver.function(registry.Run(attempt=attempt, retry_delay=pause), **arguments)
    except (jobs.Retry, jobs.PermanentFailure) as error:
        return type(error)
    return None


def outcomes() -> list[tuple[Any, ...]]:
    return list(Attempt.objects.order_by("created_at").values_list(*OUTCOMES))


def recover(api: Api) -> User:
    user = make_user(email=EMAIL)
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    return user


def test_a_hook_that_was_down_gets_the_message_later(api: Api, queue: Queue, use_message_hook: UseMessageHook) -> None:
    hook = use_message_hook(Hook.SEND_EMAIL)
    hook.respond(DOWN, DONE)
    user = recover(api)
    job = only_job(queue)
    assert hook.received == []
    assert EMAIL not in str(job)
    assert run(queue) is jobs.Retry
    assert run(queue, attempt=2) is None
    first, second = hook.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == job["message_id"]
    assert first.json()["email_data"] == second.json()["email_data"]
    assert second.json()["metadata"]["ip_address"] == "127.0.0.1"
    assert outcomes() == [
        (1, "email", "recovery", "retry", "", "Service currently unavailable due to hook"),
        (2, "email", "recovery", "delivered", "delivered by the hook", ""),
    ]
    assert set(Attempt.objects.values_list("user_id", flat=True)) == {user.id}
    token_hash = second.json()["email_data"]["token_hash"]
    assert "access_token=" in api.get(f"/verify?token={token_hash}&type=recovery").headers["Location"]


@pytest.mark.parametrize(
    ("status", "expected", "outcome"),
    [(403, jobs.PermanentFailure, "failed"), (429, jobs.PermanentFailure, "failed"), (500, jobs.Retry, "retry")],
)
def test_a_rejection_ends_the_attempts_unless_it_is_an_error_of_the_hook(
    api: Api, queue: Queue, use_message_hook: UseMessageHook, status: int, expected: type[Exception], outcome: str
) -> None:
    hook = use_message_hook(Hook.SEND_EMAIL, on_failure="open")
    hook.respond(in_json({"error": {"message": f"{EMAIL} is blocked", "http_code": status}}))
    recover(api)
    assert run(queue) is expected
    assert outcomes() == [(1, "email", "recovery", outcome, "", "… is blocked")]


@pytest.mark.parametrize(
    ("code", "expected", "outcome"), [("PT403", jobs.PermanentFailure, "failed"), ("P0001", jobs.Retry, "retry")]
)
def test_the_error_of_a_database_function_is_its_refusal(
    api: Api, queue: Queue, set_hook: SetHook, code: str, expected: type[Exception], outcome: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION public.hook_of_test(event jsonb) RETURNS jsonb LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'this address is blocked' USING ERRCODE = '{code}'; END $$"
        )
    set_hook(Hook.SEND_EMAIL, uri="pg-functions://postgres/public/hook_of_test")
    recover(api)
    assert run(queue) is expected
    assert outcomes() == [(1, "email", "recovery", outcome, "", "this address is blocked")]
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION public.hook_of_test")


def test_an_expired_code_is_not_delivered(
    api: Api, queue: Queue, use_message_hook: UseMessageHook, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"otp_exp": timedelta(0)})
    hook = use_message_hook(Hook.SEND_EMAIL)
    recover(api)
    assert run(queue) is jobs.PermanentFailure
    assert hook.received == []
    assert [error for *_, error in outcomes()] == ["expired before it could be delivered"]


def test_notifications_beyond_the_quota_are_dropped(
    queue: Queue, api: Api, use_message_hook: UseMessageHook, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"notifications": frozenset({"password_changed"})}, limits={"email_sent": Rate(events=0)})
    hook = use_message_hook(Hook.SEND_EMAIL)
    token = make_session(make_user(email=EMAIL)).access_token
    assert api.put("/user", {"password": "another long password"}, bearer=token).status_code == 200
    assert run(queue) is None
    assert hook.received == []


def test_a_disabled_notification_is_not_stored(queue: Queue, api: Api, use_message_hook: UseMessageHook) -> None:
    use_message_hook(Hook.SEND_EMAIL)
    token = make_session(make_user(email=EMAIL)).access_token
    assert api.put("/user", {"password": "another long password"}, bearer=token).status_code == 200
    assert queue.jobs() == []


def change_email(api: Api) -> None:
    token = make_session(make_user(email=EMAIL)).access_token
    assert api.put("/user", {"email": NEW}, bearer=token).status_code == 200


def test_the_mailer_delivers_both_emails_of_a_change_if_the_hook_fails_open(
    api: Api, queue: Queue, smtp: FakeSmtp, use_message_hook: UseMessageHook
) -> None:
    hook = use_message_hook(Hook.SEND_EMAIL, on_failure="open")
    hook.respond(DOWN)
    change_email(api)
    assert run(queue) is None
    assert len(hook.received) == 1
    assert [email.message["To"] for email in smtp.received] == [EMAIL, NEW]
    assert [(outcome, gateway_id) for *_, outcome, gateway_id, _ in outcomes()] == [
        ("delivered", "2.0.0 Ok: queued as 1"),
        ("delivered", "2.0.0 Ok: queued as 2"),
    ]


def test_the_mailer_sends_no_email_of_a_change_again_if_it_cannot_be_recorded(
    api: Api, queue: Queue, smtp: FakeSmtp, use_message_hook: UseMessageHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError

    use_message_hook(Hook.SEND_EMAIL, on_failure="open").respond(DOWN)
    change_email(api)
    monkeypatch.setattr(Attempt, "save", fail)
    assert run(queue) is None
    assert [email.message["To"] for email in smtp.received] == [EMAIL, NEW]


def test_the_mailer_sends_no_email_of_a_change_again_if_the_other_one_failed(
    api: Api, queue: Queue, smtp: FakeSmtp, use_message_hook: UseMessageHook
) -> None:
    use_message_hook(Hook.SEND_EMAIL, on_failure="open").respond(DOWN)
    smtp.rejections = {NEW: "450 4.2.0 greylisted"}
    change_email(api)
    assert run(queue) is jobs.Retry
    smtp.rejections = {}
    assert run(queue, attempt=2) is None
    assert [email.message["To"] for email in smtp.received] == [EMAIL, NEW]
    assert [(attempt, outcome) for attempt, _, _, outcome, *_ in outcomes()] == [
        (1, "delivered"),
        (1, "retry"),
        (2, "delivered"),
    ]


def test_the_mailer_delivers_after_the_hook_is_disabled(
    api: Api, queue: Queue, smtp: FakeSmtp, use_message_hook: UseMessageHook, set_hook: SetHook
) -> None:
    hook = use_message_hook(Hook.SEND_EMAIL)
    recover(api)
    set_hook(Hook.SEND_EMAIL, enabled=False)
    assert run(queue) is None
    assert hook.received == []
    assert [email.message["To"] for email in smtp.received] == [EMAIL]


def test_a_hook_without_a_mail_server_never_fails_open(
    api: Api, queue: Queue, use_message_hook: UseMessageHook, auth_config: ChangeConfig
) -> None:
    auth_config(smtp={"host": ""}, mailer={"dev_inbox_enabled": False})
    use_message_hook(Hook.SEND_EMAIL, on_failure="open").respond(DOWN)
    recover(api)
    assert run(queue) is jobs.Retry


TWILIO = conf.Twilio(account_sid="AC1", auth_token=Secret("hunter2"), message_service_sid="MG1")


@pytest.mark.parametrize(("provider", "expected"), [("twilio", None), ("twilio_verify", jobs.Retry), ("", jobs.Retry)])
def test_an_sms_provider_delivers_if_it_can_deliver_our_code(
    api: Api,
    queue: Queue,
    use_message_hook: UseMessageHook,
    auth_config: ChangeConfig,
    mocked_requests: Any,
    provider: str,
    expected: type[Exception] | None,
) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"provider": provider, "twilio": TWILIO, "twilio_verify": TWILIO})
    use_message_hook(Hook.SEND_SMS, on_failure="open").respond(DOWN)
    gateway = MockedServer(mocked_requests, url="https://api.twilio.com")
    gateway.respond(in_json({"sid": "SM1", "status": "queued"}, status=201))
    assert api.post("/otp", {"phone": PHONE, "channel": "telegram"}).status_code == 200
    assert run(queue) is expected
    assert [(sent.form["To"], sent.form["Channel"]) for sent in gateway.received] == (
        [] if expected else [(f"+{PHONE}", "sms")]
    )
    assert [channel for _, channel, *_ in outcomes()] == ["sms"]


def test_imported_metadata_of_any_depth_is_delivered(api: Api, queue: Queue, use_message_hook: UseMessageHook) -> None:
    nested: Any = "leaf"
    for _ in range(300):
        nested = {"a": nested}
    hook = use_message_hook(Hook.SEND_EMAIL)
    make_user(email=EMAIL, raw_user_meta_data=nested)
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    assert run(queue) is None
    assert hook.received[0].json()["user"]["user_metadata"] == nested


def data_subject(user: User) -> DataSubject:
    return DataSubject(id=user.id, addresses=frozenset({EMAIL, NEW}))


@pytest.mark.parametrize("start", [recover, change_email])
def test_messages_are_exported_without_their_call_and_erased(
    api: Api, queue: Queue, use_message_hook: UseMessageHook, start: Callable[[Api], object]
) -> None:
    use_message_hook(Hook.SEND_EMAIL)
    start(api)
    job = only_job(queue)
    subject = data_subject(User.objects.get())
    exported = {name: list(rows) for source in personal_data.sources for name, rows in source.export(subject)}
    (message,) = exported["messages"]
    assert message["id"] == job["message_id"]
    assert "hook_call" not in message
    for source in personal_data.sources:
        source.erase(subject)
    assert queue.jobs() == []


def test_a_deleted_user_gets_no_message(api: Api, queue: Queue, use_message_hook: UseMessageHook) -> None:
    hook = use_message_hook(Hook.SEND_EMAIL)
    user = recover(api)
    admin_requests.expect_success(api, "DELETE", f"/admin/users/{user.id}")
    assert queue.jobs() == []
    assert hook.received == []
