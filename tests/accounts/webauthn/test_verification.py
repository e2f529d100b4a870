"""Verification of WebAuthn responses: accepted and rejected ones."""

from __future__ import annotations

import base64
import copy
from typing import Any
from uuid import UUID

import cbor2
import pytest

from accounts.webauthn import authenticators, ceremonies, verification, webauthn_responses
from accounts.webauthn.ceremonies import Ceremony, Descriptor
from accounts.webauthn.verification import CredentialRejected, NewCredential
from tests.conftest import ChangeConfig
from tests.fakes.authenticator import BE, BS, UP, UV, Authenticator, decode, encode

USER = UUID("11111111-1111-4111-8111-111111111111")
OTHER = UUID("22222222-2222-4222-8222-222222222222")
ORIGIN = "http://localhost:3000"

# Made and checked with another implementation; the challenge is the bytes 0 to 31.
CHALLENGE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
CREDENTIAL = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"
COSE_KEY = (
    "a5010203262001215820937c7bec14edde9b6fa9eeef65590b95e2dc7a44b308e940c96f4b630c3e6e4c"
    "22582099e425587ee4cc20c7c06b61c742c1794517a92077befe7b7fdde926da518532"
)
CREATED: dict[str, Any] = {
    "id": CREDENTIAL,
    "rawId": CREDENTIAL,
    "type": "public-key",
    "authenticatorAttachment": "platform",
    "clientExtensionResults": {},
    "response": {
        "clientDataJSON": (
            "eyJ0eXBlIjoid2ViYXV0aG4uY3JlYXRlIiwiY2hhbGxlbmdlIjoiQUFFQ0F3UUZCZ2NJQ1FvTERBME9EeEFSRWhNVUZSWVhHQmthR3h3ZEho"
            "OCIsIm9yaWdpbiI6Imh0dHA6Ly9sb2NhbGhvc3Q6MzAwMCIsImNyb3NzT3JpZ2luIjpmYWxzZX0"
        ),
        "attestationObject": (
            "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YVikSZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2NFAAAAAAAAAAAAAAAAAAAAAAAA"
            "AAAAICAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4_pQECAyYgASFYIJN8e-wU7d6bb6nu72VZC5Xi3HpEswjpQMlvS2MMPm5MIlgg"
            "meQlWH7kzCDHwGthx0LBeUUXqSB3vv57f93pJtpRhTI"
        ),
        "transports": ["internal"],
    },
}
USED: dict[str, Any] = {
    **CREATED,
    "response": {
        "clientDataJSON": (
            "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0IiwiY2hhbGxlbmdlIjoiQUFFQ0F3UUZCZ2NJQ1FvTERBME9EeEFSRWhNVUZSWVhHQmthR3h3ZEhoOCIs"
            "Im9yaWdpbiI6Imh0dHA6Ly9sb2NhbGhvc3Q6MzAwMCIsImNyb3NzT3JpZ2luIjpmYWxzZX0"
        ),
        "authenticatorData": "SZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2MFAAAAAQ",
        "signature": (
            "MEYCIQDPlCMFNNwZ5SH2NHC3N8IFsfLymsUtUqvub8hYIS3YFQIhANPWRq8EB1e7aDEzWDHMhxpsU4TUPzaQfG-KR6ctJ-tj"
        ),
        "userHandle": "MTExMTExMTEtMTExMS00MTExLTgxMTEtMTExMTExMTExMTEx",
    },
}


@pytest.fixture(autouse=True)
def party(auth_config: ChangeConfig) -> None:
    auth_config(webauthn={"rp_id": "localhost", "rp_display_name": "Example", "rp_origins": (ORIGIN,)})


def creation(*, discoverable: bool = True, exclude: tuple[Descriptor, ...] = ()) -> Ceremony:
    return ceremonies.creation(user_id=USER, name="ada", display_name="Ada", exclude=exclude, discoverable=discoverable)


def created(response: object, ceremony: Ceremony) -> NewCredential:
    return verification.verify_creation(webauthn_responses.parse_creation(response), state=ceremony.state, user_id=USER)


def used(response: object, ceremony: Ceremony, made: NewCredential) -> int:
    return verification.verify_assertion(
        webauthn_responses.parse_assertion(response),
        state=ceremony.state,
        user_id=USER,
        public_key=made.public_key,
        is_backup_eligible=made.is_backup_eligible,
    )


