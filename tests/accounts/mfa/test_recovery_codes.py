"""/factors/recovery_codes: codes that replace a lost factor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.mfa import recovery_codes
from accounts.models import Factor, RecoveryCode
from authsvc.conf import Secret, Twilio
from authsvc.messaging import EmailType
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, Owner, make_owner
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import make_factor, make_session
from tests.observations import assert_error, audit_payloads, audit_trail, backdate_rate_limits, table_contents
from tests.tokens.token_requests import read_claims, session_exists
from tokens.models import Session

pytestmark = pytest.mark.django_db

PATH = "/factors/recovery_codes"
DISABLED = (422, "mfa_recovery_codes_not_enabled", "MFA recovery codes are disabled")
INVALID = (422, "mfa_verification_failed", "Invalid recovery code entered")


@pytest.fixture(autouse=True)
def enabled(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"recovery_codes_enabled": True},
        limits={"header": "X-Unsent"},  # no rate limit applies to requests without this header
    )


def make_codes(api: Api, owner: Owner) -> list[str]:
    raised = factor_requests.step_up(api, owner)["access_token"]
    codes: list[str] = read_success(api.post(PATH, bearer=raised))["codes"]
    return codes


def use(api: Api, token: str, code: Any, **options: Any) -> ApiResponse:
    return api.post(f"{PATH}/verify", {"code": code}, bearer=token, **options)


def remaining(api: Api, token: str) -> int:
    return int(read_success(api.get(PATH, bearer=token))["remaining"])


def test_codes_are_returned_once_and_stored_as_digests(api: Api) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    assert len(set(codes)) == 10
    kept = set(RecoveryCode.objects.values_list("code_hash", flat=True))
    assert len(kept) == 10
    assert not kept & set(codes)
    shown = api.get(PATH, bearer=owner.token)
    assert shown.json() == {"remaining": 10}
    assert shown.headers["Cache-Control"] == "no-store"
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"], entry["actor_id"]) == (
        "recovery_codes_created", "factor", str(owner.user.id),
    )  # fmt: skip


def test_a_new_set_replaces_the_old_one(api: Api) -> None:
    owner = make_owner()
    old = make_codes(api, owner)
    new = read_success(api.post(PATH, bearer=owner.token))["codes"]
    assert not set(old) & set(new)
    low = make_session(owner.user)
    assert_error(use(api, low.access_token, old[0]), *INVALID)
    read_success(use(api, low.access_token, new[0]))


def test_code_steps_up_session(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    low, other = make_session(owner.user), make_session(owner.user)
    shown = read_success(use(api, low.access_token, codes[3].upper()))
    session = Session.objects.get(id=low.session.id)
    assert (session.aal, session.factor_id, session.refresh_token_counter) == ("aal2", None, 2)
    claims = read_claims(shown["access_token"])
    assert claims["aal"] == "aal2"
    assert [entry["method"] for entry in claims["amr"]] == ["mfa/recovery_code", "password"]
    assert [factor["id"] for factor in shown["user"]["factors"]] == [str(owner.factor.id)]
    assert not session_exists(other.session)
    assert remaining(api, shown["access_token"]) == 9
    assert audit_trail()[-1] == ("recovery_code_used", {"remaining": 9})
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.variables["Remaining"]) == (EmailType.RECOVERY_CODE_USED, owner.user.email, "9")
    # The session can now replace the lost factor.
    read_success(factor_requests.unenroll(api, shown["access_token"], owner.factor.id))
    read_success(factor_requests.enroll(api, shown["access_token"], friendly_name="new phone"))


def test_email_is_sent_regardless_of_notification_settings(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"notifications": frozenset(), "worker_enabled": False})
    owner = make_owner()
    codes = make_codes(api, owner)
    before = table_contents()["procrastinate_jobs"][0]
    read_success(use(api, make_session(owner.user).access_token, codes[0]))
    assert table_contents()["procrastinate_jobs"][0] == before + 1


def test_a_code_is_used_once(api: Api) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    read_success(use(api, owner.token, codes[0]))
    assert_error(use(api, owner.token, codes[0]), *INVALID)
    read_success(use(api, owner.token, codes[1]))


@pytest.mark.parametrize("code", ["x", "0000-0000-0000-0000", "é", " "])
def test_a_wrong_code_changes_nothing(api: Api, code: str) -> None:
    owner = make_owner()
    make_codes(api, owner)
    low = make_session(owner.user)
    before = table_contents()
    assert_error(use(api, low.access_token, code), *INVALID)
    assert table_contents() == before


def test_code_of_other_user_is_rejected(api: Api) -> None:
    codes = make_codes(api, make_owner())
    stranger = make_owner()
    assert_error(use(api, stranger.token, codes[0]), *INVALID)


@pytest.mark.parametrize("code", [None, ""])
def test_missing_code_is_rejected(api: Api, code: str | None) -> None:
    assert_error(use(api, make_owner().token, code), 400, "validation_failed", "Code needs to be non-empty")


@pytest.mark.parametrize("body", [None, b"[]", {"code": 1}])
def test_body_of_other_type_is_rejected(api: Api, body: Any) -> None:
    response = api.post(f"{PATH}/verify", body, bearer=make_owner().token)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_wrong_codes_are_counted_over_all_addresses(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    owner = make_owner()
    codes = make_codes(api, owner)
    for number in range(3):
        response = use(api, owner.token, "wrong", headers={"X-Forwarded-For": f"203.0.113.{number}"})
        assert_error(response, *INVALID)
    response = use(api, owner.token, codes[0])
    assert_error(response, 429, "over_request_rate_limit", "Request rate limit reached")
    # The factor has a count of its own.
    Factor.objects.update(last_totp_step=None)
    factor_requests.step_up(api, owner)
    backdate_rate_limits(timedelta(seconds=1201))
    read_success(use(api, owner.token, codes[0]))


@pytest.mark.usefixtures("slow_refill")
def test_requests_of_client_are_rate_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"header": ""}, codes={"max_attempts": 0})
    owner = make_owner()
    assert [use(api, owner.token, "x").status_code for _ in range(31)] == [422] * 30 + [429]


def test_creation_requires_aal2(api: Api) -> None:
    nothing = make_session(aal="aal2")
    assert_error(
        api.post(PATH, bearer=nothing.access_token),
        422,
        "mfa_factor_not_found",
        "A verified factor is required to create recovery codes",
    )
    owner = make_owner()
    assert_error(api.post(PATH, bearer=owner.token), 403, "insufficient_aal", "AAL2 required to create recovery codes")
    unfinished = make_owner(status="unverified")
    assert api.post(PATH, bearer=unfinished.token).status_code == 422
    assert not RecoveryCode.objects.exists()


def test_codes_are_deleted_with_last_verified_factor(api: Api) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    by_code = make_session(owner.user)
    raised = read_success(use(api, by_code.access_token, codes[0]))["access_token"]
    read_success(factor_requests.unenroll(api, raised, owner.factor.id))
    assert not RecoveryCode.objects.exists()
    assert set(Session.objects.values_list("aal", flat=True)) == {"aal1"}


@pytest.mark.parametrize("factor_type", ["totp", "phone"])
def test_codes_of_removed_factors_are_deleted_by_next_first_factor(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, factor_type: str
) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
    )
    code, *_ = recovery_codes.generate()
    owner = make_owner(status="unverified", factor_type=factor_type, phone=PHONE if factor_type == "phone" else None)
    digest = recovery_codes.hash_code(code, user_id=owner.user.id)
    RecoveryCode.objects.create(user=owner.user, code_hash=digest, created_at=timezone.now() - timedelta(days=9))
    # Not as long as there is no factor at all, either.
    assert_error(use(api, owner.token, code), *INVALID)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    proof = mailbox.sms[-1].variables["Code"] if mailbox.sms else factor_requests.code()
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, proof))
    assert not RecoveryCode.objects.exists()


def test_additional_factor_keeps_codes(api: Api) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    second = make_factor(owner.user, friendly_name="second", status="unverified", secret=factor_requests.SECRET)
    challenge_id = factor_requests.challenged(api, owner.token, second.id)
    read_success(factor_requests.verify(api, owner.token, second.id, challenge_id, factor_requests.code()))
    assert remaining(api, owner.token) == 10
    read_success(use(api, make_session(owner.user).access_token, codes[0]))


def test_recovery_codes_are_disabled_by_default(api: Api, auth_config: ChangeConfig) -> None:
    owner = make_owner()
    codes = make_codes(api, owner)
    auth_config(mfa={"recovery_codes_enabled": False})
    for response in (
        api.get(PATH, bearer=owner.token),
        api.post(PATH, bearer=owner.token),
        use(api, owner.token, codes[0]),
    ):
        assert_error(response, *DISABLED)
