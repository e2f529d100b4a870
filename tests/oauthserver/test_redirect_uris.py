"""Redirect URIs: which ones a client can register, and which ones a request may name."""

from __future__ import annotations

import pytest

from oauthserver.clients import redirect_uris


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "redirect URI cannot be empty"),
        ("not-a-uri", "must have scheme and host"),
        ("https:///cb", "must have scheme and host"),
        ("com.example.app:/cb", "must have scheme and host"),
        ("http://example.com/cb", "HTTP scheme only allowed for localhost"),
        ("http://192.168.1.1/cb", "HTTP scheme only allowed for localhost"),
        ("JAVASCRIPT://x/", "scheme 'javascript' is not allowed for security reasons"),
        ("javascript:alert(1)", "scheme 'javascript' is not allowed for security reasons"),
        ("https://a/cb#f", "fragment not allowed in redirect URI"),
        ("https://a/cb#", "fragment not allowed in redirect URI"),
        ("https://user@a/cb", "userinfo not allowed in redirect URI"),
        ("https://a/x,y", "comma not allowed in redirect URI"),
        ("https://a/" + "x" * 2048, "redirect URI too long"),
        ("https://[::1/cb", "invalid URL format"),
        ("https://a:port/cb", "invalid URL format"),
        ("https://a\\@b/cb", "invalid URL format"),
        ("https://a/c\tb", "invalid URL format"),
    ],
)
def test_refused_redirect_uris(uri: str, reason: str) -> None:
    assert redirect_uris.find_refusal(uri) == reason


@pytest.mark.parametrize(
    "uri", ["http://[::1]:8080/cb", "http://localhost/cb", "myapp://callback", "https://a.example/cb?x=1", "HTTPS://a/"]
)
def test_permitted_redirect_uris(uri: str) -> None:
    assert redirect_uris.find_refusal(uri) == ""


@pytest.mark.parametrize(
    ("registered", "requested", "matches"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:53124/cb", True),
        ("http://127.0.0.1:8400/cb", "http://127.0.0.1:53124/cb", True),
        ("http://[::1]/cb", "http://[::1]:53124/cb", True),
        ("http://localhost:1/cb?x=1", "http://localhost:2/cb?x=1", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:53124/other", False),
        ("http://127.0.0.1/cb", "http://localhost:53124/cb", False),
        ("http://localhost/cb", "http://localhost:1@evil.example/cb", False),
        ("http://localhost/cb", "http://localhost.evil.example/cb", False),
        ("http://localhost/cb", "https://localhost:1/cb", False),
        ("https://a.example/cb", "https://a.example:444/cb", False),
    ],
)
def test_loopback_redirect_uris_match_any_port(registered: str, requested: str, matches: bool) -> None:
    assert redirect_uris.is_registered(requested, [registered]) is matches