# The fixed answers


def test_fixed_creation_is_accepted_with_its_data() -> None:
    ceremony = creation()
    ceremony.state["challenge"] = CHALLENGE
    assert created(CREATED, ceremony) == NewCredential(
        id=bytes(range(0x20, 0x40)),
        public_key=bytes.fromhex(COSE_KEY),
        algorithm=-7,
        attestation_format="none",
        aaguid=UUID(int=0),
        sign_count=0,
        transports=("internal",),
        is_user_verified=True,
        is_backup_eligible=False,
        is_backed_up=False,
    )


@pytest.mark.parametrize("padding", ["", "="])
def test_fixed_assertion_is_accepted_with_and_without_padding(padding: str) -> None:
    ceremony = ceremonies.request()
    ceremony.state["challenge"] = CHALLENGE
    response = {**USED, "id": CREDENTIAL + padding, "rawId": CREDENTIAL + padding}
    count = verification.verify_assertion(
        webauthn_responses.parse_assertion(response),
        state=ceremony.state,
        user_id=USER,
        public_key=bytes.fromhex(COSE_KEY),
        is_backup_eligible=False,
    )
    assert count == 1


# The options


def test_the_options_of_a_passkey_have_exactly_these_members() -> None:
    ceremony = creation()
    algorithms = (-7, -35, -36, -257, -258, -259, -37, -38, -39, -8)
    challenge = ceremony.options["challenge"]
    assert len(decode(challenge)) == 32
    assert ceremony.options == {
        "rp": {"name": "Example", "id": "localhost"},
        "user": {"name": "ada", "displayName": "Ada", "id": "MTExMTExMTEtMTExMS00MTExLTgxMTEtMTExMTExMTExMTEx"},
        "challenge": challenge,
        "pubKeyCredParams": [{"type": "public-key", "alg": algorithm} for algorithm in algorithms],
        "timeout": 300000,
        "authenticatorSelection": {"residentKey": "required", "userVerification": "preferred"},
        "attestation": "none",
    }
    assert creation().options["challenge"] != challenge


def test_options_of_factor_have_no_preferences() -> None:
    known = Descriptor(id=b"\xff\xfe", transports=("usb", "nfc"))
    options = creation(discoverable=False, exclude=(known,)).options
    assert options["authenticatorSelection"] == {}
    assert "attestation" not in options
    assert options["excludeCredentials"] == [{"type": "public-key", "id": "__4", "transports": ["usb", "nfc"]}]


def test_options_of_authentication_list_allowed_credentials() -> None:
    without_user = ceremonies.request().options
    assert without_user == {
        "challenge": without_user["challenge"],
        "timeout": 300000,
        "rpId": "localhost",
        "userVerification": "preferred",
    }
    for_user = ceremonies.request(user_id=USER, allow=[Descriptor(id=b"a"), Descriptor(id=b"b", transports=("usb",))])
    assert for_user.options == {
        "challenge": for_user.options["challenge"],
        "timeout": 300000,
        "rpId": "localhost",
        "allowCredentials": [
            {"type": "public-key", "id": "YQ"},
            {"type": "public-key", "id": "Yg", "transports": ["usb"]},
        ],
    }
    assert ceremonies.allowed_credentials(for_user.state) == {b"a", b"b"}


# Every offered algorithm and form of attestation


@pytest.mark.parametrize("algorithm", ceremonies.ALGORITHMS)
def test_every_offered_algorithm_is_accepted(algorithm: int) -> None:
    device = Authenticator(algorithm=algorithm)
    ceremony = creation()
    made = created(device.create(ceremony.options), ceremony)
    assert made.algorithm == algorithm
    request = ceremonies.request()
    assert used(device.get(request.options), request, made) == 1
    response = device.get(request.options)
    response["response"]["signature"] = encode(bytes(len(decode(response["response"]["signature"]))))
    with pytest.raises(CredentialRejected):
        used(response, request, made)


def test_user_verification_is_optional() -> None:
    device, ceremony, request = Authenticator(flags=UP), creation(), ceremonies.request()
    made = created(device.create(ceremony.options), ceremony)
    assert not made.is_user_verified
    assert used(device.get(request.options), request, made) == 1


@pytest.mark.parametrize("fmt", ["none", "packed", "compound"])
def test_attestation_format_is_stored(fmt: str) -> None:
    ceremony = creation()
    made = created(Authenticator().create(ceremony.options, fmt=fmt), ceremony)
    assert made.attestation_format == fmt


