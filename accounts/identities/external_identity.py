"""What a provider says of whoever has signed in there, in the same form for every provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An email address that a provider knows somebody by, as the provider writes it."""

    email: str
    verified: bool = False
    """Whether the provider has seen that mail to it arrives."""
    primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """`claims` becomes `identity_data`, but for what it says of addresses, which `addresses` overrules."""

    claims: Mapping[str, Any] = field(repr=False)
    addresses: tuple[Address, ...] = field(default=(), repr=False)
