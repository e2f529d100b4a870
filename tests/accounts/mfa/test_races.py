"""Concurrent requests for the same factor."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from django.db import connection, transaction

from accounts.mfa import verification
from accounts.models import Factor, FactorChallenge, RecoveryCode, User
from authsvc.conf import Secret, Twilio
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, make_owner
from tests.concurrency import lock_session, run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import make_factor, make_session
from tests.live import servers
from tests.tokens.token_requests import refresh
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_limits(auth_config: ChangeConfig) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        limits={"header": "X-Unsent"},  # no rate limit applies to requests without this header
        codes={"max_attempts": 100},
        mfa={"phone_verify_enabled": True, "recovery_codes_enabled": True},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
    )


@pytest.mark.parametrize("status", ["verified", "unverified"])
def test_concurrent_responses_to_one_challenge_succeed_once(api: Api, status: str) -> None:
    owner = make_owner(status=status)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    code = factor_requests.code()
    responses = run_concurrently(
        *[lambda: factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code)] * 10
    )
    assert status_counts(responses) == {200: 1, 422: 9}
    assert {response.json().get("error_code") for response in responses} == {None, "mfa_ip_address_mismatch"}
    assert Session.objects.get().refresh_token_counter == 2


def test_one_code_for_several_concurrent_challenges_succeeds_once(api: Api) -> None:
    owner = make_owner()
    code = factor_requests.code()
    challenges = [factor_requests.challenged(api, owner.token, owner.factor.id) for _ in range(8)]
    responses = run_concurrently(
        *[
            lambda challenge_id=challenge_id: factor_requests.verify(
                api, owner.token, owner.factor.id, challenge_id, code
            )
            for challenge_id in challenges
        ]
    )
    assert status_counts(responses) == {200: 1, 422: 7}
    assert FactorChallenge.objects.filter(verified_at__isnull=False).count() == 1


def test_concurrent_step_ups_of_two_sessions_do_not_deadlock(api: Api) -> None:
    for _ in range(5):
        owner = make_owner()
        second = make_factor(owner.user, friendly_name="second", secret=factor_requests.SECRET)
        other = make_session(owner.user)
        challenges = [
            (token, factor.id, factor_requests.challenged(api, token, factor.id))
            for token, factor in ((owner.token, owner.factor), (other.access_token, second))
        ]
        responses = run_concurrently(
            *[
                lambda challenge=challenge: factor_requests.verify(
                    api, challenge[0], challenge[1], challenge[2], factor_requests.code()
                )
                for challenge in challenges
            ]
        )
        # The first ends the other sign-in, which was below its level.
        assert status_counts(responses) == {200: 1, 403: 1}
        assert [session.aal for session in Session.objects.filter(user=owner.user)] == ["aal2"]


def test_verification_waits_for_concurrent_refresh(api: Api) -> None:
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    with lock_session(owner.session, seconds=0.5):
        read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))
    assert Session.objects.get().aal == "aal2"


def test_verification_of_locked_session_keeps_code_and_challenge(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that runs a second per reading: the verification waits for the session for five seconds.
    monkeypatch.setattr(verification, "time", SimpleNamespace(monotonic=itertools.count().__next__, sleep=time.sleep))
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    code = factor_requests.code()
    with lock_session(owner.session):
        response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code)
    assert (response.status_code, response.json()["error_code"]) == (409, "conflict")
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code))


def test_concurrent_refreshes_and_verification_leave_one_valid_refresh_token(api: Api) -> None:
    for _ in range(5):
        owner = make_owner()
        challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
        code = factor_requests.code()
        calls = [lambda: refresh(api, owner.refresh_token)] * 4  # noqa: B023
        calls.append(lambda: factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code))  # noqa: B023
        *refreshed, verified = run_concurrently(*calls)
        assert verified.status_code in (200, 403)  # a refresh with the old token after it ends the session
        for response in refreshed:
            if response.status_code == 200:
                assert refresh(api, response.json()["refresh_token"]).status_code == 400 or (
                    verified.status_code == 403
                )


def test_concurrent_wrong_codes_are_all_counted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    challenges = [factor_requests.challenged(api, owner.token, owner.factor.id) for _ in range(20)]
    wrong = factor_requests.wrong_code()
    responses = run_concurrently(
        *[
            lambda challenge_id=challenge_id: factor_requests.verify(
                api, owner.token, owner.factor.id, challenge_id, wrong
            )
            for challenge_id in challenges
        ]
    )
    assert status_counts(responses) == {422: 3, 429: 17}


def test_concurrent_wrong_codes_for_one_challenge_are_all_counted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    challenge_id, wrong = factor_requests.challenged(api, owner.token, owner.factor.id), factor_requests.wrong_code()
    responses = run_concurrently(
        *[lambda: factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, wrong)] * 20
    )
    assert sorted(response.json()["error_code"] for response in responses) == (
        ["mfa_challenge_expired"] * 17 + ["mfa_verification_failed"] * 3
    )


GUESS_TWICE = """
import sys, django
django.setup()
from accounts.mfa import verification
for _ in range(2):
    try:
        with verification.limit_attempts(sys.argv[1], sys.argv[2]):
            raise ValueError("a wrong code")
    except ValueError:
        print("counted")
