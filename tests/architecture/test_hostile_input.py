"""Hostile input gets documented error responses, causes no unhandled exception and writes nothing to the database."""

from __future__ import annotations

import io
import secrets
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import orjson
import pytest
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from accounts.models import User
from authsvc import messaging
from mailer.delivery import encryption
from tests.architecture.hostile_requests import BODIES, EMAIL, FLAG, OBJECT, TEXT, assert_documented, post
from tests.architecture.test_routes import ROUTES, sample
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, VERIFIER, make_flow, make_one_time_token, make_session, make_user
from tests.observations import table_contents
from tokens.models import TokenType
from tokens.sessions import refresh_tokens

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_unhandled_exception", "passkeys")]

MIB = 1_048_576

NOT_JSON: dict[str, bytes] = {
    "empty": b"",
    "blanks": b" \r\n\t",
    "form": b"email=user%40example.com&password=x",
    "unfinished": b'{"email":"user@example.com"',
    "single quotes": b"{'email':'user@example.com'}",
    "comment": b'{"email":"user@example.com"/* c */}',
    "trailing data": b'{"email":"user@example.com"} {}',
    "trailing comma": b'{"email":"user@example.com",}',
    "byte order mark": b'\xef\xbb\xbf{"email":"user@example.com"}',
    "UTF-16": '{"email":"user@example.com"}'.encode("utf-16"),
    "list": b'[{"email":"user@example.com"}]',
    "text": b'"user@example.com"',
    "number": b"7",
    "true": b"true",
    "raw NUL": b'{"x":"a\x00b"}',
    "NUL behind the end": b"{}\x00",
    "raw line feed in a text": b'{"x":"a\nb"}',
    "invalid UTF-8": b'{"x":"\xff"}',
    "overlong UTF-8": b'{"x":"\xc0\x80"}',
    "raw surrogate": b'{"x":"\xed\xa0\x80"}',
    "lone surrogate": b'{"x":"\\ud800"}',
    "lone low surrogate in a key": b'{"\\udfff":1}',
    "swapped surrogates": b'{"x":"\\udc00\\ud800"}',
    "bad escape": b'{"x":"\\x00"}',
    "NaN": b'{"x":NaN}',
    "Infinity": b'{"x":Infinity}',
    "negative Infinity": b'{"x":-Infinity}',
    "number beyond a double": b'{"x":1e400}',
    "negative number beyond a double": b'{"x":-1e400}',
    "integer beyond a double": b'{"x":1' + b"0" * 400 + b"}",
    "integer of 100,000 digits": b'{"x":' + b"9" * 100_000 + b"}",
    "leading zero": b'{"x":007}',
    "hexadecimal": b'{"x":0x10}',
    "100,000 brackets": b"[" * 100_000,
    "60,000 nested lists": b'{"x":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
    "20,000 nested objects": b'{"x":' * 20_000 + b"1" + b"}" * 20_000,
    "1,400 nested lists": b'{"data":{"x":' + b"[" * 1_400 + b"]" * 1_400 + b"}}",
    "33 levels": b'{"data":{"x":' + b"[" * 31 + b"]" * 31 + b"}}",
    "10,001 keys": orjson.dumps({f"k{number}": number for number in range(10_001)}),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xabV\x02\x00",
}
TOO_LARGE: dict[str, bytes] = {
    "one byte over a mebibyte": b'{"x":"' + b"x" * (MIB - 7) + b'"}',
    "2 MB of text": b'{"x":"' + b"x" * 2_000_000 + b'"}',
    "2 MB of blanks": b" " * 2_000_000,
    "2 MB of garbage": b"\x00" * 2_000_000,
}
WRONG = {
    TEXT: [1, 0, 1.5, True, False, [], ["x"], {}, {"x": "y"}, 2**63, -1e300],
    OBJECT: [1, "x", "", "{}", True, [], [["a", 1]], 0],
    FLAG: ["true", "", 1, 0, [], {}, 1.0],
}
INVALID_EMAILS = [
    "x" * 5_000,
    "x" * 5_000 + "@example.com",
    "user@" + "x" * 5_000,
    "user@" + "x." * 130 + "com",
    "user@example.com\r\nBcc: victim@example.com",
    "user@example.com\n",
    "\tuser@example.com",
    "user@example.com,victim@example.com",
    "user@example.com;victim@example.com",
    "<user@example.com>",
    "User <user@example.com>",
    "a@b..c",
    "a@.b.c",
    "a@b.c.",
    "a@-b.c",
    "a@b_c.d",
    "@example.com",
    "user@",
    "user@@example.com",
    "a@b@c",
    '"quoted user"@example.com',
    "user@[127.0.0.1]",
    "üser@example.com",
    "user@exämple.com",
    "user@example.com\u200b",
    "\u202euser@example.com",
    "us\u0131r@example.com",
    "USER@EXAMPLE.COM\u212a",
    "user@example.com' OR '1'='1",
    "'; DROP TABLE users; --@example.com\\",
    "%s%n@exa%mple",
    "{{7*7}}@exa mple.com",
]


