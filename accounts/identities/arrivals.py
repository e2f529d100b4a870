"""Somebody who comes with an identity from elsewhere: what the provider says, in the form that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accounts.identities import account_matching
from accounts.identities.external_identity import Address, ProviderProfile
from accounts.users import identifiers
from authsvc import conf
from authsvc.errors import ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An identity and its addresses; all addresses are in the form in which accounts have them."""

    provider: str
    subject: str
    said: Mapping[str, Any] = field(repr=False)
    """What is kept as `identity_data`."""
    addresses: tuple[Address, ...] = field(repr=False)
    email_optional: bool
    """Whether somebody without an address may sign in."""

    @property
    def wanted(self) -> Address:
        """The address that an account could be given."""
        return account_matching.candidate(self.addresses)

    @property
    def proved(self) -> frozenset[str]:
        """The addresses that count as verified."""
        return frozenset(each.email for each in self.addresses if each.verified or conf.current().mailer.autoconfirm)

    @property
    def linking_domain(self) -> str:
        return account_matching.domain_of(self.provider, conf.current().federation.domain_by_provider)

    def proves(self, email: str, *, of: Address) -> bool:
        """Whether the address `email` of an account counts as proved; for one without, whether that of the claim is."""
        if conf.current().mailer.autoconfirm:
            return True
        return email in self.proved if email else of.verified


def read(*, provider: str, profile: ProviderProfile, email_optional: bool) -> Arrival:
    """What a provider says, with the addresses that an account could not have left out."""
    addresses = tuple(address for each in profile.addresses if (address := _address(each)) is not None)
    claimed = account_matching.claimed(addresses)
    said = {key: value for key, value in profile.claims.items() if key != "email"}
    if claimed is not None:
        said["email"] = claimed.email
    said["email_verified"] = claimed is not None and claimed.verified
    said["phone_verified"] = said.get("phone_verified") is True
    return Arrival(
        provider=provider,
        subject=str(profile.claims["sub"]),
        said=said,
        addresses=addresses,
        email_optional=email_optional,
    )


def _address(given: Address) -> Address | None:
    try:
        email = identifiers.email(given.email)
    except ApiError:
        return None
    return Address(email=email, verified=given.verified, primary=given.primary)
