"""Parses the responses of browsers to WebAuthn ceremonies: JSON with binary parts, not yet verified.

`webauthn` is an optional dependency: it is imported with the first response, so that servers without passkeys and
security keys do not need it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from django.http import HttpRequest

from authsvc.api.parsing import StrictJSONParser
from authsvc.errors import BadJson
from authsvc.security import crypto

if TYPE_CHECKING:
    from webauthn.helpers.structs import AuthenticatorData

_MAX_CREDENTIAL_ID_LENGTH = 1023
_MAX_TRANSPORTS = 16
# Decoding and verification take time that grows with the size. Statements with certificate chains need about 10 KiB.
_MAX_ATTESTATION_BYTES = 32_768
_MAX_PART_BYTES = 4_096


class MalformedCredential(ValueError):
    """The value is not a result of `navigator.credentials`."""


class ClientData(msgspec.Struct, frozen=True):
    type: str = ""
    challenge: str = ""
    origin: str = ""
    token_binding: dict[str, Any] | None = msgspec.field(name="tokenBinding", default=None)


class _Attestation(msgspec.Struct, frozen=True, omit_defaults=True):
    client_data: str = msgspec.field(name="clientDataJSON")
    attestation: str = msgspec.field(name="attestationObject")
    transports: list[str] | None = None


class _Assertion(msgspec.Struct, frozen=True, omit_defaults=True):
    client_data: str = msgspec.field(name="clientDataJSON")
    authenticator_data: str = msgspec.field(name="authenticatorData")
    signature: str
    user_handle: str | None = msgspec.field(name="userHandle", default=None)


class _Credential(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    raw_id: str = msgspec.field(name="rawId")
    type: str
    response: dict[str, Any]
    attachment: str | None = msgspec.field(name="authenticatorAttachment", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """The response to a registration, as sent."""

    id: str
    raw_id: bytes
    client_data_json: bytes = field(repr=False)
    client_data: ClientData = field(repr=False)
    attestation_object: bytes = field(repr=False)
    attestation: Mapping[str, Any] = field(repr=False)
    """The decoded attestation object."""
    content: Mapping[str, Any] = field(repr=False)
    """The known members of the JSON, unchanged."""
    authenticator_data: AuthenticatorData = field(repr=False)
    transports: tuple[str, ...]
    attachment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """The response to an authentication, as sent."""

    id: str
    raw_id: bytes
    client_data_json: bytes = field(repr=False)
    client_data: ClientData = field(repr=False)
    authenticator_data_bytes: bytes = field(repr=False)
    authenticator_data: AuthenticatorData = field(repr=False)
    signature: bytes = field(repr=False)
    user_handle: bytes | None
    """None when the authenticator did not name the user of the credential."""
    content: Mapping[str, Any] = field(repr=False)
    """The known members of the JSON, unchanged."""


def read_credential(request: HttpRequest) -> Any:
    """The credential in a submitted form, as JSON values that are not parsed yet; None if it is not JSON."""
    try:
        return StrictJSONParser().parse(io.BytesIO(request.POST.get("credential", "").encode()))
    except BadJson:
        return None


def parse_creation(content: object) -> Creation:
    """Parse the JSON form of a new credential. Raises MalformedCredential."""
    from webauthn import helpers  # noqa: PLC0415  (optional)

    with _reading():
        credential = _parse(content)
        response = msgspec.convert(credential.response, _Attestation)
        client_data_json = _decode(response.client_data)
        attestation_object = _decode(response.attestation, max_bytes=_MAX_ATTESTATION_BYTES)
        attestation = helpers.parse_cbor(attestation_object)
        data = helpers.parse_attestation_object(attestation_object).auth_data
        attested = data.attested_credential_data
        if attested is None or not 0 < len(attested.credential_id) <= _MAX_CREDENTIAL_ID_LENGTH:
            raise MalformedCredential("the size of the credential id is not permitted")
        transports = tuple(response.transports or ())
        if len(transports) > _MAX_TRANSPORTS:
            raise MalformedCredential("too many transports")
        return Creation(
            id=_canonical(credential.id),
            raw_id=_decode(credential.raw_id),
            client_data_json=client_data_json,
            client_data=msgspec.json.decode(client_data_json, type=ClientData),
            attestation_object=attestation_object,
            attestation=attestation,
            authenticator_data=data,
            transports=tuple("hybrid" if transport == "cable" else transport for transport in transports),
            attachment=credential.attachment or "",
            content=_members(credential, response),
        )


def parse_assertion(content: object) -> Assertion:
    """Parse the JSON form of an assertion. Raises MalformedCredential."""
    from webauthn import helpers  # noqa: PLC0415  (optional)

    with _reading():
        credential = _parse(content)
        response = msgspec.convert(credential.response, _Assertion)
        client_data_json, data = _decode(response.client_data), _decode(response.authenticator_data)
        return Assertion(
            id=_canonical(credential.id),
            raw_id=_decode(credential.raw_id),
            client_data_json=client_data_json,
            client_data=msgspec.json.decode(client_data_json, type=ClientData),
            authenticator_data_bytes=data,
            authenticator_data=helpers.parse_authenticator_data(data),
            signature=_decode(response.signature),
            user_handle=_decode(response.user_handle) if response.user_handle else None,
            content=_members(credential, response),
        )


def _parse(content: object) -> _Credential:
    credential = msgspec.convert(content, _Credential)
    if credential.type != "public-key" or not credential.id:
        raise MalformedCredential("not a public-key credential")
    return credential


def _members(credential: _Credential, response: _Attestation | _Assertion) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(credential)
    return {**members, "response": msgspec.to_builtins(response)}


def _decode(text: str, *, max_bytes: int = _MAX_PART_BYTES) -> bytes:
    if len(text) > max_bytes * 4 // 3 + 4:
        raise MalformedCredential("a part is too long")
    return crypto.base64url_decode(text.rstrip("="))


def _canonical(text: str) -> str:
    return crypto.base64url_encode(_decode(text))


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except MalformedCredential:
        raise
    except Exception as error:  # malformed bytes make decoders raise exceptions of any type
        raise MalformedCredential(str(error)) from error