# Bodies


@pytest.mark.parametrize("name", NOT_JSON)
def test_bodies_other_than_json_objects_are_rejected(name: str) -> None:
    before = table_contents()
    for path in BODIES:
        error = assert_documented(post(path, NOT_JSON[name]), 400)
        assert error["error_code"] == "bad_json", path
        assert error["msg"].startswith("Could not parse request body as JSON: ")
    assert table_contents() == before


@pytest.mark.parametrize("path", BODIES)
def test_too_large_body_is_rejected(path: str) -> None:
    before = table_contents()
    for body in TOO_LARGE.values():
        error = assert_documented(post(path, body), 413)
        assert error["error_code"] == "request_entity_too_large"
        assert error["msg"] == "Request body too large (max 1048576 bytes)"
    assert table_contents() == before


@pytest.mark.parametrize("path", BODIES)
def test_body_of_unknown_length_is_not_read_beyond_limit(path: str) -> None:
    before = table_contents()
    stream = io.BytesIO(b" " * 2_000_000)
    chunked: Any = {"wsgi.input": stream, "HTTP_TRANSFER_ENCODING": "Chunked"}
    response: Any = Client().generic("POST", path, b"", **chunked)
    assert assert_documented(response, 413)["error_code"] == "request_entity_too_large"
    assert stream.tell() <= MIB + 1
    stream = io.BytesIO(NOT_JSON["lone surrogate"])
    response = Client().generic("POST", path, b"", **{**chunked, "wsgi.input": stream})
    assert assert_documented(response, 400)["error_code"] == "bad_json"
    assert table_contents() == before


@pytest.mark.parametrize("length", ["0", "-5", "abc", "²", " 2", "+2", "2.0", "1e9", "18446744073709551616"])
def test_invalid_content_length_causes_no_server_error(length: str) -> None:
    response: Any = Client().generic("POST", "/signup", b"{}", CONTENT_LENGTH=length)
    assert_documented(response, 400, 413, 422)


@pytest.mark.parametrize("path", BODIES)
def test_values_of_wrong_type_are_rejected(path: str) -> None:
    before = table_contents()
    for number, (key, kind) in enumerate(BODIES[path].items()):
        for value in WRONG[kind]:
            error = assert_documented(
                post(path, {key: value}, headers={"X-Forwarded-For": f"198.51.100.{number}"}), 400
            )
            assert error["error_code"] == "bad_json", (key, value)
    assert table_contents() == before


@pytest.mark.parametrize("path", BODIES)
def test_nul_characters_are_rejected(path: str) -> None:
    before = table_contents()
    values = {TEXT: '"a\\u0000b"', OBJECT: '{"a":[{"b":"\\u0000"}]}', FLAG: '"\\u0000"'}
    bodies = [f'{{"{key}":{values[kind]}}}' for key, kind in BODIES[path].items()]
    for body in (*bodies, '{"x":"\\u0000"}', '{"\\u0000":1}', '{"x":[[{"y\\u0000":0}]]}'):
        assert assert_documented(post(path, body), 400)["error_code"] == "bad_json", body
    assert table_contents() == before


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", "\u00ff/\u00ff"]
)
def test_content_type_is_ignored(content_type: str) -> None:
    for path in BODIES:
        for body, is_json in ((b'{"x":1}', True), (b"a=b", False)):
            response: Any = Client().generic("POST", path, body, content_type=content_type)
            assert (assert_documented(response)["error_code"] == "bad_json") is not is_json


# Values


@pytest.mark.parametrize("path", ["/signup", "/otp", "/magiclink", "/recover", "/resend"])
def test_invalid_email_is_rejected(path: str, mailbox: Mailbox) -> None:
    before = table_contents()
    for number, address in enumerate(INVALID_EMAILS):
        body = {"email": address, "password": PASSWORD, "type": "signup"}
        error = assert_documented(post(path, body, headers={"X-Forwarded-For": f"198.51.100.{number}"}), 400)
        invalid = "Unable to validate email address: invalid format"
        text = "An email address is too long" if len(address) > 255 else invalid
        assert (error["error_code"], error["msg"]) == ("validation_failed", text), address
    assert table_contents() == before
    assert mailbox.emails == []


