"""POST /factors: the start of an enrolment."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from accounts.models import Factor, FactorChallenge
from authsvc.api.renderers import rfc3339
from authsvc.conf import Secret
from authsvc.security import encryption
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE
from tests.accounts.mfa.test_totp import decode_image
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import backdate, make_factor, make_session, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents

pytestmark = pytest.mark.django_db

TOO_MANY = (
    422,
    "too_many_enrolled_mfa_factors",
    "Maximum number of verified factors reached, unenroll to continue",
)
TAKEN = (
    422,
    "mfa_verified_factor_exists",
    "A verified phone factor already exists, unenroll the existing factor to continue",
)
NAME_TAKEN = 'A factor with the friendly name "{}" for this user already exists'


@pytest.fixture(autouse=True)
def every_type(auth_config: ChangeConfig) -> None:
    auth_config(mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True})


def test_totp_enrolment_returns_secret_uri_and_qr_code(api: Api) -> None:
    made = make_session(make_user(email="user@example.com"))
    shown = read_success(factor_requests.enroll(api, made.access_token, friendly_name="phone app"))
    factor = Factor.objects.get()
    secret = shown["totp"]["secret"]
    assert re.fullmatch("[A-Z2-7]{32}", secret)
    assert shown == {
        "id": str(factor.id),
        "type": "totp",
        "friendly_name": "phone app",
        "totp": {
            "secret": secret,
            "uri": "otpauth://totp/localhost%3A3000:user@example.com?algorithm=SHA1&digits=6"
            f"&issuer=localhost%3A3000&period=30&secret={secret}",
            "qr_code": shown["totp"]["qr_code"],
        },
    }
    assert decode_image(shown["totp"]["qr_code"]) == shown["totp"]["uri"]
    assert (factor.status, factor.secret, factor.phone, factor.user_id) == ("unverified", secret, None, made.user.id)
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("factor_in_progress", "factor")
    assert (entry["actor_id"], entry["traits"]) == (str(made.user.id), {"factor_id": str(factor.id)})
    (listed,) = api.get("/user", bearer=made.access_token).json()["factors"]
    moment = rfc3339(factor.created_at)
    assert listed == {
        "id": str(factor.id), "created_at": moment, "updated_at": moment, "status": "unverified",
        "friendly_name": "phone app", "factor_type": "totp", "phone": "", "last_challenged_at": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("user", "account"),
    [
        ({"email": "user@example.com", "phone": "15551234567"}, "user@example.com"),
        ({"email": "", "phone": "15551234567"}, "15551234567"),
        ({"email": ""}, None),
    ],
)
def test_totp_account_name_is_first_identifier_of_user(api: Api, user: dict[str, Any], account: str | None) -> None:
    made = make_session(make_user(**user))
    uri = read_success(factor_requests.enroll(api, made.access_token, issuer="My & Co."))["totp"]["uri"]
    parts = urlsplit(uri)
    assert parts.path == f"/My%20%26%20Co.:{account or made.user.id}"
    assert parse_qs(parts.query)["issuer"] == ["My & Co."]


def test_empty_name_is_accepted_and_returned(api: Api) -> None:
    assert read_success(factor_requests.enroll(api, make_session().access_token))["friendly_name"] == ""


def test_secret_is_encrypted_with_column_encryption(api: Api, auth_config: ChangeConfig) -> None:
    key = Secret("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
    auth_config(database={"encrypt": True, "encryption_key_id": "k1", "encryption_key": key,
                          "decryption_keys": {"k1": key}})  # fmt: skip
    secret = read_success(factor_requests.enroll(api, make_session().access_token))["totp"]["secret"]
    factor = Factor.objects.get()
    assert secret not in (factor.secret or "")
    assert encryption.decrypt(factor.secret or "", bound_to=factor.id) == secret


# Rejected enrolments


@pytest.mark.parametrize("body", [{"factor_type": "x"}, {"factor_type": ""}, {"factor_type": None}])
def test_unknown_factor_type_is_rejected(api: Api, body: Any) -> None:
    response = factor_requests.enroll(api, make_session().access_token, **body)
    assert_error(response, 400, "validation_failed", "factor_type needs to be totp, phone, or webauthn")


@pytest.mark.parametrize(
    ("switch", "body", "code", "name"),
    [
        ("totp_enroll_enabled", {}, "mfa_totp_enroll_not_enabled", "TOTP"),
        (
            "phone_enroll_enabled",
            {"factor_type": "phone", "phone": f"+{PHONE}"},
            "mfa_phone_enroll_not_enabled",
            "Phone",
        ),
    ],
)
def test_disabled_factor_type_cannot_be_enrolled(
    api: Api, auth_config: ChangeConfig, switch: str, body: Any, code: str, name: str
) -> None:
    auth_config(mfa={switch: False})
    assert_error(
        factor_requests.enroll(api, make_session().access_token, **body),
        422,
        code,
        f"MFA enroll is disabled for {name}",
    )
    assert not Factor.objects.exists()


@pytest.mark.parametrize("name", ["mary", "", "  "])
def test_name_of_other_factor_is_rejected(api: Api, name: str) -> None:
    token = make_session().access_token
    read_success(factor_requests.enroll(api, token, friendly_name=name))
    before = table_contents()
    assert_error(
        factor_requests.enroll(api, token, friendly_name=name), 422, "mfa_factor_name_conflict", NAME_TAKEN.format(name)
    )
    assert table_contents() == before
    read_success(factor_requests.enroll(api, make_session().access_token, friendly_name=name))


def test_name_too_long_for_index_is_rejected(api: Api) -> None:
    token = make_session().access_token
    read_success(factor_requests.enroll(api, token, friendly_name="ü" * 255))
    assert_error(
        factor_requests.enroll(api, token, friendly_name="x" * 256),
        400,
        "validation_failed",
        "The friendly name is too long",
    )


def test_issuer_too_long_for_qr_code_is_rejected(api: Api) -> None:
    response = factor_requests.enroll(api, make_session().access_token, issuer="x" * 1300)
    assert_error(response, 400, "validation_failed", "The issuer is too long")
    assert not Factor.objects.exists()


@pytest.mark.parametrize("status", ["verified", "unverified"])
def test_number_of_factors_is_limited(api: Api, status: str) -> None:
    made = make_session(aal="aal2")
    for number in range(10):
        make_factor(made.user, status=status, friendly_name=str(number))
    assert_error(factor_requests.enroll(api, made.access_token), *TOO_MANY)


@pytest.mark.parametrize(
    ("limits", "statuses"),
    [
        ({"max_enrolled": 2}, ["verified", "unverified"]),
        ({"max_verified": 1}, ["verified", "unverified"]),
        ({"max_enrolled": 0}, []),
        ({"max_verified": 0}, []),
    ],
)
def test_both_limits_are_configurable(
    api: Api, auth_config: ChangeConfig, limits: dict[str, int], statuses: list[str]
) -> None:
    auth_config(mfa=limits)
    made = make_session(aal="aal2")
    for number, status in enumerate(statuses):
        make_factor(made.user, status=status, friendly_name=str(number))
    assert_error(factor_requests.enroll(api, made.access_token), *TOO_MANY)
    auth_config(mfa={name: number + 1 for name, number in limits.items()})
    read_success(factor_requests.enroll(api, made.access_token))


@pytest.mark.parametrize(("aal", "is_let_in"), [("aal1", False), (None, False), ("aal2", True)])
def test_further_factor_requires_aal2(api: Api, aal: str | None, is_let_in: bool) -> None:
    made = make_session(aal=aal)
    make_factor(made.user, friendly_name="first")
    response = factor_requests.enroll(api, made.access_token, friendly_name="second")
    if is_let_in:
        read_success(response)
    else:
        assert_error(response, 403, "insufficient_aal", "AAL2 required to enroll a new factor")
        assert Factor.objects.count() == 1


def test_anonymous_user_cannot_enrol(api: Api) -> None:
    made = make_session(make_user(email="", is_anonymous=True))
    text = "Anonymous user not allowed to perform these actions"
    for response in (
        factor_requests.enroll(api, made.access_token),
        factor_requests.challenge(api, made.access_token, "x"),
        factor_requests.verify(api, made.access_token, "x", factor_requests.NIL, "1"),
        factor_requests.unenroll(api, made.access_token, "x"),
        api.get("/factors/recovery_codes", bearer=made.access_token),
    ):
        assert_error(response, 403, "no_authorization", text)


def test_enrolment_needs_a_token(api: Api) -> None:
    assert_error(api.post("/factors", {}), 401, "no_authorization", "This endpoint requires a valid Bearer token")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", {"friendly_name": 1}, {"issuer": []}])
def test_body_of_other_type_is_rejected(api: Api, body: Any) -> None:
    response = api.post("/factors", body, bearer=make_session().access_token)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


# Numbers


@pytest.mark.parametrize("number", [f"+{PHONE}", PHONE, "+1 234 567 7889"])
def test_phone_is_returned_unchanged_and_stored_as_digits(api: Api, number: str) -> None:
    made = make_session()
    shown = read_success(
        factor_requests.enroll(api, made.access_token, factor_type="phone", friendly_name="mobile", phone=number)
    )
    factor = Factor.objects.get()
    assert shown == {"id": str(factor.id), "type": "phone", "friendly_name": "mobile", "phone": number}
    assert (factor.phone, factor.secret) == (number.replace("+", "").replace(" ", ""), "")
    assert audit_trail()[-1] == ("factor_in_progress", {"factor_id": str(factor.id), "factor_type": "phone"})


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "Phone number required to enroll Phone factor"),
        ("", "Phone number required to enroll Phone factor"),
        ("+1", "Invalid phone number format (E.164 required)"),
    ],
)
def test_malformed_phone_is_rejected(api: Api, number: str | None, text: str) -> None:
    response = factor_requests.enroll(api, make_session().access_token, factor_type="phone", phone=number)
    assert_error(response, 400, "validation_failed", text)


def test_new_enrolment_of_phone_replaces_unfinished_one(api: Api) -> None:
    token = make_session().access_token
    for name in ("one", "two", "two"):
        read_success(factor_requests.enroll(api, token, factor_type="phone", phone=f"+{PHONE}", friendly_name=name))
    assert [factor.friendly_name for factor in Factor.objects.all()] == ["two"]
    read_success(factor_requests.enroll(api, token, factor_type="phone", phone="+4915100000", friendly_name="three"))
    assert Factor.objects.count() == 2


def test_verified_phone_cannot_be_enrolled_again(api: Api) -> None:
    made = make_session(aal="aal2")
    make_factor(made.user, factor_type="phone", phone=PHONE)
    assert_error(
        factor_requests.enroll(api, made.access_token, factor_type="phone", phone=f"+{PHONE}", friendly_name="x"),
        *TAKEN,
    )
    assert Factor.objects.count() == 1
    read_success(factor_requests.enroll(api, make_session().access_token, factor_type="phone", phone=f"+{PHONE}"))


# Unfinished enrolments


def test_abandoned_enrolments_are_deleted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mfa={"factor_expiry": timedelta(minutes=10)})
    other = make_user()
    old, challenged, verified, young = (
        make_factor(other, friendly_name=name, status="verified" if name == "verified" else "unverified")
        for name in ("old", "challenged", "verified", "young")
    )
    FactorChallenge.objects.create(factor=challenged, created_at=timezone.now(), ip_address="192.0.2.1")
    for factor in (old, challenged, verified):
        backdate(factor, by=timedelta(minutes=11))
    backdate(young, by=timedelta(minutes=9))
    made = make_session(make_user(), aal="aal1")
    mine = make_factor(made.user, friendly_name="again", status="unverified")
    backdate(mine, by=timedelta(minutes=11))
    read_success(factor_requests.enroll(api, made.access_token, friendly_name="again"))
    assert {factor.friendly_name for factor in Factor.objects.filter(user=other)} == {"challenged", "verified", "young"}
    assert Factor.objects.filter(user=made.user).count() == 1


def test_abandoned_enrolments_are_deleted_by_rejected_enrolment(api: Api) -> None:
    old = make_factor(make_user(), status="unverified")
    backdate(old, by=timedelta(minutes=6))
    made = make_session()
    make_factor(made.user)
    assert_error(
        factor_requests.enroll(api, made.access_token, friendly_name="x"),
        403,
        "insufficient_aal",
        "AAL2 required to enroll a new factor",
    )
    assert not Factor.objects.filter(id=old.id).exists()
