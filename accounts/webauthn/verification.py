"""Verifies the responses of authenticators to WebAuthn ceremonies.

`webauthn` is an optional dependency: it is imported with the first response, so that servers without passkeys and
security keys do not need it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from uuid import UUID

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from accounts.webauthn import ceremonies
from accounts.webauthn.webauthn_responses import Assertion, ClientData, Creation
from authsvc import conf
from authsvc.security import crypto

if TYPE_CHECKING:
    from webauthn.helpers.cose import COSEAlgorithmIdentifier

logger = logging.getLogger(__name__)

_DEFAULT_PORTS = {"http": 80, "https": 443}
_ES384 = -35
# Each part is verified by itself; authenticators send two or three.
_MAX_COMPOUND_PARTS = 4


class CredentialRejected(Exception):
    """A readable response that does not verify for this challenge and user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    """A credential from a verified registration."""

    id: bytes
    public_key: bytes = field(repr=False)
    """A COSE key in CBOR (RFC 9052 §7)."""
    algorithm: int
    """COSE identifier of the algorithm."""
    attestation_format: str
    aaguid: UUID
    sign_count: int
    transports: tuple[str, ...]
    is_user_verified: bool
    is_backup_eligible: bool
    is_backed_up: bool


def verify_creation(creation: Creation, *, state: dict[str, Any], user_id: UUID) -> NewCredential:
    """Verify a new credential of the user (WebAuthn Level 3 §7.1). Raises CredentialRejected.

    An attestation statement must be valid. Those in the formats of Apple and Android must chain to their roots; others
    may have any root.
    """
    import webauthn  # noqa: PLC0415  (optional)
    from webauthn.helpers import structs  # noqa: PLC0415  (optional)

    with _verifying():
        if not crypto.constant_time_equal(ceremonies.owner(state), ceremonies.user_handle(user_id)):
            raise CredentialRejected("the challenge belongs to another user")
        _check_client_data(creation.client_data, type="webauthn.create", state=state)
        offered = [parameter["alg"] for parameter in state["credParams"]]
        for attestation_object in _statements(creation):
            verified = webauthn.verify_registration_response(
                credential=structs.RegistrationCredential(
                    id=creation.id,
                    raw_id=creation.raw_id,
                    response=structs.AuthenticatorAttestationResponse(
                        client_data_json=creation.client_data_json, attestation_object=attestation_object
                    ),
                ),
                expected_challenge=crypto.base64url_decode(state["challenge"]),
                expected_rp_id=conf.current().webauthn.rp_id,
                expected_origin=creation.client_data.origin,
                supported_pub_key_algs=cast("list[COSEAlgorithmIdentifier]", offered),
            )
        if verified.credential_id != creation.raw_id:
            raise CredentialRejected("the credential id does not match the attested one")
        algorithm, _ = _key(verified.credential_public_key)
    flags = creation.authenticator_data.flags
    return NewCredential(
        id=verified.credential_id,
        public_key=verified.credential_public_key,
        algorithm=algorithm,
        attestation_format=str(creation.attestation["fmt"]),
        aaguid=UUID(verified.aaguid),
        sign_count=verified.sign_count,
        transports=creation.transports,
        is_user_verified=flags.uv,
        is_backup_eligible=flags.be,
        is_backed_up=flags.bs,
    )


