"""A browser guesses that an attacker's text in a response is a script or a page."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
import requests
from django.db import connection, transaction
from django.test import Client

from tests.conftest import ChangeConfig
from tests.factories import make_session
from tests.live.servers import LiveServer
from tests.ports import free_port

pytestmark = pytest.mark.django_db

PATHS = (
    "/health",
    "/settings",
    "/.well-known/jwks.json",
    "/openapi.json",
    "/docs",
    "/unknown",
    "/user",
    "/verify",
    "/authorize",
    "/inbox",
    "/inbox/",
    "/inbox/messages.json",
    "/inbox/style.css",
    "/inbox/00000000000000000001-00000000",
    "/operator",
    "/operator/",
    "/operator/login/",
    "/operator/unknown",
    "/operator/static/unknown",
    "/%00",
    "/user?x=%ff",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "PROPFIND"])
def test_every_response_forbids_sniffing(method: str, path: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    response = Client(headers={"Host": "localhost"}).generic(method, path)
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_preflight_response_forbids_sniffing() -> None:
    headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "GET"}
    response = Client().options("/user", headers=headers)
    assert (response.status_code, response.headers["X-Content-Type-Options"]) == (204, "nosniff")


def test_an_unexpected_error_forbids_sniffing() -> None:
    token = make_session().access_token
    client = Client(raise_request_exception=False)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE sessions RENAME TO moved")
        response = client.get("/user", headers={"Authorization": f"Bearer {token}"})
        transaction.set_rollback(True)
    assert (response.status_code, response.headers["X-Content-Type-Options"]) == (500, "nosniff")


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_both_servers_and_the_metrics_forbid_sniffing(serve: Callable[..., LiveServer], http_server: str) -> None:
    port = free_port()
    variables = {
        "AUTH_METRICS_ENABLED": "true",
        "AUTH_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }
    server = serve(http_server, **variables)
    urls = [f"{server.url}{path}" for path in ("/health", "/unknown", "/operator/login/", "/operator/", "/verify")]
    urls += [f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/unknown"]
    for url in urls:
        response = requests.get(url, timeout=30, allow_redirects=False)
        assert response.headers["X-Content-Type-Options"] == "nosniff", url
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET /<script> HTTP/9.9\r\n\r\n")
        received = connection.makefile("rb").read()
    # A server that cannot parse a request may close the connection, or respond without a body.
    _, _, body = received.partition(b"\r\n\r\n")
    assert not body or b"x-content-type-options: nosniff" in received.lower()
