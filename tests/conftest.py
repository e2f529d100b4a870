"""Fixtures for all tests: the database, a JSON client, a mailbox and changed settings."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import orjson
import pytest
import responses
from django.db import connection, connections
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from accounts.passwords import hash_kinds
from authsvc import messaging
from authsvc.conf import AuthConfig
from authsvc.db import embedded
from tests import openapi, recorded_metrics
from tests.fakes.http_peer import HttpPeer
from tests.settings import DISK, MEMORY

pytest_plugins = ["tests.live.servers"]

# The data of a test run needs no durability. Autovacuum would change query plans and row positions during a test.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "300",
}

SERVER_FIXTURES = frozenset({"empty_database_url", "fresh_database_url", "worker"})
"""Fixtures of tests that start a server or its worker."""


def _folder() -> Path | None:
    url = os.environ["DATABASE_URL"]
    return Path(url.removeprefix(embedded.SCHEME)) if url.startswith(embedded.SCHEME) else None


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    # The modules and tests that are collected are no garbage.
    gc.disable()
    # A shell lets processes in the background ignore Ctrl-C, and so would the processes that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = _folder()
    if folder is None or _is_xdist_worker(config):
        return
    for leftover in (*MEMORY.glob("authsvc-test-*"), *DISK.glob("authsvc-test-*")):
        # Databases of other system users belong to other test runs.
        with contextlib.suppress(PermissionError):
            if embedded.stop(leftover):
                shutil.rmtree(leftover, ignore_errors=True)
    embedded.start(folder, settings=FAST)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _is_xdist_worker(config):
        return
    folder = _folder()
    if folder is None:
        from tests.live import servers  # noqa: PLC0415  (pytest loads it as a plug-in after this module)

        servers.drop_template()
    elif embedded.stop(folder):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let the first xdist worker compile a module of tests; the others wait for it and read the result."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    with collector.path.open("rb") as module:
        fcntl.flock(module, fcntl.LOCK_EX)
        return (yield)


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest,
    django_db_modify_db_settings_parallel_suffix: None,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    """Let xdist workers copy one migrated database instead of migrating their own."""
    if _is_xdist_worker(request.config):
        from tests.live import servers  # noqa: PLC0415  (pytest loads it as a plug-in after this module)

        with django_db_blocker.unblock():
            connection.settings_dict["TEST"]["TEMPLATE"] = servers.migrated_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End the sessions of killed programs, because a database with sessions cannot be dropped."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user"
        )
        # Request slots may have exchanged the connection of this thread, which Django would leave open.
        connections.close_all()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin long tests early: each xdist worker gets an equal share of them, at the start of its part of `items`."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if _is_long(item)]
    # The tests of catalogclient share servers that each worker starts once, so they stay together.
    short = sorted(
        (item for item in items if not _is_long(item)), key=lambda item: "catalogclient" not in item.path.parts
    )
    items[:] = [item for number in range(workers) for kind in (long, short) for item in _share(kind, number, workers)]


def _is_long(item: pytest.Item) -> bool:
    return "live" in item.path.parts or not SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _share(items: list[pytest.Item], number: int, count: int) -> list[pytest.Item]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]


class ApiResponse(Protocol):
    """The attributes of Django's test response that tests use."""

    status_code: int
    content: bytes
    headers: dict[str, str]

    def json(self) -> Any: ...


