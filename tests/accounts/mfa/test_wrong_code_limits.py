"""POST /factors/{factor_id}/verify: limits of wrong codes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import Factor
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import make_owner
from tests.accounts.mfa.verification_requests import TOO_OFTEN, WRONG_TOTP, expired, try_code
from tests.conftest import Api, ChangeConfig, read_success
from tests.observations import assert_error, backdate_rate_limits

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]


def test_challenge_expires_after_too_many_wrong_codes(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    for _ in range(3):
        assert_error(
            factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.wrong_code()),
            *WRONG_TOTP,
        )
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()),
        *expired(challenge_id),
    )


def test_wrong_codes_are_limited_per_factor_over_challenges_and_ip_addresses(
    api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    for number in range(3):
        options = {"headers": {"X-Forwarded-For": f"203.0.113.{number}"}}
        challenge_id = read_success(factor_requests.challenge(api, owner.token, owner.factor.id, **options))["id"]
        response = factor_requests.verify(
            api, owner.token, owner.factor.id, challenge_id, factor_requests.wrong_code(), **options
        )
        assert_error(response, *WRONG_TOTP)
    response = try_code(api, owner, factor_requests.code())
    assert_error(response, *TOO_OFTEN)
    assert 1100 < int(response.headers["Retry-After"]) <= 1200
    backdate_rate_limits(timedelta(seconds=1201))
    read_success(try_code(api, owner, factor_requests.code()))


def test_correct_codes_are_not_counted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 2})
    owner = make_owner()
    for _ in range(4):
        read_success(try_code(api, owner, factor_requests.code()))
        Factor.objects.update(last_totp_step=None)
    for _ in range(2):
        assert_error(try_code(api, owner, factor_requests.wrong_code()), *WRONG_TOTP)
    assert_error(try_code(api, owner, factor_requests.code()), *TOO_OFTEN)


def test_wrong_codes_are_counted_per_factor(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 1})
    owner, other = make_owner(), make_owner()
    assert_error(try_code(api, owner, factor_requests.wrong_code()), *WRONG_TOTP)
    assert_error(try_code(api, owner, factor_requests.code()), *TOO_OFTEN)
    read_success(try_code(api, other, factor_requests.code()))


def test_limit_of_wrong_codes_can_be_disabled(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 0})
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    for _ in range(12):
        assert_error(
            factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.wrong_code()),
            *WRONG_TOTP,
        )
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))
