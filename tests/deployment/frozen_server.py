"""Checks that a server which is frozen within the transaction of a sign-in stops no other server."""

from __future__ import annotations

import base64
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import requests

from tests.deployment import installation, postgresql, scenarios
from tests.fakes.http_peer import HttpPeer, Response
from tests.live.servers import LiveServer
from tests.timeouts import wait_until

EMAIL, OTHER_EMAIL = "ann@example.com", "bob@example.com"
PASSWORD = "correct horse battery"
CLIENTS = 12
"""Clients that sign in as the user whose row is locked, and try again at once."""
RELEASE_SECONDS = 60
"""`idle_in_transaction_session_timeout` of the service, and the response time of a sign-in that waits for the row."""
_SECRET = f"v1,whsec_{base64.b64encode(bytes(32)).decode()}"


def sign_in(server: LiveServer, email: str) -> int:
    """The status of the response."""
    body = {"email": email, "password": PASSWORD}
    return requests.post(f"{server.url}/token?grant_type=password", json=body, timeout=120).status_code


def check() -> float:
    """The seconds until the user of the frozen sign-in can sign in elsewhere. Raises AssertionError."""
    with (
        scenarios.folders() as folder,
        HttpPeer() as hook,
        postgresql.running_pair(scenarios.postgresql_programs()) as pair,
        installation.running(
            folder,
            pair=pair,
            number=3,
            env={"AUTH_MAILER_AUTOCONFIRM": "true"},
            further_env=lambda position: _hook_settings(hook) if position == 2 else {},
        ) as running,
        pair.primary.connect() as database,
    ):
        *healthy, frozen = running.servers
        for email in (EMAIL, OTHER_EMAIL):
            body = {"email": email, "password": PASSWORD}
            requests.post(f"{healthy[0].url}/signup", json=body, timeout=60).raise_for_status()
        hook.respond(Response(hang=True))
        threading.Thread(target=_sign_in_until_killed, args=(frozen,), daemon=True).start()
        wait_until(lambda: hook.received, "the call of the hook")
        process = psutil.Process(frozen.process.pid)
        for member in (process, *process.children(recursive=True)):
            member.suspend()
        frozen_at = time.monotonic()

        def count_connections() -> int:
            ((count,),) = database.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'authsvc'").fetchall()
            return int(count)

        def retry(number: int) -> float:
            """The seconds until the sign-in succeeds."""
            while sign_in(healthy[number % 2], EMAIL) != 200:
                assert time.monotonic() - frozen_at < RELEASE_SECONDS
            return time.monotonic() - frozen_at

        connections = count_connections()
        with ThreadPoolExecutor(CLIENTS) as executor:
            retries = [executor.submit(retry, number) for number in range(CLIENTS)]
            while not all(retry.done() for retry in retries):
                assert {sign_in(server, OTHER_EMAIL) for server in healthy} == {200}
                # Each client has one request that waits, and one that has ended a moment ago.
                assert count_connections() <= connections + 2 * CLIENTS
                time.sleep(0.5)
            seconds = max(retry.result() for retry in retries)
        assert seconds > 30, "the frozen server held no lock"
        return seconds


def _hook_settings(hook: HttpPeer) -> dict[str, str]:
    prefix = "AUTH_HOOK_CUSTOM_ACCESS_TOKEN"
    return {f"{prefix}_ENABLED": "true", f"{prefix}_URI": hook.url, f"{prefix}_SECRETS": _SECRET}


def _sign_in_until_killed(server: LiveServer) -> None:
    try:
        sign_in(server, EMAIL)
    except requests.RequestException:
        return
