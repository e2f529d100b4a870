"""Hostile headers, redirect targets and queries cause no unhandled exception and write nothing to the database."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import pytest

from tests.architecture.hostile_requests import BEARER, BODIES, EMAIL, assert_documented, post
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_user
from tests.observations import SECURITY_HEADERS, table_contents
from tokens.models import Session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_unhandled_exception", "passkeys")]


TARGETS = [
    "https://evil.example/",
    "//evil.example/",
    "\\\\evil.example/",
    "/\\evil.example",
    "http:evil.example",
    "http://localhost:3000@evil.example/",
    "http://localhost:3000\\@evil.example/",
    "http://localhost:3000.evil.example/",
    "http://evil.example#@localhost:3000/",
    "http://evil.example?@localhost:3000/",
    "http://localhost:3000/\r\nSet-Cookie: a=b",
    "http://localhost:3000/\r\n\r\n<script>",
    "http://localhost:3000/\u0000",
    "http://localhost:3000/\u2028\u00fc",
    "\u0001http://localhost:3000/",
    "javascript://localhost:3000/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "http://0x7f.1/",
    "http://[::1",
    "http://localhost:99999/",
    "http://user:password@localhost:3000/",
    "http://" + "x" * 9_000,
    "x" * 9_000,
    "%",
    "http://%00/",
    "http://localhost%2eevil.example/",
    "http://\uff4cocalhost:3000/",
]


@pytest.mark.parametrize("place", ["query", "redirect_to", "Referer"])
def test_hostile_redirect_targets_are_not_used(place: str) -> None:
    for number, target in enumerate(TARGETS):
        headers = {"X-Forwarded-For": f"198.51.100.{number}"}
        query = f"&redirect_to={quote(target)}" if place == "query" else ""
        if place != "query":
            # WSGI servers decode header bytes as Latin-1.
            headers[place] = target.encode().decode("latin-1")
        for token in ("x", "pkce_x"):
            response = Api().get(f"/verify?type=signup&token={token}{query}", headers=headers)
            assert response.status_code == 303, target
            location = response.headers["Location"]
            assert location.isascii()
            assert location.isprintable()
            assert " " not in location
            redirect = urlsplit(location)
            assert (redirect.scheme, redirect.hostname) in (("http", "localhost"), ("http", "127.0.0.1")), (
                target,
                location,
            )
            assert "@" not in redirect.netloc
            assert set(response.headers) == {"Location", "Cache-Control", "Vary", *SECURITY_HEADERS}


@pytest.mark.parametrize("target", TARGETS)
def test_emails_contain_no_hostile_redirect_target(mailbox: Mailbox, target: str) -> None:
    make_user(email=EMAIL)
    assert post(f"/recover?redirect_to={quote(target)}", {"email": EMAIL}).status_code == 200
    (mail,) = mailbox.emails
    assert urlsplit(mail.variables["RedirectTo"]).hostname in ("localhost", "127.0.0.1")
    assert mail.variables["ConfirmationURL"].startswith("http://127.0.0.1:8081/verify?token=")
    assert mail.variables["ConfirmationURL"].isprintable()


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        *((absurd, "127.0.0.1") for absurd in ("x" * 5_000, ",,,,", "999.1.1.1", "1.2.3.4:", "[2001:db8::1")),
        *((absurd, "127.0.0.1") for absurd in ("0x7f.1", "2130706433", "fe80::1%eth0", "'; DROP", "\u00b2.2.3.4")),
        *((absurd, "127.0.0.1") for absurd in ("1.2.3.4 5.6.7.8", "unknown", "for=1.2.3.4", "010.0.0.1", "1.2.3")),
        ("x, " * 3_000 + "198.51.100.7", "198.51.100.7"),
        ("198.51.100.7," * 3_000, "127.0.0.1"),
        ("198.51.100.7, 10.0.0.1", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
    ],
)
def test_invalid_forwarded_address_causes_no_server_error(forwarded: str, expected: str) -> None:
    make_user(email=EMAIL)
    body = {"email": EMAIL, "password": PASSWORD}
    response = post("/token?grant_type=password", body, headers={"X-Forwarded-For": forwarded})
    assert response.status_code == 200
    ip = Session.objects.get().ip
    assert ip is not None
    assert str(ip_address(ip)) == expected


@pytest.mark.parametrize("forwarded", ["x", "1.2.3.4:", "," * 5_000, "x" * 5_000, "\u00b2"])
def test_invalid_forwarded_host_causes_no_server_error(auth_config: ChangeConfig, forwarded: str) -> None:
    auth_config(api={"forwarded_for_enabled": True})
    make_user(email=EMAIL)
    body = {"email": EMAIL, "password": PASSWORD}
    headers = {"Svc-Forwarded-For": forwarded, "X-Forwarded-For": "198.51.100.7"}
    assert post("/token?grant_type=password", body, headers=headers).status_code == 200
    assert Session.objects.get().ip == "198.51.100.7"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("User-Agent", "x" * 8_000),
        ("User-Agent", "\u00ff\u00fe"),
        ("User-Agent", "eyJ" * 500),
        ("X-Forwarded-Host", "evil.example"),
        ("Host", "evil.example:99999@x"),
        ("X-Supabase-Api-Version", "x" * 8_000),
        ("Origin", "null\u00ff"),
        ("Content-Encoding", "gzip"),
        ("Expect", "200-ok"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Cookie", "sessionid=x; " * 500),
        ("Accept", "text/html;q=\u00ff"),
    ],
)
def test_unusual_headers_are_ignored(mailbox: Mailbox, name: str, value: str) -> None:
    response = post("/signup", {"email": EMAIL, "password": PASSWORD}, headers={name: value})
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert "Set-Cookie" not in response.headers
    assert mailbox.emails[0].variables["ConfirmationURL"].startswith("http://127.0.0.1:8081/verify?")


@pytest.mark.parametrize("path", [*(path.partition("?")[0] for path in BODIES), "/user", "/logout"])
def test_invalid_audience_is_rejected(path: str) -> None:
    before = table_contents()
    method = "GET" if path == "/user" else "POST"
    grant = "?grant_type=password" if path == "/token" else ""
    body = {"email": EMAIL, "password": PASSWORD, "type": "signup", "token": "1"}
    headers = {"X-JWT-AUD": "x" * 256}
    error = assert_documented(Api().request(method, path + grant, body, headers=headers), 400)
    assert error["error_code"] == "validation_failed"
    assert table_contents() == before


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("&".join(f"a{number}=1" for number in range(3_000)), id="3,000 parameters"),
        pytest.param("redirect_to=" + "%00" * 9_000, id="9,000 NULs"),
        *("%ff%00&=&&&a=%", ";;;[]", "type=%E2%28%A1&token=%00", "type=signup&token=%ff", "&" * 9_000),
    ],
)
@pytest.mark.parametrize("level", [logging.ERROR, logging.INFO])
def test_unusual_query_causes_no_server_error(query: str, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(level)
    before = table_contents()
    places = [*(("POST", path) for path in BODIES), *BEARER, ("GET", "/verify"), ("GET", "/nowhere")]
    for method, path in places:
        response = Api().request(method, f"{path}{'&' if '?' in path else '?'}{query}", b"")
        if response.status_code != 303:
            assert_documented(response)
    assert table_contents() == before
    if level == logging.INFO:
        assert len([record for record in caplog.records if record.name == "authsvc.api"]) == len(places)
