"""The base of every endpoint: policies as class attributes, checked in a fixed order before the method body."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from authsvc.api import callers, captcha, client_ip, exception_handler, throttling
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.renderers import SeeOther
from authsvc.api.throttling import Bucket
from authsvc.caller import Caller
from authsvc.errors import ApiError, MethodNotAllowed
from authsvc.security import redirects

logger = logging.getLogger(__name__)


class ServiceRequest(Request):
    """DRF's request with the caller on it."""

    caller: Caller

    @property
    def http(self) -> HttpRequest:
        return self._request


class Endpoint(APIView):
    """A JSON endpoint.

    One parser and one renderer are fixed, so nothing is negotiated: views call `inputs.parse` and return an `Answer`.
    Order: method, request limit, captcha, authentication, permissions, method body.
    """

    http_method_names = ["get", "post", "put", "patch", "delete"]
    authentication_classes: Sequence[type[BaseAuthentication]] = ()
    permission_classes: Sequence[type[BasePermission]] = ()
    bucket: ClassVar[Bucket | None] = None
    """The bucket taken from before anything else; endpoints that check later call `self.throttle`."""
    captcha: ClassVar[bool] = False
    """Whether a captcha must be solved, where the service asks for any."""
    documented_errors: ClassVar[ErrorTypes] = ()
    """Declared: what every method may be refused with, besides what its policies say."""

    request: ServiceRequest

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        method = (request.method or "").lower()
        try:
            run = getattr(self, method, None) if method in self.http_method_names else None
            if run is None:
                raise MethodNotAllowed
            if self.bucket is not None:
                self.throttle(self.bucket, request)
            if self.captcha:
                captcha.check(request)
            self.request = ServiceRequest(request, authenticators=[each() for each in self.authentication_classes])
            self.request.caller = callers.caller_of(request)
            for permission in self.permission_classes:
                permission().has_permission(self.request, self)
            answer: HttpResponseBase = run(self.request, *args, **kwargs)
            return answer
        except Exception as error:  # noqa: BLE001  (the one exception handler; it logs and hides what it does not know)
            return self.refuse(error, request)

    def refuse(self, error: Exception, request: HttpRequest) -> HttpResponse:
        response = exception_handler.error_response(error, request)
        if isinstance(error, MethodNotAllowed):
            response["Allow"] = ", ".join(self.allowed_methods)
        return response

    @staticmethod
    def throttle(bucket: Bucket, request: HttpRequest) -> None:
        """Take one request from the caller's share. Raises RequestRateExceeded."""
        key = throttling.request_key(
            headers=request.headers,
            client_ip=callers.client_address(request),
            svc_forwarded_ip=client_ip.svc_forwarded_address(request.META.get("HTTP_SVC_FORWARDED_FOR")),
        )
        throttling.check(bucket, key=key)

    @staticmethod
    def redirect_target(request: ServiceRequest) -> str:
        """The first permitted one of header, query and Referer, else the site."""
        return redirects.resolve(
            header=request.META.get("HTTP_REDIRECT_TO"),
            query=request.http.GET.get("redirect_to"),
            referer=request.META.get("HTTP_REFERER"),
        )


OAUTH_ERRORS = {
    400: "invalid_request",
    401: "unauthorized_client",
    403: "access_denied",
    500: "server_error",
    503: "temporarily_unavailable",
}


class RedirectEndpoint(Endpoint):
    """An endpoint a browser is sent to: refusals after `begin_redirecting` go to the target (RFC 6749 §4.1.2.1)."""

    target: str | None = None
    error_in_query = False

    def begin_redirecting(self, target: str, *, error_in_query: bool) -> None:
        """From here on every refusal is told by redirect to `target`."""
        self.target = target
        self.error_in_query = error_in_query

    def refuse(self, error: Exception, request: HttpRequest) -> HttpResponse:
        if self.target is None:
            return super().refuse(error, request)
        known = exception_handler.to_api_error(error)
        request.META["authsvc.error_code"] = known.error_code
        return SeeOther(redirects.with_error(self.target, _told(known), in_query=self.error_in_query))


def _told(error: ApiError) -> Mapping[str, str]:
    told = {"error_code": error.error_code, "error_description": error.message}
    if error.status in OAUTH_ERRORS:
        told["error"] = OAUTH_ERRORS[error.status]
    return told
