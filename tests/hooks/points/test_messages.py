"""Payloads of the message hooks, their conditions, and calls within the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.messages import confirmation_emails, notification_emails
from accounts.models import User
from accounts.users import queries
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.conf import Rate, Secret
from authsvc.conf.sections.hooks import Hook
from authsvc.diagnostics.registry import CheckOutcome, DiagnosticContext
from authsvc.messaging import Email
from mailer.diagnostics import EmailDiagnostic, SmsDiagnostic
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_session, make_user
from tests.fakes.http_peer import MockedServer
from tests.hooks.conftest import SetHook
from tests.hooks.points.conftest import UseMessageHook
from tests.hooks.points.message_requests import EMAIL, NEW, PHONE, change_email, sign_up
from tests.observations import backdate_rate_limits

pytestmark = pytest.mark.django_db

SITE = "http://localhost:3000"
NO_VALUES = dict.fromkeys(
    ("token", "token_hash", "redirect_to", "token_new", "token_hash_new", "old_email", "old_phone", "provider"), ""
) | {"factor_type": ""}


def payload(message: messaging.Message) -> Any:
    assert message.hook_call is not None
    return json.loads(message.hook_call.payload)


def data_of(mailbox: Mailbox) -> Any:
    """`email_data` of the only email."""
    (email,) = mailbox.emails
    return payload(email)["email_data"]


@pytest.fixture
def email_hook(use_message_hook: UseMessageHook) -> MockedServer:
    return use_message_hook(Hook.SEND_EMAIL)


@pytest.fixture
def sms_hook(use_message_hook: UseMessageHook, auth_config: ChangeConfig) -> MockedServer:
    auth_config(
        signup={"phone_enabled": True},
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
    )
    return use_message_hook(Hook.SEND_SMS)


@pytest.mark.usefixtures("email_hook")
def test_a_sign_up_is_one_call_with_its_secrets(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(api={"external_url": "https://auth.example.com"})
    assert sign_up(api, data={"name": "Ada"}).status_code == 200
    (email,) = mailbox.emails
    assert email.hook_call is not None
    assert email.hook_call.address == "127.0.0.1"
    content = payload(email)
    user, data = content["user"], content["email_data"]
    assert set(content) == {"user", "email_data"}
    assert (user["email"], user["user_metadata"]["name"], user["identities"][0]["provider"]) == (EMAIL, "Ada", "email")
    assert user["id"] == str(User.objects.get().id)
    assert (len(data["token"]), len(data["token_hash"])) == (6, 56)
    assert data == NO_VALUES | {
        "token": data["token"],
        "token_hash": data["token_hash"],
        "redirect_to": SITE,
        "email_action_type": "signup",
        "site_url": "https://auth.example.com",
        "recipient": EMAIL,
    }
    redeemed = api.get(f"/verify?token={data['token_hash']}&type=signup&redirect_to={data['redirect_to']}")
    assert "access_token=" in redeemed.headers["Location"]


@pytest.mark.usefixtures("email_hook")
@pytest.mark.parametrize(
    ("path", "action"), [("/recover", "recovery"), ("/magiclink", "magiclink"), ("/otp", "magiclink")]
)
def test_links_have_the_action_type_of_their_verification(api: Api, mailbox: Mailbox, path: str, action: str) -> None:
    make_user(email=EMAIL)
    assert api.post(path, {"email": EMAIL}).status_code == 200
    data = data_of(mailbox)
    assert data["email_action_type"] == action
    verified = api.post("/verify", {"type": action, "email": EMAIL, "token": data["token"]})
    assert verified.json()["user"]["email"] == EMAIL


@pytest.mark.usefixtures("email_hook")
def test_a_reauthentication_has_a_code_and_no_link(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    assert api.get("/reauthenticate", bearer=make_session(user).access_token).status_code == 200
    data = data_of(mailbox)
    assert (data["email_action_type"], len(data["token"]), data["token_hash"]) == ("reauthentication", 6, "")


@pytest.mark.usefixtures("email_hook")
def test_a_secure_email_change_is_one_call_with_crossed_secrets(api: Api, mailbox: Mailbox) -> None:
    change_email(api)
    (email,) = mailbox.emails
    assert email.hook_call is not None
    current = email.hook_call.other
    assert current is not None
    assert payload(email)["user"]["new_email"] == NEW
    assert data_of(mailbox) == NO_VALUES | {
        "token": current.variables["Token"],
        "token_hash": email.variables["TokenHash"],
        "token_new": email.variables["Token"],
        "token_hash_new": current.variables["TokenHash"],
        "redirect_to": SITE,
        "email_action_type": "email_change",
        "site_url": conf.current().api.external_url,
        "recipient": "",
    }
    assert (current.to, email.to) == (EMAIL, NEW)


@pytest.mark.usefixtures("email_hook")
@pytest.mark.parametrize(("secure", "confirmed"), [(False, True), (True, False)])
def test_another_email_change_has_the_secrets_of_the_new_address(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, secure: bool, confirmed: bool
) -> None:
    auth_config(mailer={"secure_email_change_enabled": secure})
    change_email(api, confirmed=confirmed)
    data = data_of(mailbox)
    (email,) = mailbox.emails
    assert email.to == NEW
    assert (data["token"], data["token_hash"]) == (email.variables["Token"], email.variables["TokenHash"])
    assert (data["token_new"], data["token_hash_new"], data["recipient"]) == ("", "", "")


@pytest.mark.usefixtures("email_hook")
def test_a_change_to_a_taken_address_sends_a_link_to_the_current_one_only(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"strict_privacy_enabled": True})
    owner = make_user(email=NEW)
    change_email(api)
    change, notification = mailbox.emails
    data = payload(change)["email_data"]
    assert (data["token"], data["token_hash_new"]) == (change.variables["Token"], change.variables["TokenHash"])
    assert (data["token_new"], data["token_hash"], data["recipient"]) == ("", "", EMAIL)
    assert payload(notification)["user"]["id"] == str(owner.id)
    data = payload(notification)["email_data"]
    assert (data["email_action_type"], data["recipient"], data["token"]) == ("email_taken_notification", NEW, "")


@pytest.mark.usefixtures("email_hook")
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (notification_emails.password_changed, {"email_action_type": "password_changed_notification"}),
        (
            lambda user: notification_emails.email_changed(user, email=NEW),
            {"email_action_type": "email_changed_notification", "old_email": EMAIL},
        ),
        (
            lambda user: notification_emails.phone_changed(user, phone="15550000000"),
            {"email_action_type": "phone_changed_notification", "old_phone": PHONE},
        ),
        (
            lambda user: notification_emails.identity_linked(user, provider="github"),
            {"email_action_type": "identity_linked_notification", "provider": "github"},
        ),
        (
            lambda user: notification_emails.identity_unlinked(user, provider="github"),
            {"email_action_type": "identity_unlinked_notification", "provider": "github"},
        ),
        (
            lambda user: notification_emails.factor_enrolled(user, factor_type="totp"),
            {"email_action_type": "mfa_factor_enrolled_notification", "factor_type": "totp"},
        ),
        (
            lambda user: notification_emails.factor_unenrolled(user, factor_type="phone"),
            {"email_action_type": "mfa_factor_unenrolled_notification", "factor_type": "phone"},
        ),
        (
            lambda user: notification_emails.recovery_code_used(user, remaining=3),
            {"email_action_type": "mfa_recovery_code_used_notification"},
        ),
        (notification_emails.impersonated, {"email_action_type": "impersonation_notification"}),
    ],
)
def test_notifications_have_their_values(
    mailbox: Mailbox, build: Callable[[Any], Email], expected: dict[str, str]
) -> None:
    user = queries.get(make_user(email=EMAIL, phone=PHONE).id)
    with transaction.atomic():
        messaging.send(build(user))
    site = {"site_url": conf.current().api.external_url, "recipient": EMAIL}
    assert data_of(mailbox) == NO_VALUES | site | expected


@pytest.mark.usefixtures("email_hook")
def test_an_operator_gets_a_link_to_the_console(mailbox: Mailbox) -> None:
    user = queries.get(make_user(email=EMAIL).id)
    assert user is not None
    page = "https://auth.example.com/operator/password/new"
    with transaction.atomic():
        confirmation_emails.send(
            confirmation_emails.OPERATOR_RECOVERY,
            user,
            challenge=None,
            redirect_to=page,
            caller=Caller(),
            at=timezone.now(),
        )
    data = data_of(mailbox)
    assert mailbox.emails[0].variables["ConfirmationURL"] == f"{page}?token={data['token_hash']}"
    assert data == NO_VALUES | {
        "token_hash": data["token_hash"],
        "redirect_to": page,
        "email_action_type": "operator_recovery",
        "site_url": conf.current().api.external_url,
        "recipient": EMAIL,
    }


@pytest.mark.usefixtures("sms_hook")
@pytest.mark.parametrize("channel", ["whatsapp", "telegram"])
def test_a_code_by_any_channel_needs_no_provider(api: Api, mailbox: Mailbox, channel: str) -> None:
    response = api.post("/otp", {"phone": f"+{PHONE}", "channel": channel})
    (sms,) = mailbox.sms
    assert (response.status_code, response.json()["message_id"]) == (200, str(sms.id))
    content = payload(sms)
    assert content["sms"] == {"otp": sms.variables["Code"], "phone": PHONE, "channel": channel}
    assert content["user"]["phone"] == PHONE
    verified = api.post("/verify", {"type": "sms", "phone": PHONE, "token": content["sms"]["otp"]})
    assert verified.json()["user"]["phone"] == PHONE


@pytest.mark.usefixtures("sms_hook")
def test_a_channel_has_a_maximum_length(api: Api) -> None:
    response = api.post("/otp", {"phone": f"+{PHONE}", "channel": "x" * 256})
    assert (response.status_code, response.json()["error_code"]) == (400, "validation_failed")


@pytest.mark.usefixtures("sms_hook")
def test_a_code_of_a_second_factor_is_marked(api: Api, mailbox: Mailbox) -> None:
    owner = factor_requests.make_owner(factor_type="phone", phone=PHONE)
    assert factor_requests.challenge(api, owner.token, owner.factor.id, {}).status_code == 200
    (sms,) = mailbox.sms
    assert payload(sms)["sms"] == {
        "otp": sms.variables["Code"], "phone": PHONE, "sms_type": "mfa"
    }  # fmt: skip


@pytest.mark.usefixtures("sms_hook")
def test_a_test_number_never_calls_the_hook(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    assert api.post("/otp", {"phone": f"+{PHONE}"}).json()["message_id"] == "test-otp"
    assert mailbox.sms == []


@pytest.mark.usefixtures("sms_hook")
def test_our_codes_count_with_twilio_verify_too(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    twilio = conf.Twilio(account_sid="AC2", auth_token=Secret("hunter2"), message_service_sid="VA1")
    auth_config(sms={"provider": "twilio_verify", "twilio_verify": twilio})
    api.post("/otp", {"phone": f"+{PHONE}"})
    code = mailbox.sms[-1].variables["Code"]
    assert api.post("/verify", {"type": "sms", "phone": PHONE, "token": code}).status_code == 200
    owner = factor_requests.make_owner(factor_type="phone", phone="15557654321")
    challenge = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    code = mailbox.sms[-1].variables["Code"]
    assert factor_requests.verify(api, owner.token, owner.factor.id, challenge, code).status_code == 200


def test_addresses_are_not_validated(api: Api, use_message_hook: UseMessageHook, auth_config: ChangeConfig) -> None:
    auth_config(recipients={"extended_validation": True})
    refused = api.post("/signup", {"email": "test@gmail.com", "password": PASSWORD})
    assert refused.json()["error_code"] == "email_address_invalid"
    backdate_rate_limits(timedelta(days=1))
    use_message_hook(Hook.SEND_EMAIL)
    assert api.post("/signup", {"email": "test@gmail.com", "password": PASSWORD}).status_code == 200


@pytest.mark.usefixtures("email_hook")
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"limits": {"email_sent": Rate(events=0)}}, "over_email_send_rate_limit"),
        ({"recipients": {"authorized_addresses": ("ada@example.com",)}}, "email_address_not_authorized"),
    ],
)
def test_other_limits_apply(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, limits: dict[str, Any], code: str
) -> None:
    auth_config(**limits)
    assert sign_up(api).json()["error_code"] == code
    assert mailbox.emails == []


@pytest.mark.usefixtures("email_hook")
def test_a_message_reads_the_user_with_one_statement(set_hook: SetHook) -> None:
    user = queries.get(make_user(email=EMAIL).id)
    assert user is not None

    def send() -> int:
        with CaptureQueriesContext(connection) as captured, transaction.atomic():
            messaging.send(notification_emails.impersonated(user))
        return len(captured)

    hooked = send()
    set_hook(Hook.SEND_EMAIL, enabled=False)
    assert hooked == send() + 1


@pytest.mark.usefixtures("email_hook", "sms_hook")
def test_doctor_needs_neither_a_mail_server_nor_an_sms_provider() -> None:
    found = [
        result
        for diagnostic in (EmailDiagnostic(), SmsDiagnostic())
        for result in diagnostic.run(DiagnosticContext(public_url=""))
    ]
    assert [(result.outcome, result.message) for result in found] == [
        (CheckOutcome.UNUSED, "the send-email hook delivers all emails"),
        (CheckOutcome.UNUSED, "the send-sms hook delivers all SMS"),
    ]
