"""The hooks that deliver emails and SMS in place of the mailer."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from uuid import uuid4

import msgspec
import orjson

from accounts.users import queries, records
from authsvc import conf
from authsvc.api import exception_handler
from authsvc.caller import current_caller
from authsvc.conf.sections.hooks import Hook
from authsvc.errors import UnexpectedFailure
from authsvc.messaging import Channel, DeliveryFailed, Email, EmailType, HookCall, Message, Sms, SmsType
from authsvc.observability import metrics
from hooks.errors import HookFailed, HookFunctionRefused, HookRejection
from hooks.invocation import concurrency, invocation

_HOOKS: Mapping[Channel, Hook] = {"email": Hook.SEND_EMAIL, "sms": Hook.SEND_SMS}

_REQUESTED: Mapping[EmailType, str] = {
    EmailType.CONFIRMATION: "signup",
    EmailType.INVITE: "invite",
    EmailType.RECOVERY: "recovery",
    EmailType.OPERATOR_RECOVERY: "operator_recovery",
    EmailType.MAGIC_LINK: "magiclink",
    EmailType.EMAIL_CHANGE: "email_change",
    EmailType.REAUTHENTICATION: "reauthentication",
    EmailType.EMAIL_TAKEN: "email_taken_notification",
}
"""Emails that a request asks for, with their `email_action_type`. All others are notifications, named by their type.

The notification of a taken address replaces an email that was asked for, and must be treated alike.
"""


class MessageHooks:
    """The hooks `send-email` and `send-sms` (`authsvc.messaging.MessageHook`)."""

    def is_enabled(self, channel: Channel) -> bool:
        return invocation.is_enabled(_HOOKS[channel])

    def reserve(self, channel: Channel) -> AbstractContextManager[None]:
        if not self.is_enabled(channel) or not _is_inline(channel):
            return contextlib.nullcontext()
        return concurrency.reserve(_HOOKS[channel])

    def accept(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self.is_enabled(_channel(messages[0])):
            return messages
        queued: list[Message] = []
        for message in _with_calls(messages):
            if _is_inline(_channel(message)) and _is_requested(message):
                queued += _call_at_once(message)
            else:
                queued.append(message)
        return queued

    def deliver(self, message: Message) -> bool:
        if not self.is_enabled(_channel(message)):
            return False
        try:
            _invoke(message)
        except HookRejection as error:
            status, text = error.status, error.message
            if isinstance(error, HookFunctionRefused):
                status, text = exception_handler.refusal_of_function(error.raised_by_function)
            raise DeliveryFailed(text, permanent=400 <= status < 500) from error
        except HookFailed as error:
            if _fails_open(message, error):
                return False
            raise DeliveryFailed(error.message) from error
        return True

    def simulate(self) -> None:
        if self.is_enabled("email") or self.is_enabled("sms"):
            queries.get(uuid4())


def _call_at_once(message: Message) -> list[Message]:
    """Call the hook in the caller's transaction; return the messages for the mailer if it has failed open.

    Raises HookRejection and HookFailed; for a code of a second factor UnexpectedFailure.
    """
    try:
        _invoke(message)
    except (HookRejection, HookFailed) as error:
        if isinstance(error, HookFailed) and _fails_open(message, error):
            other = message.hook_call.other if message.hook_call else None
            return [part for part in (other, dataclasses.replace(message, hook_call=None)) if part]
        if message.type == SmsType.FACTOR:
            raise UnexpectedFailure("error invoking hook") from error
        raise
    if isinstance(message, Email):
        metrics.MAILS_ACCEPTED.labels(str(message.type)).inc()
    return []


def _invoke(message: Message) -> None:
    call = message.hook_call
    if call is None:
        raise ValueError("the message has no call")
    # The values stay JSON text, because users may nest their metadata deeper than a serialiser permits.
    values = msgspec.json.decode(call.payload, type=dict[str, msgspec.Raw])
    payload = {name: orjson.Fragment(bytes(value)) for name, value in values.items()}
    invocation.invoke(_HOOKS[_channel(message)], payload, address=call.address, invocation_id=message.id)


def _fails_open(message: Message, error: HookFailed) -> bool:
    return _can_mailer_deliver(message) and invocation.tolerates(_HOOKS[_channel(message)], error)


def _can_mailer_deliver(message: Message) -> bool:
    """True if a mail server or SMS provider is configured that delivers this message with its code."""
    config = conf.current()
    if config.mailer.dev_inbox_enabled:
        return True
    if isinstance(message, Email):
        return bool(config.smtp.host or config.mailer.backend)
    # Twilio Verify would deliver a code of its own, which is not checked while a hook delivers.
    return config.sms.is_usable and config.sms.provider != "twilio_verify"


def _with_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages with their calls. The two emails of a secure email change become one."""
    match messages:
        case [
            Email(type=EmailType.EMAIL_CHANGE) as current,
            Email(type=EmailType.EMAIL_CHANGE) as new,
        ]:
            return [_with_call(new, _email_data(new) | _secure_change(current=current, new=new), other=current)]
    return [_with_call(message, _data(message)) for message in messages]