@pytest.mark.parametrize(
    ("fmt", "statement"),
    [
        ("none", {"sig": b"x"}),
        ("none", {"further": 1}),
        ("none", None),
        ("packed", {}),
        ("packed", {"alg": -7, "sig": b"x"}),
        ("packed", {"alg": -257, "sig": b"x"}),
        ("compound", [{"fmt": "none", "attStmt": {}}]),
        ("compound", [{"fmt": "none", "attStmt": {}}, {"fmt": "packed", "attStmt": {"alg": -7, "sig": b"x"}}]),
        ("compound", [{"fmt": "none", "attStmt": {}}, {"fmt": "compound", "attStmt": []}]),
        ("compound", [{"fmt": "none", "attStmt": {}}, {"fmt": "none", "attStmt": {"further": 1}}]),
        ("compound", {}),
        ("tpm", {}),
        ("apple", {"x5c": [b"x"]}),
        ("fido-u2f", {"x5c": [b"x"], "sig": b"x"}),
        ("android-key", {"alg": -7, "sig": b"x", "x5c": [b"x"]}),
        ("android-safetynet", {"ver": "1", "response": b"a.b.c"}),
        ("homemade", {}),
    ],
)
def test_invalid_attestation_statement_is_rejected(fmt: str, statement: Any) -> None:
    ceremony = creation()
    response = Authenticator().create(ceremony.options, fmt=fmt, statement=statement)
    with pytest.raises((CredentialRejected, webauthn_responses.MalformedCredential)):
        created(response, ceremony)


def test_transport_cable_is_stored_as_hybrid() -> None:
    ceremony = creation()
    made = created(Authenticator().create(ceremony.options, transports=["cable", "usb", "new"]), ceremony)
    assert made.transports == ("hybrid", "usb", "new")


def test_backup_flags_are_stored() -> None:
    ceremony = creation()
    made = created(Authenticator(flags=UP | BE | BS).create(ceremony.options), ceremony)
    assert (made.is_user_verified, made.is_backup_eligible, made.is_backed_up) == (False, True, True)


# Rejected responses

BENT: list[dict[str, Any]] = [
    {"origin": "http://localhost:3001"},
    {"origin": "https://localhost:3000"},
    {"origin": "http://localhost.evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"challenge": encode(bytes(32))},
    {"challenge": ""},
    {"type": "webauthn.other"},
    {"rp_id": "evil.example"},
    {"flags": UV},
    {"flags": UP | BS},
    {"token_binding": {"status": "homemade"}},
    {"token_binding": {}},
]


@pytest.mark.parametrize("changes", BENT)
def test_manipulated_creation_is_rejected(changes: dict[str, Any]) -> None:
    ceremony = creation()
    response = Authenticator().create(ceremony.options, **changes)
    with pytest.raises(CredentialRejected):
        created(response, ceremony)


@pytest.mark.parametrize(
    "changes", [*BENT, {"user_handle": str(OTHER).encode()}, {"signature": b"x"}, {"flags": UP | BE}]
)
def test_manipulated_assertion_is_rejected(changes: dict[str, Any]) -> None:
    device, ceremony, request = Authenticator(), creation(), ceremonies.request()
    made = created(device.create(ceremony.options), ceremony)
    with pytest.raises(CredentialRejected):
        used(device.get(request.options, **changes), request, made)
    assert used(device.get(request.options), request, made) == 2


def test_ceremonies_reject_responses_of_other_type() -> None:
    device, ceremony, request = Authenticator(), creation(), ceremonies.request()
    response = device.create(ceremony.options, type="webauthn.get")
    with pytest.raises(CredentialRejected):
        created(response, ceremony)
    made = created(device.create(ceremony.options), ceremony)
    with pytest.raises(CredentialRejected):
        used(device.get(request.options, type="webauthn.create"), request, made)


@pytest.mark.parametrize("status", ["present", "supported"])
def test_known_token_binding_states_are_accepted(status: str) -> None:
    ceremony = creation()
    made = created(Authenticator().create(ceremony.options, token_binding={"status": status}), ceremony)
    assert made.sign_count == 0


def test_challenge_of_other_user_is_rejected() -> None:
    ceremony = creation()
    response = webauthn_responses.parse_creation(Authenticator().create(ceremony.options))
    with pytest.raises(CredentialRejected):
        verification.verify_creation(response, state=ceremony.state, user_id=OTHER)


def test_credential_with_other_id_is_rejected() -> None:
    ceremony = creation()
    response = Authenticator().create(ceremony.options)
    for changed in ({"id": encode(b"other")}, {"id": encode(b"other"), "rawId": encode(b"other")}):
        with pytest.raises(CredentialRejected):
            created({**response, **changed}, ceremony)


def test_unoffered_algorithm_is_rejected() -> None:
    ceremony = creation()
    ceremony.state["credParams"] = [{"type": "public-key", "alg": -257}]
    with pytest.raises(CredentialRejected):
        created(Authenticator().create(ceremony.options), ceremony)


@pytest.mark.parametrize(
    "key",
    [
        {1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)},
        {1: 2, 3: -8, -1: 1, -2: bytes(32), -3: bytes(32)},
        {1: 9, 3: -7},
        {3: -7},
        {},
        {1: 3, 3: -257, -1: b"\x00", -2: b"\x01"},
    ],
)
def test_unusable_public_key_is_rejected(key: dict[int, Any]) -> None:
    ceremony = creation()
    device = Authenticator()
    response = device.create(ceremony.options)
    attestation = cbor2.loads(decode(response["response"]["attestationObject"]))
    before, _, _ = attestation["authData"].partition(device.newest.id)
    attestation["authData"] = before + device.newest.id + cbor2.dumps(key)
    response["response"]["attestationObject"] = encode(cbor2.dumps(attestation))
    with pytest.raises((CredentialRejected, webauthn_responses.MalformedCredential)):
        created(response, ceremony)


