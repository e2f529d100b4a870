"""Settings of access tokens, refresh tokens and sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from authsvc.conf import durations
from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LIST,
    SECONDS,
    SECRET,
    TEXT,
    TRIMMED_LIST,
    WEB_KEYS,
    WHOLE_SECONDS,
)

# Key type → its algorithms and the members of its private form (RFC 7518 §6, RFC 8037 §2).
_KEY_TYPES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "RSA": (frozenset({"RS256", "RS512"}), frozenset({"n", "e", "d"})),
    "EC": (frozenset({"ES256", "ES512"}), frozenset({"crv", "x", "y", "d"})),
    "OKP": (frozenset({"EdDSA"}), frozenset({"crv", "x", "d"})),
    "oct": (frozenset({"HS256"}), frozenset({"k"})),
}
_DEFAULT_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}
_WIDELY_VERIFIED = frozenset({"RS256", "ES256"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    secret: Secret = setting(
        "AUTH_JWT_SECRET",
        type=SECRET,
        required=True,
        help="Random text of at least 32 characters; signs tokens where no keys are set, encrypts short-lived state.",
    )
    exp: timedelta = setting(
        "AUTH_JWT_EXP",
        type=WHOLE_SECONDS,
        default=timedelta(seconds=3600),
        falsy_is_default=True,
        help="Lifetime of an access token; 0 = the default.",
    )
    aud: str = setting(
        "AUTH_JWT_AUD",
        type=TEXT,
        default="",
        help="Audience of tokens and users where a request names none.",
        example="authenticated",
    )
    issuer: str = setting(
        "AUTH_JWT_ISSUER",
        type=TEXT,
        default="",
        help="Issuer in tokens and in the discovery document; empty = only the document has one, the URL of the API.",
        example="https://auth.example.com",
    )
    admin_roles: tuple[str, ...] = setting(
        "AUTH_JWT_ADMIN_ROLES",
        "JWT_ADMIN_ROLES",
        # An empty name among the roles would open the admin endpoints to every user without a role.
        type=TRIMMED_LIST,
        default=("service_role", "svc_admin"),
        falsy_is_default=True,
        help="Roles that may use the admin endpoints and the operator console.",
    )
    admin_group_name: str = setting(
        "AUTH_JWT_ADMIN_GROUP_NAME",
        type=TEXT,
        default="admin",
        deprecation="DEPRECATION NOTICE: {} is not supported, will be removed soon",
        help="Role whose users may change their own `app_metadata`.",
    )
    default_group_name: str = setting(
        "AUTH_JWT_DEFAULT_GROUP_NAME",
        type=TEXT,
        default="",
        help="Role of new users.",
        example="authenticated",
    )
    keys: tuple[Mapping[str, Any], ...] = setting(
        "AUTH_JWT_KEYS",
        type=WEB_KEYS,
        default=(),
        help="JSON Web Keys (RFC 7517) that sign and verify tokens; `manage.py generate_keys` prints some.",
    )
    key_id: str = setting(
        "AUTH_JWT_KEY_ID",
        type=TEXT,
        default="",
        help="Key id (`kid`) of the secret in the header of tokens.",
    )
    valid_methods: tuple[str, ...] = setting(
        "AUTH_JWT_VALID_METHODS",
        type=LIST,
        default=(),
        help="Algorithms of accepted tokens; empty = those of the keys.",
        example="HS256,ES256",
    )


def _check_algorithm_version(version: int) -> str:
    return "" if 0 <= version <= 2 else f"refresh token algorithm version must be 0, 1 or 2 but was {version}"


def _check_upgrade_percentage(percentage: int) -> str:
    if 0 <= percentage <= 100:
        return ""
    return f"refresh token upgrade percentage must be between 0 and 100, but was {percentage}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    rotation_enabled: bool = setting(
        "AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED",
        type=BOOLEAN,
        default=True,
        help="A refresh token is valid for one refresh; the use of an older one ends the session.",
    )
    reuse_interval: timedelta = setting(
        "AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL",
        type=SECONDS,
        default=timedelta(seconds=10),
        help="Time in which the previous refresh token returns the same new one, for lost responses.",
    )
    allow_reuse: bool = setting(
        "AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE",
        type=BOOLEAN,
        default=False,
        help="Every older refresh token of a session returns its newest one.",
    )
    algorithm_version: int = setting(
        "AUTH_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION",
        type=INTEGER,
        default=2,
        check=_check_algorithm_version,
        help="Setting of other servers. Refresh tokens of version 2 are issued for every value.",
    )
    upgrade_percentage: int = setting(
        "AUTH_SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE",
        type=INTEGER,
        default=100,
        check=_check_upgrade_percentage,
        help="Setting of other servers. Every legacy session is converted at its next refresh for every value.",
    )


def _check_positive(subject: str) -> Callable[[timedelta | None], str]:
    def check(length: timedelta | None) -> str:
        if length is None or length > timedelta():
            return ""
        return f"conf: {subject} duration must be positive when set, was {durations.text(length)}"

    return check


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    timebox: timedelta | None = setting(
        "AUTH_SESSIONS_TIMEBOX",
        type=DURATION,
        default=None,
        check=_check_positive("session timebox"),
        help="Maximum lifetime of a session; unset = no limit.",
        example="720h",
    )
    inactivity_timeout: timedelta | None = setting(
        "AUTH_SESSIONS_INACTIVITY_TIMEOUT",
        type=DURATION,
        default=None,
        check=_check_positive("session inactivity timeout"),
        help="Maximum time between two refreshes of a session; unset = no limit.",
        example="168h",
    )
    allow_low_aal: timedelta | None = setting(
        "AUTH_SESSIONS_ALLOW_LOW_AAL",
        type=DURATION,
        default=None,
        check=_check_positive("session allow low AAL"),
        help="Lifetime of a session without second factor for users who have one; unset = no limit.",
        example="15m",
    )
    single_per_user: bool = setting(
        "AUTH_SESSIONS_SINGLE_PER_USER",
        type=BOOLEAN,
        default=False,
        help="A new session ends the older sessions of the user.",
    )
    tags: tuple[str, ...] = setting(
        "AUTH_SESSIONS_TAGS",
        type=LIST,
        default=(),
        help="With `AUTH_SESSIONS_SINGLE_PER_USER`: tags of sessions; a user has one session for each.",
        example="web,app",
    )


def check_refresh_tokens(refresh: Refresh, report: SettingsReport) -> None:
    if refresh.algorithm_version in (0, 1):
        report.warning(
            "AUTH_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION", "refresh tokens of version 2 are issued all the same"
        )
    if 0 <= refresh.upgrade_percentage < 100:
        report.warning(
            "AUTH_SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE", "every legacy session is converted at its next refresh"
        )


def signs_with_shared_secret(jwt: Jwt) -> bool:
    """True if tokens are signed with HS256, which only holders of the secret can verify."""
    signing = [key for key in jwt.keys if _signs(key)]
    return not signing or _algorithm(signing[0]) == "HS256"


def check_signing_keys(jwt: Jwt, report: SettingsReport) -> None:
    for number, key in enumerate(jwt.keys, start=1):
        for problem in _key_problems(key):
            report.error("AUTH_JWT_KEYS", f"key {number}: {problem}")
    signing = [key for key in jwt.keys if _signs(key)]
    if jwt.keys and not signing:
        report.error("AUTH_JWT_KEYS", "no signing key detected")
    if len(signing) > 1:
        report.error("AUTH_JWT_KEYS", "multiple signing keys detected, only 1 signing key is supported")
    ids = Counter(str(key.get("kid", "")) for key in jwt.keys)
    for kid in (kid for kid, count in ids.items() if count > 1):
        report.warning("AUTH_JWT_KEYS", "several keys have the same kid, the last one counts", kid=kid)
    _check_client_support(jwt.keys, signing, report)


def _check_client_support(
    keys: Sequence[Mapping[str, Any]], signing: Sequence[Mapping[str, Any]], report: SettingsReport
) -> None:
    """Warn of keys that common client libraries do not support."""
    algorithm = _algorithm(signing[0]) if signing else "HS256"
    if algorithm == "HS256":
        report.info(
            "AUTH_JWT_KEYS",
            "access tokens are signed with HS256; asymmetric keys in AUTH_JWT_KEYS are the recommended way",
        )
    elif algorithm not in _WIDELY_VERIFIED:
        report.warning(
            "AUTH_JWT_KEYS", f"access tokens are signed with {algorithm}, which common client libraries do not verify"
        )
    if any(key.get("kty") == "OKP" for key in keys):
        report.warning(
            "AUTH_JWT_KEYS", "an OKP key is published, at which some client libraries reject the whole key set"
        )


def _algorithm(key: Mapping[str, Any]) -> str:
    default = "ES512" if key.get("crv") == "P-521" else _DEFAULT_ALGORITHMS.get(str(key.get("kty")), "")
    return str(key.get("alg") or default)


def _key_problems(key: Mapping[str, Any]) -> Iterable[str]:
    if "aws:kms:arn" in key:
        yield "keys held in AWS KMS are not supported"
        return
    kty, alg, operations = key.get("kty"), key.get("alg"), key.get("key_ops")
    if not isinstance(kty, str) or kty not in _KEY_TYPES:
        yield f"kty must be one of {', '.join(_KEY_TYPES)}"
        return
    algorithms, private_members = _KEY_TYPES[kty]
    if alg is not None and alg not in algorithms:
        yield f"alg must be {' or '.join(sorted(algorithms))} for kty {kty}"
    if not isinstance(key.get("kid", ""), str):
        yield "kid must be a string"
    if not isinstance(operations, list) or not all(isinstance(operation, str) for operation in operations):
        yield "key_ops must be an array of strings"
    elif _signs(key) and not all(isinstance(key.get(member), str) for member in private_members):
        yield f"a signing key of kty {kty} needs {', '.join(sorted(private_members))}"


def _signs(key: Mapping[str, Any]) -> bool:
    operations = key.get("key_ops")
    return isinstance(operations, list) and "sign" in operations
