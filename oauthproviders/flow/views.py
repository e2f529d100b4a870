"""GET /authorize, GET /user/identities/authorize, GET and POST /callback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from django.http import HttpResponse, QueryDict
from django.utils import timezone
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.parsers import FormParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import RecentSignInNeeded
from accounts.identities import errors as identity_errors
from authsvc import conf
from authsvc.api import exception_handler, parsing
from authsvc.api.openapi.document import REDIRECT_TO, Parameter, ResponseDoc, document
from authsvc.api.parsing import Body
from authsvc.api.renderers import Found, SeeOther
from authsvc.api.throttling import Bucket
from authsvc.api.views import OAUTH_ERRORS, Endpoint, ServiceRequest
from authsvc.errors import ApiError, BodyTooLarge, OAuthError, RequestRateExceeded
from authsvc.security import redirects
from oauthproviders.flow import authorize, callback, errors
from oauthproviders.flow.authorize import FlowRequest
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn
from tokens.flows.errors import PKCE_ERRORS

# Parameters of the protocol and of this service, in any case, are not forwarded to the provider.
_NEVER_FORWARDED = frozenset(
    "client_id client_secret redirect_uri response_type state code_challenge code_challenge_method code_verifier"
    " scopes provider redirect_to invite_token skip_http_redirect".split()
)
MAX_QUERY_LENGTH = 8192
"""Maximum number of characters in the query that starts a flow; it is stored or forwarded to the provider."""
_FLOW_PARAMETERS = (
    Parameter("provider", "The provider: `github`, `google`, `custom:…`.", required=True),
    Parameter("scopes", "Additional scopes, separated by spaces."),
    REDIRECT_TO,
    Parameter("code_challenge", "Starts a PKCE flow (RFC 7636 §4.3)."),
    Parameter("code_challenge_method", "The method of the challenge.", ("s256", "plain")),
    Parameter("invite_token", "The token of an invitation that this sign-in accepts."),
)
_CALLBACK_PARAMETERS = (
    Parameter("state", "Identifies the flow."),
    Parameter("code", "The provider's code."),
    Parameter("error", "The provider's error code."),
    Parameter("error_description", "Describes the error."),
    Parameter("oauth_token", "OAuth 1.0a: the request token."),
    Parameter("oauth_verifier", "OAuth 1.0a: the proof of consent."),
)
_TO_PROVIDER = ResponseDoc("Redirect to the provider.", headers=("Location",))
_START_ERRORS = (
    *PKCE_ERRORS,
    errors.QueryTooLong,
    errors.ChallengeMethodInvalid,
    errors.ProviderNotUsable,
    errors.InvitedUserNotFound,
    errors.RequestTokenFailed,
)
_ACCESS_DENIED_CODES = frozenset({"signup_disabled", "user_banned", "provider_email_needs_verification"})


class AuthorizationUrl(TypedDict):
    """The address to which the client sends the browser."""

    url: str


class CallbackForm(Body, frozen=True):
    """The response of a provider that sends a form; the same parameters as in the query."""

    state: str | None = None
    code: str | None = None
    error: str | None = None
    error_description: str | None = None
    user: str | None = None
    """Sent by Apple at the first consent: a JSON object with the name."""


class AuthorizeView(Endpoint):
    throttle_scope = Bucket.AUTHORIZE

    @document(query=_FLOW_PARAMETERS, responses={302: _TO_PROVIDER}, errors=_START_ERRORS)
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Redirect the browser to a provider.

        Other parameters are forwarded to the provider, except those of the protocol.
        """
        start = authorize.start_flow(
            _flow_request(request),
            target=self.redirect_target(request),
            linking_to=None,
            at=timezone.now(),
        )
        response = Found(start.url)
        callback.set_flow_cookie(response, flow_id=start.flow_id)
        return response