def test_invalid_email_matches_no_user_at_sign_in_and_verification() -> None:
    make_user(email=EMAIL)
    before = table_contents()
    for number, address in enumerate(INVALID_EMAILS):
        client = {"X-Forwarded-For": f"198.51.100.{number}"}
        error = assert_documented(
            post("/token?grant_type=password", {"email": address, "password": PASSWORD}, headers=client), 400
        )
        assert error["error_code"] == "invalid_credentials", address
        error = assert_documented(
            post("/verify", {"type": "email", "email": address, "token": "1"}, headers=client), 422
        )
        assert error["msg"] == "Invalid email format", address
    assert table_contents() == before


@pytest.mark.parametrize(
    "number", ["1" * 5_000, "+" * 20, "15551234567\r\n", "\u0661\u0665\u0665", "1" + " " * 5_000, "0x1"]
)
def test_invalid_phone_is_rejected(number: str, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    before = table_contents()
    for path, further in (
        ("/signup", {"password": PASSWORD}), ("/otp", {}), ("/resend", {"type": "sms"}),
        ("/verify", {"type": "sms", "token": "123456"}),
    ):  # fmt: skip
        error = assert_documented(post(path, {"phone": number, **further}), 400)
        assert error["msg"] == "Invalid phone number format (E.164 required)"
    error = assert_documented(post("/token?grant_type=password", {"phone": number, "password": PASSWORD}), 400)
    assert error["error_code"] == "invalid_credentials"
    assert table_contents() == before


@pytest.mark.parametrize("password", ["x" * 73, "x" * 5_000, "ü" * 37, "x" * 100_000, "\U0001f511" * 5_000])
def test_too_long_password_is_rejected(password: str) -> None:
    make_user(email=EMAIL)
    invited = make_user(email="invited@example.com", password="", confirmed=False, invited_at=timezone.now())
    token = make_one_time_token(invited, TokenType.CONFIRMATION).link_token
    before = table_contents()
    for path, body in (
        ("/signup", {"email": "new@example.com"}), ("/signup", {"email": EMAIL}),
        ("/verify", {"type": "invite", "token_hash": token}),
    ):  # fmt: skip
        error = assert_documented(post(path, {**body, "password": password}), 400)
        assert error["msg"] == "Password cannot be longer than 72 characters"
    for address in (EMAIL, "invited@example.com", "nobody@example.com"):
        error = assert_documented(post("/token?grant_type=password", {"email": address, "password": password}), 400)
        assert error["error_code"] == "invalid_credentials"
    assert table_contents() == before


@pytest.mark.parametrize("challenge", ["x" * 100_000, "ü" * 43, "x" * 42 + "\n", "'" * 43, "x" * 42 + "="])
@pytest.mark.parametrize("path", ["/signup", "/otp", "/magiclink", "/recover", "/resend"])
def test_invalid_code_challenge_is_rejected(path: str, challenge: str) -> None:
    before = table_contents()
    body = {"email": EMAIL, "password": PASSWORD, "type": "signup", "code_challenge": challenge}
    error = assert_documented(post(path, {**body, "code_challenge_method": "s256"}), 400)
    assert error["msg"].startswith("code challenge ")
    error = assert_documented(
        post(path, {**body, "code_challenge": CHALLENGE, "code_challenge_method": challenge}), 400
    )
    assert error["msg"] == "PKCE flow requires code_challenge_method and code_challenge"
    assert table_contents() == before


@pytest.mark.parametrize(
    "token",
    [
        *(
            "",
            "x",
            "x" * 11,
            "AAAAAAAAAAAA",
            "------------",
            "ü" * 12,
            "x" * 100_000,
            "A" * 51,
            "=" * 56,
            "../../etc",
        ),
        *("' OR 1=1 --", "abcdefghijk\n", "%00", "A" * 62 + "\n", "\u0661" * 12),
    ],
)
def test_malformed_refresh_token_is_rejected(token: str) -> None:
    make_session()
    before = table_contents()
    error = assert_documented(post("/token?grant_type=refresh_token", {"refresh_token": token}), 400)
    assert (error["error_code"], error["msg"]) == ("validation_failed", "Refresh token is not valid")
    assert table_contents() == before


def test_forged_refresh_tokens_are_rejected() -> None:
    session = make_session().session
    key = secrets.token_bytes(32)
    before = table_contents()
    for session_id, counter in ((session.id, 0), (session.id, 2**63 - 1), (uuid4(), 0)):
        forged = refresh_tokens.encode(session_id=session_id, counter=counter, key=key)
        error = assert_documented(post("/token?grant_type=refresh_token", {"refresh_token": forged}), 400)
        assert error["error_code"] == "refresh_token_not_found"
    for legacy in ("abcdefghijkl", "A" * 22):
        error = assert_documented(post("/token?grant_type=refresh_token", {"refresh_token": legacy}), 400)
        assert error["error_code"] == "refresh_token_not_found"
    assert table_contents() == before


@pytest.mark.parametrize("value", ["x", "x" * 100_000, "ü", "' OR 1=1 --", "00000000-0000-0000-0000-000000000000"])
def test_invalid_auth_code_or_verifier_is_rejected(value: str) -> None:
    flow = make_flow(make_user())
    before = table_contents()
    error = assert_documented(post("/token?grant_type=pkce", {"auth_code": value, "code_verifier": VERIFIER}), 404)
    assert error["error_code"] == "flow_state_not_found"
    error = assert_documented(
        post("/token?grant_type=pkce", {"auth_code": flow.auth_code, "code_verifier": value}), 400
    )
    assert error["error_code"] == "bad_code_verifier"
    assert table_contents() == before


@pytest.mark.parametrize("value", ["x" * 100_000, "ü" * 56, "' OR 1=1 --", "pkce_", "pkce_" * 9_000, "\r\n", "%00"])
def test_invalid_link_token_or_type_is_rejected(value: str) -> None:
    make_one_time_token(make_user(email=EMAIL))
    before = table_contents()
    for body in (
        {"type": "recovery", "token_hash": value},
        {"type": "recovery", "token": value, "email": EMAIL[1:]},
        {"type": value, "token_hash": "0" * 56},
        {"type": value, "token": "123456", "email": EMAIL},
    ):
        assert_documented(post("/verify", body), 400, 403)
    if len(value) < 60_000:
        for query in (f"token={quote(value)}&type=recovery", f"token=x&type={quote(value)}"):
            response = Api().get(f"/verify?{query}")
            assert response.status_code == 303
            assert "error_code=" in response.headers["Location"]
    assert table_contents() == before


@pytest.mark.parametrize("grant_type", ["", "foo", "%00", "PASSWORD", "password%20", "x" * 9_000, "%ff", "__class__"])
def test_unknown_grant_type_is_rejected_before_body_is_parsed(grant_type: str) -> None:
    before = table_contents()
    error = assert_documented(post(f"/token?grant_type={grant_type}", TOO_LARGE["2 MB of garbage"]), 400)
    assert (error["error_code"], error["msg"]) == ("invalid_credentials", "unsupported_grant_type")
    assert table_contents() == before


# Data that is stored unchanged


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"x":"' + "x" * 16_000 + '"}', id="16 KiB of text"),
        pytest.param(orjson.dumps({f"k{number}": number for number in range(1_000)}).decode(), id="1,000 keys"),
        pytest.param('{"x":18446744073709551616,"y":-9223372036854775809}', id="beyond 64 bit"),
        pytest.param('{"x":1' + "0" * 300 + "}", id="300 digits"),
        pytest.param('{"x":0.' + "1" * 5_000 + "}", id="5,000 decimals"),
        pytest.param('{"x":1e308,"y":1e-400,"z":-0.0,"w":1E5}', id="floats"),
        pytest.param('{"x":' + "[" * 30 + "]" * 30 + "}", id="32 levels"),
        pytest.param('{"":{"":[null,false]},"a\\"b":"\\\\u0000","</script>":"<b>","$where":"1"}', id="odd keys"),
        pytest.param(
            '{"sub":1,"email":null,"email_verified":"yes","role":"svc_admin","full_name":{"a":[1]}}', id="ours"
        ),
        pytest.param('{"x":"\\ud83d\\udd11 \\u202e ü \\u2028 \\ufffe"}', id="unicode"),
        pytest.param('{"x":1,"x":2}', id="duplicate key"),
    ],
)
def test_unusual_metadata_is_stored_and_account_works(auth_config: ChangeConfig, mailbox: Mailbox, data: str) -> None:
    body = f'{{"email":"{EMAIL}","password":"{PASSWORD}","data":{data}}}'
    first = post("/signup", body)
    assert first.status_code == 200, first.content[:300]
    claims = {"sub": first.json()["id"], "email": EMAIL, "email_verified": False, "phone_verified": False}
    expected = {**{key: value for key, value in orjson.loads(data).items() if value is not None}, **claims}
    # Parsed like the expected value: an integer beyond 64 bits becomes a float.
    assert orjson.loads(first.content)["user_metadata"] == expected
    (mail,) = mailbox.emails
    opened = encryption.decrypt(encryption.encrypt(mail), message_id=mail.id)
    assert isinstance(opened, messaging.Email)
    assert opened.variables["Data"] == mail.variables["Data"]

    verified = post("/verify", {"type": "signup", "token_hash": mail.variables["TokenHash"]})
    assert verified.status_code == 200
    expected["email_verified"] = True
    me = Api().get("/user", bearer=verified.json()["access_token"])
    assert me.status_code == 200
    assert orjson.loads(me.content)["user_metadata"] == expected
    assert post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}).status_code == 200


