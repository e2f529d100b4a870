"""The grammar of messages that wallets sign."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oauthproviders.wallets import messages
from oauthproviders.wallets.messages import ETHEREUM, SOLANA, ChainRules, InvalidMessage

ADDRESS = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"
TEXT = f"""service.org wants you to sign in with your Ethereum account:
{ADDRESS}

I accept the terms: https://service.org/tos

URI: https://service.org/login
Version: 1
Chain ID: 1
Nonce: 32891756
Issued At: 2021-09-30T16:25:24Z
Resources:
- ipfs://bafybeiemxf5abjwjbikoz4mc3a3dla6ual3jsgpdr4cjr3oz3evfyavhwq/
- https://example.com/my-web2-claim.json"""


def replace_text(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def error(text: str, rules: ChainRules = ETHEREUM) -> str:
    with pytest.raises(InvalidMessage) as caught:
        messages.parse(text, rules)
    return str(caught.value)


def test_all_parts() -> None:
    message = messages.parse(TEXT, ETHEREUM)
    assert message == messages.WalletMessage(
        domain="service.org",
        address=ADDRESS,
        statement="I accept the terms: https://service.org/tos",
        uri="https://service.org/login",
        chain_id="1",
        issued_at=datetime(2021, 9, 30, 16, 25, 24, tzinfo=UTC),
        not_before=None,
        expires_at=None,
    )


def test_a_message_without_a_statement() -> None:
    text = replace_text("I accept the terms: https://service.org/tos\n\n", "")
    assert messages.parse(text, ETHEREUM).statement is None


def test_times_with_a_fraction_and_a_zone() -> None:
    text = replace_text("2021-09-30T16:25:24Z", "2021-09-30T18:25:24.123456789+02:00")
    assert messages.parse(text, ETHEREUM).issued_at == datetime(2021, 9, 30, 16, 25, 24, 123456, tzinfo=UTC)


def test_a_heading_of_resources_without_a_colon() -> None:
    text = replace_text("Resources:", "Resources")
    assert messages.parse(text, ETHEREUM) == messages.parse(TEXT, ETHEREUM)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("Ethereum account:", "Solana account:", 'message first line does not end in "'),
        ("service.org wants", "service wants", "domain in first line of message is not valid"),
        ("service.org wants", "sérvice.org wants", "domain in first line of message is not valid"),
        ("service.org wants", "https://service.org wants", "domain in first line of message is not valid"),
        ("service.org wants", "a@service.org wants", "domain in first line of message is not valid"),
        ("service.org wants", "service.org:123456 wants", "domain in first line of message is not valid"),
        (ADDRESS, ADDRESS[:-1], "wallet address is not a valid Ethereum address"),
        (ADDRESS, ADDRESS + " ", "wallet address is not a valid Ethereum address"),
        (ADDRESS + "\n\n", ADDRESS + "\nx\n", "third line must be empty"),
        ("Nonce: 32891756", "Nonce", "encountered unparsable line at index 8"),
        ("Nonce: 32891756", "URI: https://evil.example", "encountered unparsable line at index 8"),
        ("URI: https://service.org/login", "URI: service org", "URI is not valid"),
        ("URI: https://service.org/login", "URI: https://service.org:x/", "URI is not valid"),
        ("URI: https://service.org/login", "URI: https://[::1", "URI is not valid"),
        ("URI: https://service.org/login", r"URI: https://service.org\@localhost/", "URI is not valid"),
        ("Chain ID: 1", "Chain ID: 0", "Chain ID is not valid"),
        ("Chain ID: 1", "Chain ID: ", "Chain ID is not valid"),
        ("Chain ID: 1", "Chain ID: ١", "Chain ID is not valid"),
        ("Chain ID: 1", "Chain ID: " + "9" * 1000, "Chain ID is not valid"),
        ("2021-09-30T16:25:24Z", "2021-13-30T16:25:24Z", "Issued At is not a valid ISO8601 timestamp"),
        ("2021-09-30T16:25:24Z", "0001-01-01T00:00:00+14:00", "Issued At is not a valid ISO8601 timestamp"),
        ("Nonce: 32891756", "Expiration Time: soon", "Expiration Time is not a valid ISO8601 timestamp"),
        ("Nonce: 32891756", "Not Before: 2021-09-30", "Not Before is not a valid ISO8601 timestamp"),
        ("- https://example.com", "- //[", "Resource at position 1 has invalid URI"),
        ("Version: 1", "Version: 2", 'Version value is not supported, expected 1 got "2"'),
        ("Version: 1\n", "", 'Version value is not supported, expected 1 got ""'),
        ("Issued At: 2021-09-30T16:25:24Z\n", "", "Issued At is not specified"),
        ("URI: https://service.org/login\n", "", "URI is not specified"),
        ("Nonce: 32891756", "Expiration Time: 2021-09-29T00:00:00Z", "Issued At is after Expiration Time"),
        (
            "Nonce: 32891756",
            "Expiration Time: 2021-10-01T00:00:00Z\nNot Before: 2021-10-02T00:00:00Z",
            "Not Before is after Expiration Time",
        ),
    ],
)
def test_faults(old: str, new: str, text: str) -> None:
    assert error(replace_text(old, new)).startswith(f"siwe: {text}")


def test_short_messages_and_addresses_of_solana() -> None:
    assert error("x" * 100) == "siwe: message needs at least 6 lines"
    text = replace_text("Ethereum", "Solana").replace(ADDRESS, "0x12")
    assert error(text, SOLANA) == "siws: wallet address is not in base58 format"


def test_chain_ids_of_solana() -> None:
    text = replace_text("Ethereum", "Solana").replace(ADDRESS, "1" * 32)
    for good in ("", "solana:mainnet", "solana:localnet"):
        messages.parse(text.replace("Chain ID: 1", f"Chain ID: {good}"), SOLANA)
    assert error(text, SOLANA) == "siws: Chain ID is not valid"


def test_a_statement_adds_no_fields() -> None:
    text = replace_text("I accept the terms: https://service.org/tos", "URI: https://evil.example")
    message = messages.parse(text, ETHEREUM)
    assert (message.uri, message.statement) == ("https://service.org/login", "URI: https://evil.example")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([*TEXT.split("\n"), "", "URI:", "\r", "- ", "a:b", "\x00", "🦄: x"]), max_size=20))
def test_any_lines_are_parsed_or_refused(lines: list[str]) -> None:
    try:
        messages.parse("\n".join(lines), ETHEREUM)
    except InvalidMessage as fault:
        assert str(fault).startswith("siwe: ")  # noqa: PT017
