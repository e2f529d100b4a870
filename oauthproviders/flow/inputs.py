"""Parameters of the authorization, callback and ID token endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from django.http import QueryDict
from rest_framework.request import Request

from authsvc.api.openapi.document import Parameter
from authsvc.api.parsing import Body
from oauthproviders.flow.authorize import FlowRequest

# Parameters of the protocol and of this service, in any case, are not forwarded to the provider.
_NEVER_FORWARDED = frozenset(
    "client_id client_secret redirect_uri response_type state code_challenge code_challenge_method code_verifier"
    " scopes provider redirect_to invite_token skip_http_redirect".split()
)

CALLBACK_PARAMETERS = (
    Parameter("state", "Identifies the flow."),
    Parameter("code", "The provider's code."),
    Parameter("error", "The provider's error code."),
    Parameter("error_description", "Describes the error."),
    Parameter("oauth_token", "OAuth 1.0a: the request token."),
    Parameter("oauth_verifier", "OAuth 1.0a: the proof of consent."),
)


class CallbackForm(Body, frozen=True):
    """The response of a provider that sends a form; the same parameters as in the query."""

    state: str | None = None
    code: str | None = None
    error: str | None = None
    error_description: str | None = None
    user: str | None = None
    """Sent by Apple at the first consent: a JSON object with the name."""


def flow_request(query: QueryDict) -> FlowRequest:
    parameters = _first_values(query)
    extra = {name: value for name, value in parameters.items() if name.lower() not in _NEVER_FORWARDED}
    if workos := extra.pop("workos_provider", ""):
        extra["provider"] = workos
    return FlowRequest(
        provider=parameters.get("provider", "").lower(),
        scopes=parameters.get("scopes", ""),
        code_challenge=parameters.get("code_challenge"),
        code_challenge_method=parameters.get("code_challenge_method"),
        invite_token=parameters.get("invite_token", ""),
        extra=extra,
    )


def callback_parameters(request: Request) -> Mapping[str, str]:
    """The parameters of a callback; a form overrides the query."""
    form = cast(QueryDict, request.data) if request.method == "POST" else QueryDict()
    return {**_first_values(request.query_params), **_first_values(form)}


def _first_values(query: QueryDict) -> dict[str, str]:
    return {name: values[0] for name, values in query.lists() if values}


class IdTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("id_token",)
    id_token: str | None = None
    provider: str | None = None
    """The provider's name; otherwise `client_id` and `issuer` are required."""
    client_id: str | None = None
    issuer: str | None = None
    access_token: str | None = None
    """Compared with `at_hash` of the ID token."""
    nonce: str | None = None
    """The SHA-256 of this value is compared with `nonce` of the ID token."""
    link_identity: bool | None = None
    """Link the identity to the user of the bearer token."""