@pytest.mark.parametrize("path", ["/signup", "/otp", "/magiclink"])
@pytest.mark.parametrize("depth", [980, 1_010, 1_022, 1_030, 1_400, 1_490])
def test_nested_metadata_is_rejected_or_stored(path: str, depth: int, mailbox: Mailbox) -> None:
    body = f'{{"email":"{EMAIL}","password":"{PASSWORD}","data":{{"x":{"[" * depth + "]" * depth}}}}}'
    response = post(path, body)
    if response.status_code == 200:
        assert User.objects.count() == len(mailbox.emails) == 1
        assert (
            post("/verify", {"type": "signup", "token_hash": mailbox.emails[0].variables["TokenHash"]}).status_code
            == 200
        )
    else:
        assert assert_documented(response, 400)["error_code"] == "bad_json"
        assert not User.objects.exists()


def test_phone_sign_up_ignores_email_in_metadata(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"autoconfirm": True})
    for number, address in enumerate([secrets.token_hex(8_000), "victim@example.com", {"a": 1}, 7]):
        body = {"phone": f"1555123456{number}", "password": PASSWORD, "data": {"email": address}}
        assert post("/signup", body).status_code == 200
    assert not User.objects.filter(email__isnull=False).exists()


# Paths and methods


def _methods(route: str) -> set[str]:
    view: Any = get_resolver().resolve(sample(route)).func
    if not hasattr(view, "cls"):
        return set()
    # Django adds the method HEAD to a view with GET when it serves a request.
    head = {"HEAD"} & {name.upper() for name in view.cls.http_method_names}
    return {*view.cls(**view.initkwargs).allowed_methods, *head}


