"""Concurrent creations, deletions and invitations by administrators."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.models import Identity, User
from tests.accounts.administration.admin_requests import USER_NOT_FOUND, ask
from tests.accounts.administration.test_delete_user import make_full_account
from tests.accounts.mfa import factor_requests
from tests.concurrency import (
    run_concurrently,
    run_in_order,
    run_in_own_connection,
    status_counts,
    wait_for_lock_waiters,
)
from tests.conftest import Api, Mailbox
from tests.factories import make_user
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


def test_an_invitation_locks_the_user_before_the_identities(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            User.objects.select_for_update().get(id=user.id)
            invited = threads.submit(run_in_own_connection, lambda: ask(api, "POST", "/invite", {"email": EMAIL}))
            wait_for_lock_waiters(1)
            Identity.objects.filter(user=user).update(updated_at=timezone.now())  # a deadlock if it waits too
        assert invited.result(20).status_code == 200


def test_the_name_of_a_factor_is_changed_after_a_concurrent_enrolment(api: Api) -> None:
    owner = factor_requests.make_owner(status="unverified", friendly_name="phone")
    path = f"/admin/users/{owner.user.id}/factors/{owner.factor.id}"

    responses = run_in_order(
        owner.user.id,
        lambda: factor_requests.enroll(api, owner.token, friendly_name="new"),
        lambda: ask(api, "PUT", path, {"friendly_name": "new"}),
    )

    assert [response.status_code for response in responses] == [200, 422]