class Api:
    """A JSON client that calls the service in this process, without network and without cookies.

    Every response is checked against the OpenAPI document.
    """

    def request(
        self, method: str, path: str, body: Any = None, *, bearer: str = "", headers: dict[str, str] | None = None
    ) -> ApiResponse:
        """Send `body` as JSON, or unchanged if it is text or bytes; `bearer` is an access token."""
        data = body if isinstance(body, str | bytes) else b"" if body is None else orjson.dumps(body)
        authorization = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        response: Any = Client().generic(
            method, path, data, content_type="application/json", headers={**authorization, **(headers or {})}
        )
        problems = openapi.find_problems(
            method, path, response.status_code, headers=response.headers, content=response.content
        )
        assert not problems, "\n".join(problems)
        return response  # type: ignore[no-any-return]

    def get(self, path: str, **options: Any) -> ApiResponse:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> ApiResponse:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> ApiResponse:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> ApiResponse:
        return self.request("PATCH", path, body, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> ApiResponse:
        return self.request("DELETE", path, body, **options)


def read_success(response: ApiResponse, *, status: int = 200) -> dict[str, Any]:
    """The body of a response that must be a success."""
    assert response.status_code == status, response.content
    body: dict[str, Any] = response.json()
    return body


def describe_shape(value: Any) -> Any:
    """The value with only its keys and the types of its values left."""
    if isinstance(value, dict):
        return {key: describe_shape(member) for key, member in value.items()}
    return [describe_shape(element) for element in value] if isinstance(value, list) else type(value)


@pytest.fixture(autouse=True)
def _no_imported_hashes() -> None:
    """Forget the kinds of password hashes that an earlier test has stored."""
    hash_kinds.remember(())


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def production_hasher(settings: Settings) -> None:
    """Hash passwords at the product's costs; without it hashes cost next to nothing."""
    settings.PASSWORD_HASHERS = settings.PRODUCTION_PASSWORD_HASHERS


class ChangeConfig(Protocol):
    def __call__(self, **sections: Any) -> AuthConfig: ...


@pytest.fixture
def auth_config(settings: Settings) -> ChangeConfig:
    """`auth_config(jwt={"exp": timedelta(hours=2)})` replaces fields in sections of `settings.AUTH` for one test.

    A section that is not a dataclass (`providers`) is replaced as a whole. Repeated calls accumulate.
    """

    def change(**sections: Any) -> AuthConfig:
        current: AuthConfig = settings.AUTH
        changed: dict[str, Any] = {}
        for name, fields in sections.items():
            section = getattr(current, name)
            if dataclasses.is_dataclass(section) and not isinstance(section, type):
                changed[name] = dataclasses.replace(section, **fields)
            else:
                changed[name] = fields
        settings.AUTH = dataclasses.replace(current, **changed)
        return settings.AUTH  # type: ignore[no-any-return]

    return change


@pytest.fixture
def no_request_limits(auth_config: ChangeConfig) -> None:
    """Disable the limits of requests per client: clients are identified by a header that is never sent."""
    auth_config(limits={"header": "X-Never-Sent"})


@pytest.fixture
def no_refresh_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of refreshes, which then wait for each other as long as a loaded machine needs."""
    monkeypatch.setattr("tokens.sessions.refresh.time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def slow_refill(auth_config: ChangeConfig) -> None:
    """Limits of requests per client refill so slowly that a test may take any time; their bursts stay."""
    limited = ("verify", "token_refresh", "otp", "factors", "passkey")
    auth_config(limits=dict.fromkeys(limited, 0.001))


@pytest.fixture
def mocked_requests() -> Iterator[responses.RequestsMock]:
    """Answer outgoing HTTP requests without a network; requests that are not registered fail."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def peer() -> Iterator[HttpPeer]:
    """A server on loopback with prepared responses."""
    with HttpPeer() as running:
        yield running


class Mailbox:
    """The messages requested so far, oldest first."""

    def __init__(self) -> None:
        self.emails: list[messaging.Email] = []
        self.sms: list[messaging.Sms] = []

    def accept_email(self, *, message: messaging.Email, **_: object) -> None:
        self.emails.append(message)

    def accept_sms(self, *, message: messaging.Sms, **_: object) -> None:
        self.sms.append(message)

    def clear(self) -> None:
        self.emails.clear()
        self.sms.clear()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """Collect messages from the two message signals; the mailer receives them as well."""
    box = Mailbox()
    messaging.email_requested.connect(box.accept_email, weak=False)
    messaging.sms_requested.connect(box.accept_sms, weak=False)
    yield box
    messaging.email_requested.disconnect(box.accept_email)
    messaging.sms_requested.disconnect(box.accept_sms)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> recorded_metrics.RecordedMetrics:
    """The service's own metrics, recorded during the test."""
    return recorded_metrics.enable(monkeypatch)
