"""Parameters of both HTTP servers: address, processes, threads, time limits."""

from __future__ import annotations

import errno
import multiprocessing
import socket

from authsvc import conf

THREADS = 4
"""Requests per process that run at a time, more than cores because they wait for PostgreSQL. Each has one connection.

Requests that wait for other servers do not count (`authsvc.outgoing.bulkhead`).
"""
LIVENESS_THREADS = 2
"""Further threads for `/health`, which must not wait for a database connection."""
IDLE_SECONDS = 75
"""Timeout of a silent connection between requests.

Longer than the idle timeout of proxies (60 s are common): if the service closes a connection first, the proxy can lose
a request that it must not repeat. A silent connection holds no thread.
"""
MAX_CONNECTIONS = 8192
"""Open connections per process, as far as the limit of open files permits; further ones wait in the kernel."""
BACKLOG = 2048
"""Connections per process that wait in the kernel."""
OTHER_FILES = 256
"""Files per process beside client connections: of the database, of calls to other servers, of Python."""
HEADER_BYTES = 65_536
DRAIN_SECONDS = 60


def processes(config: conf.AuthConfig) -> int:
    """Number of serving processes: WEB_CONCURRENCY or one per core, as far as DB_MAX_POOL_SIZE has connections."""
    configured = config.api.processes or multiprocessing.cpu_count()
    limit = config.database.max_pool_size
    return min(configured, limit // (1 + config.background_connections)) if limit else configured


def threads(config: conf.AuthConfig) -> int:
    """Threads per process such that all connections together stay within DB_MAX_POOL_SIZE."""
    return threads_of(config, processes=processes(config))


def threads_of(config: conf.AuthConfig, *, processes: int) -> int:
    """The same for a number of processes that are already running; less than 1 where the limit is too small."""
    limit = config.database.max_pool_size
    return min(THREADS, limit // processes - config.background_connections) if limit else THREADS


def connections(config: conf.AuthConfig) -> int:
    """Maximum of database connections of all processes together."""
    return processes(config) * (threads(config) + config.background_connections)


def address(host: str, port: int) -> str:
    """The IP address to listen on: every IPv4 interface if `host` is empty; a name stands for one address.

    An IPv4 address of a name is preferred. Raises OSError when the name is unknown.
    """
    if not host:
        return "0.0.0.0"  # noqa: S104  (the default of AUTH_API_HOST)
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = [(family, str(address[0])) for family, _, _, _, address in results]
    return next((address for family, address in addresses if family == socket.AF_INET), addresses[0][1])


def listen_problem(host: str, port: int) -> str:
    """The reason why a server cannot listen on this host and port; empty if it can.

    Checked in advance because the processes of a server share their port, and two installations of one user would
    silently share it as well.
    """
    try:
        ip_address = address(host, port)
        with socket.socket(socket.AF_INET6 if ":" in ip_address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((ip_address, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} is in use; stop the program that uses it, or set AUTH_API_PORT to a free port"
        return f"host {host or 'not set'}, port {port}: {error.strerror}"
    return ""
