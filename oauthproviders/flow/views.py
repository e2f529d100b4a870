"""GET /authorize, GET /user/identities/authorize, GET and POST /callback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.parsers import FormParser
from rest_framework.response import Response

from accounts.identities import errors as identity_errors
from authsvc import clock, conf
from authsvc.api import exception_handler
from authsvc.api.openapi.document import REDIRECT_TO, Parameter, ResponseDoc, document
from authsvc.api.renderers import Found, SeeOther
from authsvc.api.views import OAUTH_ERRORS, Endpoint, ServiceRequest
from authsvc.errors import ApiError, BodyTooLarge, OAuthError
from authsvc.security import redirects
from oauthproviders import errors, payloads, schemas
from oauthproviders.flow import authorize, callback, flow_cookie, inputs
from tokens.api import authentication
from tokens.api import error_sets as token_error_sets
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn

_WISHES = (
    Parameter("provider", "Its name: `github`, `google`, `custom:…`.", required=True),
    Parameter("scopes", "Further scopes, separated by blanks."),
    REDIRECT_TO,
    Parameter("code_challenge", "Begins a PKCE flow (RFC 7636 §4.3)."),
    Parameter("code_challenge_method", "Of the challenge.", ("s256", "plain")),
    Parameter("invite_token", "The token of an invitation that is accepted by this sign-in."),
)
_TO_PROVIDER = ResponseDoc("To the provider.", headers=("Location",))
_NO_DEPARTURE = (
    *token_error_sets.PKCE,
    errors.ChallengeMethodInvalid,
    errors.ProviderNotUsable,
    errors.InvitedUserNotFound,
    errors.RequestTokenFailed,
)
_TOLD_AS_REFUSAL = frozenset({"signup_disabled", "user_banned", "provider_email_needs_verification"})


class AuthorizeView(Endpoint):
    @document(query=_WISHES, responses={302: _TO_PROVIDER}, errors=_NO_DEPARTURE)
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Send the browser to a provider.

        Parameters that are not listed go to the provider, but for those of the protocol.
        """
        departure = authorize.begin(
            inputs.wish(request.http.GET),
            target=self.redirect_target(request),
            linking_to=None,
            at=clock.now(),
        )
        response = Found(departure.url)
        flow_cookie.tie(response, flow_id=departure.flow_id)
        return response


class LinkIdentityView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        query=(
            *_WISHES,
            Parameter("skip_http_redirect", "`true`: answer the address instead of redirecting.", ("true",)),
        ),
        responses={302: _TO_PROVIDER, 200: schemas.Departure},
        errors=(*_NO_DEPARTURE, identity_errors.ManualLinkingDisabled),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Send the browser to a provider, to link one more identity to the signed-in user."""
        if not conf.current().signup.manual_linking_enabled:
            raise identity_errors.ManualLinkingDisabled
        departure = authorize.begin(
            inputs.wish(request.http.GET),
            target=self.redirect_target(request),
            linking_to=authentication.get_signed_in_user(request),
            at=clock.now(),
        )
        is_told = request.http.GET.get("skip_http_redirect") == "true"
        response = Response(payloads.departure(departure)) if is_told else Found(departure.url)
        flow_cookie.tie(response, flow_id=departure.flow_id)
        return response


class CallbackView(Endpoint):
    """What a provider sends a browser back to. Every refusal is a redirect (RFC 6749 §4.1.2.1).

    There is no CSRF token: the state is what ties a callback to a request of this service, and one provider posts.
    """

    parser_classes = (FormParser,)
    target: str | None = None

    @document(
        query=inputs.RETURNED,
        form=inputs.CallbackForm,
        responses={
            302: ResponseDoc(
                "To the target: with tokens in the fragment, for a PKCE flow with `code` in the query, or with `error`,"
                " `error_code` and `error_description`.",
                headers=("Location",),
            ),
            303: ResponseDoc(
                "To the site, where the flow is not known: with what is wrong in the query.", headers=("Location",)
            ),
        },
        redirect_errors=(
            *identity_errors.EXTERNAL_IDENTITY,
            BodyTooLarge,
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
        """Take somebody back from a provider, and send them where the flow began.

        An error of the provider's is told as it is.
        """
        parameters = inputs.returned(request)
        at = clock.now()
        recognised = callback.recognise(state=parameters.get("state", ""), cookies=request.http.COOKIES, at=at)
        self.target = recognised.target
        return Found(callback.complete(recognised, parameters=parameters, caller=request.caller, at=at))

    post = get

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, MethodNotAllowed):
            return super().handle_exception(exc)
        told = _told(exc)
        self.request.META["authsvc.error_code"] = told.get("error_code", told["error"])
        if self.target is None:
            return SeeOther(redirects.with_query(conf.current().site.url, told))
        return Found(redirects.with_error(self.target, told, in_query=True))


def _told(error: Exception) -> Mapping[str, str]:
    if isinstance(error, OAuthError):
        return {"error": error.error, "error_description": error.description}
    known = exception_handler.to_api_error(error)
    return {"error": _oauth_error(known), "error_code": known.error_code, "error_description": known.message}


def _oauth_error(error: ApiError) -> str:
    if error.error_code in _TOLD_AS_REFUSAL:
        return "access_denied"
    return OAUTH_ERRORS.get(error.status, "server_error")