class LinkIdentityView(Endpoint):
    throttle_scope = Bucket.AUTHORIZE
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        query=(
            *_FLOW_PARAMETERS,
            Parameter("skip_http_redirect", "`true`: return the address instead of a redirect.", ("true",)),
        ),
        responses={302: _TO_PROVIDER, 200: AuthorizationUrl},
        errors=(
            *_START_ERRORS,
            identity_errors.ManualLinkingDisabled,
            identity_errors.LinkingNeedsAal2,
            RecentSignInNeeded,
        ),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Redirect the browser to a provider to link another identity to the signed-in user."""
        if not conf.current().signup.manual_linking_enabled:
            raise identity_errors.ManualLinkingDisabled
        start = authorize.start_flow(
            _flow_request(request),
            target=self.redirect_target(request),
            linking_to=authentication.get_signed_in_user(request),
            at=timezone.now(),
        )
        skips_redirect = parsing.query_parameter(request.http, "skip_http_redirect") == "true"
        response = Response({"url": start.url}) if skips_redirect else Found(start.url)
        callback.set_flow_cookie(response, flow_id=start.flow_id)
        return response


class CallbackView(Endpoint):
    """The redirect URI of providers. Every error is a redirect (RFC 6749 §4.1.2.1).

    The state replaces a CSRF token: it binds a callback to a request of this service.
    """

    parser_classes = (FormParser,)
    throttle_scope = Bucket.CALLBACK
    target: str | None = None

    @document(
        query=_CALLBACK_PARAMETERS,
        form=CallbackForm,
        responses={
            302: ResponseDoc(
                "Redirect to the target: tokens in the fragment, for a PKCE flow `code` in the query, or `error`,"
                " `error_code` and `error_description`.",
                headers=("Location",),
            ),
            303: ResponseDoc(
                "Redirect to the site for an unknown flow: the error in the query.", headers=("Location",)
            ),
        },
        redirect_errors=(
            *identity_errors.EXTERNAL_IDENTITY,
            BodyTooLarge,
            RequestRateExceeded,
            identity_errors.InviteNotFound,
            identity_errors.InvitedEmailMismatch,
            errors.StateMissing,
            errors.StateInvalid,
            errors.StateNotFound,
            errors.StateExpired,
            errors.StateAlreadyUsed,
            errors.LinkingTargetNotFound,
            errors.ProviderNoLongerUsable,
            errors.CodeMissing,
            errors.VerifierMissing,
            errors.ClientStateNotFound,
            errors.ClientStateExpired,
            errors.ClientStateMismatch,
            errors.ExchangeFailed,
            errors.AccessTokenFailed,
            errors.ProfileUnavailable,
            errors.ProviderEmailMissing,
        ),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Complete a flow after the provider and redirect the browser to the target of the flow.

        Errors of the provider are passed on unchanged.
        """
        parameters = _callback_parameters(request)
        at = timezone.now()
        pending = callback.find_flow(state=parameters.get("state", ""), cookies=request.http.COOKIES, at=at)
        self.target = pending.target
        return Found(callback.complete_flow(pending, parameters=parameters, caller=request.caller, at=at))

    post = get

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, MethodNotAllowed):
            return super().handle_exception(exc)
        parameters = _error_parameters(exc)
        self.request.META["authsvc.error_code"] = parameters.get("error_code", parameters["error"])
        if self.target is None:
            return SeeOther(redirects.with_query(conf.current().site.url, parameters))
        return Found(redirects.with_error(self.target, parameters, in_query=True))


def _flow_request(request: ServiceRequest) -> FlowRequest:
    """The parameters of a request that starts a flow. Raises QueryTooLong."""
    if len(request.META.get("QUERY_STRING", "")) > MAX_QUERY_LENGTH:
        raise errors.QueryTooLong
    parameters = _first_values(request.http.GET)
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


def _callback_parameters(request: Request) -> Mapping[str, str]:
    """The parameters of a callback; a form overrides the query."""
    form = cast(QueryDict, request.data) if request.method == "POST" else QueryDict()
    return {**_first_values(request.query_params), **_first_values(form)}


def _first_values(query: QueryDict) -> dict[str, str]:
    return {name: values[0] for name, values in query.lists() if values}


def _error_parameters(error: Exception) -> Mapping[str, str]:
    if isinstance(error, OAuthError):
        return {"error": error.error, "error_description": error.description}
    api_error = exception_handler.to_api_error(error)
    return {
        "error": _oauth_error(api_error),
        "error_code": api_error.error_code,
        "error_description": api_error.message,
    }


def _oauth_error(error: ApiError) -> str:
    if error.error_code in _ACCESS_DENIED_CODES:
        return "access_denied"
    return OAUTH_ERRORS.get(error.status, "server_error")
