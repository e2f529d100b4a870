"""POST /passkeys/authentication/options and /passkeys/authentication/verify."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.models import Passkey, PasskeyChallenge, User
from authsvc.api import captcha
from authsvc.conf import Secret
from tests.accounts.passkeys.passkey_requests import (
    CHALLENGE_EXPIRED,
    CHALLENGE_NOT_FOUND,
    MALFORMED,
    REFUSED,
    finish_authentication,
    make_owner,
    sign_in,
    start_authentication,
    start_registration,
)
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import backdate, make_factor, make_session, make_user
from tests.fakes.authenticator import BE, UP, UV, Authenticator, encode
from tests.fakes.http_peer import HttpPeer, in_json
from tests.observations import assert_error, audit_payloads, table_contents
from tests.tokens.token_requests import read_claims, refresh, session_exists
from tokens.models import Session

pytestmark = pytest.mark.django_db

OPTIONS, VERIFY = "/passkeys/authentication/options", "/passkeys/authentication/verify"
NIL = "00000000-0000-0000-0000-000000000000"


# The options


def test_the_options_name_no_credential(api: Api) -> None:
    shown = start_authentication(api)
    challenge = PasskeyChallenge.objects.get()
    assert (challenge.challenge_type, challenge.user_id) == ("authentication", None)
    assert shown == {
        "challenge_id": str(challenge.id),
        "expires_at": int(challenge.expires_at.timestamp()),
        "options": {
            "challenge": challenge.session_data["challenge"],
            "timeout": 300000,
            "rpId": "localhost",
            "userVerification": "preferred",
        },
    }


@pytest.mark.parametrize("body", [None, "", "x", {"gotrue_meta_security": {"captcha_token": 5}}])
def test_body_is_ignored_without_captcha(api: Api, body: Any) -> None:
    assert api.post(OPTIONS, body).status_code == 200


@pytest.mark.usefixtures("slow_refill")
def test_requests_are_rate_limited(api: Api) -> None:
    assert {api.post(OPTIONS).status_code for _ in range(30)} == {200}
    assert_error(api.post(OPTIONS), 429, "over_request_rate_limit", "Request rate limit reached")
    # Answers are not counted.
    assert_error(finish_authentication(api, NIL, {}), *CHALLENGE_NOT_FOUND)


@pytest.mark.usefixtures("slow_refill")
def test_the_rate_limit_is_checked_before_the_captcha(api: Api, captcha_service: HttpPeer) -> None:
    for _ in range(30):
        assert api.post(OPTIONS, {}).json()["error_code"] == "captcha_failed"
    assert_error(api.post(OPTIONS, {}), 429, "over_request_rate_limit", "Request rate limit reached")


@pytest.fixture
def captcha_service(auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    auth_config(captcha={"enabled": True, "secret": Secret("s"), "timeout": timedelta(seconds=2)})
    with HttpPeer() as peer:
        monkeypatch.setitem(captcha._SERVICES, "hcaptcha", f"{peer.url}/siteverify")
        yield peer


def test_captcha_is_required_for_options_only(api: Api, captcha_service: HttpPeer) -> None:
    solved = {"gotrue_meta_security": {"captcha_token": "t"}}
    assert_error(
        api.post(OPTIONS, {}),
        400,
        "captcha_failed",
        "captcha protection: request disallowed (no captcha_token found)",
    )
    captcha_service.respond(in_json({"success": False, "error-codes": ["bad"]}))
    assert_error(api.post(OPTIONS, solved), 400, "captcha_failed", "captcha protection: request disallowed (bad)")
    captcha_service.respond(in_json({"success": True}))
    assert api.post(OPTIONS, solved).status_code == 200
    assert_error(finish_authentication(api, NIL, {}), *CHALLENGE_NOT_FOUND)


def test_sign_in_needs_a_relying_party(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(webauthn={"rp_id": ""})
    for response in (api.post(OPTIONS), finish_authentication(api, NIL, {})):
        error_id = response.json()["error_id"]
        assert_error(response, 500, "unexpected_failure", "Failed to initialize WebAuthn", error_id=error_id)


# A sign-in


def test_a_passkey_signs_its_user_in(api: Api) -> None:
    holder = make_owner(api)
    challenge = start_authentication(api)
    credential = holder.device.get(challenge["options"])
    shown = read_success(
        finish_authentication(api, challenge["challenge_id"], credential, headers={"User-Agent": "Phone"})
    )
    claims = read_claims(shown["access_token"])
    assert (claims["sub"], claims["aal"]) == (str(holder.user.id), "aal1")
    assert [entry["method"] for entry in claims["amr"]] == ["passkey"]
    session = Session.objects.get(id=claims["session_id"])
    assert (session.aal, session.user_agent) == ("aal1", "Phone")
    assert shown["user"]["id"] == str(holder.user.id)
    assert api.get("/user", bearer=shown["access_token"]).json() == shown["user"]
    passkey = Passkey.objects.get()
    assert passkey.last_used_at is not None
    assert (passkey.sign_count, passkey.updated_at) == (1, passkey.last_used_at)
    user = User.objects.get()
    assert user.last_sign_in_at == passkey.last_used_at
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"], entry["actor_id"]) == ("login", "account", str(holder.user.id))
    assert entry["traits"] == {"passkey_id": str(passkey.id)}
    assert not PasskeyChallenge.objects.exists()
    read_success(refresh(api, shown["refresh_token"]))


def test_session_starts_at_aal1_despite_second_factor(api: Api) -> None:
    holder = make_owner(api)
    make_factor(holder.user)
    shown = read_success(sign_in(api, holder.device))
    assert read_claims(shown["access_token"])["aal"] == "aal1"


def test_one_authenticator_can_hold_passkeys_of_several_users(api: Api) -> None:
    device = Authenticator()
    first, second = make_owner(api, device=device), make_owner(api, device=device)
    for holder, credential in ((first, device.credentials[0]), (second, device.credentials[1])):
        assert read_success(sign_in(api, device, credential=credential))["user"]["id"] == str(holder.user.id)


# Rejected responses


@pytest.mark.parametrize(
    ("body", "error_code", "text"),
    [
        ({}, "validation_failed", "challenge_id is required"),
        ({"challenge_id": NIL}, "validation_failed", "credential is required"),
        ({"challenge_id": "x", "credential": {}}, "validation_failed", "challenge_id must be a valid UUID"),
        ({"challenge_id": str(uuid4()), "credential": {}}, *CHALLENGE_NOT_FOUND[1:]),
    ],
)
def test_the_parts_of_a_response_are_validated_in_order(
    api: Api, body: dict[str, Any], error_code: str, text: str
) -> None:
    assert_error(api.post(VERIFY, body), 400, error_code, text)


def test_malformed_body_is_rejected(api: Api) -> None:
    response = api.post(VERIFY, "x")
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_response_is_accepted_once(api: Api) -> None:
    holder = make_owner(api)
    challenge = start_authentication(api)
    credential = holder.device.get(challenge["options"])
    read_success(finish_authentication(api, challenge["challenge_id"], credential))
    assert_error(finish_authentication(api, challenge["challenge_id"], credential), *CHALLENGE_NOT_FOUND)
    other = start_authentication(api)
    assert_error(finish_authentication(api, other["challenge_id"], credential), *REFUSED)
    assert Session.objects.count() == 2


def test_registration_challenge_is_rejected(api: Api) -> None:
    holder = make_owner(api)
    challenge = start_registration(api, holder.token)
    credential = holder.device.get(challenge["options"])
    assert_error(finish_authentication(api, challenge["challenge_id"], credential), *CHALLENGE_NOT_FOUND)
    assert PasskeyChallenge.objects.count() == 1


def test_expired_challenge_is_rejected(api: Api) -> None:
    holder = make_owner(api)
    challenge = start_authentication(api)
    backdate(PasskeyChallenge.objects.get(), by=timedelta(minutes=6))
    assert_error(
        finish_authentication(api, challenge["challenge_id"], holder.device.get(challenge["options"])),
        *CHALLENGE_EXPIRED,
    )
    assert not PasskeyChallenge.objects.exists()


@pytest.mark.parametrize("garbage", [{"garbage": True}, "x", 5, [], {"id": "YQ", "type": "public-key"}])
def test_malformed_credential_uses_challenge_up(api: Api, garbage: object) -> None:
    challenge = start_authentication(api)
    assert_error(finish_authentication(api, challenge["challenge_id"], garbage), *MALFORMED)
    assert_error(finish_authentication(api, challenge["challenge_id"], garbage), *CHALLENGE_NOT_FOUND)


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "https://evil.example"},
        {"rp_id": "evil.example"},
        {"challenge": encode(bytes(32))},
        {"type": "webauthn.create"},
        {"flags": UV},
        {"flags": UP | BE},
        {"signature": b"x"},
        {"names_user": False},
        {"user_handle": b""},
        {"user_handle": b"\xff"},
        {"user_handle": b"unknown"},
        {"user_handle": str(uuid4()).encode()},
    ],
)
def test_rejection_reveals_no_reason(api: Api, changes: dict[str, Any]) -> None:
    holder = make_owner(api)
    challenge = start_authentication(api)
    before = table_contents()
    assert_error(
        finish_authentication(api, challenge["challenge_id"], holder.device.get(challenge["options"], **changes)),
        *REFUSED,
    )
    after = table_contents()
    assert {table for table in after if after[table] != before[table]} == {"webauthn_challenges"}


def test_user_handle_in_other_notation_is_rejected(api: Api) -> None:
    holder = make_owner(api)
    assert_error(sign_in(api, holder.device, user_handle=holder.user.id.hex.encode()), *REFUSED)


def test_credential_of_other_user_is_rejected(api: Api) -> None:
    holder, other = make_owner(api), make_owner(api)
    assert_error(sign_in(api, holder.device, user_handle=str(other.user.id).encode()), *REFUSED)


def test_a_user_without_passkeys_is_indistinguishable_from_an_unknown_user(api: Api) -> None:
    user = make_user()
    holder = make_owner(api)
    assert_error(sign_in(api, holder.device, user_handle=str(user.id).encode()), *REFUSED)


def test_removed_passkey_is_rejected(api: Api) -> None:
    holder = make_owner(api)
    Passkey.objects.all().delete()
    assert_error(sign_in(api, holder.device), *REFUSED)


@pytest.mark.parametrize(
    ("columns", "error_code", "text"),
    [
        ({"email_confirmed_at": None}, "email_not_confirmed", "Email not confirmed"),
        ({"phone": "15551234567"}, "phone_not_confirmed", "Phone not confirmed"),
        ({"banned_until": timezone.now() + timedelta(days=1)}, "user_banned", "User is banned"),
        (
            {"email_confirmed_at": None, "banned_until": timezone.now() + timedelta(days=1)},
            "email_not_confirmed",
            "Email not confirmed",
        ),
    ],
)
def test_account_errors_are_reported_after_verification(
    api: Api, columns: dict[str, Any], error_code: str, text: str
) -> None:
    holder = make_owner(api)
    User.objects.filter(id=holder.user.id).update(**columns)
    assert_error(sign_in(api, holder.device, signature=b"x"), *REFUSED)
    assert_error(sign_in(api, holder.device), 403, error_code, text)
    assert Session.objects.count() == 1
    assert Passkey.objects.get().last_used_at is None


# The count of an authenticator


@pytest.mark.parametrize(("stored", "count"), [(0, 0), (0, 5), (5, 6)])
def test_increased_signature_counter_is_stored(api: Api, stored: int, count: int) -> None:
    holder = make_owner(api)
    Passkey.objects.update(sign_count=stored)
    read_success(sign_in(api, holder.device, count=count))
    assert Passkey.objects.get().sign_count == count


@pytest.mark.parametrize(("stored", "count"), [(5, 5), (5, 4), (5, 0)])
def test_signature_counter_must_increase(api: Api, caplog: pytest.LogCaptureFixture, stored: int, count: int) -> None:
    holder = make_owner(api)
    Passkey.objects.update(sign_count=stored)
    before = Session.objects.count()
    with caplog.at_level(logging.WARNING):
        response = sign_in(api, holder.device, count=count)
    assert (response.status_code, response.json()["error_code"]) == (400, "webauthn_verification_failed")
    assert Passkey.objects.get().sign_count == stored
    assert Session.objects.count() == before
    assert any("cloned" in record.getMessage() for record in caplog.records)


def test_sign_in_keeps_other_sessions(api: Api) -> None:
    holder = make_owner(api)
    other = make_session(holder.user, aal="aal2")
    read_success(sign_in(api, holder.device))
    assert session_exists(other.session)
    assert Session.objects.count() == 3
