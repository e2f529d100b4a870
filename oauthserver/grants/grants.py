"""The clients to which a user has granted access, and the revocation of a grant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit, events
from authsvc.caller import Caller
from authsvc.errors import ValidationFailed
from authsvc.events import EventType
from oauthserver.clients import clients
from oauthserver.clients.client_summary import ClientSummary
from oauthserver.errors import GrantNotFound
from oauthserver.models import AuthorizationStatus, DeviceAuthorization, OAuthAuthorization, OAuthConsent
from tokens.sessions import locks, revocation, users
from tokens.sessions.errors import ImpersonationNotAllowed
from tokens.sessions.users import SignedInUser


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedAccess:
    """Access that a user has granted to a client; scopes and resources are separated by spaces."""

    client: ClientSummary
    scopes: str
    resource: str | None
    granted_at: datetime


def list_grants(signed_in: SignedInUser) -> list[GrantedAccess]:
    """The active grants of a user with their clients, newest first. One statement."""
    active = OAuthConsent.objects.filter(
        user_id=signed_in.user.id, revoked_at__isnull=True, client__deleted_at__isnull=True
    )
    return [
        GrantedAccess(
            client=ClientSummary.of(consent.client),
            scopes=consent.scopes,
            resource=consent.resource,
            granted_at=consent.granted_at,
        )
        for consent in active.select_related("client").order_by("-granted_at", "-id")
    ]


def revoke(client_id: str, *, signed_in: SignedInUser, caller: Caller, at: datetime) -> None:
    """Revoke the grant of a client, with the client's sessions of the user and its codes.

    Raises ValidationFailed without an id, ClientIdMalformed, GrantNotFound, UserNotFoundForToken.
    """
    if signed_in.is_impersonated:
        raise ImpersonationNotAllowed
    if not client_id:
        raise ValidationFailed("client_id query parameter is required")
    parsed_id = clients.parse_id(client_id)
    user = signed_in.user
    with transaction.atomic(durable=True):
        locks.lock_user_against_deletion(signed_in.user.id)
        # The requests first, as an approval and an exchange lock them first. Then those that were approved meanwhile,
        # and the sessions last, because an exchange that the deletion waited for has started one.
        _delete_open_requests(user.id, parsed_id)
        active = OAuthConsent.objects.filter(user_id=user.id, client_id=parsed_id, revoked_at__isnull=True)
        if not active.update(revoked_at=at):
            raise GrantNotFound
        _delete_open_requests(user.id, parsed_id)
        traits = {"oauth_client_id": str(parsed_id), "action": "revoke_oauth_grant"}
        audit.record(audit.Action.TOKEN_REVOKED, actor=user, caller=caller, at=at, traits=traits)
        revocation.revoke_client_sessions(user.id, parsed_id)
        events.record(
            EventType.OAUTH_GRANT_REVOKED,
            user_id=user.id,
            user=lambda: users.user_source.user_json(user),
            data=lambda: {"client_id": str(parsed_id), "scopes": _granted_scopes(user.id, parsed_id)},
            at=at,
        )


def _granted_scopes(user_id: UUID, client_id: UUID) -> str:
    """The scopes of a consent, revoked or not. One statement."""
    return OAuthConsent.objects.values_list("scopes", flat=True).get(user_id=user_id, client_id=client_id)


def _delete_open_requests(user_id: UUID, client_id: UUID) -> None:
    open_requests = OAuthAuthorization.objects.filter(user_id=user_id, client_id=client_id)
    open_requests.filter(status__in=[AuthorizationStatus.PENDING, AuthorizationStatus.APPROVED])._raw_delete("default")
    open_devices = DeviceAuthorization.objects.filter(user_id=user_id, client_id=client_id)
    open_devices.filter(status__in=[AuthorizationStatus.PENDING, AuthorizationStatus.APPROVED])._raw_delete("default")