# Malformed responses


def bent_creation(path: str, value: Any) -> dict[str, Any]:
    response = copy.deepcopy(CREATED)
    inner = response["response"] if "." in path else response
    name = path.rpartition(".")[2]
    if value is None:
        del inner[name]
    else:
        inner[name] = value
    return response


def attestation(**changes: Any) -> str:
    decoded = cbor2.loads(decode(CREATED["response"]["attestationObject"]))
    return encode(cbor2.dumps({**decoded, **changes}))


AUTH_DATA: bytes = cbor2.loads(decode(CREATED["response"]["attestationObject"]))["authData"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("id", None),
        ("id", ""),
        ("id", "a b"),
        ("id", "++//"),
        ("id", 5),
        ("rawId", None),
        ("type", "password"),
        ("type", None),
        ("response", None),
        ("response", "x"),
        ("response.clientDataJSON", None),
        ("response.clientDataJSON", encode(b"{")),
        ("response.clientDataJSON", encode(b"[]")),
        ("response.clientDataJSON", encode(b'{"tokenBinding":"x"}')),
        ("response.clientDataJSON", encode(b'{"challenge":"\xff"}')),
        ("response.attestationObject", None),
        ("response.attestationObject", ""),
        ("response.attestationObject", encode(b"\xff")),
        ("response.attestationObject", encode(cbor2.dumps([]))),
        ("response.attestationObject", encode(cbor2.dumps({"fmt": "none"}))),
        ("response.attestationObject", attestation(authData=b"")),
        ("response.attestationObject", attestation(authData=AUTH_DATA[:36])),
        ("response.attestationObject", attestation(authData=AUTH_DATA[:37])),
        ("response.attestationObject", attestation(authData=AUTH_DATA + b"\x00")),
        ("response.attestationObject", attestation(authData=AUTH_DATA[:32] + b"\x05" + AUTH_DATA[33:37])),
        ("response.attestationObject", attestation(authData=AUTH_DATA[:53] + b"\x00\x00" + AUTH_DATA[87:])),
        (
            "response.attestationObject",
            attestation(authData=AUTH_DATA[:53] + b"\x04\x00" + bytes(1024) + AUTH_DATA[87:]),
        ),
        ("response.attestationObject", encode(b"\x81" * 100_000)),
        ("response.transports", "usb"),
        ("response.transports", ["usb"] * 17),
    ],
)
def test_malformed_creation_is_rejected(path: str, value: Any) -> None:
    with pytest.raises(webauthn_responses.MalformedCredential):
        webauthn_responses.parse_creation(bent_creation(path, value))


