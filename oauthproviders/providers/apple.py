"""Apple. Its client secret is a JWT signed with the developer's key, valid for at most six months.

The claim `email_verified` states whether Apple has verified the address; it is false for some managed accounts
(https://developer.apple.com/documentation/signinwithapple/authenticating-users-with-sign-in-with-apple).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import jwt
import msgspec
from social_core.backends.apple import AppleIdAuth

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import backends, profiles
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken
from oauthproviders.oidc import openid_connect

ID_TOKEN_ISSUERS = ("https://appleid.apple.com", "https://account.apple.com")
MAX_SECRET_LIFETIME = timedelta(seconds=15_777_000)
_SECRET_AUDIENCE = "https://appleid.apple.com"
_SECRET_ALGORITHM = "ES256"


class _Name(msgspec.Struct, frozen=True, rename="camel"):
    first_name: str | None = None
    last_name: str | None = None


class _User(msgspec.Struct, frozen=True):
    name: _Name | None = None


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    email: str = ""
    email_verified: bool | str | None = None
    is_private_email: bool | str | None = None
    auth_time: float | int | None = None
    transfer_sub: str | None = None


class Apple(backends.OAuth2, AppleIdAuth[Any]):
    default_scopes = ("email", "name")
    ignores_scopes = True
    forwards_extra = False
    extra_parameters: ClassVar[Mapping[str, str]] = {"response_mode": "form_post"}
    issuers: ClassVar[tuple[str, ...]] = ID_TOKEN_ISSUERS

    @property
    def openid_issuer(self) -> str:
        return self.issuers[0]

    def authorization_url(self) -> str:
        return openid_connect.authorization_endpoint(self.issuers[0], known=self.AUTHORIZATION_URL)

    def access_token_url(self) -> str:
        return openid_connect.discover(self.issuers[0]).token_endpoint

    def encode(self, parameters: Mapping[str, str]) -> str:
        return urlencode(sorted(parameters.items()), quote_via=quote)

    def token_form(self) -> Mapping[str, str]:
        return {"client_id": self.config.client_ids[0], "secret": self.config.secret.reveal()}

    def profile(self, token: ProviderToken) -> ProviderProfile:
        issuer = openid_connect.claimed_issuer(token.id_token)
        if issuer not in self.issuers:
            raise InvalidProviderResponse("the ID token has another issuer")
        token_claims = openid_connect.verify(
            token.id_token, issuer=issuer, audiences=self.config.client_ids[:1], access_token=token.access_token
        )
        profile = profile_of(token_claims)
        # Only the first consent includes a name. It comes from the browser and is not verified.
        sent = backends.parse_document((self.data.get("user") or "{}").encode(), _User).name
        name = profiles.full_name(sent.first_name, sent.last_name) if sent else ""
        named = {"name": name, "full_name": name} if name else {}
        return ProviderProfile(claims={**profile.claims, **named}, addresses=profile.addresses)


def profile_of(token: Mapping[str, Any]) -> ProviderProfile:
    """The profile of a verified ID token. Raises InvalidProviderResponse."""
    user = profiles.convert(token, _Claims)
    private = {"true": True, "false": False}.get(str(user.is_private_email).lower())
    custom = {"is_private_email": private, "auth_time": user.auth_time, "transfer_sub": user.transfer_sub}
    custom_claims = profiles.pick(custom, *custom)
    identity_data = profiles.identity_data(iss=user.iss, sub=user.sub, custom_claims=custom_claims or None)
    # Accounts of an organisation may have no address.
    verified = user.email_verified in (True, "true")
    return ProviderProfile(
        claims=identity_data, addresses=(Address(email=user.email, verified=verified, primary=True),)
    )


def create_client_secret(
    *, team_id: str, key_id: str, client_id: str, private_key: str, lifetime: timedelta, at: datetime
) -> str:
    """The secret of the application `client_id`: a JWT; `private_key` is the PEM text of a `.p8` file.

    Raises ValueError for a key of another kind.
    """
    claims = {"iss": team_id, "iat": at, "exp": at + lifetime, "aud": _SECRET_AUDIENCE, "sub": client_id}
    try:
        return jwt.encode(claims, private_key, algorithm=_SECRET_ALGORITHM, headers={"kid": key_id})
    except (jwt.PyJWTError, TypeError, ValueError):
        # The text of the library's error may contain the key.
        raise ValueError("not an elliptic-curve private key as in Apple's .p8 files") from None


def client_secret_expiry(secret: str) -> datetime | None:
    """The expiry time of a secret; None for another text."""
    try:
        return datetime.fromtimestamp(jwt.decode(secret, options={"verify_signature": False})["exp"], UTC)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
