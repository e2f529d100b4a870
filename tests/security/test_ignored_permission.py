"""Attack: a request passes although a permission or throttle class of DRF refuses it by returning False."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, path
from pytest_django import Settings
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS, AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from accounts.models import User
from authsvc.api.views import Endpoint, ServiceRequest
from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import ChangeConfig
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]

METHODS = ("get", "post", "put", "patch", "delete")
SAMPLES = {"uuid": "11111111-2222-4333-8444-555555555555"}

calls: list[str] = []


class Refuse(BasePermission):
    response: Any = False

    def has_permission(self, request: Request, view: APIView) -> bool:
        calls.append("permission")
        return self.response  # type: ignore[no-any-return]  # also values that are only false


class RefuseByNone(Refuse):
    response = None


class RefuseByRaising(Refuse):
    def has_permission(self, request: Request, view: APIView) -> bool:
        raise PermissionDenied


class ReadOnly(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS


class OwnObjectOnly(BasePermission):
    def has_object_permission(self, request: Request, view: APIView, obj: object) -> bool:
        return isinstance(obj, User) and obj.email == "own@example.com"


class Closed(BaseThrottle):
    def allow_request(self, request: Request, view: APIView) -> bool:
        return False


class OpenView(Endpoint):
    """Answers every method, also those that the base class does not list."""

    http_method_names = [*METHODS, "head", "options", "trace"]

    def get(self, request: ServiceRequest) -> HttpResponse:
        calls.append("method")
        return Response({})

    post = put = patch = delete = trace = get

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        calls.append("method")
        return Response({})


class AsyncView(Endpoint):
    permission_classes = (Refuse,)

    async def get(self, request: ServiceRequest) -> HttpResponse:
        calls.append("method")
        return Response({})


class ObjectView(Endpoint, GenericAPIView):  # type: ignore[type-arg]
    """A generic view of DRF, which checks the permission of the object that it has found."""

    queryset = User.objects.all()
    lookup_field = "email"
    permission_classes = (OwnObjectOnly,)

    def get(self, request: ServiceRequest, email: str) -> HttpResponse:
        found = self.get_object()
        calls.append("method")
        return Response({"email": found.email})


def view_with(**policies: Any) -> Any:
    view: Any = type("View", (OpenView,), policies)
    return view.as_view()


urlpatterns = [
    path("false", view_with(permission_classes=(Refuse,))),
    path("none", view_with(permission_classes=(RefuseByNone,))),
    path("raised", view_with(permission_classes=(RefuseByRaising,))),
    path("second", view_with(permission_classes=(AllowAny, Refuse))),
    path("both", view_with(permission_classes=(AllowAny & Refuse,))),
    path("negated", view_with(permission_classes=(~AllowAny,))),
    path("throttled", view_with(throttle_classes=(Closed,))),
    path("read-only", view_with(permission_classes=(ReadOnly,))),
    path("async", AsyncView.as_view()),
    path("object/<str:email>", ObjectView.as_view()),
    path("open", view_with(permission_classes=(AllowAny,))),
]


@pytest.fixture
def doors(settings: Settings) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    calls.clear()
    yield
    calls.clear()


def send(method: str, route: str, **headers: str) -> Any:
    return Client(raise_request_exception=False).generic(method.upper(), route, headers=headers)


@pytest.mark.usefixtures("doors")
@pytest.mark.parametrize("method", [*METHODS, "head", "options", "trace"])
@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("/false", 403), ("/none", 403), ("/raised", 403), ("/second", 403), ("/both", 403), ("/negated", 403),
        ("/throttled", 429),
    ],
)  # fmt: skip
def test_refused_request_does_not_reach_the_method(route: str, status: int, method: str) -> None:
    assert send(method, route).status_code == status
    assert "method" not in calls
    assert send(method, "/open").status_code == 200
    assert calls[-1] == "method"


@pytest.mark.usefixtures("doors")
@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"])
def test_header_does_not_replace_the_method_that_was_permitted(header: str) -> None:
    assert send("post", "/read-only", **{header: "GET"}).status_code == 403
    assert "method" not in calls
    assert send("get", "/read-only", **{header: "DELETE"}).status_code == 200


@pytest.mark.usefixtures("doors")
def test_refused_request_does_not_reach_an_async_method() -> None:
    assert send("get", "/async").status_code >= 400
    assert "method" not in calls


@pytest.mark.usefixtures("doors")
def test_permission_of_an_object_is_checked() -> None:
    make_user(email="own@example.com"), make_user(email="other@example.com")
    assert send("get", "/object/other@example.com").status_code == 403
    assert send("get", "/object/unknown@example.com").status_code == NotFound.status_code
    assert "method" not in calls
    assert send("get", "/object/own@example.com").json() == {"email": "own@example.com"}


def endpoints(
    patterns: list[URLPattern | URLResolver], before: str = ""
) -> Iterator[tuple[str, type[Endpoint], list[str]]]:
    """The routes of the service with the classes and methods of their views."""
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from endpoints(pattern.url_patterns, route)
            continue
        view = getattr(pattern.callback, "cls", None)
        if isinstance(view, type) and issubclass(view, Endpoint):
            path = "/" + route
            for parameter, converter in pattern.pattern.converters.items():
                name = type(converter).__name__.removesuffix("Converter").lower().replace("string", "str")
                for written in (f"<{name}:{parameter}>", f"<{parameter}>"):
                    path = path.replace(written, SAMPLES["uuid"])
            methods = pattern.callback.view_initkwargs.get("http_method_names", METHODS)  # type: ignore[attr-defined]  # DRF sets it
            yield path, view, [method for method in METHODS if method in methods and hasattr(view, method)]


ENDPOINTS = [
    (method, path, view) for path, view, methods in endpoints(get_resolver().url_patterns) for method in methods
]


@pytest.mark.parametrize(("method", "path", "view"), ENDPOINTS, ids=lambda value: getattr(value, "__name__", value))
def test_every_endpoint_of_the_service_obeys_its_permissions(
    method: str,
    path: str,
    view: type[Endpoint],
    auth_config: ChangeConfig,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
) -> None:
    auth_config(passkeys={"enabled": True}, webauthn=PARTY, oauth_server={"enabled": True})
    monkeypatch.setattr(view, "authentication_classes", ())
    monkeypatch.setattr(view, "permission_classes", (Refuse,))
    calls.clear()
    with django_assert_num_queries(0):
        response = send(method, path)
    assert calls == ["permission"]
    if path.startswith("/callback"):  # every error is a redirect
        assert (response.status_code, "error=access_denied" in response["Location"]) == (303, True)
    else:
        assert response.status_code == 403


def test_endpoints_are_found() -> None:
    assert len(ENDPOINTS) > 60
