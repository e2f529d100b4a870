"""Measures timing differences that reveal accounts: `python -m tests.performance.enumeration`.

Calls every endpoint that takes an address, for four types of accounts in random order. Prints the median times and
their differences from that of an unknown address. Asserts nothing: acceptable differences depend on network noise.

Starts a server of this checkout with one process, high rate limits and durable commits, or measures the server at
`--url` after creating accounts in its database (`--database-url`).
"""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import requests

from authsvc.db import embedded
from tests.live.servers import LiveServer

PASSWORD = "correct horse 1"
KINDS = ("unknown", "known", "unconfirmed", "banned")
ACCOUNTS = 10
"""Accounts per type except `unknown`, used in turn."""
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "authsvc.settings",
    "WEB_CONCURRENCY": "1",
    "AUTH_LOG_LEVEL": "error",
    "AUTH_RATE_LIMIT_HEADER": "X-Nobody",
    "AUTH_RATE_LIMIT_EMAIL_SENT": "1000000000",
    "AUTH_SMTP_MAX_FREQUENCY": "1ms",
}
PREPARED = {
    "known": "email_confirmed_at = now()",
    "unconfirmed": "email_confirmed_at = NULL",
    "banned": "email_confirmed_at = now(), banned_until = now() + interval '1 day'",
}


@dataclass(frozen=True)
class Endpoint:
    path: str
    body: dict[str, Any]
    name: str = ""


ENDPOINTS = (
    Endpoint("/otp", {}),
    Endpoint("/magiclink", {}),
    Endpoint("/recover", {}),
    Endpoint("/resend", {"type": "signup"}),
    Endpoint("/signup", {"password": PASSWORD}),
    Endpoint("/token?grant_type=password", {"password": "wrong"}, "password grant"),
)


def new_email() -> str:
    return f"{secrets.token_hex(8)}@example.com"


def make_accounts(url: str, database_url: str) -> dict[str, Iterator[str]]:
    """Account type → endless iterator of addresses."""
    addresses: dict[str, Iterator[str]] = {"unknown": (new_email() for _ in itertools.count())}
    with psycopg.connect(database_url, autocommit=True) as connection:
        for kind, columns in PREPARED.items():
            made = [new_email() for _ in range(ACCOUNTS)]
            for email in made:
                body = {"email": email, "password": PASSWORD}
                requests.post(f"{url}/signup", json=body, timeout=10).raise_for_status()
            connection.execute(f"UPDATE users SET {columns} WHERE email = ANY(%s)", (made,))
            addresses[kind] = itertools.cycle(made)
    return addresses


def measure(
    url: str, endpoint: Endpoint, addresses: dict[str, Iterator[str]], *, tries: int
) -> tuple[dict[str, float], dict[str, set[int]]]:
    """Median milliseconds and received statuses, by account type."""
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    statuses: dict[str, set[int]] = {kind: set() for kind in KINDS}
    with requests.Session() as client:
        for _ in range(tries):
            for kind in random.sample(KINDS, len(KINDS)):
                body = {**endpoint.body, "email": next(addresses[kind])}
                begun = time.perf_counter()
                response = client.post(url + endpoint.path, json=body, timeout=10)
                took[kind].append((time.perf_counter() - begun) * 1000)
                statuses[kind].add(response.status_code)
    return {kind: statistics.median(times) for kind, times in took.items()}, statuses


def run(url: str, database_url: str, *, tries: int) -> None:
    addresses = make_accounts(url, database_url)
    print(f"{'median ms':18}" + "".join(f"{kind:>20}" for kind in KINDS) + "   statuses")  # noqa: T201
    for endpoint in ENDPOINTS:
        medians, statuses = measure(url, endpoint, addresses, tries=tries)
        line = f"{endpoint.name or endpoint.path:18}{medians['unknown']:20.2f}"
        for kind in KINDS[1:]:
            line += f"{medians[kind]:11.2f} ({medians[kind] - medians['unknown']:+6.2f})"
        seen = {tuple(sorted(codes)) for codes in statuses.values()}
        print(line + "   " + ", ".join(str(status) for codes in sorted(seen) for status in codes), flush=True)  # noqa: T201


@contextmanager
def own_server() -> Iterator[tuple[str, str]]:
    """URL of a temporary server, and URL of its database."""
    with tempfile.TemporaryDirectory(prefix="authsvc-enumeration-") as name:
        folder = Path(name)
        database_url = embedded.start(folder / "pg")
        try:
            with LiveServer(folder=folder, database_url=database_url, env=SETTINGS) as server:
                yield server.url, database_url
        finally:
            embedded.stop(folder / "pg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare response times for addresses with and without an account.")
    parser.add_argument("--url", help="URL of a running server (default: start one)")
    parser.add_argument("--database-url", help="URL of that server's database")
    parser.add_argument("--tries", type=int, default=300, help="per endpoint and kind (default: %(default)s)")
    options = parser.parse_args()
    if bool(options.url) != bool(options.database_url):
        parser.error("--url and --database-url must be given together")
    if options.url:
        run(options.url, options.database_url, tries=options.tries)
        return
    with own_server() as (url, database_url):
        run(url, database_url, tries=options.tries)


if __name__ == "__main__":
    main()
