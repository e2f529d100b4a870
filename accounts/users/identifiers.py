"""Normalises and checks the addresses and numbers that people identify themselves with."""

from __future__ import annotations

import re
from uuid import UUID

from accounts import errors
from authsvc import conf

_LONGEST_EMAIL = 255
# The form of HTML's e-mail input: no quoting, no comments, no international names; one label will do for a domain.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")
_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_UUIDS = re.compile(rf"{_UUID}|{_HEX}{{32}}|\{{{_UUID}\}}|urn:uuid:{_UUID}")
_PHONE = re.compile(r"[1-9][0-9]{1,14}")


def email(text: str) -> str:
    """The address in the form it is stored and compared in.

    Raises EmailRequired, EmailTooLong (over 255 bytes) or EmailInvalid.
    """
    if not text:
        raise errors.EmailRequired
    if len(text.encode()) > _LONGEST_EMAIL:
        raise errors.EmailTooLong
    if not _EMAIL.fullmatch(text):
        raise errors.EmailInvalid
    return lower_email(text)


def lower_email(text: str) -> str:
    """The address as it would be stored, whether or not it is one."""
    return text.lower()


def phone(text: str) -> str:
    """The number (E.164) in digits without `+`. Raises PhoneInvalid."""
    number = bare_phone(text)
    if not _PHONE.fullmatch(number):
        raise errors.PhoneInvalid
    return number


def bare_phone(text: str) -> str:
    """The text without its leading `+` and without blanks, whether or not it is a number."""
    return text.removeprefix("+").replace(" ", "")


def channel(text: str) -> str:
    """How a code reaches a phone: `sms`, the default, or `whatsapp` where the gateway can. Raises ChannelInvalid."""
    if text in ("", "sms"):
        return "sms"
    if text == "whatsapp" and conf.current().sms.provider in ("twilio", "twilio_verify"):
        return text
    raise errors.ChannelInvalid


def uuid(text: str) -> UUID | None:
    """The UUID written with hyphens, as 32 digits, in braces or as `urn:uuid:…`; None for any other text."""
    return UUID(text) if _UUIDS.fullmatch(text) else None
