"""The service's PostgreSQL backend for Django, and connection settings from the operator's URL."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS
from psycopg import conninfo

from authsvc import conf
from authsvc.db import embedded

Server: TypeAlias = tuple[str, str]
"""Host and port."""

REPLICA_PREFIX = "replica"
"""The aliases of replicas in DATABASES are this prefix and a number: one for each server of the URL."""

_DEFAULT_PORT = "5432"
# A statement is prepared at its second run, so that one-off statements cost nothing extra.
PREPARE_AFTER = 1
CONNECT_SECONDS = "10"
# Detects within half a minute that a server is gone without having closed the connection.
_KEEPALIVE = {
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# With several hosts another one takes over, so the service waits less for each of them. Reads and writes go to the
# server that accepts writes: a standby, or a former primary, is refused when a connection begins.
_SEVERAL_HOSTS = {
    "target_session_attrs": "read-write",
    "connect_timeout": "2",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "4000",
}
# Every server can answer reads; a name can have several addresses.
_REPLICA = {**_SEVERAL_HOSTS, "target_session_attrs": "any", "load_balance_hosts": "random"}


def databases(database: conf.Database, *, has_metrics: bool = False) -> dict[str, dict[str, Any]]:
    """Django's DATABASES; opens and starts nothing."""
    entries = {DEFAULT_DB_ALIAS: settings_from(database, has_metrics=has_metrics)}
    if database.read_replica_url:
        replica = dataclasses.replace(database, url=database.read_replica_url)
        entry = settings_from(replica, has_metrics=has_metrics, is_replica=True)
        for number, (host, port) in enumerate(servers_of(entry)):
            entries[f"{REPLICA_PREFIX}{number}"] = {**entry, "HOST": host, "PORT": port}
    return entries


def servers_of(entry: Mapping[str, Any]) -> list[Server]:
    """The servers of an entry of DATABASES, in the order of the URL."""
    host, port = entry["HOST"], entry["PORT"]
    if "," not in host or host.startswith(embedded.SCHEME) or "hostaddr" in entry["OPTIONS"]:
        return [(host, port)]
    hosts, ports = host.split(","), [item or _DEFAULT_PORT for item in port.split(",")]
    return list(zip(hosts, ports if len(ports) == len(hosts) else ports[:1] * len(hosts), strict=True))


def settings_from(database: conf.Database, *, has_metrics: bool = False, is_replica: bool = False) -> dict[str, Any]:
    """One entry of Django's DATABASES for a libpq URL or `embedded:<folder>`; opens and starts nothing.

    With `has_metrics` connections and statements are counted. Every libpq query item is honoured, and `search_path` as
    a short form of `options=-c search_path=…`; `base` sets some limits of the session itself. Raises
    ImproperlyConfigured without the URL, which holds a password.
    """
    setting = "AUTH_DB_READ_REPLICA_URL" if is_replica else "DATABASE_URL"
    parameters = _parameters(database.url.reveal(), setting=setting)
    user, host = parameters.pop("user", ""), parameters.pop("host", "")
    has_several_hosts = "," in parameters.get("hostaddr", host) and not host.startswith(embedded.SCHEME)
    return {
        "ENGINE": "authsvc.db.postgresql_metrics" if has_metrics else "authsvc.db.postgresql",
        "NAME": parameters.pop("dbname", user),
        "USER": user,
        "PASSWORD": parameters.pop("password", ""),
        "HOST": host,
        "PORT": parameters.pop("port", ""),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": not database.has_sessions,
        "OPTIONS": {
            "application_name": "authsvc",
            "connect_timeout": CONNECT_SECONDS,
            **_KEEPALIVE,
            **(_REPLICA if is_replica else _SEVERAL_HOSTS if has_several_hosts else {}),
            **parameters,
            "server_side_binding": True,
            "prepare_threshold": PREPARE_AFTER if database.prepared_statements_enabled else None,
        },
    }


def _parameters(url: str, *, setting: str) -> dict[str, Any]:
    if folder := embedded.folder(url):
        return {"dbname": embedded.DATABASE, "user": embedded.ROLE, "host": f"{embedded.SCHEME}{folder}"}
    address, _, query = url.partition("?")
    items = [item.partition("=") for item in query.split("&") if item]
    libpq_items = "&".join("".join(item) for item in items if item[0] != "search_path")
    try:
        parameters = conninfo.conninfo_to_dict(f"{address}?{libpq_items}" if libpq_items else address)
    except psycopg.ProgrammingError:
        raise ImproperlyConfigured(f"{setting} is not a URL that libpq understands") from None
    for search_path in [unquote(value) for name, _, value in items if name == "search_path"]:
        # In `options` a blank or backslash that belongs to a value needs a backslash before it.
        escaped = search_path.replace("\\", "\\\\").replace(" ", "\\ ")
        parameters["options"] = f"{parameters.get('options', '')} -c search_path={escaped}".strip()
    return parameters
