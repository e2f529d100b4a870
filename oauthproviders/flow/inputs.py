"""What a browser brings to the two endpoints: the wishes of a client, and the answer of a provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from django.http import QueryDict
from rest_framework.request import Request

from authsvc.api.openapi.document import Parameter
from authsvc.api.parsing import Body
from oauthproviders.flow.requests import Wish

# Ours alone, whatever their case: of the protocol, and what is meant for this service.
_NEVER_FORWARDED = frozenset(
    "client_id client_secret redirect_uri response_type state code_challenge code_challenge_method code_verifier"
    " scopes provider redirect_to invite_token skip_http_redirect".split()
)

RETURNED = (
    Parameter("state", "What the flow is known by."),
    Parameter("code", "Of the provider, to be exchanged for its tokens."),
    Parameter("error", "Why the provider refuses, in place of a code."),
    Parameter("error_description", "The same in words."),
    Parameter("oauth_token", "OAuth 1.0a: the request token."),
    Parameter("oauth_verifier", "OAuth 1.0a: the proof of consent."),
)


class CallbackForm(Body, frozen=True):
    """The answer of a provider that posts it; read by name, like the query."""

    state: str | None = None
    code: str | None = None
    error: str | None = None
    error_description: str | None = None
    user: str | None = None
    """Apple's, at the first consent: a JSON object with the name."""


def wish(query: QueryDict) -> Wish:
    given = _first_values(query)
    extra = {name: value for name, value in given.items() if name.lower() not in _NEVER_FORWARDED}
    if workos := extra.pop("workos_provider", ""):
        extra["provider"] = workos
    return Wish(
        provider=given.get("provider", "").lower(),
        scopes=given.get("scopes", ""),
        code_challenge=given.get("code_challenge"),
        code_challenge_method=given.get("code_challenge_method"),
        invite_token=given.get("invite_token", ""),
        extra=extra,
    )


def returned(request: Request) -> Mapping[str, str]:
    """The parameters of a callback: those of a form win over those of the query."""
    form = cast(QueryDict, request.data) if request.method == "POST" else QueryDict()
    return {**_first_values(request.query_params), **_first_values(form)}


def _first_values(query: QueryDict) -> dict[str, str]:
    return {name: values[0] for name, values in query.lists() if values}


class IdTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("id_token",)
    id_token: str | None = None
    provider: str | None = None
    """Its name; else `client_id` and `issuer`."""
    client_id: str | None = None
    issuer: str | None = None
    access_token: str | None = None
    """Whose digest the ID token has in `at_hash`."""
    nonce: str | None = None
    """Whose SHA-256 the ID token has as `nonce`."""
    link_identity: bool | None = None
    """Link the identity to the user of the bearer token."""
