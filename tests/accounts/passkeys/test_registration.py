"""POST /passkeys/registration/options and /passkeys/registration/verify."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from accounts.models import CeremonyType, Passkey, PasskeyChallenge, User
from authsvc.api.renderers import rfc3339
from tests.accounts.passkeys.passkey_requests import (
    ANONYMOUS,
    BY_SSO,
    CHALLENGE_EXPIRED,
    CHALLENGE_NOT_FOUND,
    MALFORMED,
    NEEDS_AAL2,
    REFUSED,
    TOO_MANY,
    begin,
    complete,
    make_owner,
    register,
    start_authentication,
    start_registration,
)
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import backdate, make_factor, make_session, make_user
from tests.fakes.authenticator import BE, BS, UP, Authenticator, encode
from tests.observations import assert_error, audit_payloads, table_contents
from tokens.models import Session

pytestmark = pytest.mark.django_db

EXISTS = (422, "webauthn_credential_exists", "This credential is already registered")
NIL = "00000000-0000-0000-0000-000000000000"
BITWARDEN = UUID("d548826e-79b4-db40-a3d8-11116f7e8349")


# The options


def test_the_options_describe_the_credential_and_its_user(api: Api) -> None:
    made = make_session()
    shown = start_registration(api, made.access_token)
    challenge = PasskeyChallenge.objects.get()
    assert set(shown) == {"challenge_id", "options", "expires_at"}
    assert shown["challenge_id"] == str(challenge.id)
    assert shown["expires_at"] == int(challenge.expires_at.timestamp())
    assert 299 <= shown["expires_at"] - timezone.now().timestamp() <= 301
    assert (challenge.challenge_type, challenge.user_id) == ("registration", made.user.id)
    options = shown["options"]
    assert list(options) == [
        "rp", "user", "challenge", "pubKeyCredParams", "timeout", "authenticatorSelection", "attestation",
    ]  # fmt: skip
    assert options["rp"] == {"name": "Example App", "id": "localhost"}
    assert options["user"] == {
        "name": made.user.email, "displayName": made.user.email, "id": encode(str(made.user.id).encode()),
    }  # fmt: skip
    assert options["authenticatorSelection"] == {"residentKey": "required", "userVerification": "preferred"}
    assert options["attestation"] == "none"
    assert challenge.session_data["challenge"] == options["challenge"]
    assert audit_payloads() == []


@pytest.mark.parametrize("body", ["", "x", {}, {"a": 1}])
def test_body_is_ignored(api: Api, body: Any) -> None:
    assert begin(api, make_session().access_token, body).status_code == 200


@pytest.mark.parametrize(
    ("data", "phone", "name", "display_name"),
    [
        ({"name": "John Doe"}, None, "a@example.com", "John Doe"),
        ({"name": ""}, None, "a@example.com", "a@example.com"),
        ({"name": 5}, None, "a@example.com", "a@example.com"),
        ({}, None, "a@example.com", "a@example.com"),
        ({}, "15551234567", "15551234567", "15551234567"),
    ],
)
def test_user_entity_uses_available_names(
    api: Api, data: dict[str, Any], phone: str | None, name: str, display_name: str
) -> None:
    user = make_user(email="a@example.com", data=data)
    if phone:
        User.objects.filter(id=user.id).update(email=None, phone=phone, phone_confirmed_at=timezone.now())
        user.refresh_from_db()
    shown = start_registration(api, make_session(user).access_token)["options"]["user"]
    assert (shown["name"], shown["displayName"]) == (name, display_name)


def test_existing_credentials_are_excluded(api: Api) -> None:
    holder = make_owner(api)
    shown = start_registration(api, holder.token)["options"]["excludeCredentials"]
    assert shown == [{"type": "public-key", "id": encode(holder.device.newest.id)}]


@pytest.mark.parametrize("missing", ["rp_id", "rp_display_name", "rp_origins"])
def test_registration_requires_relying_party(api: Api, auth_config: ChangeConfig, missing: str) -> None:
    holder = make_owner(api)
    auth_config(webauthn={missing: ()})
    for response in (begin(api, holder.token), complete(api, holder.token, NIL, {})):
        error_id = response.json()["error_id"]
        assert_error(response, 500, "unexpected_failure", "Failed to initialize WebAuthn", error_id=error_id)


# Permissions


@pytest.mark.parametrize("step", ["options", "verify"])
def test_registration_needs_a_permanent_signed_in_user(api: Api, step: str) -> None:
    path = f"/passkeys/registration/{step}"
    assert_error(api.post(path, {}), 401, "no_authorization", "This endpoint requires a valid Bearer token")
    anonymous_session = make_session(make_user(email="", is_anonymous=True))
    assert_error(api.post(path, {}, bearer=anonymous_session.access_token), *ANONYMOUS)
    by_sso = make_session(make_user(is_sso_user=True))
    assert_error(api.post(path, {}, bearer=by_sso.access_token), *BY_SSO)


def test_registration_requires_aal2_with_second_factor(api: Api) -> None:
    low = make_session()
    before = start_registration(api, low.access_token)
    make_factor(low.user)
    credential = Authenticator().create(before["options"])
    assert_error(begin(api, low.access_token), *NEEDS_AAL2)
    assert_error(complete(api, low.access_token, before["challenge_id"], credential), *NEEDS_AAL2)
    assert_error(api.post("/passkeys/registration/verify", "no JSON", bearer=low.access_token), *NEEDS_AAL2)
    assert PasskeyChallenge.objects.count() == 1
    Session.objects.update(aal="aal2")
    read_success(complete(api, low.access_token, before["challenge_id"], credential))


def test_unverified_factor_does_not_require_aal2(api: Api) -> None:
    made = make_session()
    make_factor(made.user, status="unverified")
    assert begin(api, made.access_token).status_code == 200


# The credential


def test_credential_is_stored(api: Api) -> None:
    made = make_session()
    device = Authenticator(aaguid=BITWARDEN, flags=UP | BE | BS)
    response = register(api, made.access_token, device, transports=["internal", "cable"])
    shown = read_success(response)
    passkey = Passkey.objects.get()
    assert shown == {
        "id": str(passkey.id), "friendly_name": "Bitwarden", "created_at": rfc3339(passkey.created_at),
    }  # fmt: skip
    assert (bytes(passkey.credential_id), passkey.user_id) == (device.newest.id, made.user.id)
    assert (passkey.attestation_type, passkey.aaguid, passkey.sign_count) == ("none", BITWARDEN, 0)
    assert (passkey.transports, passkey.backup_eligible, passkey.backed_up) == (["internal", "hybrid"], True, True)
    assert passkey.last_used_at is None
    assert not PasskeyChallenge.objects.exists()
    (entry,) = audit_payloads()
    assert (entry["action"], entry["log_type"], entry["actor_id"]) == ("passkey_created", "user", str(made.user.id))
    assert entry["traits"] == {"passkey_id": str(passkey.id)}


def test_unknown_authenticator_model_is_named_passkey(api: Api) -> None:
    assert make_owner(api, device=Authenticator(aaguid=uuid4())).passkey.friendly_name == "Passkey"


@pytest.mark.parametrize(
    ("body", "error_code", "text"),
    [
        ({}, "validation_failed", "challenge_id is required"),
        ({"challenge_id": "", "credential": {}}, "validation_failed", "challenge_id is required"),
        ({"challenge_id": NIL}, "validation_failed", "credential is required"),
        ({"challenge_id": NIL, "credential": None}, "validation_failed", "credential is required"),
        ({"challenge_id": "not-a-uuid"}, "validation_failed", "credential is required"),
        ({"challenge_id": "not-a-uuid", "credential": {}}, "validation_failed", "challenge_id must be a valid UUID"),
        ({"challenge_id": NIL, "credential": {}}, *CHALLENGE_NOT_FOUND[1:]),
        ({"challenge_id": str(uuid4()), "credential": {}}, *CHALLENGE_NOT_FOUND[1:]),
    ],
)
def test_the_parts_of_a_response_are_validated_in_order(
    api: Api, body: dict[str, Any], error_code: str, text: str
) -> None:
    token = make_session().access_token
    before = table_contents()
    assert_error(api.post("/passkeys/registration/verify", body, bearer=token), 400, error_code, text)
    assert table_contents() == before


@pytest.mark.parametrize("body", ["", "x", "[]", '{"challenge_id":5}'])
def test_malformed_body_is_rejected(api: Api, body: str) -> None:
    response = api.post("/passkeys/registration/verify", body, bearer=make_session().access_token)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")
    assert response.json()["msg"].startswith("Could not parse request body as JSON: ")


def test_challenge_of_other_user_or_type_is_not_found_and_kept(api: Api) -> None:
    made, other = make_session(), make_session()
    of_other = start_registration(api, other.access_token)
    for_sign_in = start_authentication(api)
    for challenge in (of_other, for_sign_in):
        credential = Authenticator().create({**of_other["options"], **challenge["options"]})
        assert_error(complete(api, made.access_token, challenge["challenge_id"], credential), *CHALLENGE_NOT_FOUND)
    assert PasskeyChallenge.objects.count() == 2


def test_expired_challenge_is_rejected(api: Api) -> None:
    made = make_session()
    challenge = start_registration(api, made.access_token)
    backdate(PasskeyChallenge.objects.get(), by=timedelta(minutes=6))
    credential = Authenticator().create(challenge["options"])
    assert_error(complete(api, made.access_token, challenge["challenge_id"], credential), *CHALLENGE_EXPIRED)
    assert_error(complete(api, made.access_token, challenge["challenge_id"], credential), *CHALLENGE_NOT_FOUND)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"origin": "https://evil.example"}, REFUSED),
        ({"rp_id": "evil.example"}, REFUSED),
        ({"challenge": encode(bytes(32))}, REFUSED),
        ({"flags": 0}, REFUSED),
        ({"fmt": "homemade"}, REFUSED),
        (None, MALFORMED),
    ],
)
def test_rejected_response_uses_challenge_up(
    api: Api, changes: dict[str, Any] | None, refusal: tuple[int, str, str]
) -> None:
    made = make_session()
    challenge = start_registration(api, made.access_token)
    device = Authenticator()
    credential = {"garbage": True} if changes is None else device.create(challenge["options"], **changes)
    assert_error(complete(api, made.access_token, challenge["challenge_id"], credential), *refusal)
    good = device.create(challenge["options"])
    assert_error(complete(api, made.access_token, challenge["challenge_id"], good), *CHALLENGE_NOT_FOUND)
    assert not Passkey.objects.exists()


def test_a_credential_belongs_to_one_user(api: Api) -> None:
    holder = make_owner(api)
    other = make_session()
    response = register(api, other.access_token, holder.device, credential=holder.device.newest)
    assert_error(response, *EXISTS)
    assert Passkey.objects.get().user_id == holder.user.id
    assert [entry["action"] for entry in audit_payloads()] == ["passkey_created"]


# How many


def test_number_of_passkeys_is_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"max_per_user": 1})
    made = make_session()
    first, second = start_registration(api, made.access_token), start_registration(api, made.access_token)
    device = Authenticator()
    read_success(complete(api, made.access_token, first["challenge_id"], device.create(first["options"])))
    assert_error(complete(api, made.access_token, second["challenge_id"], device.create(second["options"])), *TOO_MANY)
    assert_error(begin(api, made.access_token), *TOO_MANY)
    assert Passkey.objects.count() == 1


def test_revoked_session_registers_nothing(api: Api) -> None:
    made = make_session()
    challenge = start_registration(api, made.access_token)
    Session.objects.all().delete()
    response = complete(api, made.access_token, challenge["challenge_id"], Authenticator().create(challenge["options"]))
    assert (response.status_code, response.json()["error_code"]) == (403, "session_not_found")
    assert PasskeyChallenge.objects.filter(challenge_type=CeremonyType.REGISTRATION).exists()
