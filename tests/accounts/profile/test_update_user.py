"""PUT /user: metadata, second factors, several changes at once, and the order of errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jwt
import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc.api.renderers import rfc3339
from authsvc.conf import Rate, Secret
from authsvc.messaging import EmailType
from authsvc.security import encryption
from tests.accounts.profile.profile_requests import (
    CURRENT_PASSWORD,
    EMAIL,
    MODIFIED,
    NEW_PASSWORD,
    PHONE,
    TOO_SHORT,
    UPDATED_PASSWORD,
    put,
    sign_in,
)
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import PASSWORD, make_factor, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_trail, table_contents
from tokens.models import OneTimeToken, TokenType

pytestmark = pytest.mark.django_db

CHANNEL_INVALID = (
    "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio Verify"
    " is used as the provider."
)

# Metadata


def test_data_is_merged_and_null_removes_a_key(api: Api) -> None:
    made = make_session(make_user(email=EMAIL, data={"a": 1, "b": {"x": 1}, "gone": 1}))
    response = put(api, made, {"data": {"b": {"y": [None, "ü"]}, "c": 1.5, "gone": None, "never": None}})

    shown = read_success(response)
    known = {"sub": str(made.user.id), "email": EMAIL, "email_verified": True, "phone_verified": False}
    assert shown["user_metadata"] == {**known, "a": 1, "b": {"y": [None, "ü"]}, "c": 1.5}
    assert response.headers["Cache-Control"] == "no-store"
    after = User.objects.get()
    assert after.raw_user_meta_data == shown["user_metadata"]
    assert shown["updated_at"] > rfc3339(made.user.created_at or timezone.now())
    assert audit_trail() == [MODIFIED]
    assert api.get("/user", bearer=made.access_token).json() == shown


def test_data_is_stored_in_row_without_metadata(api: Api) -> None:
    made = make_session(make_user(email=EMAIL, raw_user_meta_data=None, raw_app_meta_data=None))
    assert read_success(put(api, made, {"data": {"a": 1, "b": None}}))["user_metadata"] == {"a": 1}


@pytest.mark.parametrize(
    "body",
    [
        {},
        "null",
        dict.fromkeys(("email", "phone", "password", "data", "app_metadata", "nonce", "channel", "code_challenge")),
        {"email": "", "phone": "", "nonce": "", "channel": "", "code_challenge": "", "data": {}},
        {"email": "USER@example.com", "phone": "+1 5551234567", "code_challenge": "x", "channel": "sms"},
        {"is_anonymous": True, "role": "admin", "id": "x", "user_metadata": {"a": 1}},
    ],
)
def test_unchanged_values_update_only_the_time(api: Api, mailbox: Mailbox, body: Any) -> None:
    made = make_session(make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now()))
    before = api.get("/user", bearer=made.access_token).json()
    shown = read_success(put(api, made, body))
    assert {**shown, "updated_at": ""} == {**before, "updated_at": ""}
    assert audit_trail() == [MODIFIED]
    assert (mailbox.emails, mailbox.sms) == ([], [])


@pytest.mark.parametrize("slash", ["", "/"])
def test_update_requires_signed_in_user(api: Api, slash: str) -> None:
    response = api.put(f"/user{slash}", {"data": {"a": 1}})
    assert_error(response, 401, "no_authorization", "This endpoint requires a valid Bearer token")


@pytest.mark.parametrize("body", ["{", "", "[]", '{"data": []}', '{"password": 1}', '{"email": {}}'])
def test_body_of_other_type_is_rejected(api: Api, body: str) -> None:
    response = put(api, make_session(), body)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


@pytest.mark.usefixtures("slow_refill")
def test_changes_of_one_client_are_limited_before_the_body_is_read(api: Api) -> None:
    made = make_session()
    for _ in range(30):
        assert put(api, made, "{").status_code == 400
    assert_error(put(api, made, "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert api.get("/user", bearer=made.access_token).status_code == 200


# Administrators and app_metadata


def test_administrators_can_merge_app_metadata(api: Api) -> None:
    made = make_session(make_user(email=EMAIL, role="admin"))
    shown = read_success(put(api, made, {"app_metadata": {"plan": "gold", "gone": None}}))
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"], "plan": "gold"}
    assert read_success(put(api, made, {"app_metadata": {"plan": None}}))["app_metadata"] == {
        "provider": "email", "providers": ["email"],
    }  # fmt: skip
    assert audit_trail() == [MODIFIED] * 2


@pytest.mark.parametrize(
    ("columns", "jwt_settings"),
    [
        ({}, {}),
        ({"role": "svc_admin"}, {}),
        ({"role": "admin"}, {"admin_group_name": "operators"}),
        ({"role": ""}, {"admin_group_name": ""}),
        ({"role": "admin"}, {"aud": "staff"}),
        ({"role": "admin", "aud": "staff"}, {}),
    ],
)
@pytest.mark.parametrize("app_metadata", [{}, {"plan": "gold"}])
def test_other_users_cannot_change_app_metadata(
    api: Api,
    auth_config: ChangeConfig,
    columns: dict[str, Any],
    jwt_settings: dict[str, Any],
    app_metadata: dict[str, Any],
) -> None:
    made = make_session(make_user(email=EMAIL, **columns))
    auth_config(jwt=jwt_settings)
    before = table_contents()
    response = put(api, made, {"app_metadata": app_metadata, "data": {"a": 1}})
    assert_error(response, 403, "not_admin", "Updating app_metadata requires admin privileges")
    assert table_contents() == before


# Second factors


@pytest.mark.parametrize("body", [{"password": NEW_PASSWORD}, {"email": "new@example.com"}, {"phone": PHONE}])
@pytest.mark.parametrize(("status", "second"), [("verified", False), ("verified", True), ("unverified", False)])
def test_user_with_second_factor_needs_aal2(
    api: Api, auth_config: ChangeConfig, body: dict[str, str], status: str, second: bool
) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    made = make_session(make_user(email=EMAIL), aal="aal2" if second else "aal1")
    make_factor(made.user, status=status)
    before = table_contents()
    response = put(api, made, body)
    if second or status == "unverified":
        read_success(response)
    else:
        text = "AAL2 session is required to update email or password when MFA is enabled."
        assert_error(response, 401, "insufficient_aal", text)
        assert table_contents() == before


def test_metadata_needs_no_second_factor(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    make_factor(made.user)
    read_success(put(api, made, {"data": {"a": 1}, "email": EMAIL}))


# The order of errors

WRONG = {"email": "x", "phone": "x", "channel": "x", "password": "1", "code_challenge": "x", "app_metadata": {}}
TAKEN = {"email": "taken@example.com", "phone": "15550000000"}


@pytest.mark.parametrize(
    ("columns", "body", "refusal"),
    [
        (
            {},
            WRONG | {"email": "x" * 251 + "@b.co"},
            (400, "validation_failed", "An email address is too long"),
        ),
        ({}, WRONG, (400, "validation_failed", "Unable to validate email address: invalid format")),
        ({}, WRONG | {"email": None}, (400, "validation_failed", "Invalid phone number format (E.164 required)")),
        ({}, WRONG | TAKEN, (400, "validation_failed", CHANNEL_INVALID)),
        ({}, WRONG | TAKEN | {"channel": "whatsapp"}, (400, "validation_failed", CHANNEL_INVALID)),
        ({}, WRONG | TAKEN | {"channel": "sms"}, (422, "weak_password", TOO_SHORT)),
        (
            {},
            WRONG | TAKEN | {"channel": "sms", "password": PASSWORD},
            (400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge"),
        ),
        (
            {"factor": True},
            {"password": PASSWORD, "app_metadata": {}, "code_challenge": "x"},
            (403, "not_admin", "Updating app_metadata requires admin privileges"),
        ),
        (
            {"factor": True, "is_anonymous": True, "is_sso_user": True},
            {"password": PASSWORD},
            (401, "insufficient_aal", "AAL2 session is required to update email or password when MFA is enabled."),
        ),
        (
            {"is_anonymous": True, "is_sso_user": True},
            {"password": PASSWORD},
            (
                422,
                "validation_failed",
                "Updating password of an anonymous user without an email or phone is not allowed",
            ),
        ),
        *(
            (
                {"is_sso_user": True},
                body,
                (422, "user_sso_managed", "Updating email, phone, password of a SSO account only possible via SSO"),
            )
            for body in (TAKEN, {"phone": "15550000000"}, {"password": PASSWORD}, {"nonce": "1", "data": {"a": 1}})
        ),
        (
            {},
            TAKEN | {"password": PASSWORD},
            (422, "email_exists", "A user with this email address has already been registered"),
        ),
        (
            {},
            TAKEN | {"email": "TAKEN@example.com"},
            (422, "email_exists", "A user with this email address has already been registered"),
        ),
        (
            {},
            TAKEN | {"email": "free@example.com", "password": PASSWORD},
            (422, "phone_exists", "A user with this phone number has already been registered"),
        ),
        (
            {},
            {"email": "free@example.com", "password": PASSWORD},
            (400, "reauthentication_needed", "Password update requires reauthentication"),
        ),
        (
            {},
            {"email": "free@example.com", "password": PASSWORD, "nonce": ""},
            (400, "reauthentication_needed", "Password update requires reauthentication"),
        ),
        (
            {},
            {"email": "free@example.com", "password": PASSWORD, "nonce": "123456"},
            (422, "reauthentication_not_valid", "Nonce has expired or is invalid"),
        ),
        (
            {"fresh": True},
            {"email": "free@example.com", "password": PASSWORD},
            (400, "current_password_required", CURRENT_PASSWORD),
        ),
        (
            {"fresh": True},
            {"email": "free@example.com", "password": PASSWORD, "current_password": "wrong"},
            (400, "current_password_invalid", CURRENT_PASSWORD),
        ),
        (
            {"fresh": True},
            {"email": "free@example.com", "password": PASSWORD, "current_password": PASSWORD},
            (422, "same_password", "New password should be different from the old password."),
        ),
        (
            {"fresh": True},
            {"email": "free@example.com", "password": NEW_PASSWORD, "current_password": PASSWORD},
            (429, "over_email_send_rate_limit", "email rate limit exceeded"),
        ),
    ],
)
def test_errors_have_documented_order_and_change_nothing(
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    columns: dict[str, Any],
    body: dict[str, Any],
    refusal: tuple[int, str, str],
) -> None:
    user_columns = {name: value for name, value in columns.items() if name not in ("factor", "fresh")}
    age = timedelta(0) if columns.get("fresh") else timedelta(days=2)
    made = make_session(make_user(email=EMAIL, **user_columns), created_at=timezone.now() - age)
    make_user(email="taken@example.com", phone="15550000000", audience="staff")
    if columns.get("factor"):
        make_factor(made.user)
    auth_config(
        passwords={
            "update_requires_reauthentication": True,
            "update_requires_current": True,
            "reauthentication_interval": timedelta(days=1),
        },
        limits={"email_sent": Rate(events=0)},
    )
    before = table_contents()
    further: dict[str, Any] = {"weak_password": {"reasons": ["length"]}} if refusal[1] == "weak_password" else {}
    assert_error(put(api, made, {"data": {"a": 1}, **body}), *refusal, **further)
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])


def test_rejected_email_rolls_password_back(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    made = make_session(make_user(email=EMAIL))
    auth_config(recipients={"authorized_addresses": ("unknown@example.com",)})
    before = table_contents()
    response = put(api, made, {"password": NEW_PASSWORD, "email": "new@example.com", "data": {"a": 1}})
    text = 'Email address "new@example.com" cannot be used as it is not authorized'
    assert_error(response, 400, "email_address_not_authorized", text)
    assert table_contents() == before
    assert mailbox.emails == []
    assert sign_in(api, PASSWORD) == 200


def test_an_undeliverable_email_rolls_everything_back(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    before = {table: held for table, held in table_contents().items() if not table.startswith("procrastinate")}
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE procrastinate_jobs RENAME TO procrastinate_jobs_away")
    try:
        response = put(api, made, {"email": "new@example.com", "password": NEW_PASSWORD})
        body = response.json()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE procrastinate_jobs_away RENAME TO procrastinate_jobs")
    assert_error(response, 500, "unexpected_failure", "Error sending email change email", error_id=body["error_id"])
    after = {table: held for table, held in table_contents().items() if not table.startswith("procrastinate")}
    assert after == before


def test_several_changes_are_applied_together(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    made = make_session(make_user(email=EMAIL))
    body = {"email": "new@example.com", "phone": PHONE, "password": NEW_PASSWORD, "data": {"name": "Ada"}}
    shown = read_success(put(api, made, body))
    assert (shown["email"], shown["new_email"]) == (EMAIL, "new@example.com")
    assert (shown["phone"], shown["new_phone"]) == ("", PHONE)
    assert shown["user_metadata"]["name"] == "Ada"
    assert shown["email_change_sent_at"] == shown["phone_change_sent_at"] == shown["updated_at"]
    assert audit_trail() == [UPDATED_PASSWORD, MODIFIED]
    kinds = [mail.type for mail in mailbox.emails]
    assert kinds == [EmailType.PASSWORD_CHANGED, EmailType.EMAIL_CHANGE, EmailType.EMAIL_CHANGE]
    assert {mail.variables["Data"]["name"] for mail in mailbox.emails[1:]} == {"Ada"}
    assert sorted(OneTimeToken.objects.values_list("token_type", flat=True)) == [
        "email_change_token_current", "email_change_token_new", "phone_change_token",
    ]  # fmt: skip


# Column encryption


@pytest.mark.parametrize("written_by", ["sign-up", "repeated sign-up", "invitation", "change"])
def test_hash_is_encrypted_with_column_encryption(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, written_by: str
) -> None:
    key = Secret("pwFoiPyybQMqNmYVN0gUnpbfpGQV2sDv9vp0ZAxi_Y4")
    auth_config(
        database={"encrypt": True, "encryption_key_id": "a", "encryption_key": key, "decryption_keys": {"a": key}}
    )
    credentials = {"email": EMAIL, "password": NEW_PASSWORD}
    if written_by == "change":
        read_success(put(api, make_session(make_user(email=EMAIL)), {"password": NEW_PASSWORD}))
    elif written_by == "invitation":
        user = make_user(email=EMAIL, password="", confirmed=False, invited_at=timezone.now())
        secret = make_one_time_token(user, TokenType.CONFIRMATION)
        body = {"type": "invite", "token_hash": secret.link_token, "password": NEW_PASSWORD}
        assert api.post("/verify", body).status_code == 200
    else:
        if written_by == "repeated sign-up":
            # Another password would leave the account without one.
            make_user(email=EMAIL, confirmed=False, password=NEW_PASSWORD)
        assert api.post("/signup", credentials).status_code == 200
    user = User.objects.get()
    assert (user.password or "").startswith('{"key_id":"a"')
    assert hashing.verify_password(NEW_PASSWORD, encryption.decrypt(user.password or "", bound_to=user.id))


def test_the_next_token_contains_the_changes(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    read_success(put(api, made, {"data": {"plan": "free"}}))
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": made.refresh_token})
    payload = jwt.decode(response.json()["access_token"], options={"verify_signature": False})
    assert payload["user_metadata"]["plan"] == "free"