"""


def test_wrong_codes_are_counted_over_all_processes(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    database = servers.server_url().replace("/postgres?", f"/{connection.settings_dict['NAME']}?")
    elsewhere = subprocess.run(
        [sys.executable, "-c", GUESS_TWICE, str(owner.user.id), str(owner.factor.id)],
        cwd=servers.PROJECT,
        env={**os.environ, "DATABASE_URL": database, "AUTH_SECURITY_OTP_MAX_ATTEMPTS": "3",
             "DJANGO_SETTINGS_MODULE": "authsvc.settings"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert elsewhere.stdout.split() == ["counted"] * 2
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    assert (
        factor_requests.verify(
            api, owner.token, owner.factor.id, challenge_id, factor_requests.wrong_code()
        ).status_code
        == 422
    )
    assert (
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()).status_code
        == 429
    )


def test_concurrent_enrolments_respect_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mfa={"max_enrolled": 3})
    token = make_session().access_token
    responses = run_concurrently(
        *[lambda n=n: factor_requests.enroll(api, token, friendly_name=str(n)) for n in range(8)]
    )
    assert status_counts(responses) == {200: 3, 422: 5}
    token = make_session().access_token
    responses = run_concurrently(*[lambda: factor_requests.enroll(api, token)] * 8)
    assert status_counts(responses) == {200: 1, 422: 7}


def test_concurrent_phone_challenges_send_one_sms(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner(factor_type="phone", phone=PHONE)
    responses = run_concurrently(*[lambda: factor_requests.challenge(api, owner.token, owner.factor.id, {})] * 8)
    assert status_counts(responses) == {200: 1, 429: 7}
    assert len(mailbox.sms) == 1


def test_concurrent_uses_of_recovery_code_succeed_once(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)["access_token"]
    codes = read_success(api.post("/factors/recovery_codes", bearer=raised))["codes"]
    responses = run_concurrently(
        *[lambda: api.post("/factors/recovery_codes/verify", {"code": codes[0]}, bearer=raised)] * 8
    )
    assert status_counts(responses) == {200: 1, 422: 7}
    assert RecoveryCode.objects.count() == 9


def test_concurrent_creations_of_recovery_codes_leave_one_set(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)["access_token"]
    responses = run_concurrently(*[lambda: api.post("/factors/recovery_codes", bearer=raised)] * 6)
    assert status_counts(responses) == {200: 6}
    assert RecoveryCode.objects.count() == 10


def test_verification_of_concurrently_removed_factor_fails(api: Api) -> None:
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    code = factor_requests.code()
    held, removed = threading.Event(), threading.Event()

    def take_away() -> None:
        try:
            with transaction.atomic():
                User.objects.select_for_update().get(id=owner.user.id)
                held.set()
                removed.wait(1)
                Factor.objects.filter(id=owner.factor.id)._raw_delete("default")
        finally:
            connection.close()

    remover = threading.Thread(target=take_away)
    remover.start()
    assert held.wait(10)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code)
    remover.join()
    assert (response.status_code, response.json()["error_code"]) == (404, "mfa_factor_not_found")
    assert Session.objects.get().aal == "aal1"
