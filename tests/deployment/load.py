"""Constant load on an installation, and the journal of what was answered.

Each client signs up, confirms the address with the emailed code, refreshes, signs out, signs in and refreshes again,
with a new account each time.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.deployment.client import Client, Response
from tests.deployment.installation import Installation
from tests.timeouts import wait_until
from tokens.sessions import refresh_tokens

PASSWORD = "correct horse battery"
REFRESHES = 3
MAIL_SECONDS = 60
PAUSE_SECONDS = 0.05
"""Between two requests of a client."""
RETRY_SECONDS = 0.2
_CODE = re.compile(r"^Subject: Your code is ([0-9]{6})\r?$", re.MULTILINE)
_FAILURES = (OSError, asyncio.IncompleteReadError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One request; the times are those of time.monotonic()."""

    action: str
    began: float
    ended: float
    status: int
    """0 if the connection failed."""
    retry_after: str
    code: str
    """`error_code` of a refusal, or the name of the exception."""

    @property
    def was_answered(self) -> bool:
        return 200 <= self.status < 300


@dataclass
class Journal:
    """The contents of 2xx responses."""

    results: list[Result] = field(default_factory=list)
    accounts: dict[str, str] = field(default_factory=dict)
    """Email → user ID."""
    counters: dict[str, int] = field(default_factory=dict)
    """Session ID → highest counter of its issued refresh tokens."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Session ID → the refresh token with that counter."""
    ended: set[str] = field(default_factory=set)
    """IDs of the sessions that have signed out."""
    undecided: set[str] = field(default_factory=set)
    """IDs of the sessions whose sign-out got no 2xx response."""
    audited: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(user ID, action in the audit trail) → number."""

    def since(self, began: float) -> list[Result]:
        return [result for result in list(self.results) if result.began >= began]

    def note_session(self, user_id: str, session: dict[str, Any], action: str) -> str:
        """Note the issued tokens and return the session ID."""
        token = refresh_tokens.decode(session["refresh_token"])
        name = str(token.session_id)
        if token.counter >= self.counters.get(name, -1):
            self.counters[name], self.tokens[name] = token.counter, session["refresh_token"]
        self.audited[user_id, action] += 1
        return name


class Load:
    """Runs in a thread during its `with` block. `wait` waits for `answers` responses."""

    def __init__(self, installation: Installation, *, responses: int, clients: int = 8) -> None:
        self.journal = Journal()
        self._installation = installation
        self._responses = responses
        self._clients = clients
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._codes: dict[str, str] = {}
        self._seen = 0
        self._error: BaseException | None = None

    def answered(self, *, since: float = 0.0) -> int:
        """Number of the requests that began then or later and got a 2xx response."""
        return sum(result.was_answered for result in self.journal.since(since))

    def wait(self) -> None:
        """Wait until enough requests that begin after this call have got a 2xx response."""
        now = time.monotonic()

        def is_done() -> bool:
            if not self._thread.is_alive():
                raise RuntimeError("the load has ended") from self._error
            return self.answered(since=now) >= self._responses

        wait_until(is_done, f"{self._responses} answered requests")

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._clients):
                    group.create_task(self._use_accounts())
        except BaseExceptionGroup as error:
            self._error = error.exceptions[0]

    async def _use_accounts(self) -> None:
        client = Client(self._installation.port)
        while not self._stopping.is_set():
            await self._use_account(client)
        client.close()

    async def _use_account(self, client: Client) -> None:
        email = f"{uuid.uuid4().hex}@example.com"
        credentials = {"email": email, "password": PASSWORD}
        created = await self._send(client, "sign-up", "/signup", credentials)
        if created is None:
            return
        user_id = self.journal.accounts[email] = created.json()["id"]
        code = await self._wait_for_code(email)
        confirmed = code and await self._send(
            client, "verify", "/verify", {"type": "signup", "email": email, "token": code}
        )
        if not confirmed:
            return
        session = confirmed.json()
        self.journal.note_session(user_id, session, "user_signedup")
        session = await self._refresh(client, user_id, session)
        if await self._sign_out(client, user_id, session):
            signed_in = await self._send(client, "sign-in", "/token?grant_type=password", credentials)
            if signed_in is not None:
                session = signed_in.json()
                self.journal.note_session(user_id, session, "login")
                await self._refresh(client, user_id, session)

    async def _refresh(self, client: Client, user_id: str, session: dict[str, Any]) -> dict[str, Any]:
        """Refresh several times, each until it is answered."""
        for _ in range(REFRESHES):
            body = {"refresh_token": session["refresh_token"]}
            refreshed = None
            while refreshed is None and not self._stopping.is_set():
                refreshed = await self._send(client, "refresh", "/token?grant_type=refresh_token", body)
            if refreshed is not None:
                session = refreshed.json()
                self.journal.note_session(user_id, session, "token_refreshed")
        return session

    async def _sign_out(self, client: Client, user_id: str, session: dict[str, Any]) -> bool:
        session_id = str(refresh_tokens.decode(session["refresh_token"]).session_id)
        # The request may be carried out without a response.
        self.journal.undecided.add(session_id)
        if await self._send(client, "sign-out", "/logout?scope=local", {}, bearer=session["access_token"]) is None:
            return False
        self.journal.ended.add(session_id)
        self.journal.undecided.discard(session_id)
        self.journal.audited[user_id, "logout"] += 1
        return True

    async def _send(
        self, client: Client, action: str, path: str, body: dict[str, Any], *, bearer: str = ""
    ) -> Response | None:
        """The response if it is 2xx. Otherwise None, after a pause."""
        began = time.monotonic()
        response, code = None, ""
        try:
            response = await client.request("POST", path, body, bearer=bearer)
        except _FAILURES as error:
            code = type(error).__name__
        ended = time.monotonic()
        status = response.status if response else 0
        if response and status >= 300:
            code = _error_code(response)
        retry_after = response.headers.get("retry-after", "") if response else ""
        result = Result(action=action, began=began, ended=ended, status=status, retry_after=retry_after, code=code)
        self.journal.results.append(result)
        await asyncio.sleep(PAUSE_SECONDS if result.was_answered else RETRY_SECONDS)
        return response if result.was_answered else None

    async def _wait_for_code(self, email: str) -> str:
        """The code in the email to this address; empty if it does not arrive before the end of the load."""
        until = time.monotonic() + MAIL_SECONDS
        while time.monotonic() < until and not self._stopping.is_set():
            received = self._installation.smtp.received
            while self._seen < len(received):
                mail = received[self._seen]
                self._seen += 1
                if match := _CODE.search(mail.content.decode("latin-1")):
                    self._codes.update(dict.fromkeys(mail.recipients, match.group(1)))
            if code := self._codes.get(email):
                return code
            await asyncio.sleep(0.05)
        return ""


def _error_code(response: Response) -> str:
    try:
        return str(response.json().get("error_code", ""))
    except ValueError:
        return "not JSON"


def by_status(results: list[Result]) -> dict[int, int]:
    """Numbers of the requests that got no 2xx response, by status; 0 is a failed connection."""
    counts: dict[int, int] = defaultdict(int)
    for result in results:
        if not result.was_answered:
            counts[result.status] += 1
    return dict(sorted(counts.items()))
