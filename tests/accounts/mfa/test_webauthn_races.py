"""Concurrent responses of a WebAuthn factor."""

from __future__ import annotations

import pytest

from tests.accounts.mfa.test_webauthn_factor import make_unverified, start_challenge, verify, webauthn
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api
from tests.fakes.authenticator import Authenticator

__all__ = ["webauthn"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


def test_challenge_is_accepted_once(api: Api) -> None:
    owner = make_unverified()
    challenge = start_challenge(api, owner.token, owner.factor.id)
    responses = [
        {"type": "create", "credential_response": Authenticator().create(challenge["options"])} for _ in range(6)
    ]
    results = run_concurrently(
        *[
            lambda response=response: verify(api, owner.token, owner.factor.id, challenge["id"], response)
            for response in responses
        ]
    )
    assert status_counts(results) == {200: 1, 422: 5}


def test_concurrent_challenges_verify_new_factor_once(api: Api) -> None:
    owner = make_unverified()
    challenge = [start_challenge(api, owner.token, owner.factor.id) for _ in range(4)]
    responses = [
        (ceremony["id"], {"type": "create", "credential_response": Authenticator().create(ceremony["options"])})
        for ceremony in challenge
    ]
    results = run_concurrently(
        *[lambda response=response: verify(api, owner.token, owner.factor.id, *response) for response in responses]
    )
    assert status_counts(results) == {200: 1, 422: 3}
