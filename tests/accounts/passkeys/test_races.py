"""Concurrent ceremonies of passkeys."""

from __future__ import annotations

import pytest

from accounts.models import Passkey
from tests.accounts.passkeys.passkey_requests import (
    complete,
    finish_authentication,
    make_owner,
    start_authentication,
    start_registration,
)
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session
from tests.fakes.authenticator import Authenticator
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)


def test_credential_response_is_accepted_once(api: Api) -> None:
    holder = make_owner(api)
    challenge = start_authentication(api)
    credential = holder.device.get(challenge["options"])
    responses = run_concurrently(*[lambda: finish_authentication(api, challenge["challenge_id"], credential)] * 8)
    assert status_counts(responses) == {200: 1, 400: 7}
    assert Session.objects.count() == 2


def test_concurrent_registrations_respect_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"max_per_user": 2})
    made = make_session()
    device = Authenticator()
    challenge = [start_registration(api, made.access_token) for _ in range(6)]
    made_credentials = [device.create(ceremony["options"]) for ceremony in challenge]
    responses = run_concurrently(
        *[
            lambda ceremony=ceremony, credential=credential: complete(
                api, made.access_token, ceremony["challenge_id"], credential
            )
            for ceremony, credential in zip(challenge, made_credentials, strict=True)
        ]
    )
    assert status_counts(responses) == {200: 2, 422: 4}
    assert Passkey.objects.count() == 2


def test_registration_challenge_is_accepted_once(api: Api) -> None:
    made = make_session()
    challenge = start_registration(api, made.access_token)
    credentials = [Authenticator().create(challenge["options"]) for _ in range(6)]
    responses = run_concurrently(
        *[
            lambda credential=credential: complete(api, made.access_token, challenge["challenge_id"], credential)
            for credential in credentials
        ]
    )
    assert status_counts(responses) == {200: 1, 400: 5}
    assert Passkey.objects.count() == 1
