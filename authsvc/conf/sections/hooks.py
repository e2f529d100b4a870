"""Settings of the hooks, by which other programs take part in requests."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import BOOLEAN, COUNT, DURATION, SECRETS, TEXT, choice

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
_HTTP_TIMEOUT = timedelta(seconds=5)
_LOCAL_TIMEOUT = timedelta(seconds=2)
_MIN_TIMEOUT = timedelta(milliseconds=100)
_MAX_TIMEOUT = timedelta(seconds=30)
_SQL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}")
_PYTHON_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SYMMETRIC_SECRET = re.compile(r"v1,whsec_([A-Za-z0-9+/=]{32,88})")
_KEY_PAIR = re.compile(r"v1a,whpk_([A-Za-z0-9+/=]{44,}):whsk_([A-Za-z0-9+/=]{44,})")


def _check_timeout(timeout: timedelta) -> str:
    return "" if not timeout or _MIN_TIMEOUT <= timeout <= _MAX_TIMEOUT else "must be between 100ms and 30s"


class Hook(StrEnum):
    """A member has the name of its settings, in upper case; its value is `metadata.name` of the payload."""

    CUSTOM_ACCESS_TOKEN = "customize-access-token"
    SEND_EMAIL = "send-email"
    SEND_SMS = "send-sms"
    MFA_VERIFICATION_ATTEMPT = "mfa-verification"
    PASSWORD_VERIFICATION_ATTEMPT = "password-verification"
    BEFORE_USER_CREATED = "before-user-created"
    AFTER_USER_CREATED = "after-user-created"


HOOKS = tuple(hook.name.lower() for hook in Hook)
"""The key of each hook in `AuthConfig.hooks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    enabled: bool = setting("ENABLED", type=BOOLEAN, default=False, help="The service asks this hook.")
    uri: str = setting(
        "URI",
        type=TEXT,
        default="",
        help="`https://…` (`http://` on this machine only), `pg-functions://postgres/<schema>/<function>`, or"
        " `python:<module>:<callable>`. Error messages show it, so it must contain no secret.",
        example="https://app.example.com/hooks/auth",
    )
    secrets: tuple[Secret, ...] = setting(
        "SECRETS",
        type=SECRETS,
        default=(),
        help="Keys that sign calls over HTTP (Standard Webhooks): `v1,whsec_<base64>` or"
        " `v1a,whpk_<base64>:whsk_<base64>`; each of them signs.",
    )
    timeout: timedelta = setting(
        "TIMEOUT",
        type=DURATION,
        default=timedelta(),
        check=_check_timeout,
        help="Time for a call with all its attempts, 100ms to 30s; 0 = 5s over HTTP, else 2s.",
    )
    on_failure: str = setting(
        "ON_FAILURE",
        type=choice("closed", "open"),
        default="closed",
        help="`closed`: a request fails if its hook fails. `open`: it goes on as if there were no hook.",
    )

    @property
    def transport(self) -> str:
        """`http`, `pg-functions` or `python`."""
        scheme = self.uri.partition(":")[0].lower()
        return "http" if scheme == "https" else scheme

    @property
    def time_limit(self) -> timedelta:
        return self.timeout or (_HTTP_TIMEOUT if self.transport == "http" else _LOCAL_TIMEOUT)

    @property
    def function(self) -> tuple[str, str]:
        """Schema and name of the database function."""
        schema, name = [part for part in urlsplit(self.uri).path.split("/") if part][:2]
        return schema, name


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCalls:
    """Settings for all hooks."""

    max_concurrency: int = setting(
        "AUTH_HOOK_MAX_CONCURRENCY",
        type=COUNT,
        default=16,
        minimum=1,
        unit="calls",
        help="Calls of hooks that a process makes at a time; further ones wait for the timeout of their hook.",
    )
    send_email_delivery: str = setting(
        "AUTH_HOOK_SEND_EMAIL_DELIVERY",
        type=choice("inline", "queued"),
        default="queued",
        help="`queued`: a job calls the hook after the request, and repeats the call if it fails. `inline`: the request"
        " calls it, and fails with it.",
    )
    send_sms_delivery: str = setting(
        "AUTH_HOOK_SEND_SMS_DELIVERY",
        type=choice("inline", "queued"),
        default="queued",
        help="As AUTH_HOOK_SEND_EMAIL_DELIVERY, for SMS.",
    )


def check_hooks(hooks: Mapping[str, HookSettings], report: SettingsReport) -> None:
    for name, hook in hooks.items():
        prefix = f"AUTH_HOOK_{name.upper()}"
        if hook.enabled and not hook.uri:
            report.error(f"{prefix}_URI", f"conf: {prefix}_URI is required when the hook is enabled")
        if not hook.uri:
            continue
        problem = _find_problem(hook)
        if problem:
            report.error(f"{prefix}_URI", problem)
        elif hook.transport == "http" and not all(map(_is_signing_key, hook.secrets)):
            report.error(f"{prefix}_SECRETS", "invalid secret format")
        elif hook.enabled:
            if hook.transport == "http" and not hook.secrets:
                report.warning(f"{prefix}_SECRETS", f"hook {name.upper()} is not signed")
            if hook.on_failure == "open" and not name.startswith(("send", "after")):
                text = f"a failure of hook {name.upper()} lifts the rules that it enforces"
                report.warning(f"{prefix}_ON_FAILURE", text)


def _find_problem(hook: HookSettings) -> str:
    """The reason why a URI cannot be used; empty if it can."""
    try:
        parts = urlsplit(hook.uri)
        host = parts.hostname or ""
    except ValueError:
        return "invalid URL"
    match hook.transport:
        case "python":
            name = hook.uri.partition(":")[2]
            return "" if _PYTHON_NAME.fullmatch(name) else "python hooks are named python:<module>:<callable>"
        case "pg-functions":
            names = [part for part in parts.path.split("/") if part][:2]
            if len(names) < 2:
                return "URI path does not contain enough parts"
            for kind, name in zip(("schema", "table"), names, strict=True):
                if not _SQL_NAME.fullmatch(name):
                    return f"invalid {kind} name: {name}"
            return ""
        case "http":
            if not host:
                return "invalid URL"
            is_local = parts.scheme == "https" or host in _LOCAL_HOSTS
            return "" if is_local else "only localhost, 127.0.0.1, and ::1 are supported with http"
    return "only postgres hooks and HTTPS functions are supported at the moment"


def _is_signing_key(secret: Secret) -> bool:
    text = secret.reveal()
    match = _SYMMETRIC_SECRET.fullmatch(text) or _KEY_PAIR.fullmatch(text)
    if match is None:
        return False
    try:
        sizes = [len(base64.b64decode(part, validate=True)) for part in match.groups()]
    except binascii.Error:
        return False
    return len(sizes) == 1 or (sizes[0] == 32 and sizes[1] in (32, 64))
