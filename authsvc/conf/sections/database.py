"""Settings of the database: connection, encryption of columns, clean-up, search indexes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import BOOLEAN, COUNT, DATABASE_URL, SECRET, SECRET_MAP, TEXT, quote

_NAMESPACE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,25})?")
"""PostgreSQL cuts names after 63 bytes, and those of the longest constraints would then be equal."""
_BASE64URL_OF_32_BYTES = re.compile(r"[A-Za-z0-9_-]{43}")


def _check_driver(driver: str) -> str:
    return "" if driver == "postgres" else 'AUTH_DB_DRIVER must be "postgres"'


def _check_replica_url(url: Secret) -> str:
    return "must be postgres://…" if url.reveal().startswith("embedded:") else ""


def _check_namespace(namespace: str) -> str:
    if _NAMESPACE.fullmatch(namespace):
        return ""
    return "must consist of at most 26 letters, digits and underscores, and must not begin with a digit"


# Connections of a serving process beside those of its threads.
WORKER_CONNECTIONS = 4
"""Connections of the message worker: two for the queue, one that listens, one for the current job."""
INDEX_CONNECTIONS = 2
"""Of the index worker, now and then: one for its lock, one that builds."""
WEBHOOK_CONNECTIONS = 1
"""Of the delivery of webhooks."""
PROBE_CONNECTIONS = 1
"""Of the readiness check."""
METRICS_CONNECTIONS = 1
"""Of the queue metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    driver: str = setting(
        "AUTH_DB_DRIVER",
        type=TEXT,
        required=True,
        restart=True,
        check=_check_driver,
        help="Must be `postgres`.",
        example="postgres",
    )
    url: Secret = setting(
        "AUTH_DB_DATABASE_URL",
        "AUTH_DATABASE_URL",
        "DATABASE_URL",
        documented_name="DATABASE_URL",
        type=DATABASE_URL,
        required=True,
        restart=True,
        help="`postgres://user:password@host:5432/name`, or `embedded:<folder>` for a private PostgreSQL. Of several"
        " hosts, `a:5432,b:5432`, the service uses the one that accepts writes.",
        example="embedded:.data/postgres",
    )
    read_replica_url: Secret = setting(
        "AUTH_DB_READ_REPLICA_URL",
        type=DATABASE_URL,
        default=Secret(""),
        restart=True,
        check=_check_replica_url,
        help="Replicas of the database, of which one is chosen at random, for lists, searches, exports and charts of"
        " administrators.",
        example="postgres://user:password@b:5432,c:5432/name",
    )
    namespace: str = setting(
        "AUTH_DB_NAMESPACE",
        "DB_NAMESPACE",
        type=TEXT,
        default="",
        restart=True,
        check=_check_namespace,
        help="Prefix of every table, in lower case and followed by an underscore, for several installations in one"
        " database. At most 26 characters.",
        example="auth",
    )
    max_pool_size: int = setting(
        "AUTH_DB_MAX_POOL_SIZE",
        type=COUNT,
        default=0,
        unit="connections",
        help="Maximum of connections of all processes of a server, the message worker included; 0 = no limit.",
    )
    prepared_statements_enabled: bool = setting(
        "AUTH_DB_PREPARED_STATEMENTS_ENABLED",
        type=BOOLEAN,
        default=True,
        restart=True,
        help="Use prepared statements. Turn off behind a pooler in transaction mode that does not support them.",
    )
    transaction_pooling_enabled: bool = setting(
        "AUTH_DB_TRANSACTION_POOLING_ENABLED",
        type=BOOLEAN,
        default=False,
        restart=True,
        help="A pooler in transaction mode is in front of the database: use nothing that needs a session of its own."
        " Without prepared statements this is assumed.",
    )
    encrypt: bool = setting(
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT",
        type=BOOLEAN,
        default=False,
        help="Encrypt password hashes, keys of sessions and secrets of factors in the database.",
    )
    encryption_key_id: str = setting(
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID",
        type=TEXT,
        default="",
        help="Name of the key that encrypts.",
    )
    encryption_key: Secret = setting(
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY",
        type=SECRET,
        default=Secret(""),
        help="The key that encrypts: 32 bytes in base64url without padding.",
    )
    decryption_keys: Mapping[str, Secret] = setting(
        "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS",
        type=SECRET_MAP,
        default={},
        help="`name:key` of every key that stored values may be encrypted with.",
    )
    cleanup_enabled: bool = setting(
        "AUTH_DB_CLEANUP_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Delete expired sessions and abandoned users and factors every minute. Expired flows and challenges"
        " are always deleted.",
    )

    @property
    def has_sessions(self) -> bool:
        """True if a connection keeps its session, for notifications, session settings and server-side cursors."""
        return self.prepared_statements_enabled and not self.transaction_pooling_enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWorker:
    """Indexes for the search of users by part of an address or name."""

    ensure_user_search: bool = setting(
        "AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST",
        type=BOOLEAN,
        default=False,
        help="Build the indexes for the search of users; needs the extension `pg_trgm`.",
    )
    max_users: int = setting(
        "AUTH_INDEX_WORKER_MAX_USERS_THRESHOLD",
        type=COUNT,
        default=0,
        unit="users",
        help="Build these indexes also without the setting above while there are at most as many users; 0 = never.",
    )

    @property
    def is_on(self) -> bool:
        return self.ensure_user_search or self.max_users > 0


def check_pool_size(database: Database, background_connections: int, report: SettingsReport) -> None:
    smallest = 1 + background_connections
    if 0 < database.max_pool_size < smallest:
        report.error(
            "AUTH_DB_MAX_POOL_SIZE",
            f"must be at least {smallest} connections, or 0 for no limit, was {database.max_pool_size}",
        )


def check_encryption(database: Database, report: SettingsReport) -> None:
    for key_id, key in database.decryption_keys.items():
        if not _is_key(key):
            report.error(
                "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS",
                f"conf: decryption key with ID {quote(key_id)} must be 256 bits",
            )
    if not database.encrypt:
        return
    if not database.encryption_key_id:
        report.error("AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID", "conf: encryption key ID must be specified")
    if not _is_key(database.encryption_key):
        report.error("AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY", "conf: encryption key is not 256 bits")
    if database.encryption_key_id not in database.decryption_keys:
        report.error(
            "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS",
            "conf: encryption key must also be present in decryption keys",
        )
    elif database.encryption_key != database.decryption_keys[database.encryption_key_id]:
        # Nothing could decrypt the values that are stored from now on.
        report.error(
            "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS",
            f"conf: the decryption key with ID {quote(database.encryption_key_id)} must be the encryption key;"
            " a new key needs a new ID",
        )


def _is_key(secret: Secret) -> bool:
    return _BASE64URL_OF_32_BYTES.fullmatch(secret.reveal()) is not None
