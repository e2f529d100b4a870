"""/oauth/authorize, /oauth/authorizations/{authorization_id} and its consent."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, TypedDict

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import Throttled
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.pages import browser_session
from accounts.pages.page import HostedPage
from authsvc.api import exception_handler, pages, parsing, throttling
from authsvc.api.openapi.document import Parameter, ResponseDoc, document
from authsvc.api.parsing import Body
from authsvc.api.renderers import Found
from authsvc.api.throttling import Bucket
from authsvc.api.views import ServiceRequest
from authsvc.errors import ApiError, BadJson, RequestRateExceeded, UnexpectedFailure, ValidationFailed
from oauthserver import errors, resources
from oauthserver.authorization import authorization_requests, authorizations, pushed_requests, schemas
from oauthserver.authorization.authorization_requests import Parameters, RequestRefused
from oauthserver.authorization.authorizations import AuthorizationDetails
from oauthserver.clients import authentication as client_authentication
from oauthserver.clients import client_requests
from oauthserver.clients.client_endpoint import AuthenticatedClientEndpoint
from oauthserver.endpoints import OAuthEndpoint
from oauthserver.models import RegistrationType
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn
from tokens.sessions import browser_sessions
from tokens.sessions.users import SignedInUser

_SERVER_ERRORS = 500


class AuthorizationForm(Body, frozen=True):
    """The parameters of an authorization request, as in the query of GET."""

    needs: ClassVar[tuple[str, ...]] = ("client_id", "redirect_uri", "code_challenge", "code_challenge_method")
    example: ClassVar[tuple[str, ...]] = (*needs, "scope", "state")
    client_id: str | None = None
    redirect_uri: str | None = None
    response_type: str | None = None
    scope: str | None = None
    state: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None
    nonce: str | None = None
    resource: str | None = None
    prompt: str | None = None
    max_age: str | None = None
    login_hint: str | None = None
    id_token_hint: str | None = None
    acr_values: str | None = None
    request_uri: str | None = None
    """A pushed request (RFC 9126); with it, only `client_id` is needed and read."""


class PushedRequestForm(AuthorizationForm, frozen=True):
    """The parameters of an authorization request, with the authentication of the client."""

    needs: ClassVar[tuple[str, ...]] = ("redirect_uri", "code_challenge", "code_challenge_method")
    client_secret: str | None = None
    client_assertion_type: str | None = None
    client_assertion: str | None = None


class PushedRequest(TypedDict):
    """The reference to a pushed authorization request (RFC 9126 §2.2)."""

    request_uri: str
    """Valid once, at `/oauth/authorize`, for the same client."""
    expires_in: int
    """Seconds."""


class Decision(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("action",)
    action: str | None = None
    """`approve` or `deny`."""


class HasPermittedOrigin(BasePermission):
    """Rejects requests of pages on other origins, which could show the request in a misleading way."""

    documented_errors = (errors.OriginNotAllowed,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not authorization_requests.is_permitted_origin(request.META.get("HTTP_ORIGIN", "")):
            raise errors.OriginNotAllowed
        return True


class _RefusalPage(HostedPage):
    """Shows an error to a user whose browser an application has sent here."""

    error: ClassVar[ApiError] = UnexpectedFailure()
    accepts_other_sites = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.get(request)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not isinstance(self.error, ValidationFailed):
            raise self.error
        page = self.show(
            template="pages/error.html",
            status=self.error.status,
            title=_("This did not work"),
            text=_("The application has sent an invalid request."),
            reason=self.error.message,  # for the developer of the application
        )
        return exception_handler.with_error(request, page, self.error)


class OAuthAuthorizeView(OAuthEndpoint):
    throttle_scope = Bucket.OAUTH_AUTHORIZE

    @document(
        query=(
            Parameter("client_id", "The id of the client.", required=True),
            Parameter("redirect_uri", "A registered redirect URI; on a loopback host with any port.", required=True),
            Parameter("response_type", "`code`, which is the default."),
            Parameter("scope", "Scopes, separated by spaces; `AUTH_OAUTH_SERVER_DEFAULT_SCOPE` without any."),
            Parameter("state", "Returned to the client."),
            Parameter("code_challenge", "The PKCE challenge (RFC 7636).", required=True),
            Parameter("code_challenge_method", "`S256` or `plain`.", required=True),
            Parameter("nonce", "Copied to the ID token."),
            Parameter(
                "resource",
                "The API for which tokens are requested (RFC 8707), an additional audience of them; may be repeated.",
            ),
            Parameter("prompt", "`none`, `login`, `consent`, `select_account` (OpenID Connect Core §3.1.2.1)."),
            Parameter("max_age", "The longest time since the sign-in, in seconds."),
            Parameter("login_hint", "The address with which the user is expected to sign in."),
            Parameter("id_token_hint", "An ID token of the only user who may approve the request."),
            Parameter("acr_values", "`aal2` requires a second factor."),
            Parameter("request_uri", "A pushed request (RFC 9126); with it, only `client_id` is needed and read."),
        ),
        responses={302: ResponseDoc("To the consent page, or to the client with an error.", headers=("Location",))},
        errors=(errors.UnknownClient, ValidationFailed),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Start the authorization of a client (OAuth 2.1 §4.1.1)."""
        return self._start(request, partial(_query_parameter, request.http))

    @document(
        form=AuthorizationForm,
        responses={302: ResponseDoc("To the consent page, or to the client with an error.", headers=("Location",))},
        errors=(errors.UnknownClient, ValidationFailed),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Do the same as GET, with the parameters in a form (OpenID Connect Core §3.1.2.1)."""
        return self._start(request, client_requests.parse_form(request.http).get)

    def handle_exception(self, exc: Exception) -> Any:
        """Errors that must not redirect: a page for browsers, if there are hosted pages, and JSON for programs."""
        request = self.request.http
        error = exception_handler.to_api_error(exc) if isinstance(exc, Throttled) else exc
        is_shown = isinstance(error, ApiError) and error.status < _SERVER_ERRORS
        is_browser = pages.prefers_html(request, methods=("GET", "POST"))
        if is_shown and is_browser and authorization_requests.has_hosted_consent_page():
            return _RefusalPage.as_view(error=error)(request)
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        # Without CORS headers (RFC 9700 §2.6): browsers come here by navigation, and no script needs the response.
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return super().finalize_response(request, response, *args, **kwargs)

    def _start(self, request: ServiceRequest, parameter: Parameters) -> HttpResponse:
        at, started = timezone.now(), None
        if pushed_requests.is_pushed(parameter):
            target, started = pushed_requests.take(parameter, at=at)
        else:
            target = authorization_requests.find_target(parameter)
        try:
            find_signed_in = partial(_find_signed_in, request.http)
            location = (
                authorization_requests.resume(started, at=at, find_signed_in=find_signed_in)
                if started
                else authorization_requests.start(target, parameter, at=at, find_signed_in=find_signed_in)
            )
        except RequestRefused as error:
            request.META["authsvc.error_code"] = error.error
            location = target.refused(error)
        return Found(location, headers={"Referrer-Policy": "no-referrer"})


def _query_parameter(request: HttpRequest, name: str) -> str:
    if name == "resource":
        return resources.join(request.GET.getlist(name))
    return parsing.query_parameter(request, name)


def _find_signed_in(request: HttpRequest) -> SignedInUser | None:
    """The user who is signed in to the hosted pages, after the second factor. At most two statements."""
    browser_session.load(request)
    current = browser_session.signed_in(request)
    return None if current is None or browser_sessions.needs_second_factor(current) else current


class PushedRequestView(AuthenticatedClientEndpoint):
    @document(
        form=PushedRequestForm,
        responses={201: PushedRequest},
        errors=(ValidationFailed, errors.PushedRequestRefused, RequestRateExceeded),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Push an authorization request, which `/oauth/authorize` then starts by its `request_uri`.

        The body may also be JSON.
        """
        at = timezone.now()
        client, parameters = client_authentication.authenticate(request.http, PushedRequestForm, at=at).require()
        # A confidential client pushes the requests of all its users from one address. Anyone can register one, so only
        # those that an administrator has registered have no limit.
        if client.is_public or client.registration_type == RegistrationType.DYNAMIC:
            throttling.check(Bucket.OAUTH_AUTHORIZE, request.http)
        request_uri = pushed_requests.push(parameters, client=client, at=at)
        content = {"request_uri": request_uri, "expires_in": int(pushed_requests.LIFETIME.total_seconds())}
        return Response(content, status=201)


class AuthorizationView(OAuthEndpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, HasPermittedOrigin)

    @document(
        responses={200: (schemas.Authorization, schemas.AuthorizationRedirect)},
        errors=(errors.AuthorizationNotFound, ValidationFailed),
    )
    def get(self, request: ServiceRequest, authorization_id: str) -> HttpResponse:
        """Return an authorization request, or the redirect to the client if no decision is needed."""
        signed_in = authentication.get_signed_in_user(request)
        shown = authorizations.show(authorization_id, signed_in=signed_in, at=timezone.now())
        if isinstance(shown, AuthorizationDetails):
            return Response(schemas.details_json(shown, user=signed_in.user))
        return Response({"redirect_url": shown})


class ConsentView(OAuthEndpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, HasPermittedOrigin)

    @document(
        body=Decision,
        responses={200: schemas.AuthorizationRedirect},
        errors=(
            errors.ConsentBodyInvalid,
            errors.AuthorizationNotFound,
            ValidationFailed,
            errors.ReauthenticationRequired,
            errors.SecondFactorRequired,
        ),
    )
    def post(self, request: ServiceRequest, authorization_id: str) -> HttpResponse:
        """Approve or deny an authorization request that the user has seen."""
        try:
            action = parsing.parse_body(request, Decision).action
        except BadJson:
            raise errors.ConsentBodyInvalid from None
        if action not in authorizations.DECISIONS:
            raise ValidationFailed("action must be 'approve' or 'deny'")
        redirect = authorizations.decide(
            authorization_id,
            approves=authorizations.DECISIONS[action],
            signed_in=authentication.get_signed_in_user(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({"redirect_url": redirect})
