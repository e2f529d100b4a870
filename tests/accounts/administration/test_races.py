"""Concurrent creations, deletions and invitations by administrators."""

from __future__ import annotations

from uuid import uuid4

import pytest

from accounts.models import Identity, User
from tests.accounts.administration.admin_requests import USER_NOT_FOUND, ask
from tests.accounts.administration.test_delete_user import make_full_account
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, Mailbox
from tests.observations import assert_error, audit_payloads, audit_trail
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db(transaction=True)

EMAIL = "ann@example.com"


def test_one_of_several_concurrent_creations_gets_address(api: Api) -> None:
    responses = run_concurrently(*[lambda: ask(api, "POST", "/admin/users", {"email": EMAIL, "id": str(uuid4())})] * 4)
    assert status_counts(responses) == {200: 1, 422: 3}
    assert {response.json()["error_code"] for response in responses if response.status_code == 422} == {"email_exists"}
    assert (User.objects.count(), Identity.objects.count(), len(audit_payloads())) == (1, 1, 1)


def test_one_of_several_concurrent_deletions_succeeds(api: Api) -> None:
    path = f"/admin/users/{make_full_account().id}"
    responses = run_concurrently(*[lambda: ask(api, "DELETE", path)] * 4)
    assert status_counts(responses) == {200: 1, 404: 3}
    assert [action for action, _ in audit_trail()] == ["user_deleted"]
    assert_error(ask(api, "DELETE", path), *USER_NOT_FOUND)


def test_concurrent_invitations_create_one_account(api: Api, mailbox: Mailbox) -> None:
    responses = run_concurrently(*[lambda: ask(api, "POST", "/invite", {"email": EMAIL})] * 4)
    assert status_counts(responses) == {200: 4}
    assert User.objects.count() == 1
    assert OneTimeToken.objects.count() == 1
    assert len(mailbox.emails) >= 4
