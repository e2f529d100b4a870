"""Parses the messages that wallets sign to sign in (EIP-4361 and its Solana counterpart)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

_DOMAIN = re.compile(r"(?:localhost|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,})(?::[0-9]{1,5})?")
_MAX_DOMAIN_LENGTH = 260
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
# No backslash: browsers end the host at it, the parser of the standard library does not.
_URI = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:|/)[!-\[\]-~]+")
_MIN_LINES = 6


class InvalidMessage(ValueError):
    """The text is not a message to sign in with; the text of the error names the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRules:
    """The parts in which the messages of the chains differ."""

    prefix: str
    """Begins the texts of errors."""
    chain: str
    """The name of the chain in the first line."""
    address: re.Pattern[str]
    address_error: str
    chain_id: re.Pattern[str]


ETHEREUM = ChainRules(
    prefix="siwe",
    chain="Ethereum",
    address=re.compile(r"0x[a-fA-F0-9]{40}"),
    address_error="wallet address is not a valid Ethereum address",
    chain_id=re.compile(r"0*[1-9][0-9]{0,77}", re.ASCII),
)
SOLANA = ChainRules(
    prefix="siws",
    chain="Solana",
    address=re.compile(r"[a-zA-Z0-9]{32,44}"),
    address_error="wallet address is not in base58 format",
    chain_id=re.compile(r"(?:solana:(?:mainnet|devnet|testnet|localnet))?"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletMessage:
    domain: str
    """Host name with an optional port."""
    address: str
    """As written."""
    statement: str | None
    uri: str
    chain_id: str
    issued_at: datetime
    not_before: datetime | None
    expires_at: datetime | None


def parse(text: str, rules: ChainRules) -> WalletMessage:
    """Parse a message. Raises InvalidMessage.

    A field that occurs twice is refused: a wallet may show another occurrence than the one that counts.
    """
    try:
        return _parse(text.split("\n"), rules)
    except InvalidMessage as error:
        raise InvalidMessage(f"{rules.prefix}: {error}") from None


def _parse(lines: Sequence[str], rules: ChainRules) -> WalletMessage:
    """The message in these lines. Raises InvalidMessage for the first fault."""
    if len(lines) < _MIN_LINES:
        raise InvalidMessage(f"message needs at least {_MIN_LINES} lines")
    header = f" wants you to sign in with your {rules.chain} account:"
    if not lines[0].endswith(header):
        raise InvalidMessage(f'message first line does not end in "{header}"')
    domain = lines[0].removesuffix(header)
    if len(domain) > _MAX_DOMAIN_LENGTH or not _DOMAIN.fullmatch(domain):
        raise InvalidMessage("domain in first line of message is not valid")
    if not rules.address.fullmatch(lines[1]):
        raise InvalidMessage(rules.address_error)
    if lines[2]:
        raise InvalidMessage("third line must be empty")
    has_statement = bool(lines[3]) and not lines[4]
    fields = _read_fields(lines, start=5 if has_statement else 3)
    uri, chain_id = fields.get("URI", ""), fields.get("Chain ID")
    if "URI" in fields and not _is_uri(uri):
        raise InvalidMessage("URI is not valid")
    if chain_id is not None and not rules.chain_id.fullmatch(chain_id):
        raise InvalidMessage("Chain ID is not valid")
    issued_at, expires_at, not_before = (
        _read_time(fields, name) for name in ("Issued At", "Expiration Time", "Not Before")
    )
    version = fields.get("Version", "")
    if version != "1":
        raise InvalidMessage(f'Version value is not supported, expected 1 got "{version}"')
    if issued_at is None:
        raise InvalidMessage("Issued At is not specified")
    if not uri:
        raise InvalidMessage("URI is not specified")
    if expires_at is not None and issued_at > expires_at:
        raise InvalidMessage("Issued At is after Expiration Time")
    if expires_at is not None and not_before is not None and not_before > expires_at:
        raise InvalidMessage("Not Before is after Expiration Time")
    return WalletMessage(
        domain=domain,
        address=lines[1],
        statement=lines[3] if has_statement else None,
        uri=uri,
        chain_id=chain_id or "",
        issued_at=issued_at,
        not_before=not_before,
        expires_at=expires_at,
    )


def _read_fields(lines: Sequence[str], *, start: int) -> dict[str, str]:
    """The fields by name, from the line `start` on. The list of resources is checked and left out."""
    fields: dict[str, str] = {}
    index = start
    while index < len(lines):
        line = lines[index]
        index += 1
        if not line:
            continue
        # Clients write the heading without a colon for some wallets.
        name, colon, value = ("Resources", ":", "") if line == "Resources" else line.partition(":")
        if not colon or name in fields:
            raise InvalidMessage(f"encountered unparsable line at index {index - 1}")
        fields[name] = value.strip()
        if name == "Resources":
            index += _count_resources(lines[index:])
    return fields


def _count_resources(lines: Sequence[str]) -> int:
    for position, line in enumerate(lines):
        if not line.startswith("- "):
            return position
        if not _is_uri(line[2:].strip()):
            raise InvalidMessage(f"Resource at position {position} has invalid URI")
    return len(lines)


def _is_uri(text: str) -> bool:
    if not _URI.fullmatch(text):
        return False
    try:
        _ = urlsplit(text).port  # raises for an invalid port or host
    except ValueError:
        return False
    return True


def _read_time(fields: dict[str, str], name: str) -> datetime | None:
    if name not in fields:
        return None
    match = _TIME.fullmatch(fields[name])
    try:
        if match is None:
            raise ValueError
        moment, fraction, zone = match.groups()
        return datetime.fromisoformat(f"{moment}{(fraction or '.0')[:7]:0<7}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidMessage(f"{name} is not a valid ISO8601 timestamp") from None
