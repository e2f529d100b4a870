"""Classes of DRF, and classes written for DRF, work on any endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from pytest_django import Settings
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import FormParser, JSONParser
from rest_framework.permissions import AllowAny, BasePermission, IsAuthenticated
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import AnonRateThrottle, ScopedRateThrottle, UserRateThrottle
from rest_framework.versioning import AcceptHeaderVersioning
from rest_framework.views import APIView

from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tests.conftest import ChangeConfig
from tests.factories import make_session
from tokens.api.authentication import AdminAuthentication, BearerAuthentication
from tokens.api.permissions import IsSignedIn

pytestmark = pytest.mark.django_db

calls: list[str] = []


class Device:
    """The user of DeviceAuthentication."""

    is_authenticated = True
    pk = "device-1"


class DeviceAuthentication(BaseAuthentication):
    """A third-party authentication class: accepts the header `X-Device`."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        calls.append("authentication")
        name = request.headers.get("X-Device")
        if name is None:
            return None
        if name != "known":
            raise exceptions.AuthenticationFailed("Unknown device.")
        return Device(), None


class DeviceWithHeaderAuthentication(DeviceAuthentication):
    def authenticate_header(self, request: Request) -> str:
        return "Device"


class Refuse(BasePermission):
    message = "Closed today."
    code = "closed"

    def has_permission(self, request: Request, view: APIView) -> bool:
        calls.append("permission")
        return False


class OwnsObject(BasePermission):
    def has_object_permission(self, request: Request, view: APIView, obj: object) -> bool:
        return obj == "own"


class OncePerMinute(AnonRateThrottle):
    rate = "1/min"


class UserOncePerMinute(UserRateThrottle):
    rate = "1/min"


class ScopedOncePerMinute(ScopedRateThrottle):
    THROTTLE_RATES = {"small": "1/min"}


class TextRenderer(BaseRenderer):
    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        return str(data)


class EndpointForTests(Endpoint):
    """The base class of the endpoints in this module."""

    def get(self, request: ServiceRequest) -> HttpResponse:
        calls.append("method")
        return Response({"user": getattr(request.user, "pk", None)})

    def post(self, request: ServiceRequest) -> HttpResponse:
        return Response({"data": request.data})


def endpoint(**policies: Any) -> Any:
    view: Any = type("View", (EndpointForTests,), policies)
    return view.as_view()


class ObjectView(EndpointForTests):
    authentication_classes = (DeviceAuthentication,)
    permission_classes = (OwnsObject,)

    def get(self, request: ServiceRequest, name: str = "") -> HttpResponse:
        self.check_object_permissions(request, name)
        return Response({"name": name})


class FailingView(EndpointForTests):
    def get(self, request: ServiceRequest) -> HttpResponse:
        raise exceptions.UnsupportedMediaType("text/csv")


class VersionedView(EndpointForTests):
    versioning_class = AcceptHeaderVersioning
    content_negotiation_class = DefaultContentNegotiation

    def get(self, request: ServiceRequest) -> HttpResponse:
        return Response({"version": request.version})


def teapot(error: Exception, context: dict[str, Any]) -> Response:
    """Another EXCEPTION_HANDLER."""
    return Response({"handled": type(error).__name__}, status=418)


class OwnHandlerView(FailingView):
    def get_exception_handler(self) -> Any:
        return teapot


