"""POST /factors/{factor_id}/verify: conditions, effects and errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest
from django.conf import settings
from django.utils import timezone

from accounts.models import Factor, FactorChallenge
from accounts.users.queries import AccountUsers
from authsvc.conf import Secret, Twilio
from authsvc.messaging import EmailType
from authsvc.security import encryption
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, SECRET, Owner, make_owner
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import backdate, make_factor, make_legacy_tokens, make_session
from tests.fakes.http_peer import MockedServer, in_json
from tests.mailer.sms.conftest import UseGateway, gateway, use_gateway
from tests.observations import assert_error, audit_payloads, backdate_rate_limits, table_contents
from tests.tokens.token_requests import read_claims, refresh, session_exists
from tokens.models import AmrClaim, LegacyRefreshToken, Session
from tokens.sessions.users import SignedInUser

__all__ = ["gateway", "use_gateway"]  # fixtures

pytestmark = pytest.mark.django_db

KEY = Secret("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
ENCRYPTED = {"encrypt": True, "encryption_key_id": "k1", "encryption_key": KEY, "decryption_keys": {"k1": KEY}}
WRONG_TOTP = (422, "mfa_verification_failed", "Invalid TOTP code entered")
WRONG_PHONE = (422, "mfa_verification_failed", "Invalid MFA Phone code entered")
ELSEWHERE = (422, "mfa_ip_address_mismatch", "Challenge and verify IP addresses mismatch.")
UNKNOWN = (422, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found")
USED = (400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")
TOO_OFTEN = (429, "over_request_rate_limit", "Request rate limit reached")


@pytest.fixture(autouse=True)
def phones(auth_config: ChangeConfig) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
        limits={"header": "X-Unsent"},  # no rate limit applies to requests without this header
    )


def expired(challenge_id: str) -> tuple[int, str, str]:
    text = f"MFA challenge {challenge_id} has expired, verify against another challenge or create a new challenge."
    return (422, "mfa_challenge_expired", text)


def try_code(api: Api, owner: Owner, code: str) -> Any:
    """A code on a new challenge."""
    return factor_requests.verify(
        api, owner.token, owner.factor.id, factor_requests.challenged(api, owner.token, owner.factor.id, {}), code
    )


# Effects of a correct code


@pytest.mark.parametrize("status", ["unverified", "verified"])
def test_correct_code_steps_up_session(api: Api, status: str) -> None:
    owner = make_owner(status=status, friendly_name="phone app")
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, f" {factor_requests.code()} ")
    shown = read_success(response)
    session = Session.objects.get()
    assert (session.id, session.aal, session.factor_id) == (owner.session.id, "aal2", owner.factor.id)
    assert (session.refresh_token_counter, session.refreshed_at) == (2, None)
    claims = read_claims(shown["access_token"])
    assert (claims["aal"], claims["session_id"]) == ("aal2", str(session.id))
    assert [entry["method"] for entry in claims["amr"]] == ["totp", "password"]
    assert {"token_type", "expires_in", "expires_at", "refresh_token", "user"} < set(shown)
    (factor,) = shown["user"]["factors"]
    assert (factor["id"], factor["status"], factor["friendly_name"]) == (str(owner.factor.id), "verified", "phone app")
    assert api.get("/user", bearer=shown["access_token"]).json() == shown["user"]
    challenge = FactorChallenge.objects.get()
    assert challenge.verified_at is not None
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("verification_attempted", "factor")
    assert entry["traits"] == {
        "factor_id": str(owner.factor.id), "challenge_id": challenge_id, "factor_type": "totp",
    }  # fmt: skip


def test_refreshed_token_keeps_aal2_and_previous_refresh_token_revokes_session(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    next_pair = read_success(refresh(api, raised["refresh_token"]))
    assert read_claims(next_pair["access_token"])["aal"] == "aal2"
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert not Session.objects.exists()


@pytest.mark.parametrize(("age", "continues"), [(0, True), (9, True), (11, False)])
def test_previous_refresh_token_is_invalid_and_ends_the_session_after_the_reuse_interval(
    api: Api, age: int, continues: bool
) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    backdate(owner.session, *AmrClaim.objects.all(), by=timedelta(seconds=age))
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert Session.objects.exists() is continues
    assert api.get("/user", bearer=raised["access_token"]).status_code == (200 if continues else 403)
    assert refresh(api, raised["refresh_token"]).status_code == (200 if continues else 400)


def test_an_older_refresh_token_ends_the_session_after_a_step_up_too(api: Api) -> None:
    owner = make_owner()
    assert refresh(api, owner.refresh_token).status_code == 200
    factor_requests.step_up(api, owner)
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert not Session.objects.exists()


def test_previous_refresh_token_is_only_invalid_when_the_step_up_comes_during_the_refresh(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_owner()
    find_by_session = AccountUsers.find_by_session
    raised: list[dict[str, Any]] = []

    def find_and_step_up(source: AccountUsers, session_id: UUID) -> SignedInUser | None:
        found = find_by_session(source, session_id)
        if not raised:
            raised.append(factor_requests.step_up(api, owner))
        return found

    monkeypatch.setattr(AccountUsers, "find_by_session", find_and_step_up)
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert refresh(api, raised[0]["refresh_token"]).status_code == 200


@pytest.mark.parametrize("refresh_settings", [{"allow_reuse": True}, {"rotation_enabled": False}])
def test_previous_refresh_token_is_rejected_when_reuse_is_tolerated(
    api: Api, auth_config: ChangeConfig, refresh_settings: dict[str, bool]
) -> None:
    auth_config(refresh=refresh_settings)
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    assert_error(
        refresh(api, owner.refresh_token),
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    )
    assert read_claims(read_success(refresh(api, raised["refresh_token"]))["access_token"])["aal"] == "aal2"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "refresh_token_already_used"),
        ({"allow_reuse": True}, "refresh_token_not_found"),
        ({"rotation_enabled": False}, "refresh_token_not_found"),
    ],
)
def test_imported_session_is_converted_and_its_token_is_invalid(
    api: Api, auth_config: ChangeConfig, config: dict[str, bool], code: str
) -> None:
    owner = make_owner()
    [*_, imported] = make_legacy_tokens(owner.user)
    assert imported.session is not None
    access_token = signed(read_claims(owner.token) | {"session_id": str(imported.session.id)})
    auth_config(refresh=config)
    challenge_id = factor_requests.challenged(api, access_token, owner.factor.id)
    raised = read_success(
        factor_requests.verify(api, access_token, owner.factor.id, challenge_id, factor_requests.code())
    )
    session = Session.objects.get(id=imported.session.id)
    assert (session.aal, session.refresh_token_counter) == ("aal2", 2)
    assert not LegacyRefreshToken.objects.filter(revoked=False).exists()
    assert [entry["action"] for entry in audit_payloads()[-2:]] == ["verification_attempted", "token_revoked"]
    assert read_claims(read_success(refresh(api, raised["refresh_token"]))["access_token"])["aal"] == "aal2"
    assert refresh(api, imported.token or "").json()["error_code"] == code


def signed(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, settings.AUTH.jwt.secret.reveal(), algorithm="HS256")


def test_other_sessions_below_aal2_are_revoked(api: Api) -> None:
    owner = make_owner()
    other = make_factor(owner.user, friendly_name="other")
    low, high, unknown = (
        make_session(owner.user, aal=aal, factor_id=factor)
        for aal, factor in (("aal1", None), ("aal2", other.id), (None, None))
    )
    stranger = make_session()
    factor_requests.step_up(api, owner)
    assert not session_exists(low.session)
    for kept in (owner, high, unknown, stranger):
        assert session_exists(kept.session)


def test_new_sign_in_starts_at_aal1_and_keeps_other_session(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    low = make_session(owner.user)
    assert read_claims(low.access_token)["aal"] == "aal1"
    assert read_success(api.get("/user", bearer=raised["access_token"]))["id"] == str(owner.user.id)


def test_repeated_method_keeps_its_amr_row(api: Api) -> None:
    owner = make_owner()
    at = timezone.now() - timedelta(hours=1)
    AmrClaim.objects.create(session=owner.session, authentication_method="totp", created_at=at, updated_at=at)
    factor_requests.step_up(api, owner)
    claim = AmrClaim.objects.get(authentication_method="totp")
    assert claim.created_at == at
    assert claim.updated_at > at
    assert factor_requests.methods(owner.session) == ["password", "totp"]


def test_verification_deletes_unfinished_enrolments_of_type(api: Api) -> None:
    owner = make_owner(status="unverified")
    make_factor(owner.user, status="unverified", friendly_name="same type")
    make_factor(owner.user, status="verified", friendly_name="same type, done")
    make_factor(owner.user, status="unverified", factor_type="phone", phone=PHONE, friendly_name="other type")
    make_factor(make_session().user, status="unverified", friendly_name="of other user")
    Session.objects.filter(id=owner.session.id).update(aal="aal2")
    factor_requests.step_up(api, owner)
    left = {factor.friendly_name for factor in Factor.objects.exclude(id=owner.factor.id)}
    assert left == {"same type, done", "other type", "of other user"}


def test_step_up_ends_time_limit_of_aal1(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(minutes=10)})
    owner = make_owner()
    assert factor_requests.step_up(api, owner)["expires_in"] == 3600


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


# Guessing


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
