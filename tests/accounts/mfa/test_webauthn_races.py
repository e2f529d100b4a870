"""Concurrent responses of a WebAuthn factor."""

from __future__ import annotations

import pytest

from tests.accounts.mfa.test_webauthn_factor import answer, asked, make_unverified, webauthn
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api
from tests.fakes.authenticator import Authenticator

__all__ = ["webauthn"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


def test_challenge_is_accepted_once(api: Api) -> None:
    owner = make_unverified()
    begun = asked(api, owner.token, owner.factor.id)
    given = [{"type": "create", "credential_response": Authenticator().create(begun["options"])} for _ in range(6)]
    answers = run_concurrently(
        *[lambda each=each: answer(api, owner.token, owner.factor.id, begun["id"], each) for each in given]
    )
    assert status_counts(answers) == {200: 1, 422: 5}


def test_concurrent_challenges_verify_new_factor_once(api: Api) -> None:
    owner = make_unverified()
    begun = [asked(api, owner.token, owner.factor.id) for _ in range(4)]
    given = [
        (each["id"], {"type": "create", "credential_response": Authenticator().create(each["options"])})
        for each in begun
    ]
    answers = run_concurrently(*[lambda each=each: answer(api, owner.token, owner.factor.id, *each) for each in given])
    assert status_counts(answers) == {200: 1, 422: 3}
