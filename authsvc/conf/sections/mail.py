"""Settings of email: SMTP, templates, recipients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from authsvc.conf.declaration import setting, settings_by_key, switches_by_key
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import (
    BOOLEAN,
    COUNT,
    DOTTED_NAME,
    DURATION,
    HEADER_LISTS,
    HOSTS,
    INTEGER,
    JSON_OBJECT,
    LIST,
    PORT,
    SECONDS,
    SECRET,
    TEXT,
    WHOLE_SECONDS,
)

NOTIFICATIONS = (
    "password_changed", "email_changed", "phone_changed", "identity_linked", "identity_unlinked",
    "mfa_factor_enrolled", "mfa_factor_unenrolled",
)  # fmt: skip
MESSAGE_TYPES = (
    "invite", "confirmation", "recovery", "magic_link", "email_change", "reauthentication",
    *(f"{name}_notification" for name in NOTIFICATIONS), "impersonation_notification",
)  # fmt: skip
_MIN_RETENTION = timedelta(hours=24)
_ATOM = r"""[^\s<>()\[\],:;@\\"\x00-\x1f\x7f-\U0010ffff]+"""
_BARE_ADDRESS = re.compile(rf" *{_ATOM}@({_ATOM}|\[[\w.:]+\]) *", re.ASCII)
LINK_PATHS = ("invite", "confirmation", "recovery", "email_change")


def _check_retention(retention: timedelta) -> str:
    # The attempts to deliver a message take a day.
    return "" if retention >= _MIN_RETENTION else "must be at least 24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Smtp:
    admin_email: str = setting(
        "AUTH_SMTP_ADMIN_EMAIL",
        type=TEXT,
        default="",
        help="Sender address. Required with `AUTH_SMTP_HOST` and `AUTH_MAILER_BACKEND`.",
        example="noreply@example.com",
    )
    host: str = setting(
        "AUTH_SMTP_HOST",
        type=TEXT,
        default="",
        help="Mail server; empty = no email is sent.",
        example="smtp.example.com",
    )
    port: int = setting(
        "AUTH_SMTP_PORT",
        type=PORT,
        default=0,
        help="Port of the mail server; 465 is TLS from the start. Required with `AUTH_SMTP_HOST`.",
        example="587",
    )
    user: str = setting("AUTH_SMTP_USER", type=TEXT, default="", help="User name at the mail server.")
    password: Secret = setting("AUTH_SMTP_PASS", type=SECRET, default=Secret(""), help="Password at the mail server.")
    sender_name: str = setting(
        "AUTH_SMTP_SENDER_NAME",
        type=TEXT,
        default="",
        help="Name of the sender; empty = the sender address.",
        example="Example",
    )
    max_frequency: timedelta | None = setting(
        "AUTH_SMTP_MAX_FREQUENCY",
        type=SECONDS,
        default=None,
        falsy_is_default=True,
        help="Minimum time between two emails to an address; unset or 0 = 900 s for confirmations, 60 s for others.",
    )
    headers: Mapping[str, tuple[str, ...]] = setting(
        "AUTH_SMTP_HEADERS",
        type=HEADER_LISTS,
        default={},
        lenient=True,
        help="Further headers of emails: name → list of values.",
    )
    logging_enabled: bool = setting(
        "AUTH_SMTP_LOGGING_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Log each email with its type, sender and recipient.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailer:
    autoconfirm: bool = setting(
        "AUTH_MAILER_AUTOCONFIRM",
        type=BOOLEAN,
        default=False,
        help="Email addresses count as confirmed without a message.",
    )
    allow_unverified_email_sign_ins: bool = setting(
        "AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
        type=BOOLEAN,
        default=False,
        help="A provider identity with an unverified address may sign in; the address stays unconfirmed.",
    )
    secure_email_change_enabled: bool = setting(
        "AUTH_MAILER_SECURE_EMAIL_CHANGE_ENABLED",
        type=BOOLEAN,
        default=True,
        help="A change of the email address is confirmed at the old and the new address.",
    )
    otp_exp: timedelta = setting(
        "AUTH_MAILER_OTP_EXP",
        type=WHOLE_SECONDS,
        default=timedelta(seconds=86400),
        falsy_is_default=True,
        help="Lifetime of mailed links and codes; 0 = the default.",
    )
    otp_length: int = setting(
        "AUTH_MAILER_OTP_LENGTH",
        type=INTEGER,
        default=6,
        minimum=6,
        maximum=10,
        unit="digits",
        help="Length of a mailed code.",
    )
    url_paths: Mapping[str, str] = settings_by_key(
        "AUTH_MAILER_URLPATHS_<TYPE>",
        type=TEXT,
        keys=LINK_PATHS,
        help="Path of links; empty = `/verify`.",
        example="/verify",
    )
    subjects: Mapping[str, str] = settings_by_key(
        "AUTH_MAILER_SUBJECTS_<TYPE>",
        type=TEXT,
        keys=MESSAGE_TYPES,
        help="Subject; empty = the built-in one.",
        example="Confirm Your Signup",
    )
    templates: Mapping[str, str] = settings_by_key(
        "AUTH_MAILER_TEMPLATES_<TYPE>",
        type=TEXT,
        keys=MESSAGE_TYPES,
        help="URL of the template; empty = the built-in one.",
        example="https://app.example.com/mail/confirmation.html",
    )
    notifications: frozenset[str] = switches_by_key(
        "AUTH_MAILER_NOTIFICATIONS_<TYPE>_ENABLED",
        keys=NOTIFICATIONS,
        help="Send a notification email after this change of an account.",
        example="true",
    )
    notifies_of_impersonation: bool = setting(
        "AUTH_MAILER_NOTIFICATIONS_IMPERSONATION_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Send a notification email when an operator views the application as the user. Users without a confirmed"
        " email address cannot be impersonated then.",
    )
    external_hosts: tuple[str, ...] = setting(
        "AUTH_MAILER_EXTERNAL_HOSTS",
        type=LIST,
        default=(),
        help="Hosts that links may use instead of the host of the external URL.",
        example="auth.example.com,login.example.com",
    )
    backend: str = setting(
        "AUTH_MAILER_BACKEND",
        type=DOTTED_NAME,
        default="",
        help="Django email backend to use instead of SMTP.",
        example="anymail.backends.postmark.EmailBackend",
    )
    backend_options: Mapping[str, Any] = setting(
        "AUTH_MAILER_BACKEND_OPTIONS",
        type=JSON_OBJECT,
        default={},
        help="Options of that backend.",
    )
    dev_inbox_enabled: bool = setting(
        "AUTH_MAILER_DEV_INBOX_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Show emails and SMS at `/inbox` instead of sending them; for development only.",
    )
    dev_inbox_folder: str = setting(
        "AUTH_MAILER_DEV_INBOX_FOLDER",
        type=TEXT,
        default="",
        restart=True,
        help="Folder of the development inbox; empty = `.data/inbox` of the checkout.",
    )
    worker_enabled: bool = setting(
        "AUTH_MAILER_WORKER_ENABLED",
        type=BOOLEAN,
        default=True,
        restart=True,
        help="Run the message worker inside every serving process.",
    )
    retention: timedelta = setting(
        "AUTH_MAILER_RETENTION",
        type=DURATION,
        default=timedelta(hours=720),
        check=_check_retention,
        help="Delete failed messages and other failed jobs, and the records of delivery attempts, after this time;"
        " at least 24h.",
    )
    template_max_size: int = setting(
        "AUTH_MAILER_TEMPLATE_MAX_SIZE",
        type=COUNT,
        default=1_000_000,
        falsy_is_default=True,
        unit="bytes",
        help="Maximum size of a fetched template; 0 = the default.",
    )
    template_max_age: timedelta = setting(
        "AUTH_MAILER_TEMPLATE_MAX_AGE",
        type=DURATION,
        default=timedelta(minutes=10),
        minimum=timedelta(),
        help="Time for which a fetched template is used before it is fetched again.",
    )
    template_retry_interval: timedelta = setting(
        "AUTH_MAILER_TEMPLATE_RETRY_INTERVAL",
        type=DURATION,
        default=timedelta(seconds=10),
        minimum=timedelta(),
        help="Time between two attempts to fetch a template.",
    )
    template_reloading_enabled: bool = setting(
        "AUTH_MAILER_TEMPLATE_RELOADING_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Fetch templates before they are needed.",
    )
    template_reloading_max_idle: timedelta = setting(
        "AUTH_MAILER_TEMPLATE_RELOADING_MAX_IDLE",
        type=DURATION,
        default=timedelta(minutes=20),
        minimum=timedelta(),
        help="Time without email after which templates are no longer fetched in advance.",
    )
    generate_link_invite_enabled: bool = setting(
        "AUTH_MAILER_GENERATE_LINK_INVITE_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Email the invitations whose links administrators generate.",
    )
    link_confirm_page_enabled: bool = setting(
        "AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED",
        type=BOOLEAN,
        default=False,
        help="A mailed link opens a page with a button that redeems it, so that a mail scanner cannot use it up.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """Restrictions of the addresses that receive email."""

    authorized_addresses: tuple[str, ...] = setting(
        "AUTH_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES",
        type=LIST,
        default=(),
        help="The only addresses that receive email; empty = all addresses.",
        example="ada@example.com,grace@example.com",
    )
    extended_validation: bool = setting(
        "AUTH_MAILER_EMAIL_VALIDATION_EXTENDED",
        type=BOOLEAN,
        default=False,
        help="Check the form of addresses and whether their hosts accept email.",
    )
    service_url: str = setting(
        "AUTH_MAILER_EMAIL_VALIDATION_SERVICE_URL",
        type=TEXT,
        default="",
        help="URL of a service that validates addresses; empty = none.",
    )
    service_headers: Mapping[str, tuple[str, ...]] = setting(
        "AUTH_MAILER_EMAIL_VALIDATION_SERVICE_HEADERS",
        type=HEADER_LISTS,
        default={},
        lenient=True,
        help="Headers of requests to that service: name → list of values.",
    )
    blocked_exchangers: frozenset[str] = setting(
        "AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX",
        type=HOSTS,
        default=frozenset(),
        lenient=True,
        help="Mail exchangers that no email is sent to: host names and addresses.",
    )


def check_mail(smtp: Smtp, mailer: Mailer, report: SettingsReport, *, has_hook: bool) -> None:
    if mailer.autoconfirm and mailer.allow_unverified_email_sign_ins:
        report.error(
            "AUTH_MAILER_AUTOCONFIRM",
            "cannot enable both AUTH_MAILER_AUTOCONFIRM and AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
        )
    if smtp.host or mailer.backend:
        report.require("AUTH_SMTP_ADMIN_EMAIL", help="the sender address, such as noreply@example.com")
        if smtp.admin_email and not _BARE_ADDRESS.fullmatch(smtp.admin_email):
            report.error(
                "AUTH_SMTP_ADMIN_EMAIL",
                "must be an address without a name, such as noreply@example.com; AUTH_SMTP_SENDER_NAME is the name",
            )
    if smtp.host and report.written_name("AUTH_SMTP_PORT") is None:
        report.missing("AUTH_SMTP_PORT", help="the port of the mail server, such as 587")
    if not (smtp.host or mailer.backend or mailer.dev_inbox_enabled or has_hook):
        report.warning("AUTH_SMTP_HOST", "no email leaves: set AUTH_SMTP_HOST, or AUTH_MAILER_BACKEND")
    if mailer.backend_options and not mailer.backend:
        report.warning("AUTH_MAILER_BACKEND_OPTIONS", "without effect unless AUTH_MAILER_BACKEND is set")


def check_recipients(recipients: Recipients, report: SettingsReport) -> None:
    if recipients.service_url and not _is_http_url(recipients.service_url):
        report.warning(
            "AUTH_MAILER_EMAIL_VALIDATION_SERVICE_URL", "not an absolute http(s) URL; addresses are not validated"
        )
    if recipients.blocked_exchangers and not recipients.extended_validation:
        report.warning(
            "AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX",
            "without effect unless AUTH_MAILER_EMAIL_VALIDATION_EXTENDED is on",
        )


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
