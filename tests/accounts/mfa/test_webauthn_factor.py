"""WebAuthn authenticators as second factors: /factors with challenges and responses."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from accounts.models import Factor, FactorChallenge, Passkey
from authsvc.messaging import EmailType
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import NIL, Owner, make_owner
from tests.accounts.passkeys import passkey_requests
from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import backdate, make_factor, make_session, make_user
from tests.fakes.authenticator import BE, UP, UV, Authenticator, encode
from tests.observations import assert_error, audit_trail, table_contents
from tests.tokens.token_requests import read_claims
from tokens.models import Session

pytestmark = pytest.mark.django_db

INVALID = (422, "mfa_verification_failed", "Invalid WebAuthn response")
MALFORMED = (400, "validation_failed", "Invalid credential_response")
UNKNOWN = (422, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found")
MAKE = UUID("fa2b99dc-9e39-4257-8f92-4a30d23c4118")


@pytest.fixture(autouse=True)
def webauthn(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"web_authn_enroll_enabled": True, "web_authn_verify_enabled": True},
        webauthn=PARTY,
        limits={"header": "X-Unsent"},  # no rate limit applies to requests without this header
        mailer={"worker_enabled": False},
    )


def start_challenge(api: Api, token: str, factor_id: object) -> dict[str, Any]:
    """A new challenge; its options are under `options`."""
    shown = read_success(factor_requests.challenge(api, token, factor_id, {}))
    return {**shown, "options": shown["webauthn"]["credential_options"]["publicKey"]}


def verify(api: Api, token: str, factor_id: object, challenge_id: object, credential: Any, **sent: Any) -> ApiResponse:
    body = {"challenge_id": challenge_id, "webauthn": credential}
    return api.post(f"/factors/{factor_id}/verify", body, bearer=token, **sent)


def create(api: Api, owner: Owner, device: Authenticator, **changes: Any) -> ApiResponse:
    """Challenge an unverified factor and answer with a new credential."""
    challenge = start_challenge(api, owner.token, owner.factor.id)
    credential = {"type": "create", "credential_response": device.create(challenge["options"], **changes)}
    return verify(api, owner.token, owner.factor.id, challenge["id"], credential)


def use(api: Api, token: str, factor_id: object, device: Authenticator, **changes: Any) -> ApiResponse:
    """Challenge a verified factor and answer with the device."""
    challenge = start_challenge(api, token, factor_id)
    credential = {"type": "request", "credential_response": device.get(challenge["options"], **changes)}
    return verify(api, token, factor_id, challenge["id"], credential)


def make_unverified() -> Owner:
    return make_owner(status="unverified", factor_type="webauthn", friendly_name="key")


def make_verified(api: Api) -> tuple[Owner, Authenticator]:
    """A user with a verified key, in a new session at `aal1`."""
    owner, device = make_unverified(), Authenticator()
    read_success(create(api, owner, device, transports=["usb"]))
    again = make_session(owner.user)
    owner = Owner(
        user=owner.user,
        session=again.session,
        factor=Factor.objects.get(id=owner.factor.id),
        token=again.access_token,
        refresh_token=again.refresh_token,
    )
    return owner, device


# Enrolment


def test_enrolment_returns_no_secret(api: Api) -> None:
    made = make_session()
    shown = read_success(factor_requests.enroll(api, made.access_token, factor_type="webauthn", friendly_name="key"))
    factor = Factor.objects.get()
    assert shown == {"id": str(factor.id), "type": "webauthn", "friendly_name": "key"}
    assert (factor.status, factor.secret, factor.web_authn_credential) == ("unverified", "", None)
    assert audit_trail() == [("factor_in_progress", {"factor_id": str(factor.id), "factor_type": "webauthn"})]


def test_disabled_enrolment_is_rejected(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mfa={"web_authn_enroll_enabled": False})
    response = factor_requests.enroll(api, make_session().access_token, factor_type="webauthn")
    assert_error(response, 422, "mfa_webauthn_enroll_not_enabled", "MFA enroll is disabled for WebAuthn")


# The challenge


def test_unverified_factor_is_challenged_with_creation(api: Api) -> None:
    owner = make_unverified()
    shown = read_success(
        factor_requests.challenge(api, owner.token, owner.factor.id, {"webauthn": {"rpId": "evil.example"}})
    )
    challenge = FactorChallenge.objects.get()
    assert set(shown) == {"id", "type", "expires_at", "webauthn"}
    assert (shown["id"], shown["type"]) == (str(challenge.id), "webauthn")
    assert shown["webauthn"]["type"] == "create"
    options = shown["webauthn"]["credential_options"]["publicKey"]
    assert list(options) == ["rp", "user", "challenge", "pubKeyCredParams", "timeout", "authenticatorSelection"]
    assert options["rp"]["id"] == "localhost"
    assert options["user"] == {
        "name": owner.user.email, "displayName": owner.user.email, "id": encode(str(owner.user.id).encode()),
    }  # fmt: skip
    assert options["authenticatorSelection"] == {}
    assert Factor.objects.get().last_challenged_at is not None
    assert audit_trail() == []


def test_a_user_without_address_has_an_empty_name(api: Api) -> None:
    made = make_session(make_user(email="", phone="15551234567", phone_confirmed_at=timezone.now()))
    factor = make_factor(made.user, factor_type="webauthn", status="unverified")
    user = start_challenge(api, made.access_token, factor.id)["options"]["user"]
    assert (user["name"], user["displayName"]) == ("", "")


def test_verified_factor_is_challenged_with_all_keys_of_user(api: Api) -> None:
    owner, device = make_verified(api)
    Session.objects.filter(id=owner.session.id).update(aal="aal2")
    second = make_factor(owner.user, factor_type="webauthn", status="unverified", friendly_name="second")
    options = start_challenge(api, owner.token, second.id)["options"]
    known = encode(device.newest.id)
    assert options["excludeCredentials"] == [{"type": "public-key", "id": known, "transports": ["usb", "nfc"]}]
    shown = start_challenge(api, owner.token, owner.factor.id)
    assert shown["webauthn"]["type"] == "request"
    assert shown["options"] == {
        "challenge": shown["options"]["challenge"],
        "timeout": 300000,
        "rpId": "localhost",
        "allowCredentials": [{"type": "public-key", "id": known, "transports": ["usb"]}],
    }


@pytest.mark.parametrize("body", [None, "", "x", "[]"])
def test_the_body_of_a_challenge_is_an_object(api: Api, body: Any) -> None:
    owner = make_unverified()
    response = factor_requests.challenge(api, owner.token, owner.factor.id, body)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_disabled_verification_is_rejected(api: Api, auth_config: ChangeConfig) -> None:
    owner = make_unverified()
    auth_config(mfa={"web_authn_verify_enabled": False})
    disabled = (422, "mfa_webauthn_verify_not_enabled", "MFA verification is disabled for WebAuthn")
    assert_error(factor_requests.challenge(api, owner.token, owner.factor.id, {}), *disabled)
    assert_error(verify(api, owner.token, owner.factor.id, NIL, None), *disabled)


def test_without_a_relying_party_there_is_no_challenge(api: Api, auth_config: ChangeConfig) -> None:
    owner = make_unverified()
    auth_config(webauthn={"rp_origins": ()})
    response = factor_requests.challenge(api, owner.token, owner.factor.id, {})
    assert (response.status_code, response.json()["error_code"]) == (500, "unexpected_failure")
    assert not FactorChallenge.objects.exists()


# A verification


def test_new_key_steps_up_session_and_is_stored(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"notifications": frozenset({"mfa_factor_enrolled"})})
    owner, device = make_unverified(), Authenticator(aaguid=MAKE, flags=UP | BE)
    challenge = start_challenge(api, owner.token, owner.factor.id)
    credential = device.create(challenge["options"], transports=["usb", "cable"])
    shown = read_success(
        verify(
            api,
            owner.token,
            owner.factor.id,
            challenge["id"],
            {"type": "create", "rpId": "x", "rpOrigins": ["x"], "credential_response": credential},
        )
    )
    claims = read_claims(shown["access_token"])
    assert (claims["aal"], [entry["method"] for entry in claims["amr"]]) == ("aal2", ["mfa/webauthn", "password"])
    (rendered,) = shown["user"]["factors"]
    assert (rendered["status"], rendered["web_authn_aaguid"]) == ("verified", str(MAKE))
    assert "credential" not in str(rendered)
    factor = Factor.objects.get()
    assert factor.web_authn_aaguid == MAKE
    kept = factor.web_authn_credential
    assert kept is not None
    assert set(kept) == {
        "id", "publicKey", "attestationType", "transport", "flags", "authenticator", "attestation",
    }  # fmt: skip
    assert base64.b64decode(kept["id"]) == device.newest.id
    assert (kept["attestationType"], kept["transport"]) == ("none", ["usb", "hybrid"])
    assert kept["flags"] == {
        "userPresent": True, "userVerified": False, "backupEligible": True, "backupState": False,
    }  # fmt: skip
    assert kept["authenticator"] == {
        "AAGUID": base64.b64encode(MAKE.bytes).decode(),
        "signCount": 0,
        "cloneWarning": False,
        "attachment": "platform",
    }
    assert kept["attestation"]["publicKeyAlgorithm"] == -7
    last = factor.last_webauthn_challenge_data
    assert last is not None
    del credential["clientExtensionResults"]  # the service does not read it
    assert (last["type"], last["challenge"]["id"], last["credential_response"]) == (
        "create",
        challenge["id"],
        credential,
    )
    assert not FactorChallenge.objects.exists()
    traits = {"factor_id": str(factor.id), "challenge_id": challenge["id"], "factor_type": "webauthn"}
    assert audit_trail() == [("verification_attempted", traits)]
    assert [email.type for email in mailbox.emails] == [EmailType.FACTOR_ENROLLED]


def test_known_key_steps_up_session(api: Api) -> None:
    owner, device = make_verified(api)
    shown = read_success(use(api, owner.token, owner.factor.id, device))
    assert read_claims(shown["access_token"])["aal"] == "aal2"
    factor = Factor.objects.get()
    assert factor.last_webauthn_challenge_data is not None
    assert factor.last_webauthn_challenge_data["type"] == "request"
    assert not FactorChallenge.objects.exists()


def test_signature_counter_must_increase(api: Api) -> None:
    owner, device = make_verified(api)
    read_success(use(api, owner.token, owner.factor.id, device, count=9))
    for count in (9, 8, 0):
        answered = use(api, owner.token, owner.factor.id, device, count=count)
        assert (answered.status_code, answered.json()["error_code"]) == (422, "mfa_verification_failed")
    read_success(use(api, owner.token, owner.factor.id, device, count=10))


def test_key_without_counter_can_be_reused(api: Api) -> None:
    owner, device = make_verified(api)
    for _ in range(2):
        read_success(use(api, owner.token, owner.factor.id, device, count=0))


def test_any_verified_key_is_accepted(api: Api) -> None:
    owner, first = make_verified(api)
    second = make_factor(owner.user, factor_type="webauthn", status="unverified", friendly_name="second")
    Session.objects.filter(id=owner.session.id).update(aal="aal2")
    device = Authenticator()
    challenge = start_challenge(api, owner.token, second.id)
    credential = {"type": "create", "credential_response": device.create(challenge["options"])}
    read_success(verify(api, owner.token, second.id, challenge["id"], credential))
    read_success(use(api, owner.token, owner.factor.id, device))
    read_success(use(api, owner.token, second.id, first))


@pytest.mark.parametrize("removed", ["challenged", "used"])
@pytest.mark.parametrize("by_admin", [False, True], ids=["by its owner", "by an administrator"])
def test_session_is_lowered_with_used_key(api: Api, removed: str, by_admin: bool) -> None:
    owner, _ = make_verified(api)
    used = make_factor(owner.user, factor_type="webauthn", status="unverified", friendly_name="used")
    Session.objects.filter(id=owner.session.id).update(aal="aal2")
    device = Authenticator()
    challenge = start_challenge(api, owner.token, used.id)
    credential = {"type": "create", "credential_response": device.create(challenge["options"])}
    read_success(verify(api, owner.token, used.id, challenge["id"], credential))
    low, other = make_session(owner.user), make_session(owner.user, aal="aal2", factor_id=used.id)
    # The one factor is challenged, the key of the other is at hand.
    raised = read_success(use(api, low.access_token, owner.factor.id, device))["access_token"]
    assert Session.objects.get(id=low.session.id).factor_id == used.id
    factor = owner.factor if removed == "challenged" else used
    if by_admin:
        admin_requests.expect_success(api, "DELETE", f"/admin/users/{owner.user.id}/factors/{factor.id}")
    else:
        read_success(factor_requests.unenroll(api, other.access_token, factor.id))
    session = Session.objects.get(id=low.session.id)
    if removed == "challenged":
        assert (session.aal, session.factor_id) == ("aal2", used.id)
        return
    assert (session.aal, session.factor_id, factor_requests.methods(session)) == ("aal1", None, ["password"])
    assert factor_requests.enroll(api, raised, friendly_name="new").json()["error_code"] == "insufficient_aal"


def test_imported_credential_is_accepted(api: Api) -> None:
    owner, device = make_verified(api)
    stored = Factor.objects.get().web_authn_credential
    assert stored is not None
    Factor.objects.update(
        web_authn_credential={
            "id": stored["id"],
            "publicKey": stored["publicKey"],
            "attestationType": "packed",
            "transport": None,
            "flags": stored["flags"],
            "authenticator": {"AAGUID": "", "signCount": 7, "cloneWarning": False, "attachment": ""},
        }
    )
    challenge = start_challenge(api, owner.token, owner.factor.id)
    assert challenge["options"]["allowCredentials"] == [{"type": "public-key", "id": encode(device.newest.id)}]
    credential = {"type": "request", "credential_response": device.get(challenge["options"], names_user=False, count=8)}
    read_success(verify(api, owner.token, owner.factor.id, challenge["id"], credential))


# Rejected responses


@pytest.mark.parametrize(
    ("credential", "text"),
    [
        (None, "WebAuthn config required"),
        ({}, "WebAuthn type must be create or request"),
        ({"type": "x", "credential_response": {}}, "WebAuthn type must be create or request"),
        ({"type": "create"}, "credential_response required"),
        ({"type": "request", "credential_response": None}, "credential_response required"),
    ],
)
def test_the_parts_of_a_response_are_validated_in_order(api: Api, credential: Any, text: str) -> None:
    owner = make_unverified()
    assert_error(verify(api, owner.token, owner.factor.id, uuid4(), credential), 400, "validation_failed", text)


@pytest.mark.parametrize("credential", ["x", 5, []])
def test_response_must_be_object(api: Api, credential: Any) -> None:
    owner = make_unverified()
    response = verify(api, owner.token, owner.factor.id, NIL, credential)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_an_unknown_challenge_is_not_found(api: Api) -> None:
    owner = make_unverified()
    credential = {"type": "create", "credential_response": {}}
    assert_error(verify(api, owner.token, owner.factor.id, uuid4(), credential), *UNKNOWN)


BENT: list[dict[str, Any]] = [
    {"origin": "https://evil.example"},
    {"rp_id": "evil.example"},
    {"challenge": encode(bytes(32))},
    {"flags": 0},
]


@pytest.mark.parametrize("changes", [*BENT, {"fmt": "homemade"}])
def test_rejected_creation_keeps_challenge_pending(api: Api, changes: dict[str, Any]) -> None:
    owner, device = make_unverified(), Authenticator()
    challenge = start_challenge(api, owner.token, owner.factor.id)
    before = table_contents()
    credential = {"type": "create", "credential_response": device.create(challenge["options"], **changes)}
    assert_error(verify(api, owner.token, owner.factor.id, challenge["id"], credential), *INVALID)
    garbage = {"type": "create", "credential_response": {"garbage": True}}
    assert_error(verify(api, owner.token, owner.factor.id, challenge["id"], garbage), *MALFORMED)
    assert table_contents() == before
    good = {"type": "create", "credential_response": device.create(challenge["options"])}
    read_success(verify(api, owner.token, owner.factor.id, challenge["id"], good))


@pytest.mark.parametrize("changes", [*BENT, {"signature": b"x"}, {"flags": UP | BE}, {"user_handle": b"unknown"}])
def test_rejected_assertion_keeps_challenge_pending(api: Api, changes: dict[str, Any]) -> None:
    owner, device = make_verified(api)
    before = Session.objects.get(id=owner.session.id).aal
    assert_error(use(api, owner.token, owner.factor.id, device, **changes), *INVALID)
    assert (FactorChallenge.objects.count(), Session.objects.get(id=owner.session.id).aal) == (1, before)


def test_response_must_have_type_of_challenge(api: Api) -> None:
    owner, device = make_unverified(), Authenticator()
    challenge = start_challenge(api, owner.token, owner.factor.id)
    credential = {"type": "request", "credential_response": device.create(challenge["options"])}
    assert_error(verify(api, owner.token, owner.factor.id, challenge["id"], credential), *INVALID)
    verified, known = make_verified(api)
    challenge = start_challenge(api, verified.token, verified.factor.id)
    credential = {"type": "create", "credential_response": known.get(challenge["options"])}
    assert_error(verify(api, verified.token, verified.factor.id, challenge["id"], credential), *INVALID)


def test_creation_challenge_is_rejected_after_verification(api: Api) -> None:
    owner, device = make_unverified(), Authenticator()
    old = start_challenge(api, owner.token, owner.factor.id)
    read_success(create(api, owner, device))
    kept = Factor.objects.get().web_authn_credential
    for credential in (
        {"type": "create", "credential_response": Authenticator().create(old["options"])},
        {"type": "request", "credential_response": device.get(old["options"])},
    ):
        assert_error(verify(api, owner.token, owner.factor.id, old["id"], credential), *INVALID)
    assert Factor.objects.get().web_authn_credential == kept


def test_key_of_other_user_is_rejected(api: Api) -> None:
    owner, _ = make_verified(api)
    _, theirs = make_verified(api)
    assert_error(use(api, owner.token, owner.factor.id, theirs), *INVALID)
    assert_error(use(api, owner.token, owner.factor.id, theirs, names_user=False), *INVALID)


def test_a_challenge_is_invalid_once_one_of_its_keys_is_removed(api: Api) -> None:
    owner, device = make_verified(api)
    second = make_factor(
        owner.user,
        factor_type="webauthn",
        friendly_name="second",
        web_authn_credential={**(owner.factor.web_authn_credential or {}), "id": base64.b64encode(b"x").decode()},
    )
    challenge = start_challenge(api, owner.token, owner.factor.id)
    second.delete()
    credential = {"type": "request", "credential_response": device.get(challenge["options"])}
    assert_error(verify(api, owner.token, owner.factor.id, challenge["id"], credential), *INVALID)


def test_passkey_is_rejected_as_second_factor(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"enabled": True})
    owner, device = make_verified(api)
    Session.objects.update(aal="aal2")
    read_success(passkey_requests.register(api, owner.token, device))
    Session.objects.update(aal="aal1")
    passkey, key = device.credentials[1], device.credentials[0]
    assert_error(use(api, owner.token, owner.factor.id, device, credential=passkey), *INVALID)
    assert_error(passkey_requests.sign_in(api, device, credential=key), *passkey_requests.REFUSED)
    assert Passkey.objects.count() == 1
    challenge = start_challenge(api, owner.token, owner.factor.id)
    assert [credential["id"] for credential in challenge["options"]["allowCredentials"]] == [encode(key.id)]


def test_response_is_accepted_once(api: Api) -> None:
    owner, device = make_verified(api)
    challenge = start_challenge(api, owner.token, owner.factor.id)
    credential = {"type": "request", "credential_response": device.get(challenge["options"], flags=UP | UV)}
    read_success(verify(api, owner.token, owner.factor.id, challenge["id"], credential))
    assert_error(verify(api, owner.token, owner.factor.id, challenge["id"], credential), *UNKNOWN)


def test_expired_challenge_is_rejected(api: Api) -> None:
    owner, device = make_verified(api)
    challenge = start_challenge(api, owner.token, owner.factor.id)
    backdate(FactorChallenge.objects.get(), by=timedelta(seconds=301))
    credential = {"type": "request", "credential_response": device.get(challenge["options"])}
    response = verify(api, owner.token, owner.factor.id, challenge["id"], credential)
    assert (response.status_code, response.json()["error_code"]) == (422, "mfa_challenge_expired")
    assert not FactorChallenge.objects.exists()


def test_challenge_is_bound_to_ip_address(api: Api) -> None:
    owner, device = make_verified(api)
    challenge = start_challenge(api, owner.token, owner.factor.id)
    credential = {"type": "request", "credential_response": device.get(challenge["options"])}
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    response = verify(api, owner.token, owner.factor.id, challenge["id"], credential, headers=elsewhere)
    assert (response.status_code, response.json()["error_code"]) == (422, "mfa_ip_address_mismatch")
    assert not Session.objects.filter(id=owner.session.id, aal="aal2").exists()