def _with_call(message: Message, data: Mapping[str, str], *, other: Email | None = None) -> Message:
    """The message with the call that delivers it. Runs one statement, which reads the user."""
    user = queries.get(message.user_id) if message.user_id else None
    caller = current_caller.get()
    payload = {
        "user": records.render_user(user) if user else {},
        "email_data" if isinstance(message, Email) else "sms": data,
    }
    call = HookCall(payload=orjson.dumps(payload).decode(), address=caller.address if caller else "", other=other)
    return dataclasses.replace(message, hook_call=call)


def _data(message: Message) -> Mapping[str, str]:
    if isinstance(message, Email):
        data = _email_data(message)
        return data | _first_confirmation(message) if _is_for_current_address(message) else data
    data = {"otp": str(message.variables.get("Code", "")), "phone": message.to}
    if message.channel != "sms":
        data["channel"] = message.channel
    if message.type == SmsType.FACTOR:
        data["sms_type"] = "mfa"
    return data


def _email_data(email: Email) -> dict[str, str]:
    caller = current_caller.get()
    return {
        "token": _variable(email, "Token"),
        "token_hash": _variable(email, "TokenHash"),
        "redirect_to": _variable(email, "RedirectTo"),
        "email_action_type": _REQUESTED.get(email.type, str(email.type)),
        "site_url": (caller.link_base if caller else "") or conf.current().api.external_url,
        "token_new": "",
        "token_hash_new": "",
        "old_email": _variable(email, "OldEmail"),
        "old_phone": _variable(email, "OldPhone"),
        "provider": _variable(email, "Provider"),
        "factor_type": _variable(email, "FactorType"),
        "recipient": "" if email.type == EmailType.EMAIL_CHANGE else email.to,
    }


def _secure_change(*, current: Email, new: Email) -> dict[str, str]:
    """The secrets of both addresses. Receivers expect the code of one address beside the hash of the other."""
    return {
        "token": _variable(current, "Token"),
        "token_hash": _variable(new, "TokenHash"),
        "token_new": _variable(new, "Token"),
        "token_hash_new": _variable(current, "TokenHash"),
    }


def _is_for_current_address(email: Email) -> bool:
    return email.type == EmailType.EMAIL_CHANGE and email.to != email.variables.get("NewEmail")


def _first_confirmation(email: Email) -> dict[str, str]:
    """The members of a secure change whose new address gets no link, because it belongs to another user."""
    return {"token_hash": "", "token_hash_new": _variable(email, "TokenHash"), "recipient": email.to}


def _variable(email: Email, name: str) -> str:
    return str(email.variables.get(name, ""))


def _is_requested(message: Message) -> bool:
    """True if the client waits for the message, so that the refusal of the hook is the response."""
    return not message.is_bulk and (isinstance(message, Sms) or message.type in _REQUESTED)


def _is_inline(channel: Channel) -> bool:
    config = conf.current().hook_calls
    return (config.send_email_delivery if channel == "email" else config.send_sms_delivery) == "inline"


def _channel(message: Message) -> Channel:
    return "email" if isinstance(message, Email) else "sms"
