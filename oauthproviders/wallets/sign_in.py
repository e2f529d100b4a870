"""The web3 grant: sign-in with a message that a wallet has signed."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

from accounts.identities import errors as identity_errors
from accounts.identities import external_sign_in
from accounts.identities.external_identity import ExternalIdentity, ProviderProfile
from accounts.identities.external_sign_in import AccountMatch
from accounts.users.queries import AccountUsers
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import OAuthError, ValidationFailed
from authsvc.security import redirects
from oauthproviders.wallets import errors, messages, solana
from oauthproviders.wallets.messages import ChainRules, InvalidMessage, WalletMessage
from tokens.api import grants, schemas
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair

_PROVIDER = _METHOD = "web3"
_MIN_BYTES = 64
_MAX_BYTES = 20_480
_ETHEREUM_DIGITS = 130
_SOLANA_LENGTHS = (86, 88)
_CHAINS: dict[str, ChainRules] = {"ethereum": messages.ETHEREUM, "solana": messages.SOLANA}


class WalletInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("chain", "message", "signature")
    chain: str | None = None
    """`ethereum` or `solana`."""
    message: str | None = None
    """The message that the wallet has signed (EIP-4361, or its Solana counterpart)."""
    signature: str | None = None
    """Ethereum: `0x` and 130 hexadecimal digits; Solana: base64 of 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletSignIn:
    user: UserRecord
    tokens: TokenPair


