"""The service's own Prometheus metrics, beside those of django-prometheus; without effect while metrics are off.

Label values come from closed lists, never from a client, so that the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from authsvc.conf import current
from authsvc.observability import metrics_directory

if TYPE_CHECKING or current().telemetry.metrics:
    if current().telemetry.metrics == "prometheus":
        # prometheus_client decides at import whether it shares its values with other processes.
        metrics_directory.create()
    from prometheus_client import Counter, Gauge, Histogram
else:

    class _DisabledMetric:
        """Stands for every metric while metrics are off, so that prometheus_client is not loaded."""

        def __init__(self, *_args: Any, **_options: Any) -> None:
            """Has no state."""

        def labels(self, *_values: str) -> _DisabledMetric:
            return self

        def inc(self, amount: float = 1) -> None:
            """Count nothing."""

        dec = set = observe = inc

    Counter = Gauge = Histogram = _DisabledMetric

WAITING_REQUESTS = Gauge(
    "auth_requests_waiting", "Requests that wait for a slot, counted every second.", multiprocess_mode="livesum"
)
ABANDONED_REQUESTS = Counter(
    "auth_requests_abandoned", "Requests not executed because their clients disconnected while they waited for a slot."
)
SIGN_INS = Counter(
    "auth_sign_ins", "Sign-in attempts by method and outcome: succeeded, or the error code.", ["method", "outcome"]
)
REFRESHES = Counter(
    "auth_token_refreshes", "Uses of refresh tokens by outcome: succeeded, or the error code.", ["outcome"]
)
REFRESH_REUSES = Counter(
    "auth_refresh_token_reuses", "Sessions revoked because a refresh token was used a second time."
)
LIMIT_REFUSALS = Counter("auth_limit_refusals", "Requests refused by a rate limit, by limit.", ["limit"])
MAIL_QUOTA_REFUSALS = Counter(
    "auth_email_rate_limit_counter", "Requests refused by RATE_LIMIT_EMAIL_SENT, by route.", ["path"]
)

MAILS_ACCEPTED = Counter(
    "global_auth_email_send_operations_total", "Emails accepted for delivery, by message type.", ["type"]
)
MAIL_ERRORS = Counter(
    "global_auth_email_send_errors_total", "Attempts to deliver an email that failed, by message type.", ["type"]
)
DELIVERIES = Counter(
    "auth_message_deliveries",
    "Attempts to deliver a message by channel and outcome: delivered, retry or failed.",
    ["channel", "outcome"],
)
HOOK_SECONDS = Histogram(
    "auth_hook_duration_seconds",
    "Time of calls of hooks, by outcome: ok, rejected, failed or failed_open.",
    ["hook", "transport", "outcome"],
)
HOOK_ABANDONED_THREADS = Gauge(
    "auth_hook_abandoned_threads",
    "Threads of Python hooks that still run after their time limit.",
    multiprocess_mode="livesum",
)
WEBHOOK_DELIVERIES = Counter(
    "auth_webhook_deliveries",
    "Attempts to deliver an event by its type and outcome: succeeded, retry or failed.",
    ["type", "outcome"],
)
WEBHOOK_DELIVERY_SECONDS = Histogram("auth_webhook_delivery_seconds", "Time until an endpoint answered an event.")
WEBHOOK_ENDPOINTS_DISABLED = Counter(
    "auth_webhook_endpoints_disabled", "Endpoints that the service disabled, by reason.", ["reason"]
)
REPLICA_SKIPS = Counter(
    "auth_replica_skips", "Times that a process stopped reading from the replica, by reason.", ["reason"]
)
CLEANED_ROWS = Counter("auth_cleanup_affected_rows", "Rows that the periodic cleanup removed or changed.")

HASHES_STARTED = Counter(
    "auth_generate_from_password_submitted", "Password hashes started, by algorithm and cost.", ["alg", "cost"]
)
HASHES_COMPLETED = Counter(
    "auth_generate_from_password_completed", "Password hashes completed, by algorithm and cost.", ["alg", "cost"]
)
COMPARISONS_STARTED = Counter(
    "auth_compare_hash_and_password_submitted", "Password verifications started, by algorithm.", ["alg", "cost"]
)
COMPARISONS_COMPLETED = Counter(
    "auth_compare_hash_and_password_completed",
    "Password verifications completed, by algorithm, cost and result.",
    ["alg", "cost", "match"],
)
HASH_POOL_WAITING = Gauge(
    "auth_hash_pool_waiting", "Threads that wait for a hashing slot.", multiprocess_mode="livesum"
)
HASH_POOL_RUNNING = Gauge("auth_hash_pool_running", "Threads that hash a password.", multiprocess_mode="livesum")
HASH_POOL_SLOTS = Gauge(
    "auth_hash_pool_places", "Hashing slots of the processes that have hashed.", multiprocess_mode="livesum"
)
HASH_WAIT_SECONDS = Histogram("auth_hash_pool_wait_seconds", "Time that threads waited for a hashing slot.")
HASH_SECONDS = Histogram("auth_hash_pool_work_seconds", "Time that hashing took.")

RUNNING = Gauge("auth_running", "Always 1.", multiprocess_mode="livemax")
VERSION = {
    part: Gauge(f"global_auth_version_{part}", f"The {part} part of the version.", multiprocess_mode="livemax")
    for part in ("major", "minor", "patch", "rc")
}

installation_collectors: list[Any] = []
"""Collectors (prometheus_client) of metrics of the whole installation, such as its queue.

`collect()` must be bounded in time and raise nothing."""


def _create_series(metric: Counter, label_values: Iterable[tuple[str, ...]]) -> None:
    """Export series at 0 before their first event, so that `increase()` sees that event."""
    for values in label_values:
        metric.labels(*values)


_METHODS = ("password", "otp", "pkce", "oauth", "oidc", "passkey", "mfa")
_LIMITS = ("email_sent", "sms_sent", "email_frequency", "sms_frequency", "failed_attempts", "Token", "Verify")
_OUTCOMES = ("delivered", "retry", "failed")
_create_series(SIGN_INS, [(method, "succeeded") for method in _METHODS])
_create_series(REFRESHES, [("succeeded",)])
_create_series(LIMIT_REFUSALS, [(limit,) for limit in _LIMITS])
_create_series(WEBHOOK_ENDPOINTS_DISABLED, [("gone",), ("failing",)])
_create_series(DELIVERIES, [(channel, outcome) for channel in ("email", "sms") for outcome in _OUTCOMES])