urlpatterns = [
    path("device", endpoint(authentication_classes=(DeviceAuthentication,), permission_classes=(IsAuthenticated,))),
    path(
        "challenge",
        endpoint(authentication_classes=(DeviceWithHeaderAuthentication,), permission_classes=(IsAuthenticated,)),
    ),
    path("eager", endpoint(authentication_classes=(DeviceAuthentication,), permission_classes=(AllowAny,))),
    path("no-permission-at-all", endpoint(authentication_classes=(DeviceAuthentication,))),
    path("user", endpoint(authentication_classes=(BearerAuthentication,), permission_classes=(IsAuthenticated,))),
    path("admin", endpoint(authentication_classes=(AdminAuthentication,), permission_classes=(IsAuthenticated,))),
    path(
        "either",
        endpoint(
            authentication_classes=(BearerAuthentication, DeviceAuthentication), permission_classes=(IsAuthenticated,)
        ),
    ),
    path("combined", endpoint(permission_classes=(Refuse | AllowAny,))),
    path("closed", endpoint(permission_classes=(Refuse,))),
    path("object/<str:name>", ObjectView.as_view()),
    path("throttled", endpoint(throttle_classes=(OncePerMinute,))),
    path("scoped", endpoint(throttle_classes=(ScopedOncePerMinute,), throttle_scope="small")),
    path(
        "user-throttled",
        endpoint(
            authentication_classes=(BearerAuthentication,),
            permission_classes=(IsSignedIn,),
            throttle_classes=(UserOncePerMinute,),
        ),
    ),
    path("bucket", endpoint(throttle_scope=Bucket.OTP, permission_classes=(Refuse,))),
    path("drf-json", endpoint(parser_classes=(JSONParser,))),
    path("form", endpoint(parser_classes=(FormParser,))),
    path("json", endpoint()),
    path(
        "negotiated",
        endpoint(renderer_classes=(JSONRenderer, TextRenderer), content_negotiation_class=DefaultContentNegotiation),
    ),
    path("failing", FailingView.as_view()),
    path("own-handler", OwnHandlerView.as_view()),
    path("versioned", VersionedView.as_view()),
]


@pytest.fixture(autouse=True)
def _routes(settings: Settings) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    calls.clear()
    cache.clear()
    yield
    cache.clear()


def get(route: str, **headers: str) -> Any:
    return Client().get(route, headers=headers)


def post(route: str, body: bytes, content_type: str = "application/json") -> Any:
    return Client().post(route, body, content_type=content_type)


def error_of(response: Any) -> tuple[int, str, str]:
    body = response.json()
    assert body["code"] == response.status_code
    assert response["X-Sb-Error-Code"] == body["error_code"]
    return response.status_code, body["error_code"], body["msg"]


# Authentication and permissions


def test_is_authenticated_accepts_an_authenticated_client() -> None:
    assert get("/device", X_Device="known").json() == {"user": "device-1"}


def test_is_authenticated_answers_403_without_a_challenge() -> None:
    response = get("/device")
    assert error_of(response) == (403, "not_authenticated", "Authentication credentials were not provided.")
    assert "method" not in calls


def test_is_authenticated_answers_401_with_the_challenge_of_the_authentication() -> None:
    response = get("/challenge")
    assert error_of(response)[:2] == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Device"


def test_a_failed_authentication_is_answered_with_its_own_text() -> None:
    assert error_of(get("/challenge", X_Device="stolen")) == (401, "authentication_failed", "Unknown device.")


@pytest.mark.parametrize("route", ["/eager", "/no-permission-at-all"])
def test_authentication_runs_before_the_method_whatever_the_permissions(route: str) -> None:
    assert get(route, X_Device="known").json() == {"user": "device-1"}
    assert calls == ["authentication", "method"]
    calls.clear()
    assert get(route, X_Device="stolen").status_code == 403
    assert calls == ["authentication"]


def test_is_authenticated_accepts_the_access_token_of_a_user() -> None:
    signed_in = make_session()
    response = get("/user", Authorization=f"Bearer {signed_in.access_token}")
    assert response.json() == {"user": str(signed_in.user.id)}
    response = get("/user")
    assert error_of(response)[:2] == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Bearer"


def test_is_authenticated_rejects_a_user_on_an_administration_endpoint() -> None:
    response = get("/admin", Authorization=f"Bearer {make_session().access_token}")
    assert error_of(response)[:2] == (403, "not_admin")


def test_the_second_authentication_class_is_tried_without_credentials_for_the_first() -> None:
    signed_in = make_session()
    assert get("/either", X_Device="known").json() == {"user": "device-1"}
    response = get("/either", Authorization=f"Bearer {signed_in.access_token}")
    assert response.json() == {"user": str(signed_in.user.id)}
    assert get("/either").status_code == 401


