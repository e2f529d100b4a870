"""Concurrent attempts with wrong codes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from tests.accounts.verification.test_wrong_codes import CLAIMED, CODE_DEAD, EMAIL, LIMIT, by_code, other_than
from tests.concurrency import run_concurrently, run_in_own_connection, wait_for_lock_waiters
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import make_session, make_user
from tests.observations import assert_error, table_contents
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db(transaction=True)

NONCE_DEAD = (422, "reauthentication_not_valid", "Nonce has expired or is invalid")


@pytest.fixture(autouse=True)
def limits(auth_config: ChangeConfig) -> None:
    auth_config(
        codes={"max_attempts": LIMIT},
        passwords={"update_requires_reauthentication": True, "reauthentication_interval": timedelta(days=1)},
    )


def by_first_confirmation(api: Api, mailbox: Mailbox) -> Callable[[str], ApiResponse]:
    """One of the two confirmations of an email change."""
    made = make_session(make_user(email=EMAIL))
    assert api.put("/user", {"email": CLAIMED}, bearer=made.access_token).status_code == 200
    OneTimeToken.objects.filter(relates_to=EMAIL).delete()
    return lambda code: Api().post("/verify", {"type": "email_change", "email": CLAIMED, "token": code})


def by_nonce(api: Api, mailbox: Mailbox) -> Callable[[str], ApiResponse]:
    made = make_session(make_user(email=EMAIL), created_at=timezone.now() - timedelta(days=2))
    assert api.get("/reauthenticate", bearer=made.access_token).status_code == 200
    body = {"password": "another horse battery"}
    return lambda code: Api().put("/user", {**body, "nonce": code}, bearer=made.access_token)


JOURNEYS = [(by_code, CODE_DEAD), (by_first_confirmation, CODE_DEAD), (by_nonce, NONCE_DEAD)]


@pytest.mark.parametrize(("journey", "refusal"), JOURNEYS)
@pytest.mark.parametrize(("counted", "accepted"), [(LIMIT - 1, True), (LIMIT, False)])
def test_attempts_counted_after_code_was_read_are_respected(
    api: Api,
    mailbox: Mailbox,
    journey: Callable[..., Callable[[str], ApiResponse]],
    refusal: tuple[int, str, str],
    counted: int,
    accepted: bool,
) -> None:
    present = journey(api, mailbox)
    code = mailbox.emails[-1].variables["Token"]
    before: dict[str, Any]
    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            # The wrong attempts are not committed yet, so the correct attempt reads a code without attempts.
            OneTimeToken.objects.update(attempts=counted)
            before = table_contents()
            response = thread.submit(run_in_own_connection, lambda: present(code))
            wait_for_lock_waiters(1)
        result = response.result()
    if accepted:
        assert result.status_code == 200
        assert not OneTimeToken.objects.exists()
    else:
        assert_error(result, *refusal)
        assert table_contents() == before


@pytest.mark.parametrize(("journey", "refusal"), JOURNEYS)
def test_concurrent_wrong_codes_are_all_counted(
    api: Api,
    mailbox: Mailbox,
    journey: Callable[..., Callable[[str], ApiResponse]],
    refusal: tuple[int, str, str],
) -> None:
    guess = journey(api, mailbox)
    code = mailbox.emails[-1].variables["Token"]
    wrong = other_than(code)
    for response in run_concurrently(*[lambda: guess(wrong)] * 8):
        assert_error(response, *refusal)
    assert OneTimeToken.objects.get().attempts == 8
    sessions = Session.objects.count()
    assert_error(guess(code), *refusal)
    assert Session.objects.count() == sessions
