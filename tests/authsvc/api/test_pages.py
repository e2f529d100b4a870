"""Browsers get HTML at `/` and at unknown addresses; clients of the API get JSON."""

from __future__ import annotations

import base64
import hashlib
import html
import re

import pytest
from django.test import Client

from tests.conftest import ChangeConfig

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
NOT_FOUND = b'{"code":404,"error_code":"unknown","msg":"Not Found"}'
DEVELOPMENT = {"mailer": {"dev_inbox_enabled": True}}


@pytest.mark.parametrize("path", ["/", "/nowhere", "/inbox/", "/inbox/unknown"])
@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/json",
        "application/json, text/plain, */*",
        "text/html, application/json",
        "text/html;q=0.5, application/json;q=0.9",
        "text/html;q=0, */*;q=0.1",
        "text/*;q=0.5, */*",
        "text/html," + "a/b," * 300,
        "image/png",
        ";;q=, /",
        "",
    ],
)
def test_clients_of_the_api_get_json(path: str, accept: str | None) -> None:
    response = Client(headers={} if accept is None else {"Accept": accept}).get(path)
    assert (response.status_code, response.content) == (404, NOT_FOUND)
    assert response.headers["Vary"] == "Origin"
    assert response.headers["X-Sb-Error-Code"] == "unknown"


@pytest.mark.parametrize("accept", [BROWSER, "text/html", "text/html, application/json;q=0.9", "text/*, */*;q=0.1"])
@pytest.mark.parametrize("path", ["/nowhere", "/inbox/unknown"])
def test_browsers_get_a_page_for_an_unknown_address(path: str, accept: str) -> None:
    response = Client(headers={"Accept": accept}).get(path)
    assert (response.status_code, response.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Page not found" in response.text
    assert Client(headers={"Accept": accept}).head(path).status_code == 404


@pytest.mark.parametrize(("method", "path"), [("POST", "/"), ("POST", "/nowhere"), ("DELETE", "/")])
def test_other_methods_get_json(method: str, path: str) -> None:
    response = Client(headers={"Accept": BROWSER}).generic(method, path)
    assert (response.status_code, response.content) == (404, NOT_FOUND)


def test_endpoints_answer_browsers_in_json() -> None:
    response = Client(headers={"Accept": BROWSER}).get("/user")
    assert (response.status_code, response.headers["Content-Type"]) == (401, "application/json")


def test_the_start_page_of_production_reveals_nothing(auth_config: ChangeConfig) -> None:
    auth_config(site={"url": "https://app.example.com/?a=1&b=<script>"})
    response = Client(headers={"Accept": BROWSER}).get("/")
    assert response.status_code == 200
    assert 'href="https://app.example.com/?a=1&amp;b=&lt;script&gt;"' in response.text
    for private in ("inbox", "operator", "authsvc", "curl"):
        assert private not in response.text


def test_the_start_page_of_development_links_to_all_pages(auth_config: ChangeConfig) -> None:
    auth_config(**DEVELOPMENT)
    text = Client(headers={"Accept": BROWSER}).get("/").text
    assert {"/inbox/", "/operator/", "/docs", "/openapi.json"} <= set(re.findall(r'href="([^"]+)"', text))
    auth_config(console={"enabled": False}, **DEVELOPMENT)
    assert "/operator/" not in Client(headers={"Accept": BROWSER}).get("/").text
    assert "/account/" not in text
    auth_config(pages={"enabled": True}, **DEVELOPMENT)
    assert 'href="/account/"' in Client(headers={"Accept": BROWSER}).get("/").text


def test_the_commands_use_the_public_address(auth_config: ChangeConfig) -> None:
    auth_config(api={"external_url": "http://localhost:18081/it's<b>"}, **DEVELOPMENT)
    text = Client(headers={"Accept": BROWSER}).get("/").text
    commands = html.unescape("\n".join(re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)))
    assert "<b>" not in text
    assert commands.count("curl -s 'http://localhost:18081/it%27s<b>/") == 4
    auth_config(api={"external_url": "http://localhost"}, mailer={"dev_inbox_enabled": True, "autoconfirm": True})
    assert "messages.json" not in Client(headers={"Accept": BROWSER}).get("/").text


@pytest.mark.parametrize("path", ["/", "/nowhere"])
def test_a_page_permits_its_style_sheet_only(path: str) -> None:
    response = Client(headers={"Accept": BROWSER, "Origin": "https://app.example.com"}).get(path)
    (style,) = re.findall(r"<style>(.*?)</style>", response.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "script" not in policy
    assert "Access-Control-Allow-Origin" not in response.headers
    assert response.headers["Vary"] == "Accept, Origin"
    assert response.headers["Cache-Control"] == "no-store"
