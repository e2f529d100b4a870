"""POST /factors/{factor_id}/challenge."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Factor, FactorChallenge
from authsvc.conf import Secret, Twilio
from authsvc.messaging import SmsType
from authsvc.security import encryption
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, Owner, make_owner
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import make_session
from tests.observations import assert_error, audit_payloads, audit_trail, backdate_rate_limits, table_contents

pytestmark = pytest.mark.django_db

NOT_FOUND = (404, "mfa_factor_not_found", "Factor not found")
CHANNEL_INVALID = (
    "Invalid channel, supported values are 'sms' or 'whatsapp'. "
    "'whatsapp' is only supported if Twilio or Twilio Verify is used as the provider."
)
TWILIO = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")


@pytest.fixture(autouse=True)
def phones(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "twilio", "twilio": TWILIO, "autoconfirm": False},
        mailer={"worker_enabled": False},
    )


@pytest.fixture
def mobile() -> Owner:
    return make_owner(factor_type="phone", status="unverified", phone=PHONE, friendly_name="mobile")


@pytest.mark.parametrize("body", [None, b"not looked at", {"factorId": "x"}])
@pytest.mark.parametrize("status", ["verified", "unverified"])
def test_totp_challenge_sends_no_message(api: Api, mailbox: Mailbox, status: str, body: Any) -> None:
    owner = make_owner(status=status)
    before = timezone.now()
    response = factor_requests.challenge(
        api, owner.token, owner.factor.id, body, headers={"X-Forwarded-For": "203.0.113.7"}
    )
    shown = read_success(response)
    challenge = FactorChallenge.objects.get()
    assert shown == {
        "id": str(challenge.id),
        "type": "totp",
        "expires_at": int((challenge.created_at + timedelta(seconds=300)).timestamp()),
    }
    assert before <= challenge.created_at <= timezone.now()
    assert (challenge.ip_address, challenge.verified_at, challenge.otp_code) == ("203.0.113.7", None, "")
    assert Factor.objects.get().last_challenged_at == challenge.created_at
    assert not mailbox.sms
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_id"]) == ("challenge_created", str(owner.user.id))
    assert entry["traits"] == {"factor_id": str(owner.factor.id), "factor_status": status}


def test_several_challenges_can_be_pending(api: Api) -> None:
    owner = make_owner()
    for _ in range(3):
        read_success(factor_requests.challenge(api, owner.token, owner.factor.id))
    assert FactorChallenge.objects.count() == 3


def test_factor_of_other_user_cannot_be_challenged(api: Api) -> None:
    owner, stranger = make_owner(), make_session()
    before = table_contents()
    assert_error(factor_requests.challenge(api, stranger.access_token, owner.factor.id), *NOT_FOUND)
    assert_error(factor_requests.challenge(api, stranger.access_token, factor_requests.NIL), *NOT_FOUND)
    assert_error(
        factor_requests.challenge(api, stranger.access_token, "abc"),
        404,
        "validation_failed",
        "factor_id must be an UUID",
    )
    assert table_contents() == before


@pytest.mark.parametrize(
    ("switch", "factor_type", "code", "name"),
    [
        ("totp_verify_enabled", "totp", "mfa_totp_verify_not_enabled", "TOTP"),
        ("phone_verify_enabled", "phone", "mfa_phone_verify_not_enabled", "Phone"),
    ],
)
def test_disabled_factor_type_cannot_be_challenged(
    api: Api, auth_config: ChangeConfig, switch: str, factor_type: str, code: str, name: str
) -> None:
    auth_config(mfa={switch: False})
    owner = make_owner(factor_type=factor_type)
    text = f"MFA verification is disabled for {name}"
    assert_error(factor_requests.challenge(api, owner.token, owner.factor.id, {}), 422, code, text)
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, factor_requests.NIL, "123456"), 422, code, text
    )


@pytest.mark.usefixtures("slow_refill")
def test_challenges_of_client_are_rate_limited(api: Api) -> None:
    owner = make_owner()
    options = {"headers": {"X-Forwarded-For": "203.0.113.44"}}
    statuses = [factor_requests.challenge(api, owner.token, owner.factor.id, **options).status_code for _ in range(31)]
    assert statuses == [200] * 30 + [429]
    read_success(factor_requests.challenge(api, owner.token, owner.factor.id))


# Phones


@pytest.mark.parametrize("channel", [None, "", "sms", "whatsapp"])
def test_phone_challenge_sends_sms_code(api: Api, mailbox: Mailbox, mobile: Owner, channel: str | None) -> None:
    shown = read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {"channel": channel}))
    challenge = FactorChallenge.objects.get()
    assert (shown["id"], shown["type"]) == (str(challenge.id), "phone")
    (text,) = mailbox.sms
    assert (text.type, text.to, text.channel, text.user_id) == (SmsType.FACTOR, PHONE, channel or "sms", mobile.user.id)
    stored = challenge.otp_code or ""
    assert encryption.key_id(stored) == encryption.DERIVED_KEY_ID
    assert text.variables == {"Code": encryption.decrypt(stored, bound_to=challenge.id)}
    assert len(text.variables["Code"]) == 6
    assert text.expires_at == challenge.created_at + timedelta(seconds=300)
    assert audit_trail()[-1][0] == "challenge_created"


def test_the_length_of_the_code_is_a_setting(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, mobile: Owner
) -> None:
    auth_config(mfa={"phone_otp_length": 9})
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    assert len(mailbox.sms[0].variables["Code"]) == 9


def test_code_is_encrypted_with_column_encryption(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, mobile: Owner
) -> None:
    key = Secret("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
    auth_config(database={"encrypt": True, "encryption_key_id": "k1", "encryption_key": key,
                          "decryption_keys": {"k1": key}})  # fmt: skip
    challenge_id = factor_requests.challenged(api, mobile.token, mobile.factor.id, {})
    challenge = FactorChallenge.objects.get()
    code = mailbox.sms[0].variables["Code"]
    assert code not in (challenge.otp_code or "")
    assert encryption.decrypt(challenge.otp_code or "", bound_to=challenge.id) == code
    read_success(factor_requests.verify(api, mobile.token, mobile.factor.id, challenge_id, code))


def test_phone_challenges_have_minimum_interval(api: Api, mailbox: Mailbox, mobile: Owner) -> None:
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    response = factor_requests.challenge(api, mobile.token, mobile.factor.id, {})
    assert_error(
        response,
        429,
        "over_sms_send_rate_limit",
        "For security purposes, you can only request this after 59 seconds.",
    )
    assert len(mailbox.sms) == FactorChallenge.objects.count() == 1
    backdate_rate_limits(timedelta(seconds=61))
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))


@pytest.mark.parametrize("written", [f"+{PHONE}", f" {PHONE[:1]} {PHONE[1:]} "], ids=["plain", "with blanks"])
def test_interval_applies_after_new_enrolment_of_phone(api: Api, mailbox: Mailbox, mobile: Owner, written: str) -> None:
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    read_success(factor_requests.unenroll(api, mobile.token, mobile.factor.id))
    again = read_success(factor_requests.enroll(api, mobile.token, factor_type="phone", phone=written))["id"]
    response = factor_requests.challenge(api, mobile.token, again, {})
    assert (response.status_code, response.json()["error_code"]) == (429, "over_sms_send_rate_limit")
    assert len(mailbox.sms) == 1
    backdate_rate_limits(timedelta(seconds=61))
    read_success(factor_requests.challenge(api, mobile.token, again, {}))


def test_interval_applies_per_phone(api: Api, mailbox: Mailbox, mobile: Owner) -> None:
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    other = read_success(
        factor_requests.enroll(api, mobile.token, factor_type="phone", phone="+15557654321", friendly_name="other")
    )["id"]
    read_success(factor_requests.challenge(api, mobile.token, other, {}))
    stranger = make_owner(factor_type="phone", status="unverified", phone=PHONE)
    response = factor_requests.challenge(api, stranger.token, stranger.factor.id, {})
    assert (response.status_code, response.json()["error_code"]) == (429, "over_sms_send_rate_limit")
    backdate_rate_limits(timedelta(seconds=61))
    read_success(factor_requests.challenge(api, stranger.token, stranger.factor.id, {}))
    assert [text.to for text in mailbox.sms] == [PHONE, "15557654321", PHONE]


def test_rejected_challenge_starts_no_interval(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, mobile: Owner
) -> None:
    assert factor_requests.challenge(api, mobile.token, mobile.factor.id, {"channel": "pigeon"}).status_code == 400
    auth_config(sms={"provider": ""})
    assert factor_requests.challenge(api, mobile.token, mobile.factor.id, {}).status_code == 500
    auth_config(sms={"provider": "twilio"})
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    assert len(mailbox.sms) == 1


def test_test_codes_do_not_apply_to_factors(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, mobile: Owner
) -> None:
    auth_config(sms={"test_codes": {PHONE: "000000"}})
    read_success(factor_requests.challenge(api, mobile.token, mobile.factor.id, {}))
    assert len(mailbox.sms) == 1


def test_sms_quota_applies_to_factors(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, mobile: Owner) -> None:
    config = auth_config()
    auth_config(limits={"sms_sent": type(config.limits.sms_sent)(events=0)})
    response = factor_requests.challenge(api, mobile.token, mobile.factor.id, {})
    assert_error(response, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    assert mailbox.sms == []


def test_phone_challenge_requires_gateway(api: Api, auth_config: ChangeConfig, mobile: Owner) -> None:
    auth_config(sms={"provider": ""})
    before = table_contents()
    response = factor_requests.challenge(api, mobile.token, mobile.factor.id, {})
    assert (response.status_code, response.json()["msg"]) == (500, "Failed to get SMS provider")
    assert table_contents() == before


def test_unsupported_channel_is_rejected(api: Api, auth_config: ChangeConfig, mobile: Owner) -> None:
    auth_config(sms={"provider": "vonage"})
    for channel in ("whatsapp", "pigeon"):
        response = factor_requests.challenge(api, mobile.token, mobile.factor.id, {"channel": channel})
        assert_error(response, 400, "validation_failed", CHANNEL_INVALID)


@pytest.mark.parametrize("body", [None, b"[]", {"channel": 1}])
def test_phone_challenge_body_must_be_object(api: Api, mobile: Owner, body: Any) -> None:
    assert factor_requests.challenge(api, mobile.token, mobile.factor.id, body).json()["error_code"] == "bad_json"
