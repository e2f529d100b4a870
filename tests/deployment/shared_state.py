"""Checks that several servers act as one: limits, codes, refresh tokens and sessions, used on all of them at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from tests.deployment import installation, postgresql, scenarios
from tests.timeouts import wait_until

EMAIL = "ann@example.com"
PASSWORD = "correct horse battery"
LIMIT = 30
"""Codes that a client may try at once."""
_CODE = re.compile(r"^Subject: Your code is ([0-9]{6})\r?$", re.MULTILINE)


def send_at_once(balancer: str, number: int, path: str, body: dict[str, Any]) -> list[requests.Response]:
    """The responses to so many equal requests by as many threads; the balancer sends them to the servers in turn."""

    def send(_index: int) -> requests.Response:
        return requests.post(f"{balancer}{path}", json=body, timeout=60)

    with ThreadPoolExecutor(number) as executor:
        return list(executor.map(send, range(number)))


def statuses(responses: Sequence[requests.Response]) -> dict[int, int]:
    return dict(Counter(response.status_code for response in responses))


def check(*, number: int = 6) -> None:
    """Raises AssertionError."""
    with (
        scenarios.folders() as folder,
        postgresql.running_pair(scenarios.postgresql_programs()) as pair,
        installation.running(
            folder, pair=pair, number=number, env={"AUTH_RATE_LIMIT_VERIFY": str(LIMIT)}, worker_number=0
        ) as running,
    ):
        first, *others = servers = running.servers
        balancer = f"http://127.0.0.1:{running.port}"
        requests.post(f"{first.url}/signup", json={"email": EMAIL, "password": PASSWORD}, timeout=60).raise_for_status()
        wait_until(lambda: running.smtp.received, "the email")
        found = _CODE.search(running.smtp.received[0].content.decode("latin-1"))
        assert found

        code = {"type": "signup", "email": EMAIL, "token": found.group(1)}
        verified = send_at_once(balancer, 2 * number, "/verify", code)
        assert statuses(verified) == {200: 1, 403: 2 * number - 1}
        (session,) = (response.json() for response in verified if response.ok)

        token = {"refresh_token": session["refresh_token"]}
        refreshed = send_at_once(balancer, 4 * number, "/token?grant_type=refresh_token", token)
        assert statuses(refreshed) == {200: 4 * number}
        (successor,) = {response.json()["refresh_token"] for response in refreshed}

        tried = send_at_once(balancer, 2 * LIMIT, "/verify", {**code, "token": "000000"})
        left = LIMIT - 2 * number
        # The limit refills by one in ten seconds.
        assert left <= statuses(tried)[403] <= left + 1
        assert statuses(tried)[429] == 2 * LIMIT - statuses(tried)[403]

        bearer = {"Authorization": f"Bearer {session['access_token']}"}
        assert all(requests.get(f"{server.url}/user", headers=bearer, timeout=60).ok for server in servers)
        requests.post(f"{first.url}/logout", headers=bearer, timeout=60).raise_for_status()
        ended = [requests.get(f"{server.url}/user", headers=bearer, timeout=60) for server in others]
        assert statuses(ended) == {403: number - 1}
        refused = send_at_once(balancer, number, "/token?grant_type=refresh_token", {"refresh_token": successor})
        assert statuses(refused) == {400: number}
        assert len(running.smtp.received) == 1
