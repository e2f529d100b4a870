"""What a client asks for when it sends somebody to a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    provider: str
    """In lower case."""
    scopes: str
    """As given: what separates them is the provider's business."""
    code_challenge: str | None = field(repr=False)
    code_challenge_method: str | None
    invite_token: str = field(repr=False)
    extra: Mapping[str, str] = field(repr=False)
    """Parameters for the provider, as given."""
