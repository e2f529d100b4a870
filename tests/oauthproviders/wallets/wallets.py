"""Wallets with fixed keys that sign messages."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from coincurve import PrivateKey
from Crypto.Hash import keccak
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def moment(**delta: float) -> str:
    return rfc3339(timezone.now() + timedelta(**delta))


def rfc3339(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def message(chain: str, address: str, *, domain: str, statement: str = "I sign in", **fields: Any) -> str:
    """A message; a field that is None is left out. Names of fields have `_` for a space."""
    lines: list[str] = [f"{domain} wants you to sign in with your {chain} account:", address, ""]
    lines += [statement, ""] if statement else []
    values: dict[str, str | None] = {"Version": "1", "Nonce": "32891756", "Issued At": moment()}
    values |= {name.replace("_", " "): value for name, value in fields.items()}
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in values.items() if value is not None)])


@dataclass(frozen=True, slots=True)
class EthereumWallet:
    seed: int = 1
    chain = "ethereum"
    name = "Ethereum"
    chain_id = "1"

    @property
    def key(self) -> PrivateKey:
        return PrivateKey.from_int(self.seed)

    @property
    def address(self) -> str:
        """In lower case."""
        public = self.key.public_key.format(compressed=False)[1:]
        return "0x" + keccak.new(data=public, digest_bits=256).digest()[-20:].hex()

    def sign(self, text: str) -> str:
        data = text.encode()
        prefix = b"\x19Ethereum Signed Message:\n%d" % len(data)
        digest = keccak.new(data=prefix + data, digest_bits=256).digest()
        signature = self.key.sign_recoverable(digest, hasher=None)
        return "0x" + signature[:-1].hex() + f"{signature[-1] + 27:02x}"


@dataclass(frozen=True, slots=True)
class SolanaWallet:
    seed: int = 1
    chain = "solana"
    name = "Solana"
    chain_id = "solana:mainnet"

    @property
    def key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed.to_bytes(32, "big"))

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    @property
    def address(self) -> str:
        return base58(self.public_key)

    def sign(self, text: str) -> str:
        return base64.b64encode(self.key.sign(text.encode())).decode()


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text