class WalletGrant:
    """Sign in with a message that an Ethereum or Solana wallet has signed. Each message signs in once."""

    input = WalletInput
    response_schema: ClassVar[Any] = schemas.Session
    documented_errors: ClassVar[ErrorTypes] = (
        OAuthError,
        ValidationFailed,
        errors.Web3ProviderDisabled,
        errors.UnsupportedChain,
        *identity_errors.EXTERNAL_IDENTITY,
    )

    def exchange(self, body: WalletInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        result = sign_in(
            chain=body.chain or "",
            message=body.message or "",
            signature=body.signature or "",
            caller=caller,
            at=at,
        )
        return grants.token_response(result.tokens, user=result.user)


@sign_in_metrics.measure_sign_in("web3", user_id=lambda result: result.user.id)
def sign_in(*, chain: str, message: str, signature: str, caller: Caller, at: datetime) -> WalletSignIn:
    """Sign in the owner of a wallet, and create the account at the first time.

    Raises Web3ProviderDisabled, UnsupportedChain, ValidationFailed for a message or signature of another form,
    OAuthError for one that is not accepted, and the errors of signing in with an identity.
    """
    config = conf.current().wallets
    if not (config.ethereum_enabled or config.solana_enabled):
        raise errors.Web3ProviderDisabled
    if chain not in _CHAINS:
        raise errors.UnsupportedChain
    rules = _CHAINS[chain]
    is_enabled, max_age = {
        "ethereum": (config.ethereum_enabled, config.ethereum_max_age),
        "solana": (config.solana_enabled, config.solana_max_age),
    }[chain]
    if not is_enabled:
        raise errors.Web3ProviderDisabled(f"{rules.chain} Web3 provider is disabled")
    parsed, address = _verify(chain, message=message, signature=signature)
    _check_target(parsed, rules)
    _check_time(parsed, rules, max_age=max_age, at=at)
    identity = _identity(chain, address, parsed)
    ends_at = min(filter(None, (parsed.expires_at, parsed.issued_at + max_age)))

    def store(match: AccountMatch) -> WalletSignIn:
        with token_transaction(caller):
            if not _use_up(chain, address, message, expires_at=ends_at):
                _refuse(f"Signed {rules.chain} message was already used")
            lifecycle.announce_session(caller)
            signed_in = external_sign_in.sign_in(
                match, starts_session=True, redirect_to=conf.current().site.url, caller=caller, at=at
            )
            traits = {
                "provider": _PROVIDER,
                "chain": chain,
                "network": parsed.chain_id,
                "address": address,
                "domain": parsed.domain,
                "uri": parsed.uri,
            }
            audit.record(audit.Action.LOGIN, actor=signed_in.user, caller=caller, at=at, traits=traits)
            tokens = lifecycle.start_session(user=signed_in.user, method=_METHOD, caller=caller, at=at)
        return WalletSignIn(user=signed_in.user, tokens=tokens)

    result = external_sign_in.attempt(identity, store, caller=caller, at=at)
    # The statement that updated the user returned its identities as they were before the update.
    return WalletSignIn(user=AccountUsers().find_user(result.user.id) or result.user, tokens=result.tokens)


def _verify(chain: str, *, message: str, signature: str) -> tuple[WalletMessage, str]:
    """The message and the address in its canonical form. Raises ValidationFailed, and OAuthError."""
    length = len(message.encode())
    if length < _MIN_BYTES:
        raise ValidationFailed("message is too short")
    if length > _MAX_BYTES:
        raise ValidationFailed("message must not exceed 20KB")
    return (_verify_ethereum if chain == "ethereum" else _verify_solana)(message, signature)


def _verify_ethereum(message: str, signature: str) -> tuple[WalletMessage, str]:
    # It imports optional dependencies, which are present if the chain is enabled.
    ethereum = import_module("oauthproviders.wallets.ethereum")
    if len(signature.removeprefix("0x")) != _ETHEREUM_DIGITS:
        raise ValidationFailed("signature must be 65 bytes long, encoded as a 130 character-long hexadecimal string")
    parsed = _parse(message, messages.ETHEREUM)
    if not ethereum.is_signed_by(parsed.address, message=message, signature=signature):
        _refuse("Signature does not match address in message")
    return parsed, ethereum.checksum_address(parsed.address)


def _verify_solana(message: str, signature: str) -> tuple[WalletMessage, str]:
    if len(signature) not in _SOLANA_LENGTHS:
        raise ValidationFailed("signature must be 64 bytes encoded as base64 with or without padding")
    try:
        text = signature.replace("-", "+").replace("_", "/").rstrip("=")
        data = base64.b64decode(text + "==", validate=True)
    except (binascii.Error, ValueError):
        raise ValidationFailed("signature does not contain valid base64 characters") from None
    parsed = _parse(message, messages.SOLANA)
    if not solana.is_signed_by(parsed.address, message=message, signature=data, domain=parsed.domain):
        _refuse("Signature does not match address in message")
    return parsed, parsed.address


def _parse(message: str, rules: ChainRules) -> WalletMessage:
    try:
        return messages.parse(message, rules)
    except InvalidMessage as error:
        raise ValidationFailed(str(error)) from None


def _check_target(message: WalletMessage, rules: ChainRules) -> None:
    """Raise OAuthError for a message that the wallet signed for another application."""
    uri = urlsplit(message.uri)
    is_local = uri.hostname == "localhost"
    if uri.scheme != "https" and not is_local:
        _refuse(f"Signed {rules.chain} message is using URI which does not use HTTPS")
    if not redirects.is_permitted(message.uri):
        _refuse(
            f"Signed {rules.chain} message is using URI which is not allowed on this server,"
            " message was signed for another app"
        )
    if is_local:
        is_same_app = message.domain.partition(":")[0] == "localhost"
    else:
        is_same_app = uri.netloc == message.domain and redirects.is_permitted(f"https://{message.domain}/")
    if not is_same_app:
        _refuse(
            f"Signed {rules.chain} message is using a Domain that does not match the one in URI"
            " which is not allowed on this server"
        )


def _check_time(message: WalletMessage, rules: ChainRules, *, max_age: timedelta, at: datetime) -> None:
    if message.not_before is not None and at < message.not_before:
        _refuse(f"Signed {rules.chain} message becomes valid in the future")
    if message.expires_at is not None and at > message.expires_at:
        _refuse(f"Signed {rules.chain} message is expired")
    if at - message.issued_at > max_age:
        _refuse(f"{rules.chain} message was issued too long ago")
    if message.issued_at - at > max_age:
        _refuse(f"{rules.chain} message was issued too far in the future")


def _identity(chain: str, address: str, message: WalletMessage) -> ExternalIdentity:
    claims = {
        "sub": f"{_PROVIDER}:{chain}:{address}",
        "custom_claims": {
            "address": address,
            "chain": chain,
            "network": message.chain_id,
            "domain": message.domain,
            "statement": message.statement if chain == "ethereum" else message.statement or "",
        },
    }
    return ExternalIdentity.from_profile(
        ProviderProfile(claims=claims), provider=_PROVIDER, email_optional=True, needs_address=False
    )


def _use_up(chain: str, address: str, message: str, *, expires_at: datetime) -> bool:
    """Record the use of a message in the transaction of the sign-in; False if it was used before. One statement.

    The digest is that of the message, because a signature has several spellings.
    """
    digest = hashlib.sha256(f"{chain}\n{address}\n{message}".encode()).hexdigest()
    sql = f"""
        INSERT INTO {namespaced("wallet_messages")} (digest, expires_at) VALUES (%s, %s)
        ON CONFLICT (digest) DO NOTHING RETURNING digest
    """  # noqa: S608  (own table name)
    return fetch_row(sql, (digest, expires_at)) is not None


def _refuse(description: str) -> NoReturn:
    raise OAuthError("invalid_grant", description)
