"""Signatures of Ethereum wallets over messages (EIP-191), and their addresses (EIP-55)."""

from __future__ import annotations

from coincurve import PublicKey
from Crypto.Hash import keccak

_SIGNATURE_BYTES = 65
_RECOVERY_OFFSET = 27
_ADDRESS_BYTES = 20


def is_signed_by(address: str, *, message: str, signature: str) -> bool:
    """True if the key of `address` (0x and 40 hexadecimal digits) made the signature, 0x and R, S, V in 130 digits."""
    text = message.encode()
    try:
        data = bytes.fromhex(signature.removeprefix("0x")) if signature.startswith("0x") else b""
        if len(data) != _SIGNATURE_BYTES:
            return False
        recovery = data[-1] - _RECOVERY_OFFSET if data[-1] >= _RECOVERY_OFFSET else data[-1]
        digest = _keccak(b"\x19Ethereum Signed Message:\n%d" % len(text) + text)
        key = PublicKey.from_signature_and_message(data[:-1] + bytes([recovery]), digest, hasher=None)
    except Exception:  # noqa: BLE001  (see below)
        # The library raises errors of several types for values that no key can have signed.
        return False
    return _keccak(key.format(compressed=False)[1:])[-_ADDRESS_BYTES:].hex() == address[2:].lower()


def checksum_address(address: str) -> str:
    """The address in the spelling of EIP-55, which is the same for each spelling of it."""
    digits = address[2:].lower()
    digest = _keccak(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(mark, 16) > 7 else digit for digit, mark in zip(digits, digest, strict=False)
    )


def _keccak(data: bytes) -> bytes:
    return keccak.new(data=data, digest_bits=256).digest()