@pytest.mark.parametrize("route", [route for route in ROUTES if _methods(route)])
def test_other_methods_are_rejected_before_body_and_token_are_read(route: str) -> None:
    allowed = _methods(route)
    before = table_contents()
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"} - allowed:
        response = Api().request(method, sample(route), TOO_LARGE["2 MB of garbage"], bearer="garbage")
        assert response.status_code == 405, method
        assert set(response.headers["Allow"].split(", ")) == allowed
        if method != "HEAD":
            error = assert_documented(response, 405)
            assert (error["error_code"], error["msg"]) == ("unknown", "Method Not Allowed")
    assert table_contents() == before


@pytest.mark.parametrize(
    "path",
    [
        *("/nope", "/", "/signup//", "//signup", "/SIGNUP", "/signup%00", "/signup%0a", "/signup/..", "/../etc/passwd"),
        *(
            "/%2e%2e/%2e%2e",
            "/\u00fc",
            "/%ff%fe",
            "/" + "x" * 9_000,
            "/" + "/" * 5_000,
            "/admin",
            "/user/x",
            "/token.json",
        ),
        *("/.env", "/.well-known", "/.well-known/nope", "/signup;x=1", "/\\evil.example"),
    ],
)
def test_unknown_path_is_not_found(path: str) -> None:
    for method in ("GET", "POST", "DELETE", "BREW"):
        error = assert_documented(Api().request(method, path, b"\x00"), 404)
        assert (error["error_code"], error["msg"]) == ("unknown", "Not Found")


@pytest.mark.usefixtures("slow_refill")
def test_repeated_failures_are_rate_limited_and_write_nothing() -> None:
    before = table_contents()
    codes = [post("/otp", b"{").json()["error_code"] for _ in range(40)]
    assert codes == ["bad_json"] * 30 + ["over_request_rate_limit"] * 10
    assert table_contents() == before
