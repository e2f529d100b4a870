"""Sign-in by wallet: accounts, refusals in their order, single use."""

from __future__ import annotations

import base64
import struct
from datetime import timedelta
from typing import Any

import jwt
import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.audit.models import AuditLogEntry
from oauthproviders.models import UsedWalletMessage
from oauthproviders.wallets import ethereum
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.oauthproviders.wallets import wallets
from tests.oauthproviders.wallets.wallets import EthereumWallet, SolanaWallet, moment

pytestmark = pytest.mark.django_db

Wallet = EthereumWallet | SolanaWallet
WALLETS = [EthereumWallet(), SolanaWallet()]
both = pytest.mark.parametrize("wallet", WALLETS, ids=["ethereum", "solana"])
DOMAIN = "app.example.org"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""Of the group of secp256k1."""


@pytest.fixture(autouse=True)
def _enabled(auth_config: ChangeConfig) -> None:
    auth_config(
        wallets={"ethereum_enabled": True, "solana_enabled": True},
        site={"url": "https://site.example.org", "allow_list": (f"https://{DOMAIN}/**",)},
    )


def text_for(wallet: Wallet, **changes: Any) -> str:
    values = {"domain": DOMAIN, "URI": f"https://{DOMAIN}/in", "Chain_ID": wallet.chain_id, **changes}
    return wallets.message(wallet.name, values.pop("address", wallet.address), **values)


def send(api: Api, wallet: Wallet, message: str, **changes: Any) -> ApiResponse:
    body = {"chain": wallet.chain, "message": message, "signature": wallet.sign(message), **changes}
    return api.post("/token?grant_type=web3", body)


def refusal(response: ApiResponse) -> str:
    assert response.status_code == 400, response.content
    body = response.json()
    if "error" in body:
        assert body["error"] == "invalid_grant"
        return str(body["error_description"])
    assert body["error_code"] == "validation_failed"
    return str(body["msg"])


def test_an_unconfirmed_address_of_the_account_is_left_as_it_is(api: Api, mailbox: Mailbox) -> None:
    wallet = EthereumWallet()
    user_id = send(api, wallet, text_for(wallet)).json()["user"]["id"]
    admin_requests.expect_success(api, "PUT", f"/admin/users/{user_id}", {"email": "ada@example.com"})

    response = send(api, wallet, text_for(wallet, Nonce="another1"))

    assert (response.status_code, response.json()["user"]["email"], mailbox.emails) == (200, "ada@example.com", [])


@both
def test_the_first_sign_in_creates_an_account(api: Api, wallet: Wallet) -> None:
    response = send(api, wallet, text_for(wallet))
    assert response.status_code == 200, response.content
    address = ethereum.checksum_address(wallet.address) if wallet.chain == "ethereum" else wallet.address
    user = response.json()["user"]
    [identity] = user["identities"]
    assert identity["provider"] == "web3"
    assert identity["id"] == f"web3:{wallet.chain}:{address}"
    assert identity["identity_data"] == {
        "sub": f"web3:{wallet.chain}:{address}",
        "custom_claims": {
            "address": address,
            "chain": wallet.chain,
            "network": wallet.chain_id,
            "domain": DOMAIN,
            "statement": "I sign in",
        },
        "email_verified": False,
        "phone_verified": False,
    }
    assert (user["email"], user["is_anonymous"], user.get("email_confirmed_at")) == ("", False, None)
    claims = jwt.decode(response.json()["access_token"], options={"verify_signature": False})
    assert [entry["method"] for entry in claims["amr"]] == ["web3"]
    logins = [entry.payload for entry in AuditLogEntry.objects.order_by("created_at")]
    assert [entry["action"] for entry in logins] == ["login", "login"]
    assert {"provider": "web3"} in [entry["traits"] for entry in logins]
    detailed = {
        "provider": "web3",
        "chain": wallet.chain,
        "network": wallet.chain_id,
        "address": address,
        "domain": DOMAIN,
        "uri": f"https://{DOMAIN}/in",
    }
    assert detailed in [entry["traits"] for entry in logins]


@both
def test_the_second_sign_in_finds_the_account(api: Api, wallet: Wallet) -> None:
    first = send(api, wallet, text_for(wallet)).json()["user"]
    second = send(api, wallet, text_for(wallet, statement="", Nonce="other")).json()["user"]
    assert first["id"] == second["id"]
    missing = None if wallet.chain == "ethereum" else ""
    assert second["identities"][0]["identity_data"]["custom_claims"]["statement"] == missing


def test_another_spelling_of_an_address_is_the_same_account(api: Api) -> None:
    wallet = EthereumWallet()
    spellings = [wallet.address, ethereum.checksum_address(wallet.address), "0x" + wallet.address[2:].upper()]
    assert {send(api, wallet, text_for(wallet, address=address)).json()["user"]["id"] for address in spellings} == {
        str(User.objects.get().id)
    }
    assert Identity.objects.count() == 1


@both
def test_a_message_signs_in_once(api: Api, wallet: Wallet) -> None:
    message = text_for(wallet)
    assert send(api, wallet, message).status_code == 200
    assert refusal(send(api, wallet, message)) == f"Signed {wallet.name} message was already used"


def test_another_spelling_of_a_signature_does_not_sign_in_again(api: Api) -> None:
    wallet = EthereumWallet()
    message = text_for(wallet)
    assert send(api, wallet, message).status_code == 200
    signature = wallet.sign(message)
    mirrored = f"0x{signature[2:66]}" + f"{ORDER - int(signature[66:130], 16):064x}"
    for other in (
        "0x" + signature[2:].upper(),
        signature[:130] + f"{int(signature[130:], 16) - 27:02x}",
        mirrored + ("1c" if signature[130:] == "1b" else "1b"),
    ):
        assert refusal(send(api, wallet, message, signature=other)) in (
            "Signed Ethereum message was already used",
            "Signature does not match address in message",
        )


def test_a_used_message_is_kept_until_it_is_too_old(api: Api) -> None:
    wallet = SolanaWallet()
    assert send(api, wallet, text_for(wallet, Issued_At=moment(minutes=5))).status_code == 200
    used = UsedWalletMessage.objects.get()
    remaining = used.expires_at - timezone.now()
    assert timedelta(minutes=14) < remaining < timedelta(minutes=16)


def test_a_refused_sign_in_uses_no_message_up(api: Api) -> None:
    wallet = SolanaWallet()
    send(api, wallet, text_for(wallet))
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    message = text_for(wallet, Nonce="later")
    assert send(api, wallet, message).json()["error_code"] == "user_banned"
    User.objects.update(banned_until=None)
    assert send(api, wallet, message).status_code == 200


@both
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"URI": f"http://{DOMAIN}/in"}, "Signed {} message is using URI which does not use HTTPS"),
        ({"URI": "/in"}, "Signed {} message is using URI which does not use HTTPS"),
        (
            {"domain": "evil.example.net", "URI": "https://evil.example.net/in"},
            "Signed {} message is using URI which is not allowed on this server, message was signed for another app",
        ),
        (
            {"URI": f"https://{DOMAIN}@evil.example.net/in"},
            "Signed {} message is using URI which is not allowed on this server, message was signed for another app",
        ),
        (
            {"domain": "evil.example.net"},
            (
                "Signed {} message is using a Domain that does not match the one in URI"
                " which is not allowed on this server"
            ),
        ),
        ({"Not_Before": moment(minutes=60)}, "Signed {} message becomes valid in the future"),
        (
            {"Issued_At": moment(minutes=-5), "Expiration_Time": moment(minutes=-1)},
            "Signed {} message is expired",
        ),
        ({"Issued_At": moment(minutes=-20)}, "{} message was issued too long ago"),
        ({"Issued_At": moment(minutes=60)}, "{} message was issued too far in the future"),
    ],
)
def test_messages_that_are_not_accepted(api: Api, wallet: Wallet, changes: dict[str, Any], text: str) -> None:
    assert refusal(send(api, wallet, text_for(wallet, **changes))) == text.format(wallet.name)
    assert not User.objects.exists()


@both
def test_a_host_that_parsers_read_differently(api: Api, wallet: Wallet) -> None:
    message = text_for(wallet, domain="evil.example.net", URI=rf"https://{DOMAIN}\@localhost/")
    assert refusal(send(api, wallet, message)).endswith("URI is not valid")
    assert not User.objects.exists()


@both
def test_a_message_for_this_machine(api: Api, wallet: Wallet, auth_config: ChangeConfig) -> None:
    auth_config(site={"url": "http://localhost:3000"})
    message = text_for(wallet, domain="localhost:3000", URI="http://localhost:3000/in")
    assert send(api, wallet, message).status_code == 200


@both
def test_another_domain_with_the_uri_of_this_machine(api: Api, wallet: Wallet, auth_config: ChangeConfig) -> None:
    auth_config(site={"allow_list": ("http://localhost:3000/**",)})
    message = text_for(wallet, domain="evil.example.net", URI="http://localhost:3000/in")
    assert "a Domain that does not match" in refusal(send(api, wallet, message))


@both
def test_a_signature_of_another_wallet(api: Api, wallet: Wallet) -> None:
    message = text_for(wallet)
    signature = type(wallet)(seed=2).sign(message)
    assert refusal(send(api, wallet, message, signature=signature)) == "Signature does not match address in message"


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ("0x12", "signature must be 65 bytes long, encoded as a 130 character-long hexadecimal string"),
        ("0x" + "zz" * 65, "Signature does not match address in message"),
        ("0x" + "0" * 130, "Signature does not match address in message"),
        ("0x" + "f" * 130, "Signature does not match address in message"),
        ("1" * 130, "Signature does not match address in message"),
        ("0x" + "1" * 128 + "1f", "Signature does not match address in message"),
    ],
)
def test_malformed_signatures_of_ethereum(api: Api, signature: str, text: str) -> None:
    wallet = EthereumWallet()
    assert refusal(send(api, wallet, text_for(wallet), signature=signature)) == text


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ("abc", "signature must be 64 bytes encoded as base64 with or without padding"),
        ("!" * 86, "signature does not contain valid base64 characters"),
        ("é" * 88, "signature does not contain valid base64 characters"),
        ("A" * 86, "Signature does not match address in message"),
        ("A" * 88, "Signature does not match address in message"),
    ],
)
def test_malformed_signatures_of_solana(api: Api, signature: str, text: str) -> None:
    wallet = SolanaWallet()
    assert refusal(send(api, wallet, text_for(wallet), signature=signature)) == text


@pytest.mark.parametrize("spelling", ["unpadded", "url-safe"])
def test_spellings_of_base64(api: Api, spelling: str) -> None:
    wallet = SolanaWallet()
    message = text_for(wallet)
    signature = wallet.sign(message)
    other = signature.rstrip("=") if spelling == "unpadded" else signature.replace("+", "-").replace("/", "_")
    assert send(api, wallet, message, signature=other).status_code == 200


def test_the_frame_of_hardware_wallets(api: Api) -> None:
    wallet = SolanaWallet()
    message = text_for(wallet)
    frame = (
        b"\xffsolana offchain\0"
        + DOMAIN.encode().ljust(32, b"\0")
        + b"\0\1"
        + wallet.public_key
        + struct.pack("<H", len(message))
        + message.encode()
    )
    signature = base64.b64encode(wallet.key.sign(frame)).decode()
    assert send(api, wallet, message, signature=signature).status_code == 200


def test_a_key_for_which_everybody_can_sign(api: Api) -> None:
    wallet = SolanaWallet()
    signature = base64.b64encode(bytes([1]) + bytes(63)).decode()
    for number in range(12):
        message = text_for(wallet, address="1" * 32, Nonce=str(number))
        assert refusal(send(api, wallet, message, signature=signature)) == "Signature does not match address in message"


def test_an_address_that_is_no_key(api: Api) -> None:
    wallet = SolanaWallet()
    for address in ("1" * 44, "z" * 44, "0" * 40):
        message = text_for(wallet, address=address)
        assert refusal(send(api, wallet, message)) == "Signature does not match address in message"


@pytest.mark.parametrize(("length", "text"), [(63, "message is too short"), (20_481, "message must not exceed 20KB")])
def test_lengths(api: Api, length: int, text: str) -> None:
    wallet = EthereumWallet()
    assert refusal(send(api, wallet, "x" * length)) == text


@both
def test_disabled_chains(api: Api, wallet: Wallet, auth_config: ChangeConfig) -> None:
    auth_config(wallets={f"{wallet.chain}_enabled": False})
    response = send(api, wallet, text_for(wallet))
    assert (response.status_code, response.json()["error_code"]) == (422, "web3_provider_disabled")
    assert response.json()["msg"] == f"{wallet.name} Web3 provider is disabled"
    auth_config(wallets={"ethereum_enabled": False, "solana_enabled": False})
    assert send(api, wallet, text_for(wallet)).json()["msg"] == "Web3 provider is disabled"


def test_an_unknown_chain(api: Api) -> None:
    response = send(api, SolanaWallet(), text_for(SolanaWallet()), chain="bitcoin")
    assert (response.status_code, response.json()["error_code"]) == (400, "web3_unsupported_chain")


def test_closed_sign_up(api: Api, auth_config: ChangeConfig) -> None:
    wallet = SolanaWallet()
    send(api, wallet, text_for(wallet))
    auth_config(signup={"disabled": True})
    assert send(api, wallet, text_for(wallet, Nonce="2")).status_code == 200
    other = SolanaWallet(seed=2)
    assert send(api, other, text_for(other)).json()["error_code"] == "signup_disabled"


def test_requests_are_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"web3": 0.001})
    wallet = SolanaWallet()
    statuses = [send(api, wallet, text_for(wallet), chain="x").status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]
