"""Revocations lock sessions in the order of their ids, and wait for no flow: concurrent ones cannot deadlock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.users import queries
from authsvc.caller import Caller
from tests.concurrency import lock_session, run_in_own_connection, wait_for_lock_waiters
from tests.conftest import Api
from tests.factories import SignIn, make_flow, make_session, make_user
from tests.tokens.token_requests import refresh, rotate
from tokens.models import FlowState, Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db(transaction=True)


def make_sessions() -> tuple[SignIn, SignIn]:
    """Two sessions of a user, whose rows are in the reverse order of their ids; the one with the lower id first."""
    while True:
        user = make_user()
        high, low = make_session(user), make_session(user)
        if low.session.id < high.session.id:
            return low, high


def sign_out_browser(api: Api, browser: SignIn) -> None:
    current = queries.AccountUsers().find_by_session(browser.session.id)
    assert current is not None
    revocation.sign_out_browser(current, caller=Caller(), at=timezone.now())


def sign_out_others(api: Api, browser: SignIn) -> None:
    assert api.post("/logout?scope=others", bearer=browser.access_token).status_code == 204


def revoke_weaker_sessions(api: Api, browser: SignIn) -> None:
    with transaction.atomic():
        revocation.revoke_weaker_sessions(browser.user.id, except_session_id=browser.session.id)


@pytest.mark.parametrize("revoke", [sign_out_browser, sign_out_others, revoke_weaker_sessions])
def test_sessions_are_locked_in_the_order_of_their_ids(api: Api, revoke: Callable[[Api, SignIn], None]) -> None:
    low, high = make_sessions()
    browser = make_session(low.user)
    clients = Session.objects.filter(id__in=[low.session.id, high.session.id])
    clients.update(approving_session_id=browser.session.id)

    with ThreadPoolExecutor(1) as threads:
        with lock_session(low.session):
            running = threads.submit(run_in_own_connection, lambda: revoke(api, browser))
            wait_for_lock_waiters(1)
            with transaction.atomic():
                assert Session.objects.select_for_update(skip_locked=True).filter(id=high.session.id).exists()
        running.result()

    assert not clients.exists()


def test_the_end_of_a_reused_session_does_not_wait_for_a_flow(api: Api) -> None:
    signed_in = make_session()
    flow = make_flow(signed_in.user, linking_target_id=signed_in.user.id)
    rotate(api, rotate(api, signed_in.refresh_token))
    locked, release = Event(), Event()

    def change_password() -> None:
        with transaction.atomic():
            FlowState.objects.filter(id=flow.id).delete()
            locked.set()
            assert release.wait(60)
            # It would wait for the session, and the refresh for the flow.
            revocation.revoke_all_sessions(signed_in.user.id, reason="password_changed")

    with ThreadPoolExecutor(2) as threads:
        changed = threads.submit(run_in_own_connection, change_password)
        assert locked.wait(30)
        reused = threads.submit(run_in_own_connection, lambda: refresh(api, signed_in.refresh_token))
        try:
            assert reused.result(timeout=10).json()["error_code"] == "refresh_token_already_used"
        finally:
            release.set()
        changed.result()

    assert not Session.objects.exists()
    assert not FlowState.objects.exists()
