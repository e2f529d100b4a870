"""Clients as users see them, on pages and in responses."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from oauthserver.models import OAuthClient, RegistrationType


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSummary:
    """The client as the user sees it."""

    id: UUID
    name: str | None
    uri: str | None
    logo_uri: str | None
    is_self_registered: bool
    """True if no administrator has registered the client, so that its name may be that of another application."""

    @classmethod
    def of(cls, client: OAuthClient) -> ClientSummary:
        return cls(
            id=client.id,
            name=client.client_name,
            uri=client.client_uri,
            logo_uri=client.logo_uri,
            is_self_registered=client.registration_type == RegistrationType.DYNAMIC,
        )
