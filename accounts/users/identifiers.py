"""Normalises and validates the identifiers of users: email addresses, phones, UUIDs."""

from __future__ import annotations

import re
from uuid import UUID

from accounts import errors
from authsvc import conf, messaging

MAX_EMAIL_LENGTH = 255
_MAX_CHANNEL_LENGTH = 255
# The syntax of HTML's email input: no quoting, comments or internationalised names; a domain may have one label.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")
_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_UUIDS = re.compile(rf"{_UUID}|{_HEX}{{32}}|\{{{_UUID}\}}|urn:uuid:{_UUID}")
_PHONE = re.compile(r"[1-9][0-9]{1,14}")


def email(text: str) -> str:
    """The normalised address, as stored and compared.

    Raises EmailRequired, EmailTooLong (over 255 bytes) or EmailInvalid.
    """
    if not text:
        raise errors.EmailRequired
    if len(text.encode()) > MAX_EMAIL_LENGTH:
        raise errors.EmailTooLong
    if not _EMAIL.fullmatch(text):
        raise errors.EmailInvalid
    return lower_email(text)


def lower_email(text: str) -> str:
    """The normalised form of a text that need not be a valid address."""
    return text.lower()


def phone(text: str) -> str:
    """The phone (E.164) as digits without `+`. Raises PhoneInvalid."""
    number = bare_phone(text)
    if not _PHONE.fullmatch(number):
        raise errors.PhoneInvalid
    return number


def bare_phone(text: str) -> str:
    """The normalised form of a text that need not be a valid phone: without a leading `+` and blanks."""
    return text.removeprefix("+").replace(" ", "")


def channel(text: str) -> str:
    """The channel of a code: `sms`, the default, or `whatsapp` where the gateway supports it. Raises ChannelInvalid.

    A hook that delivers SMS accepts any channel, up to 255 characters.
    """
    if text in ("", "sms"):
        return "sms"
    if messaging.is_hooked("sms") and len(text) <= _MAX_CHANNEL_LENGTH:
        return text
    if text == "whatsapp" and conf.current().sms.has_whatsapp:
        return text
    raise errors.ChannelInvalid


def uuid(text: str) -> UUID | None:
    """The UUID written with hyphens, as 32 digits, in braces or as `urn:uuid:…`; None for any other text."""
    return UUID(text) if _UUIDS.fullmatch(text) else None
