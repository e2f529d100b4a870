"""Lists give way to the other requests of their process, not to each other, and not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from authsvc.api import middleware, turns
from authsvc.api.turns import Turns
from authsvc.server import serving
from tests.accounts.administration import admin_requests
from tests.conftest import Answer, Api, ChangeConfig
from tests.factories import make_session, make_user

PATIENCE_SECONDS = 30
"""How long anything may take before it counts as never happening."""
FOR_EVER = 3600.0

Lists = Callable[[Callable[[], object]], "Future[object]"]


@pytest.fixture
def lists() -> Iterator[Lists]:
    """Starts a list in a thread of its own."""
    with ThreadPoolExecutor(16) as threads:
        yield threads.submit


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that wait wait for ever."""
    monkeypatch.setattr(turns, "SECONDS_FOR_EACH", FOR_EVER)
    monkeypatch.setattr(turns, "LONGEST_SECONDS", FOR_EVER)


@pytest.fixture
def in_hand() -> Iterator[threading.Event]:
    """Another request is served until this is set."""
    begun, done = threading.Event(), threading.Event()

    def respond(_: HttpRequest) -> HttpResponse:
        begun.set()
        done.wait(PATIENCE_SECONDS)
        return HttpResponse()

    other = threading.Thread(target=middleware.RequestMiddleware(respond), args=(RequestFactory().get("/user"),))
    other.start()
    assert begun.wait(PATIENCE_SECONDS)
    yield done
    done.set()
    other.join()


def one_list(of: Turns) -> None:
    with of:
        of.give_way(rows=50)


def wait_for(number: int, of: Turns) -> None:
    """Return when so many lists wait; fail when they never do."""
    until = time.monotonic() + PATIENCE_SECONDS
    while of.waiting != number:
        assert time.monotonic() < until, f"{of.waiting} lists wait, not {number}"
        time.sleep(0.001)


@pytest.mark.usefixtures("patient")
def test_a_list_waits_while_another_request_is_served(lists: Lists) -> None:
    of = Turns()
    with of:
        listed = lists(lambda: one_list(of))
        wait_for(1, of)
        assert not listed.done()
    listed.result(PATIENCE_SECONDS)
    assert of.waiting == 0


@pytest.mark.usefixtures("patient")
def test_a_moment_without_requests_is_not_yet_quiet(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "QUIET_SECONDS", FOR_EVER)
    of = Turns()
    lists(lambda: one_list(of)).result(PATIENCE_SECONDS)
    with of:
        pass
    listed = lists(lambda: one_list(of))
    wait_for(1, of)
    monkeypatch.setattr(turns, "QUIET_SECONDS", 0.0)
    listed.result(PATIENCE_SECONDS)


@pytest.mark.parametrize("longest", ["SECONDS_FOR_EACH", "LONGEST_SECONDS"])
def test_a_list_begins_after_its_time_whatever_is_served(
    lists: Lists, monkeypatch: pytest.MonkeyPatch, longest: str
) -> None:
    for name in ("SECONDS_FOR_EACH", "LONGEST_SECONDS"):
        monkeypatch.setattr(turns, name, 0.001 if name == longest else FOR_EVER)
    of = Turns()
    with of:
        lists(lambda: one_list(of)).result(PATIENCE_SECONDS)
        assert of.waiting == 0


@pytest.mark.usefixtures("patient")
def test_lists_do_not_wait_for_lists(lists: Lists) -> None:
    of = Turns()
    with of:
        of.give_way(rows=50)
        lists(lambda: one_list(of)).result(PATIENCE_SECONDS)


@pytest.mark.usefixtures("patient")
def test_a_request_that_has_failed_is_waited_for_no_more(lists: Lists) -> None:
    of = Turns()
    with pytest.raises(KeyboardInterrupt), of:
        raise KeyboardInterrupt
    lists(lambda: one_list(of)).result(PATIENCE_SECONDS)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("connections", "waiting"), [(0, serving.THREADS - 1), (4, 2), (2, 0)])
def test_one_thread_is_left_to_others(lists: Lists, auth_config: ChangeConfig, connections: int, waiting: int) -> None:
    auth_config(api={"processes": 1}, mailer={"worker_enabled": False}, database={"max_pool_size": connections})
    of = Turns()
    with of:
        begun = []
        for number in range(waiting):
            begun.append(lists(lambda: one_list(of)))
            wait_for(number + 1, of)
        begun.append(lists(lambda: one_list(of)))
        begun[0].result(PATIENCE_SECONDS)
        assert of.waiting == waiting
        assert not any(each.done() for each in begun[1:])
    for each in begun:
        each.result(PATIENCE_SECONDS)


def asked(api: Api, path: str, *, bearer: str = "") -> Answer:
    try:
        return api.get(path, bearer=bearer or admin_requests.token())
    finally:
        connection.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "by_cursor"),
    [
        ("/admin/users", False),
        ("/admin/users", True),
        ("/admin/users?page=2&per_page=1", False),
        ("/admin/users?filter=ann", False),
        ("/admin/users?filter=ann", True),
        ("/admin/audit", False),
    ],
)
def test_users_and_audit_trail_are_listed_after_others_are_served(
    api: Api, auth_config: ChangeConfig, lists: Lists, in_hand: threading.Event, path: str, by_cursor: bool
) -> None:
    auth_config(experimental={"cursor_pagination_enabled": by_cursor})
    listed = lists(lambda: asked(api, path).status_code)
    wait_for(1, turns.of_process)
    in_hand.set()
    assert listed.result(PATIENCE_SECONDS) == 200


@pytest.mark.usefixtures("patient", "in_hand")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by_cursor", [False, True])
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("email=ann@example.com", 200),
        ("phone=15550001", 200),
        ("id=7c9d2a0e-6f0f-4d0e-9c11-0c5a8d0a2f11", 200),
        ("email=ann@example.com&filter=ann", 200),
        ("sort=age", 400),
        ("page=two", 400),
    ],
)
def test_looking_somebody_up_and_refusing_wait_for_nobody(
    api: Api, auth_config: ChangeConfig, lists: Lists, query: str, status: int, by_cursor: bool
) -> None:
    auth_config(experimental={"cursor_pagination_enabled": by_cursor})
    assert lists(lambda: asked(api, f"/admin/users?{query}").status_code).result(PATIENCE_SECONDS) == status


@pytest.mark.usefixtures("patient")
@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_list_waits(api: Api, lists: Lists, in_hand: threading.Event) -> None:
    # Their session is looked up before.
    operator = make_session(make_user(role="svc_admin")).access_token
    listed = lists(lambda: asked(api, "/admin/users", bearer=operator).status_code)
    wait_for(1, turns.of_process)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchone() == (0,)
    in_hand.set()
    assert listed.result(PATIENCE_SECONDS) == 200
