"""POST /factors/{factor_id}/verify: conditions, effects and errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import Factor, FactorChallenge
from authsvc.conf import Secret
from authsvc.messaging import EmailType
from authsvc.security import encryption
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, SECRET, make_owner
from tests.accounts.mfa.verification_requests import TOO_OFTEN, WRONG_TOTP, expired, signed, try_code
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import backdate, make_factor, make_session
from tests.fakes.http_peer import MockedServer, in_json
from tests.mailer.sms.conftest import UseGateway, gateway, use_gateway
from tests.observations import assert_error, backdate_rate_limits, table_contents
from tests.tokens.token_requests import read_claims
from tokens.models import Session

__all__ = ["gateway", "use_gateway"]  # fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("phone_factors")]

KEY = Secret("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
ENCRYPTED = {"encrypt": True, "encryption_key_id": "k1", "encryption_key": KEY, "decryption_keys": {"k1": KEY}}
WRONG_PHONE = (422, "mfa_verification_failed", "Invalid MFA Phone code entered")
ELSEWHERE = (422, "mfa_ip_address_mismatch", "Challenge and verify IP addresses mismatch.")
UNKNOWN = (422, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found")


# The notice


@pytest.mark.parametrize("factor_type", ["totp", "phone"])
def test_only_the_first_verification_sends_an_email(api: Api, mailbox: Mailbox, factor_type: str) -> None:
    owner = make_owner(status="unverified", factor_type=factor_type, phone=PHONE if factor_type == "phone" else None)
    for _ in range(2):
        backdate_rate_limits(timedelta(minutes=2))
        challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
        code = mailbox.sms[-1].variables["Code"] if mailbox.sms else factor_requests.code()
        read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code))
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.user_id) == (EmailType.FACTOR_ENROLLED, owner.user.email, owner.user.id)
    assert mail.variables["FactorType"] == factor_type


def test_a_user_without_address_receives_no_email(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner(status="unverified")
    type(owner.user).objects.update(email=None, phone="15551234567")
    factor_requests.step_up(api, owner)
    assert not mailbox.emails


# Rejected responses


@pytest.mark.parametrize("code", [None, ""])
def test_missing_code_is_rejected(api: Api, code: str | None) -> None:
    owner = make_owner()
    response = factor_requests.verify(api, owner.token, owner.factor.id, factor_requests.NIL, code)
    assert_error(response, 400, "validation_failed", "Code needs to be non-empty")


@pytest.mark.parametrize("body", [None, b"[]", {"challenge_id": "x", "code": "1"}, {"code": 1}])
def test_body_of_other_type_is_rejected(api: Api, body: Any) -> None:
    owner = make_owner()
    response = api.post(f"/factors/{owner.factor.id}/verify", body, bearer=owner.token)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_challenge_of_other_factor_is_not_found(api: Api) -> None:
    owner = make_owner()
    other = make_factor(owner.user, friendly_name="other", secret=SECRET)
    of_other = factor_requests.challenged(api, owner.token, other.id)
    of_stranger = make_owner()
    strange = factor_requests.challenged(api, of_stranger.token, of_stranger.factor.id)
    for challenge_id in (of_other, strange, factor_requests.NIL, None):
        assert_error(
            factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()), *UNKNOWN
        )


def test_a_challenge_is_verified_in_the_session_that_requested_it(api: Api) -> None:
    owner = make_owner()
    other = make_session(owner.user)
    challenge_id = factor_requests.challenged(api, other.access_token, owner.factor.id)
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()), *UNKNOWN
    )
    FactorChallenge.objects.update(session_id=None)  # as it was imported
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))


def test_factor_of_other_user_is_not_found(api: Api) -> None:
    owner, stranger = make_owner(), make_session()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    response = factor_requests.verify(api, stranger.access_token, owner.factor.id, challenge_id, factor_requests.code())
    assert_error(response, 404, "mfa_factor_not_found", "Factor not found")


@pytest.mark.parametrize(
    ("made_at", "used_at"),
    [("203.0.113.7", "203.0.113.8"), ("203.0.113.7", "2001:db8::7"), ("2001:db8::7", "2001:db8::8")],
)
def test_challenge_is_bound_to_ip_address(api: Api, made_at: str, used_at: str) -> None:
    owner = make_owner()
    options = {"headers": {"X-Forwarded-For": made_at}}
    challenge_id = read_success(factor_requests.challenge(api, owner.token, owner.factor.id, **options))["id"]
    for address, is_let_in in ((used_at, False), (made_at, True)):
        elsewhere = {"headers": {"X-Forwarded-For": address}}
        response = factor_requests.verify(
            api, owner.token, owner.factor.id, challenge_id, factor_requests.code(), **elsewhere
        )
        if is_let_in:
            read_success(response)
        else:
            assert_error(response, *ELSEWHERE)


@pytest.mark.parametrize("address", ["::1.2.3.4", "2001:db8:0:0:1:0:0:1", "::ffff:203.0.113.7"])
def test_ip_addresses_are_compared_by_value(api: Api, address: str) -> None:
    owner = make_owner()
    options = {"headers": {"X-Forwarded-For": address}}
    challenge_id = read_success(factor_requests.challenge(api, owner.token, owner.factor.id, **options))["id"]
    read_success(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code(), **options)
    )


def test_expired_challenge_is_rejected_and_deleted(api: Api) -> None:
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    backdate(FactorChallenge.objects.get(), by=timedelta(seconds=301))
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()),
        *expired(challenge_id),
    )
    assert not FactorChallenge.objects.exists()
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()), *UNKNOWN
    )


def test_challenge_lifetime_is_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mfa={"challenge_expiry": timedelta(seconds=900)})
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    backdate(FactorChallenge.objects.get(), by=timedelta(seconds=890))
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))


@pytest.mark.parametrize(
    "wrong", [lambda: factor_requests.code(steps=-2), lambda: factor_requests.code()[:5], factor_requests.wrong_code]
)
def test_wrong_code_keeps_challenge_pending(api: Api, wrong: Any) -> None:
    owner = make_owner(status="unverified")
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    assert_error(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, wrong()), *WRONG_TOTP)
    challenge = FactorChallenge.objects.get()
    assert (challenge.verified_at, challenge.attempts) == (None, 1)
    assert Factor.objects.get().status == "unverified"
    assert Session.objects.get().aal == "aal1"
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))


def test_used_challenge_is_rejected(api: Api) -> None:
    owner = make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()))
    before = table_contents()
    assert_error(
        factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code()), *ELSEWHERE
    )
    assert table_contents() == before


def test_code_of_enrolment_is_accepted_once_more(api: Api) -> None:
    owner = make_owner(status="unverified")
    code = factor_requests.code()
    read_success(try_code(api, owner, code))
    read_success(try_code(api, owner, code))
    before = Session.objects.get().refresh_token_counter
    assert_error(try_code(api, owner, code), *WRONG_TOTP)
    assert Session.objects.get().refresh_token_counter == before


def test_code_invalidates_earlier_codes(api: Api) -> None:
    owner = make_owner()
    earlier, present = factor_requests.code(steps=-1), factor_requests.code()
    read_success(try_code(api, owner, present))
    assert_error(try_code(api, owner, earlier), *WRONG_TOTP)
    read_success(try_code(api, owner, factor_requests.code(steps=1)))


@pytest.mark.usefixtures("slow_refill")
def test_requests_of_client_are_rate_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"header": ""})
    owner = make_owner()
    responses = [factor_requests.verify(api, owner.token, owner.factor.id, factor_requests.NIL, "1") for _ in range(31)]
    assert [response.status_code for response in responses] == [422] * 30 + [429]
    assert_error(responses[-1], *TOO_OFTEN)
    backdate_rate_limits(timedelta(seconds=61))
    assert_error(factor_requests.verify(api, owner.token, owner.factor.id, factor_requests.NIL, "1"), *UNKNOWN)


# Phones


def test_sms_code_verifies_phone_factor(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner(factor_type="phone", status="unverified", phone=PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    code = mailbox.sms[0].variables["Code"]
    for wrong in (code + "0", f" {code}", code[:5]):
        assert_error(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, wrong), *WRONG_PHONE)
    shown = read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code))
    claims = read_claims(shown["access_token"])
    assert (claims["aal"], claims["amr"][0]["method"]) == ("aal2", "mfa/phone")
    assert (Factor.objects.get().status, Session.objects.get().factor_id) == ("verified", owner.factor.id)


def test_challenge_without_code_accepts_no_code(api: Api) -> None:
    owner = make_owner(factor_type="phone", phone=PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    FactorChallenge.objects.update(otp_code="")
    assert_error(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, "0"), *WRONG_PHONE)


@pytest.mark.parametrize("is_approved", [True, False])
def test_gateway_verifies_its_own_codes(
    api: Api, gateway: MockedServer, use_gateway: UseGateway, is_approved: bool
) -> None:
    use_gateway("twilio_verify")
    owner = make_owner(factor_type="phone", phone=PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    stored = FactorChallenge.objects.get().otp_code
    gateway.respond(in_json({"status": "approved" if is_approved else "pending", "valid": is_approved}))
    response = factor_requests.verify(
        api, owner.token, owner.factor.id, challenge_id, "918273" if is_approved else stored
    )
    (received,) = gateway.received
    assert received.form["To"] == f"+{PHONE}"
    if is_approved:
        read_success(response)
    else:
        assert_error(response, 403, "otp_expired", "Token has expired or is invalid")


# Encryption


@pytest.mark.parametrize("is_right", [True, False])
def test_plain_secret_is_encrypted_at_next_attempt(api: Api, auth_config: ChangeConfig, is_right: bool) -> None:
    auth_config(database=ENCRYPTED)
    owner = make_owner()
    response = try_code(api, owner, factor_requests.code() if is_right else factor_requests.wrong_code())
    assert response.status_code == (200 if is_right else 422)
    stored = Factor.objects.get().secret or ""
    assert SECRET not in stored
    assert encryption.decrypt(stored, bound_to=owner.factor.id) == SECRET


def test_sms_code_is_encrypted_at_wrong_attempt(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    owner = make_owner(factor_type="phone", phone=PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    auth_config(database=ENCRYPTED)
    assert_error(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, "x"), *WRONG_PHONE)
    stored = FactorChallenge.objects.get().otp_code or ""
    code = mailbox.sms[0].variables["Code"]
    assert code not in stored
    assert encryption.decrypt(stored, bound_to=FactorChallenge.objects.get().id) == code
    read_success(factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code))


@pytest.mark.parametrize("broken", ["another row", "no base32"])
def test_undecryptable_secret_is_server_error(api: Api, auth_config: ChangeConfig, broken: str) -> None:
    auth_config(database=ENCRYPTED)
    owner = make_owner()
    secret = encryption.encrypt(SECRET, bound_to=owner.user.id) if broken == "another row" else "not base32!"
    Factor.objects.update(secret=secret)
    response = try_code(api, owner, factor_requests.code())
    assert (response.status_code, response.json()["msg"]) == (500, "Database error verifying MFA TOTP secret")


# Tokens without a session


def test_token_without_session_cannot_step_up(api: Api) -> None:
    owner = make_owner()
    claims = read_claims(owner.token)
    del claims["session_id"]
    token = signed(claims)
    challenge_id = factor_requests.challenged(api, token, owner.factor.id)
    for response, text in (
        (
            factor_requests.enroll(api, token, friendly_name="x"),
            "A valid session and a registered user are required to enroll a factor",
        ),
        (
            factor_requests.verify(api, token, owner.factor.id, challenge_id, factor_requests.code()),
            "Cannot read SessionId claim as UUID",
        ),
        (
            factor_requests.unenroll(api, token, owner.factor.id),
            "A valid session and factor are required to unenroll a factor",
        ),
    ):
        assert (response.status_code, response.json()["msg"]) == (500, text)
    assert Factor.objects.count() == 1


def test_enrolment_started_before_first_factor_requires_aal2(api: Api) -> None:
    owner = make_owner(status="unverified")
    make_factor(owner.user, factor_type="phone", phone=PHONE, friendly_name="the owner's")
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code())
    assert_error(response, 403, "insufficient_aal", "AAL2 required to enroll a new factor")
    owner.factor.refresh_from_db()
    owner.session.refresh_from_db()
    assert (owner.factor.status, owner.session.aal) == ("unverified", "aal1")
