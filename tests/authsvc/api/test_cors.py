"""CORS headers for browsers of other origins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from authsvc.api.middleware import CorsMiddleware

AuthConfig = Callable[..., object]

ASKED = "authorization,content-type,x-client-info,x-supabase-api-version"


def view(_: HttpRequest) -> HttpResponse:
    return HttpResponse(status=403, headers={"Vary": "Accept"})


def preflight(method: str = "POST", headers: str | None = ASKED, origin: str = "https://app.dev") -> HttpResponse:
    meta = {"Access-Control-Request-Method": method, "Origin": origin}
    if headers is not None:
        meta["Access-Control-Request-Headers"] = headers
    response = CorsMiddleware(view)(RequestFactory().options("/no/such/path", headers=meta))
    assert response.status_code == 204
    assert response["Vary"] == "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    assert response.content == b""
    assert "Access-Control-Max-Age" not in response
    return response


def test_a_preflight_succeeds_on_any_path() -> None:
    response = preflight()
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Access-Control-Allow-Methods"] == "POST"
    assert response["Access-Control-Allow-Headers"] == ASKED
    assert response["Access-Control-Allow-Credentials"] == "true"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_each_method_of_the_api_is_allowed(method: str) -> None:
    assert preflight(method)["Access-Control-Allow-Methods"] == method


@pytest.mark.parametrize("headers", [None, "", "X-JWT-AUD, Accept", "x-use-cookie,, X-Client-IP "])
def test_known_headers_are_allowed_in_any_case_and_order(headers: str | None) -> None:
    response = preflight(headers=headers)
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response.get("Access-Control-Allow-Headers") == (headers or None)


@pytest.mark.parametrize(
    ("method", "headers", "origin"),
    [
        ("POST", "x-evil", "https://app.dev"),
        ("POST", "accept,x-evil", "https://app.dev"),
        ("TRACE", "", "https://app.dev"),
        ("POST", ASKED, ""),
    ],
)
def test_a_rejected_preflight_has_no_cors_headers(method: str, headers: str, origin: str) -> None:
    response = preflight(method, headers, origin)
    assert not [name for name in response.headers if name.startswith("Access-Control")]


def test_configured_headers_are_allowed(auth_config: AuthConfig) -> None:
    assert "Access-Control-Allow-Origin" not in preflight(headers="x-foo")
    auth_config(api={"cors_allowed_headers": ("X-Foo",)})
    assert preflight(headers="x-foo,accept")["Access-Control-Allow-Headers"] == "x-foo,accept"


def test_responses_and_errors_have_cors_headers() -> None:
    response = CorsMiddleware(view)(RequestFactory().get("/user", headers={"Origin": "https://app.dev"}))
    assert response.status_code == 403
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Access-Control-Expose-Headers"] == "X-Total-Count, Link, X-Supabase-Api-Version"
    assert response["Access-Control-Allow-Credentials"] == "true"
    assert response["Vary"] == "Accept, Origin"


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_without_an_origin_only_vary_is_set(method: str) -> None:
    response = CorsMiddleware(view)(RequestFactory().generic(method, "/user"))
    assert response.status_code == 403
    assert response["Vary"] == "Accept, Origin"
    assert "Access-Control-Allow-Origin" not in response
