"""Hooks for messages that are called within the request: `delivery` is `inline`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.messages import notification_emails
from accounts.models import FactorChallenge, User
from accounts.users import queries
from authsvc import messaging
from authsvc.conf.sections.hooks import Hook
from hooks.invocation import concurrency
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import make_session, make_user
from tests.fakes import http_peer
from tests.fakes.http_peer import MockedServer, in_json
from tests.hooks.points.conftest import UseMessageHook
from tests.hooks.points.message_requests import EMAIL, NEW, PHONE, change_email, sign_up
from tests.observations import assert_error
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db


def error_id(response: ApiResponse) -> dict[str, Any]:
    """The member of server errors that a test cannot predict."""
    return {"error_id": response.json()["error_id"]} if response.status_code == 500 else {}


def refusal(status: int) -> http_peer.Response:
    return in_json({"error": {"message": "not so fast", "http_code": status}})


@pytest.fixture
def inline_email(use_message_hook: UseMessageHook) -> MockedServer:
    return use_message_hook(Hook.SEND_EMAIL, delivery="inline")


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (refusal(429), (429, "unknown", "not so fast")),
        (
            http_peer.Response(status=500),
            (500, "unexpected_failure", "Unexpected status code returned from hook: 500"),
        ),
    ],
)
def test_the_error_of_an_inline_hook_is_the_response_and_nothing_is_stored(
    api: Api,
    mailbox: Mailbox,
    inline_email: MockedServer,
    refused: http_peer.Response,
    expected: tuple[int, str, str],
) -> None:
    inline_email.respond(refused)
    response = sign_up(api)
    status, code, text = expected
    assert_error(response, status, code, text, **error_id(response))
    assert (User.objects.count(), OneTimeToken.objects.count(), mailbox.emails) == (0, 0, [])


@pytest.mark.parametrize("response", [http_peer.Response(status=204), in_json({}), in_json({"error": None})])
def test_an_inline_hook_that_accepts_replaces_the_job(
    api: Api, mailbox: Mailbox, inline_email: MockedServer, response: http_peer.Response
) -> None:
    inline_email.respond(response)
    assert sign_up(api).status_code == 200
    (received,) = inline_email.received
    content = received.json()
    assert content["metadata"]["name"] == "send-email"
    assert content["metadata"]["ip_address"] == "127.0.0.1"
    assert content["email_data"]["email_action_type"] == "signup"
    assert mailbox.emails == []
    redeemed = api.get(f"/verify?token={content['email_data']['token_hash']}&type=signup")
    assert "access_token=" in redeemed.headers["Location"]


def test_an_inline_secure_email_change_is_one_call(api: Api, mailbox: Mailbox, inline_email: MockedServer) -> None:
    inline_email.respond(in_json({}))
    change_email(api)
    (received,) = inline_email.received
    assert received.json()["email_data"]["token_hash_new"]
    assert mailbox.emails == []


def test_an_inline_call_has_the_id_of_the_message(
    api: Api, mailbox: Mailbox, use_message_hook: UseMessageHook, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"phone_enabled": True})
    hook = use_message_hook(Hook.SEND_SMS, delivery="inline")
    hook.respond(in_json({}))
    response = api.post("/otp", {"phone": f"+{PHONE}"})
    assert response.json()["message_id"] == hook.received[0].headers["webhook-id"]
    assert mailbox.sms == []


@pytest.mark.parametrize("refused", [refusal(403), http_peer.Response(status=500)])
def test_a_challenge_whose_inline_hook_fails_does_not_exist(
    api: Api, use_message_hook: UseMessageHook, auth_config: ChangeConfig, refused: http_peer.Response
) -> None:
    auth_config(mfa={"phone_verify_enabled": True})
    use_message_hook(Hook.SEND_SMS, delivery="inline").respond(refused)
    owner = factor_requests.make_owner(factor_type="phone", phone=PHONE)
    response = factor_requests.challenge(api, owner.token, owner.factor.id, {})
    assert_error(response, 500, "unexpected_failure", "error invoking hook", **error_id(response))
    assert FactorChallenge.objects.count() == 0


def test_notifications_and_bulk_messages_are_jobs(mailbox: Mailbox, inline_email: MockedServer) -> None:
    user = queries.get(make_user(email=EMAIL).id)
    assert user is not None
    code = notification_emails.reauthentication(user, code="123456", at=timezone.now())
    with transaction.atomic():
        messaging.send(notification_emails.impersonated(user))
        messaging.send(replace(code, is_bulk=True))
    assert [email.hook_call is not None for email in mailbox.emails] == [True, True]
    assert inline_email.received == []


@pytest.mark.parametrize("is_configured", [True, False])
def test_the_mailer_delivers_if_an_inline_hook_fails_open(
    api: Api, mailbox: Mailbox, use_message_hook: UseMessageHook, auth_config: ChangeConfig, is_configured: bool
) -> None:
    auth_config(smtp={"host": "mail.example.com" if is_configured else ""}, mailer={"dev_inbox_enabled": False})
    hook = use_message_hook(Hook.SEND_EMAIL, delivery="inline", on_failure="open")
    hook.respond(http_peer.Response(status=500))
    user = make_user(email=EMAIL)
    response = api.put("/user", {"email": NEW}, bearer=make_session(user).access_token)
    assert response.status_code == (200 if is_configured else 500)
    assert [(email.to, email.hook_call) for email in mailbox.emails] == (
        [(EMAIL, None), (NEW, None)] if is_configured else []
    )


def test_a_rejection_is_never_overridden(api: Api, use_message_hook: UseMessageHook, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    use_message_hook(Hook.SEND_EMAIL, delivery="inline", on_failure="open").respond(refusal(403))
    assert_error(sign_up(api), 403, "unknown", "not so fast")


@contextmanager
def only_call_taken() -> Iterator[None]:
    """Another thread holds the only call until a request waits for it, or until the end of the block."""
    taken, over = Event(), Event()

    def hold() -> None:
        with concurrency.reserve(Hook.SEND_EMAIL):
            taken.set()
            while not concurrency.calls.waiting and not over.is_set():
                time.sleep(0.01)

    holder = Thread(target=hold)
    holder.start()
    assert taken.wait(60)
    try:
        yield
    finally:
        over.set()
        holder.join()


def reauthenticate(api: Api) -> ApiResponse:
    return api.get("/reauthenticate", bearer=make_session(make_user(email=EMAIL)).access_token)


def change(**body: Any) -> Callable[[Api], ApiResponse]:
    return lambda api: api.put("/user", body, bearer=make_session(make_user(email=EMAIL)).access_token)


def request_link(path: str, **body: Any) -> Callable[[Api], ApiResponse]:
    def send(api: Api) -> ApiResponse:
        make_user(email=EMAIL, confirmed=not body)
        return api.post(path, {"email": EMAIL, **body})

    return send


def challenge(api: Api) -> ApiResponse:
    owner = factor_requests.make_owner(factor_type="phone", phone=PHONE)
    return factor_requests.challenge(api, owner.token, owner.factor.id, {})


@pytest.mark.parametrize(
    "request_message",
    [
        pytest.param(sign_up, id="sign-up"),
        pytest.param(request_link("/recover"), id="recovery"),
        pytest.param(request_link("/magiclink"), id="magic link"),
        pytest.param(request_link("/resend", type="signup"), id="resend"),
        pytest.param(reauthenticate, id="reauthentication"),
        pytest.param(change(email=NEW), id="email change"),
        pytest.param(change(phone=PHONE), id="phone change"),
        pytest.param(lambda api: api.post("/otp", {"phone": PHONE}), id="code"),
        pytest.param(challenge, id="challenge"),
        pytest.param(lambda api: admin_requests.ask(api, "POST", "/invite", {"email": EMAIL}), id="invitation"),
        pytest.param(
            lambda api: admin_requests.ask(api, "POST", "/admin/generate_link", {"type": "invite", "email": EMAIL}),
            id="invitation with a link",
        ),
    ],
)
def test_a_request_waits_for_a_free_call_before_its_transaction(
    api: Api, use_message_hook: UseMessageHook, auth_config: ChangeConfig, request_message: Callable[[Api], ApiResponse]
) -> None:
    auth_config(hook_calls={"max_concurrency": 1}, signup={"phone_enabled": True}, mfa={"phone_verify_enabled": True})
    receivers = [use_message_hook(hook, delivery="inline") for hook in (Hook.SEND_EMAIL, Hook.SEND_SMS)]
    with only_call_taken():
        response = request_message(api)
    assert response.status_code == 200, response.content
    assert [len(receiver.received) for receiver in receivers] in ([1, 0], [0, 1])
