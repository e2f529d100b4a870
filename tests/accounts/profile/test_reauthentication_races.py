"""Concurrent requests for a reauthentication code."""

from __future__ import annotations

import pytest

from tests.accounts.profile.test_reauthenticate import ask, reauthentication_required, user_of_a_phone, user_with
from tests.concurrency import run_concurrently
from tests.conftest import Api, Mailbox
from tokens.models import OneTimeToken

__all__ = ["reauthentication_required"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_concurrent_requests_send_one_code(mailbox: Mailbox, known_by: str) -> None:
    made = user_with() if known_by == "email" else user_of_a_phone()
    responses = run_concurrently(*[lambda: ask(Api(), made)] * 8)
    assert sorted(response.status_code for response in responses) == [200] + [429] * 7
    assert len(mailbox.emails + mailbox.sms) == 1
    assert OneTimeToken.objects.count() == 1
