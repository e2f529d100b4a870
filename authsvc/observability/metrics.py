"""Every figure the service keeps of itself, defined once; recording costs nothing until somebody wants to have them.

Names are those of the OpenTelemetry conventions where these have one. What a label may say comes from a list that is
known beforehand, never from a client, so that the number of series has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_BYTES = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instrument:
    name: str
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    """UCUM: `s`, `By`; empty for a number of things."""
    known: tuple[tuple[str, ...], ...] = ()
    """Labels of series that are there before anything has happened, so that the first event counts as a growth."""


class Counter(Instrument):
    """Only ever grows."""

    def add(self, *labels: str, amount: float = 1) -> None:
        """`labels` in the order of the definition."""
        if _store is not None:
            _store.record((self, labels, amount))


class Level(Instrument):
    """Goes up and down with what the process has in hand; those of all processes are added up."""

    def change(self, amount: float, *labels: str) -> None:
        if _store is not None:
            _store.record((self, labels, amount))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram(Instrument):
    buckets: tuple[float, ...] = _SECONDS

    def observe(self, value: float, *labels: str) -> None:
        if _store is not None:
            _store.record((self, labels, value))


Event = tuple[Instrument, tuple[str, ...], float]
"""What happened, its labels, and what a counter or level grows by or a histogram is to know of."""


class Store(Protocol):
    """Where figures are kept while somebody wants them. Called by many threads."""

    def record(self, *events: Event) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value of a gauge that one process reads for the whole installation."""

    name: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    unit: str = ""


Gauge = Callable[[], Iterable[Reading]]
"""Reads figures that belong to the installation, not to a process. Bounded in time; may raise django.db errors."""

_store: Store | None = None
gauges: list[Gauge] = []
readers: dict[Level, Callable[[], float]] = {}


def keep_in(store: Store | None) -> None:
    """Record into `store` from now on; with None nowhere."""
    global _store
    _store = store


def record(*events: Event) -> None:
    """Several events at once, for what happens so often that each call counts."""
    if _store is not None:
        _store.record(*events)


def read_regularly(level: Level, read: Callable[[], float]) -> None:
    """Let `level` be what `read` answers every few seconds, for what nobody changes step by step."""
    readers[level] = read


def instruments() -> Iterable[Instrument]:
    """Every definition of this module."""
    return [value for value in globals().values() if isinstance(value, Instrument)]


_METHOD, _STATUS, _ROUTE = "http.request.method", "http.response.status_code", "http.route"
NUMBERS = frozenset({"code", _STATUS})
"""Labels whose values are numbers, where an exporter can tell."""

RESPONSES = Counter(name="http_status_codes", help="Responses by status and route.", labels=("code", _ROUTE))
REQUEST_SECONDS = Histogram(
    name="http.server.request.duration",
    help="How long requests took.",
    labels=(_METHOD, _STATUS, _ROUTE),
    unit="s",
)
REQUEST_BYTES = Histogram(
    name="http.server.request.body.size",
    help="Size of request bodies, of requests that have one.",
    labels=(_METHOD, _STATUS, _ROUTE),
    unit="By",
    buckets=_BYTES,
)
RESPONSE_BYTES = Histogram(
    name="http.server.response.body.size",
    help="Size of response bodies.",
    labels=(_METHOD, _STATUS, _ROUTE),
    unit="By",
    buckets=_BYTES,
)

SIGN_INS = Counter(
    name="auth_sign_ins",
    help="Attempts to sign in by method and outcome: succeeded, or the error code of the refusal.",
    labels=("method", "outcome"),
    known=tuple((method, "succeeded") for method in ("password", "otp", "pkce", "oauth", "oidc", "passkey", "mfa")),
)
REFRESHES = Counter(
    name="auth_token_refreshes",
    help="Uses of refresh tokens by outcome: succeeded, or the error code of the refusal.",
    labels=("outcome",),
    known=(("succeeded",),),
)
REFRESH_REUSES = Counter(
    name="auth_refresh_token_reuses", help="Sessions ended because a refresh token was used a second time."
)
LIMIT_REFUSALS = Counter(
    name="auth_limit_refusals",
    help="Refusals by a limit: one of those of requests, or of those of messages.",
    labels=("limit",),
    known=(("email_sent",), ("sms_sent",), ("email_frequency",), ("sms_frequency",), ("Token",), ("Verify",)),
)
MAIL_QUOTA_REFUSALS = Counter(
    name="auth_email_rate_limit_counter", help="Refusals by the quota of mails.", labels=("path",)
)

MAILS_ACCEPTED = Counter(
    name="global_auth_email_send_operations_total", help="Mails handed to the mailer.", labels=("type",)
)
MAIL_ERRORS = Counter(
    name="global_auth_email_send_errors_total", help="Attempts to deliver a mail that failed.", labels=("type",)
)
DELIVERIES = Counter(
    name="auth_message_deliveries",
    help="Attempts to deliver a message by channel and outcome: delivered, retry or failed.",
    labels=("channel", "outcome"),
    known=tuple((channel, outcome) for channel in ("email", "sms") for outcome in ("delivered", "retry", "failed")),
)
CLEANED = Counter(name="auth_cleanup_affected_rows", help="Rows removed because they have had their time.")

_HASH = ("alg", "cost")
HASHES_BEGUN = Counter(
    name="auth_generate_from_password_submitted", help="Hashes of new passwords begun.", labels=_HASH
)
HASHES_DONE = Counter(name="auth_generate_from_password_completed", help="Hashes of new passwords made.", labels=_HASH)
COMPARISONS_BEGUN = Counter(
    name="auth_compare_hash_and_password_submitted", help="Comparisons with a password hash begun.", labels=_HASH
)
COMPARISONS_DONE = Counter(
    name="auth_compare_hash_and_password_completed",
    help="Comparisons with a password hash made.",
    labels=(*_HASH, "match"),
)
HASH_WAITING = Level(name="auth_hash_pool_waiting", help="Threads that wait for their turn to hash.")
HASH_RUNNING = Level(name="auth_hash_pool_running", help="Threads that hash.")
HASH_PLACES = Level(name="auth_hash_pool_places", help="How many may hash at once.")
HASH_WAIT_SECONDS = Histogram(name="auth_hash_pool_wait", help="How long threads waited for their turn.", unit="s")
HASH_SECONDS = Histogram(name="auth_hash_pool_work", help="How long hashing took.", unit="s")

STATEMENT_SECONDS = Histogram(
    name="db.client.operation.duration", help="How long statements took.", unit="s", buckets=_SHORT
)
STATEMENT_ERRORS = Counter(
    name="auth_database_errors",
    help="Statements that failed, by class of SQLSTATE.",
    labels=("class",),
    known=(("08",), ("57",)),
)
CONNECTIONS = Level(name="auth_database_connections", help="Connections to the database that requests and jobs hold.")
CONNECT_ERRORS = Counter(name="auth_database_connect_errors", help="Connections to the database that were not had.")

CPU_SECONDS = Counter(name="process_cpu", help="Time of the processors that all processes have used.", unit="s")
MEMORY = Level(
    name="process_resident_memory", help="Memory of all processes; what they share counts once each.", unit="By"
)
THREADS = Level(name="process_threads", help="Threads of all processes.")
OPEN_FILES = Level(name="process_open_fds", help="Open files and connections of all processes.")
COLLECTIONS = Counter(name="python_gc_collections", help="Runs of the garbage collector.", labels=("generation",))
