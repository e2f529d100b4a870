"""The profile that a provider returns, and the external identity that accounts store of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from accounts.users import identifiers, metadata_limits
from authsvc.errors import ApiError

_MAX_SUBJECT_BYTES = 1024  # the size of an index entry minus the provider's name
_EMPTY_VALUES = frozenset({"null", "none", "nil", "undefined", "nan", "true", "false"})


class UnusableSubject(ValueError):
    """A provider's profile has no id that identifies one user. The text contains nothing of the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An email address in a provider's profile."""

    email: str
    verified: bool = False
    """The provider has verified that its user receives mail there."""
    primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectScope:
    """The tenant within which a provider's subjects are unique. The key of an identity contains it."""

    tenant: str
    tenant_of: Callable[[Mapping[str, Any]], str]
    """The tenant in the data of a stored identity, `""` for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """A provider's profile of its user, in the same form for every provider; addresses as the provider writes them.

    `claims` become `identity_data`, except the claims about email addresses, which come from `addresses`.
    """

    claims: Mapping[str, Any] = field(repr=False)
    addresses: tuple[Address, ...] = field(default=(), repr=False)
    scope: SubjectScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalIdentity:
    """An identity at a provider and its email addresses, which are normalised as accounts store them."""

    provider: str
    subject: str
    """The key of the identity within its provider: the provider's id of the user, with the tenant if it has any."""
    identity_data: Mapping[str, Any] = field(repr=False)
    addresses: tuple[Address, ...] = field(repr=False)
    email_optional: bool
    """The provider accepts users without an email address."""
    needs_address: bool = True
    """False for a wallet, which has no addresses: it signs in whatever address its account has."""
    scope: SubjectScope | None = None

    @classmethod
    def from_profile(
        cls, profile: ProviderProfile, *, provider: str, email_optional: bool, needs_address: bool = True
    ) -> ExternalIdentity:
        """The identity of a profile; addresses that an account cannot have are left out.

        Raises UnusableSubject, MetadataTooLarge.
        """
        subject, scope = parse_subject(profile.claims.get("sub")), profile.scope
        addresses = tuple(valid for address in profile.addresses if (valid := _normalise(address)) is not None)
        claimed = claimed_address(addresses)
        identity_data = {key: value for key, value in profile.claims.items() if key != "email"}
        if claimed is not None:
            identity_data["email"] = claimed.email
        identity_data["email_verified"] = claimed is not None and claimed.verified
        identity_data["phone_verified"] = identity_data.get("phone_verified") is True
        metadata_limits.check_user_metadata(identity_data)
        return cls(
            provider=provider,
            subject=f"{scope.tenant}:{subject}" if scope else subject,
            identity_data=identity_data,
            addresses=addresses,
            email_optional=email_optional,
            needs_address=needs_address,
            scope=scope,
        )

    @property
    def former_subject(self) -> str:
        """The key without the tenant, under which earlier versions stored the identity; `""` for none."""
        return str(self.identity_data["sub"]) if self.scope else ""

    def is_former(self, identity_data: Mapping[str, Any]) -> bool:
        """True if the data of an identity that is stored under `former_subject` are of the same tenant."""
        return self.scope is not None and self.scope.tenant_of(identity_data) == self.scope.tenant

    @property
    def email(self) -> str:
        """The address in the identity data, `""` for none."""
        return str(self.identity_data.get("email", ""))

    @property
    def is_email_verified(self) -> bool:
        """The provider has verified the address in the identity data."""
        return bool(self.identity_data["email_verified"])

    @property
    def candidate(self) -> Address:
        """The address that a new account would get; its text is empty for none."""
        return candidate_address(self.addresses)

    @property
    def verified_emails(self) -> frozenset[str]:
        """The addresses that the provider has verified. Auto-confirm does not count: it never links to an account."""
        return frozenset(address.email for address in self.addresses if address.verified)

    def audit_traits(self, identity_id: UUID) -> dict[str, str]:
        return {"identity_id": str(identity_id), "provider": self.provider, "provider_id": self.subject}

    def verifies(self, email: str) -> bool:
        """True when the identity verifies `email`, the address of an account; for `""`, its own candidate address."""
        return email in self.verified_emails if email else self.candidate.verified


def claimed_address(addresses: Sequence[Address]) -> Address | None:
    """The address for the identity data: the first primary address, without one the last address."""
    return next((address for address in addresses if address.primary), addresses[-1] if addresses else None)


def candidate_address(addresses: Sequence[Address]) -> Address:
    """The address for a new account: the last primary address; one with an empty text when none is primary."""
    primary = [address for address in addresses if address.primary]
    return primary[-1] if primary else Address(email="")


def _normalise(address: Address) -> Address | None:
    try:
        email = identifiers.email(address.email)
    except ApiError:
        return None
    return Address(email=email, verified=address.verified, primary=address.primary)


def parse_subject(value: object) -> str:
    """The id of a user at a provider as text, unchanged: ids that differ in case or in a space are different users.

    Raises UnusableSubject for a missing or empty value, zero, a Boolean, another number than a positive integer, an
    object or list, a text without a letter or a digit other than zero, and the names of empty values.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if not isinstance(value, str) or value.strip().lower() in _EMPTY_VALUES:
        raise UnusableSubject("the profile has no subject")
    if not any(character.isalpha() or unicodedata.digit(character, 0) > 0 for character in value):
        raise UnusableSubject("the profile has no subject")
    if len(value.encode()) > _MAX_SUBJECT_BYTES:
        raise UnusableSubject("the subject is too long")
    return value
