"""The base classes and routes of the API's views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, ClassVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.urls.resolvers import RoutePattern
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authsvc import conf
from authsvc.api import captcha, exception_handler, parsing
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.renderers import NO_STORE, SeeOther
from authsvc.api.throttling import Bucket
from authsvc.caller import Caller, caller_of
from authsvc.errors import ApiError
from authsvc.security import redirects


class ServiceRequest(Request):
    """DRF's request with the caller and a size limit for the body."""

    caller: Caller

    def __init__(self, request: HttpRequest, **policies: Any) -> None:
        super().__init__(request, **policies)
        # Attributes cost less than the lookup of DRF's `__getattr__`, which raises and catches errors.
        self.method = request.method
        self.META = request.META

    @property
    def http(self) -> HttpRequest:
        """The request of Django."""
        return self._request

    @property
    def stream(self) -> BytesIO:
        """The body, at most 1 MiB; parsers read an empty and a chunked one too. Raises BodyTooLarge."""
        return BytesIO(parsing.read_body(self._request))


class Endpoint(APIView):
    """A view of the API. Every hook of DRF's `APIView` works; `initial` runs the policies in the order of this service.

    `settings.REST_FRAMEWORK` sets the defaults: one parser, one renderer, no negotiation, token buckets as throttle.
    """

    http_method_names = ["get", "post", "put", "patch", "delete"]
    throttle_scope: ClassVar[Bucket | None] = None
    """The rate limit of the view; a method whose limit depends on the request calls `throttling.check`."""
    captcha: ClassVar[bool] = False
    """True if the client must solve a captcha, if captchas are enabled."""
    impersonated_methods: ClassVar[frozenset[str]] = frozenset()
    """Lower-case methods that an operator who impersonates the signed-in user may call."""
    client_methods: ClassVar[frozenset[str]] = frozenset()
    """Lower-case methods that an OAuth client may call with an access token of the user."""
    is_described: ClassVar[bool] = True
    """False for a view that the API description leaves out."""
    documented_errors: ClassVar[ErrorTypes] = ()
    """Errors of every method, for the API description; those of the policies are added to them."""

    request: ServiceRequest

    @property
    def default_response_headers(self) -> dict[str, str]:
        """None; `Allow` belongs to 405 responses, where the exception handler sets it."""
        return {}

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> ServiceRequest:
        return ServiceRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Run the policies: method, throttles, captcha, caller, authentication, permissions.

        DRF throttles last; here the limits come first, so that they protect authentication as well.
        """
        assert isinstance(request, ServiceRequest)  # noqa: S101  (made by initialize_request)
        method = (request.method or "").lower()
        if method not in self.http_method_names or not hasattr(self, method):
            self.http_method_not_allowed(request, *args, **kwargs)
        self.format_kwarg = self.get_format_suffix(**kwargs)
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        request.version, request.versioning_scheme = self.determine_version(request, *args, **kwargs)
        self.check_throttles(request)
        if self.captcha:
            self.check_captcha(request)
        request.caller = caller_of(request.http)
        self.perform_authentication(request)
        self.check_permissions(request)

    @staticmethod
    def check_captcha(request: Request) -> None:
        """Require a solved captcha, if captchas are enabled. Raises the errors of `captcha.check`."""
        if conf.current().captcha.enabled:
            captcha.check(request)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", NO_STORE)
        if isinstance(response, Response):
            response.add_post_render_callback(_break_reference_cycles)
        return response

    @staticmethod
    def redirect_target(request: ServiceRequest, *, requested: str = "") -> str:
        """The first permitted target of `requested`, header, query parameter and Referer, else the site URL.

        Sets `authsvc.redirect_target` of the request for the access log.
        """
        if requested and redirects.is_permitted(requested):
            target = redirects.resolve(header=requested, query=None, referer=None)
        else:
            target = redirects.resolve(
                header=request.META.get("HTTP_REDIRECT_TO"),
                query=request.query_params.get("redirect_to"),
                referer=request.META.get("HTTP_REFERER"),
            )
        request.META["authsvc.redirect_target"] = target
        return target


class _SlashOptionalPattern(RoutePattern):
    def match(self, path: str) -> Any:
        return super().match(path.removesuffix("/"))


def slash_optional(route: str, view: Callable[..., HttpResponseBase], *, name: str | None = None) -> URLPattern:
    """The route with and without a trailing slash, for a URL list; neither redirects to the other.

    One pattern instead of two, because Django tries the patterns one after the other.
    """
    return URLPattern(_SlashOptionalPattern(route, name=name, is_endpoint=True), view, name=name)


def _break_reference_cycles(response: Response) -> None:
    """Empty the contexts in which view, request and response refer to each other.

    The three are then freed at once, without a run of the garbage collector.
    """
    context: dict[str, Any] = vars(response)["renderer_context"]
    context["request"].parser_context.clear()
    context.clear()


OAUTH_ERRORS = {
    400: "invalid_request",
    401: "unauthorized_client",
    403: "access_denied",
    500: "server_error",
    503: "temporarily_unavailable",
}
"""HTTP status → `error` of RFC 6749 §4.1.2.1."""


class RedirectEndpoint(Endpoint):
    """An endpoint for browsers: errors after `begin_redirecting` are passed to the target (RFC 6749 §4.1.2.1)."""

    target: str | None = None
    error_in_query = False

    def begin_redirecting(self, target: str, *, error_in_query: bool) -> None:
        """Report every later error by a redirect to `target`, in the fragment and optionally in the query."""
        self.target = target
        self.error_in_query = error_in_query

    def handle_exception(self, exc: Exception) -> Any:
        if self.target is None:
            return super().handle_exception(exc)
        error = exception_handler.to_api_error(exc)
        self.request.META["authsvc.error_code"] = error.error_code
        return SeeOther(redirects.with_error(self.target, _error_parameters(error), in_query=self.error_in_query))


def _error_parameters(error: ApiError) -> Mapping[str, str]:
    parameters = {"error_code": error.error_code, "error_description": error.message}
    if error.status in OAUTH_ERRORS:
        parameters["error"] = OAUTH_ERRORS[error.status]
    return parameters
