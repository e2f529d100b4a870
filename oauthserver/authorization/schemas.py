"""Authorization requests in responses: their declared schemas and their JSON."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from oauthserver import resources
from oauthserver.authorization.authorizations import AuthorizationDetails
from oauthserver.clients.client_summary import ClientSummary
from tokens.sessions.users import TokenUser


class GrantedClient(TypedDict):
    """A client as users see it."""

    id: UUID
    name: NotRequired[str]
    uri: NotRequired[str]
    logo_uri: NotRequired[str]


class AuthorizingUser(TypedDict):
    """The user who decides."""

    id: UUID
    email: NotRequired[str]


class Authorization(TypedDict):
    """An authorization request that waits for the decision of the user."""

    authorization_id: str
    redirect_uri: str
    client: GrantedClient
    user: AuthorizingUser
    scope: str
    """As requested; scopes are separated by spaces."""
    resource: NotRequired[list[str]]
    """The APIs that the client requests to use for the user (RFC 8707)."""
    prompt: NotRequired[str]
    """`login`, `consent`, `select_account`: the steps that the client requires (OpenID Connect Core §3.1.2.1)."""
    login_hint: NotRequired[str]
    """The address with which the client expects the user to sign in."""
    required_action: NotRequired[Literal["reauthenticate", "verify_second_factor"]]
    """The step before the user can approve: a new sign-in, or a second factor in this session."""


class AuthorizationRedirect(TypedDict):
    """The request needs no decision, or is decided."""

    redirect_url: str
    """The browser continues there, at the client."""


def client_json(client: ClientSummary) -> dict[str, str]:
    optional = {"name": client.name, "uri": client.uri, "logo_uri": client.logo_uri}
    return {"id": str(client.id), **{name: text for name, text in optional.items() if text}}


def details_json(details: AuthorizationDetails, *, user: TokenUser) -> dict[str, Any]:
    optional = {name: text for name in ("prompt", "login_hint", "required_action") if (text := getattr(details, name))}
    return {
        "authorization_id": details.authorization_id,
        "redirect_uri": details.redirect_uri,
        "client": client_json(details.client),
        "user": {"id": str(user.id), **({"email": user.email} if user.email else {})},
        "scope": details.scope,
        **({"resource": resources.parse(details.resource)} if details.resource else {}),
        **optional,
    }
