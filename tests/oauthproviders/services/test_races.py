"""Callbacks, and what else happens, at the same moment."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from accounts import arrivals
from accounts.external import Address, ProviderProfile
from accounts.models import Identity, User
from accounts.services import identities
from authsvc.core import clock
from authsvc.core.caller import Caller
from authsvc.core.db import rows
from tests import factories
from tests.conftest import Answer, Api
from tests.factories import AUDIENCE, CHALLENGE, make_user
from tests.fakes.http_peer import in_json
from tests.oauthproviders.browser import ADA, EMAILS_PATH, TOKEN_PATH, USER_PATH, Browser, GitHub, address, link
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 8

# Other databases of the server belong to other tests.
_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_WAITING = f"SELECT 1 {_OTHERS} AND wait_event_type = 'Lock'"
_BUSY = f"SELECT query {_OTHERS} AND backend_type = 'client backend' AND state <> 'idle'"


def together(*calls: Callable[[], Answer]) -> list[str]:
    """Where all of these requests, made at once by a thread each, are sent to."""
    ready = threading.Barrier(len(calls))

    def run(call: Callable[[], Answer]) -> str:
        try:
            connection.ensure_connection()
            ready.wait(timeout=30)
            return call().headers["Location"]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def somebody_waits() -> bool:
    rows("SELECT pg_stat_clear_snapshot()", [])  # of what the transaction has seen before
    return bool(rows(_WAITING, []))


def of_those(locations: list[str], *marks: str) -> list[int]:
    return [sum(mark in location for location in locations) for mark in marks]


def test_of_callbacks_with_one_code_one_signs_in(github: GitHub, browser: Browser) -> None:
    state = browser.depart()

    locations = together(*[lambda: browser.come_back(state)] * MANY)

    assert of_those(locations, "#access_token=", "error_code=bad_oauth_state") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, 1)


def test_of_callbacks_with_one_code_one_gets_the_code_of_pkce(github: GitHub, browser: Browser) -> None:
    make_user(email="ada@example.com")
    state = browser.depart(code_challenge=CHALLENGE, code_challenge_method="s256")

    locations = together(*[lambda: browser.come_back(state)] * MANY)

    assert of_those(locations, "?code=", "error_code=flow_state_already_used") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.filter(provider="github").count()) == (1, 1)


def test_many_first_sign_ins_of_one_person_make_one_account(github: GitHub, browser: Browser) -> None:
    states = [browser.depart() for _ in range(MANY)]

    locations = together(*[lambda state=state: browser.come_back(state) for state in states])

    assert of_those(locations, "#access_token=") == [MANY]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, MANY)


def test_of_two_who_link_one_identity_one_has_it(github: GitHub, browser: Browser, api: Api) -> None:
    states = [link(api, factories.make_session().access_token) for _ in range(2)]

    locations = together(*[lambda state=state: browser.come_back(state) for state in states])

    assert of_those(locations, "#access_token=", "error_code=identity_already_exists") == [1, 1]
    assert Identity.objects.filter(provider="github").count() == 1


def test_somebody_unconfirmed_who_confirms_meanwhile_keeps_the_account(github: GitHub, browser: Browser) -> None:
    user = make_user(email="ada@example.com", confirmed=False)
    state = browser.depart()

    with ThreadPoolExecutor(1) as elsewhere:
        # Confirmed, but not committed yet: what the callback decides on is what it was before.
        with transaction.atomic():
            User.objects.filter(id=user.id).update(email_confirmed_at=clock.now())
            landing = elsewhere.submit(together, lambda: browser.come_back(state))
            wait_until(somebody_waits)
        (location,) = landing.result()

    password = user.password
    user.refresh_from_db()
    assert "#access_token=" in location
    assert user.password == password
    assert Identity.objects.filter(user=user).count() == 2


def test_nothing_of_the_database_is_held_while_the_provider_is_asked(github: GitHub, browser: Browser) -> None:
    for path, answer in [
        (TOKEN_PATH, {"access_token": "gho_x"}), (USER_PATH, ADA), (EMAILS_PATH, [address("ada@example.com")]),
    ]:  # fmt: skip
        github.peer.answer(dataclasses.replace(in_json(answer), delay=1), path=path)
    state = browser.depart()
    seen: list[list[tuple[str]]] = []

    with ThreadPoolExecutor(1) as elsewhere:
        landing = elsewhere.submit(together, lambda: browser.come_back(state))
        for number in (1, 2, 3):
            wait_until(lambda number=number: len(github.peer.received) == number)  # type: ignore[misc]
            seen.append(rows(_BUSY, []))
        (location,) = landing.result()

    assert "#access_token=" in location
    assert seen == [[], [], []]


def test_subjects_that_differ_in_case_are_different_people() -> None:
    users = [_come(subject) for subject in ("abc", "ABC", "abc")]

    assert users[0] == users[2] != users[1]


def _come(subject: str) -> User:
    email = "lower@example.com" if subject.islower() else "upper@example.com"
    profile = ProviderProfile(claims={"sub": subject}, addresses=(Address(email=email, verified=True, primary=True),))
    return identities.enter(
        arrivals.read(provider="custom:any", profile=profile, email_optional=False),
        then=lambda user: User.objects.get(id=user.id),
        starts_session=False,
        redirect_to="",
        caller=Caller(audience=AUDIENCE),
        at=clock.now(),
    )