def verify_assertion(
    assertion: Assertion, *, state: dict[str, Any], user_id: UUID, public_key: bytes, is_backup_eligible: bool
) -> int:
    """The sign count of a verified use of a credential of the user (WebAuthn Level 3 §7.2). Raises CredentialRejected.

    The caller compares the count with the stored one: `is_sign_count_valid`. `public_key` and `is_backup_eligible` are
    those of the stored credential.
    """
    import webauthn  # noqa: PLC0415  (optional)
    from webauthn.helpers import exceptions, structs  # noqa: PLC0415  (optional)

    data = assertion.authenticator_data
    with _verifying():
        handle = assertion.user_handle
        if handle is not None and not crypto.constant_time_equal(handle, ceremonies.user_handle(user_id)):
            raise CredentialRejected("the credential belongs to another user")
        _check_client_data(assertion.client_data, type="webauthn.get", state=state)
        if data.flags.be != is_backup_eligible or (data.flags.bs and not data.flags.be):
            raise CredentialRejected("inconsistent backup flags")
        try:
            webauthn.verify_authentication_response(
                credential=structs.AuthenticationCredential(
                    id=assertion.id,
                    raw_id=assertion.raw_id,
                    response=structs.AuthenticatorAssertionResponse(
                        client_data_json=assertion.client_data_json,
                        authenticator_data=assertion.authenticator_data_bytes,
                        signature=assertion.signature,
                    ),
                ),
                expected_challenge=crypto.base64url_decode(state["challenge"]),
                expected_rp_id=conf.current().webauthn.rp_id,
                expected_origin=assertion.client_data.origin,
                credential_public_key=public_key,
                credential_current_sign_count=0,
            )
        except exceptions.UnsupportedAlgorithm:
            # The library lacks this algorithm. It verifies the signature last, so only that check is missing.
            _verify_es384(assertion, public_key)
    return data.sign_count


def is_sign_count_valid(count: int, *, previous: int) -> bool:
    """True if the sign count may follow `previous` (WebAuthn Level 3 §7.2 step 22).

    A count that does not grow indicates a cloned key. Authenticators that do not count always send 0.
    """
    return count > previous or count == previous == 0


def is_permitted(origin: str) -> bool:
    """True if the relying party permits this web origin or app origin."""
    return _comparable(origin) in {_comparable(allowed) for allowed in conf.current().webauthn.rp_origins}


def _comparable(origin: str) -> tuple[str, str, int | None] | str:
    try:
        parts = urlsplit(origin)
        if parts.scheme in _DEFAULT_PORTS and parts.hostname:
            return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        pass
    return origin


def _check_client_data(data: ClientData, *, type: str, state: dict[str, Any]) -> None:
    if data.type != type:
        raise CredentialRejected("the response belongs to another type of ceremony")
    if not crypto.constant_time_equal(data.challenge, str(state["challenge"])):
        raise CredentialRejected("the response belongs to another challenge")
    if not is_permitted(data.origin):
        raise CredentialRejected(f"the origin {data.origin[:200]!r} is not an origin of the relying party")


def _statements(creation: Creation) -> Iterator[bytes]:
    """The attestation object; for a compound one, an object for each of its parts (WebAuthn Level 3 §8.9)."""
    from webauthn import helpers  # noqa: PLC0415  (optional)

    attestation = creation.attestation
    is_compound = attestation["fmt"] == "compound"
    parts = attestation["attStmt"] if is_compound else [attestation]
    if is_compound and not 2 <= len(parts) <= _MAX_COMPOUND_PARTS:
        raise CredentialRejected(f"a compound attestation needs two to {_MAX_COMPOUND_PARTS} parts")
    for part in parts:
        if part["fmt"] == "none" and part["attStmt"] != {}:
            raise CredentialRejected("a statement in the attestation format none")
        yield helpers.encode_cbor({**attestation, "fmt": part["fmt"], "attStmt": part["attStmt"]})


def _verify_es384(assertion: Assertion, public_key: bytes) -> None:
    algorithm, key = _key(public_key)
    if algorithm != _ES384 or not isinstance(key, ec.EllipticCurvePublicKey):
        raise CredentialRejected("the algorithm was not offered")
    signed = assertion.authenticator_data_bytes + hashlib.sha256(assertion.client_data_json).digest()
    key.verify(assertion.signature, signed, ec.ECDSA(hashes.SHA384()))


def _key(public_key: bytes) -> tuple[int, Any]:
    from webauthn import helpers  # noqa: PLC0415  (optional)

    decoded = helpers.decode_credential_public_key(public_key)
    return int(decoded.alg), helpers.decoded_public_key_to_cryptography(decoded)


@contextlib.contextmanager
def _verifying() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # any failure of the library means that the response is not verified
        reason = str(error) or type(error).__name__
        logger.info("the response of an authenticator was rejected", extra={"reason": reason})
        raise CredentialRejected(reason) from error