def test_a_permission_that_returns_false_answers_403() -> None:
    assert error_of(get("/closed")) == (403, "closed", "Closed today.")
    assert calls == ["permission"]


def test_permissions_can_be_combined() -> None:
    assert get("/combined").status_code == 200


def test_object_permissions_are_checked() -> None:
    assert get("/object/own", X_Device="known").json() == {"name": "own"}
    assert error_of(get("/object/other", X_Device="known"))[:2] == (403, "permission_denied")


# Throttles


def test_an_anonymous_client_is_throttled() -> None:
    assert get("/throttled").status_code == 200
    response = get("/throttled")
    assert error_of(response) == (429, "over_request_rate_limit", "Request rate limit reached")
    assert 0 < int(response["Retry-After"]) <= 60


def test_a_scoped_throttle_reads_the_scope_of_the_view() -> None:
    assert [get("/scoped").status_code for _ in range(2)] == [200, 429]


def test_a_user_is_throttled_by_their_id() -> None:
    first, second = make_session().access_token, make_session().access_token
    statuses = [get("/user-throttled", Authorization=f"Bearer {token}").status_code for token in (first, second, first)]
    assert statuses == [200, 200, 429]


def test_rate_limits_precede_permissions(auth_config: ChangeConfig) -> None:
    auth_config(limits={"otp": 0.001})
    assert [get("/bucket").status_code for _ in range(31)] == [403] * 30 + [429]


# Parsers, renderers, negotiation, versioning, exception handler


@pytest.mark.parametrize("route", ["/json", "/drf-json"])
def test_json_is_parsed(route: str) -> None:
    assert post(route, b'{"a":[1]}').json() == {"data": {"a": [1]}}


def test_the_json_parser_of_drf_answers_400() -> None:
    assert error_of(post("/drf-json", b"{"))[:2] == (400, "validation_failed")
    assert error_of(post("/json", b"{"))[:2] == (400, "bad_json")


def test_a_form_is_parsed() -> None:
    assert post("/form", b"a=1&b=2", "application/x-www-form-urlencoded").json() == {"data": {"a": ["1"], "b": ["2"]}}


@pytest.mark.parametrize("route", ["/json", "/drf-json", "/form"])
def test_every_parser_reads_at_most_one_mebibyte(route: str) -> None:
    response = post(route, b'{"a":"' + b"x" * 1_048_576 + b'"}')
    assert error_of(response)[:2] == (413, "request_entity_too_large")


@pytest.mark.parametrize(
    ("accept", "content_type", "body"),
    [("application/json", "application/json", b'{"user":null}'), ("text/plain", "text/plain", b"{'user': None}")],
)
def test_a_renderer_is_negotiated_if_the_view_enables_it(accept: str, content_type: str, body: bytes) -> None:
    response = get("/negotiated", Accept=accept)
    assert (response["Content-Type"].partition(";")[0], response.content) == (content_type, body)


def test_the_accept_header_is_ignored_elsewhere() -> None:
    response = get("/json", Accept="text/html")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


def test_a_versioning_class_is_used() -> None:
    assert get("/versioned", Accept="application/json; version=2").json() == {"version": "2"}


def test_an_exception_of_drf_keeps_its_status() -> None:
    code, name, text = error_of(get("/failing"))
    assert (code, name) == (415, "unsupported_media_type")
    assert "text/csv" in text


def test_another_exception_handler_is_used() -> None:
    response = get("/own-handler")
    assert (response.status_code, response.json()) == (418, {"handled": "UnsupportedMediaType"})


def test_an_unsupported_method_lists_the_supported_ones() -> None:
    response = Client().delete("/json")
    assert error_of(response) == (405, "unknown", "Method Not Allowed")
    assert response["Allow"] == "GET, POST"
    assert "Allow" not in get("/json").headers


def test_responses_are_not_cached_by_default() -> None:
    assert get("/json")["Cache-Control"] == "no-store"