def test_longest_permitted_credential_id_is_accepted() -> None:
    data = AUTH_DATA[:53] + b"\x03\xff" + bytes(1023) + AUTH_DATA[87:]
    response = webauthn_responses.parse_creation(
        bent_creation("response.attestationObject", attestation(authData=data))
    )
    assert response.authenticator_data.attested_credential_data is not None


@pytest.mark.parametrize("content", [None, 5, "x", [], {}, {"garbage": True}, {"id": "YQ", "type": "public-key"}])
def test_malformed_credential_is_rejected(content: object) -> None:
    for parse in (webauthn_responses.parse_creation, webauthn_responses.parse_assertion):
        with pytest.raises(webauthn_responses.MalformedCredential):
            parse(content)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clientDataJSON", "e30="),
        ("authenticatorData", encode(bytes(36))),
        ("authenticatorData", encode(bytes(38))),
        ("authenticatorData", "+/"),
        ("signature", 5),
        ("userHandle", 5),
        ("userHandle", "=a"),
    ],
)
def test_malformed_assertion_is_rejected(name: str, value: Any) -> None:
    response = {**USED, "response": {**USED["response"], name: value}}
    if name == "clientDataJSON":
        assert webauthn_responses.parse_assertion(response).client_data.challenge == ""
        return
    with pytest.raises(webauthn_responses.MalformedCredential):
        webauthn_responses.parse_assertion(response)


@pytest.mark.parametrize("handle", [None, ""])
def test_the_user_handle_is_optional(handle: str | None) -> None:
    response = {**USED, "response": {**USED["response"], "userHandle": handle}}
    assert webauthn_responses.parse_assertion(response).user_handle is None


# Origins


@pytest.mark.parametrize(
    ("permitted", "origin", "is_permitted"),
    [
        ("https://example.com", "https://example.com", True),
        ("https://example.com/", "https://EXAMPLE.com", True),
        ("HTTPS://Example.com:443/path", "https://example.com", True),
        ("http://example.com", "http://example.com:80", True),
        ("https://example.com", "http://example.com", False),
        ("https://example.com", "https://example.com:8443", False),
        ("https://example.com", "https://sub.example.com", False),
        ("https://example.com", "https://example.com.evil.example", False),
        ("https://example.com", "https://example.com:x", False),
        ("android:apk-key-hash:AbC", "android:apk-key-hash:AbC", True),
        ("android:apk-key-hash:AbC", "android:apk-key-hash:abc", False),
        ("https://example.com", "", False),
    ],
)
def test_origins_are_compared_by_scheme_host_and_port(
    auth_config: ChangeConfig, permitted: str, origin: str, is_permitted: bool
) -> None:
    auth_config(webauthn={"rp_origins": ("https://elsewhere.example", permitted)})
    assert verification.is_permitted(origin) is is_permitted


# Names


@pytest.mark.parametrize(
    ("aaguid", "name"),
    [
        ("ea9b8d66-4d01-1d21-3ce4-b6b48cb575d4", "Google Password Manager"),
        ("fbfc3007-154e-4ecc-8c0b-6e020557d7bd", "Apple Passwords"),
        ("dd4ec289-e01d-41c9-bb89-70fa845d4bf2", "iCloud Keychain (Managed)"),
        ("bada5566-a7aa-401f-bd96-45619a55120d", "1Password"),
        ("d548826e-79b4-db40-a3d8-11116f7e8349", "Bitwarden"),
        ("08987058-cadc-4b81-b6e1-30de50dcbe96", "Windows Hello"),
        ("fa2b99dc-9e39-4257-8f92-4a30d23c4118", "YubiKey 5 Series with NFC"),
        ("00000000-0000-0000-0000-000000000000", "Passkey"),
        ("11111111-1111-4111-8111-111111111111", "Passkey"),
    ],
)
def test_authenticator_model_has_name(aaguid: str, name: str) -> None:
    assert authenticators.name(UUID(aaguid)) == name


def test_list_of_names_is_keyed_by_aaguid() -> None:
    names = authenticators.names()
    assert all(str(UUID(aaguid)) == aaguid and 0 < len(name.encode()) <= 120 for aaguid, name in names.items())


def test_stored_state_has_layout_of_imported_challenges() -> None:
    state = ceremonies.request(user_id=USER, allow=[Descriptor(id=b"a")]).state
    assert state["rpId"] == "localhost"
    assert base64.b64decode(state["user_id"]) == str(USER).encode()
    assert state["allowed_credentials"] == ["YQ=="]
