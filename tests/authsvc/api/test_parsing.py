"""Request bodies: JSON, the size limit, and query parameters."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from django.test import Client, RequestFactory

from authsvc.api import parsing
from authsvc.api.parsing import Utf8Request
from authsvc.api.renderers import FixedNegotiation
from authsvc.api.views import ServiceRequest
from authsvc.errors import BadJson, BodyTooLarge
from tests.conftest import Api

MIB = 1_048_576


class Shape(msgspec.Struct, frozen=True):
    text: str | None = None
    data: dict[str, Any] | None = None
    flag: bool | None = None


def request_with(body: bytes, **meta: Any) -> ServiceRequest:
    request = RequestFactory().generic("POST", "/", body, **meta)
    return ServiceRequest(request, parsers=[parsing.StrictJSONParser()], negotiator=FixedNegotiation())


def parse(body: bytes, **meta: Any) -> Shape:
    return parsing.parse_body(request_with(body, **meta), Shape)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", Shape()),
        (b"null", Shape()),
        (b" \r\n\tnull\n", Shape()),
        (b'{"text":null,"data":null,"flag":null}', Shape()),
        (b'{"text":""}', Shape(text="")),
        (b' {"text" : "x"} ', Shape(text="x")),
        (b'{"text":"x","text":"y"}', Shape(text="y")),
        (b'{"Text":"x","TEXT":1,"other":[{}]}', Shape()),
        (b'{"text":"\\u00fc\\ud83d\\udd11\xc3\xbc"}', Shape(text="\u00fc\U0001f511\u00fc")),
        (b'{"text":"\\\\u0000"}', Shape(text="\\u0000")),
        (b'{"data":{}}', Shape(data={})),
        (b'{"data":{"a":1.5,"b":[null,true]}}', Shape(data={"a": 1.5, "b": [None, True]})),
        (b'{"data":{"a":18446744073709551616}}', Shape(data={"a": 2**64})),
        (b'{"data":{"a":1,"a":2}}', Shape(data={"a": 2})),
        (b'{"flag":false}', Shape(flag=False)),
    ],
)
def test_a_json_object_is_read(body: bytes, value: Shape) -> None:
    assert parse(body) == value


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"}", b"[]", b"0", b'"x"', b"true", b"nul", b"null null", b"{} {}", b"{}x", b"a=b", b"{'a':1}",
        b'{"text":1}', b'{"text":["x"]}', b'{"data":[]}', b'{"data":"{}"}', b'{"flag":"true"}', b'{"flag":1}',
        b'{"text":"\x00"}', b'{"text":"\\u0000"}', b'{"\\u0000":1}', b'{"data":{"a":["\\u0000"]}}',
        b'{"data":{"\\u0000":1}}', b'{"text":"\xff"}', b'{"x":"\xed\xa0\x80"}', b'{"x":"\\ud800"}', b'{"x":"\\ud800x"}',
        b'{"x":NaN}', b'{"x":Infinity}', b'{"x":1e400}', b'{"x":1' + b"0" * 400 + b"}", b'{"x":01}', b'{"x":+1}',
        b'{"x":.5}', b'{"a":1,}', b'\xef\xbb\xbf{}', b"[" * 100_000, b'{"x":' + b"[" * 1_100 + b"]" * 1_100 + b"}",
    ],
)  # fmt: skip
def test_other_bodies_are_rejected(body: bytes) -> None:
    with pytest.raises(BadJson, match=r"^Could not parse request body as JSON: ."):
        parse(body)


def test_a_body_of_exactly_one_mebibyte_is_read() -> None:
    body = b'{"text":"' + b"x" * (MIB - 11) + b'"}'
    assert len(body) == MIB
    assert parse(body) == Shape(text="x" * (MIB - 11))
    with pytest.raises(BodyTooLarge):
        parse(body + b" ")


def test_a_body_with_a_too_large_content_length_is_not_read() -> None:
    class Unread(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("the body is read")

    meta: Any = {"CONTENT_LENGTH": str(MIB + 1), "wsgi.input": Unread()}
    request = request_with(b"", **meta)
    with pytest.raises(BodyTooLarge):
        parsing.parse_body(request, Shape)


def test_a_body_without_a_content_length_is_read_completely() -> None:
    meta: Any = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": io.BytesIO(b'{"text":"x"}')}
    request = request_with(b"", **meta)
    assert parsing.parse_body(request, Shape) == Shape(text="x")
    stream = io.BytesIO(b" " * 3_000_000)
    request = request_with(b"", **{**meta, "wsgi.input": stream})
    with pytest.raises(BodyTooLarge):
        parsing.parse_body(request, Shape)
    assert stream.tell() == MIB + 1


def test_bytes_beyond_the_content_length_are_ignored() -> None:
    assert parse(b'{"text":"x"}{"text":"y"}', CONTENT_LENGTH="12") == Shape(text="x")


@pytest.mark.parametrize("content_type", ["application/json", "application/json;charset=UTF-8", "text/plain", "x", ""])
def test_the_content_type_is_ignored(content_type: str) -> None:
    assert parse(b'{"text":"x"}', content_type=content_type) == Shape(text="x")


def test_the_repr_of_a_body_shows_keys_only() -> None:
    class Secrets(parsing.Body, frozen=True):
        password: str | None = None
        token: str | None = None

    assert repr(Secrets(password="open sesame")) == "Secrets(password)"
    assert str(Secrets(password="open sesame", token="x")) == "Secrets(password, token)"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", ""), ("a=1", ""), ("x=1", "1"), ("x=1&x=2", "1"), ("x=", ""), ("x", ""), ("x=%C3%BC+b", "\u00fc b"),
        ("x=%ff", "\ufffd"), ("x=%00", "\0"), ("X=1", ""), ("x[]=1", ""), ("x=1;x=2", "1;x=2"),
    ],
)  # fmt: skip
def test_the_first_of_equal_query_parameters_is_used(query: str, value: str) -> None:
    assert parsing.query_parameter(RequestFactory().get(f"/?{query}"), "x") == value


@pytest.mark.django_db
def test_bodies_of_get_requests_are_ignored(api: Api) -> None:
    assert api.request("GET", "/health", b"\xff\x00").status_code == 200
    assert api.request("GET", "/settings", b"x" * 2_000_000).status_code == 200
    response = Client().generic("GET", "/verify?type=signup", b"{", content_type="application/json")
    assert response.json()["msg"] == "Verify requires a token or a token hash"


@pytest.mark.parametrize("charset", ["utf-8", "latin1", "utf-7", "utf-16", "idna", "rot13", "unicode_escape", "none"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded", b"state=%C3%BC%2B2AA-"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="state"\r\n\r\n\xc3\xbc+2AA-\r\n--b--\r\n',
        ),
    ],
)
def test_the_charset_of_a_content_type_has_no_effect(content_type: str, body: bytes, charset: str) -> None:
    made = RequestFactory().generic("POST", "/?state=%C3%BC%2B2AA-", body)
    request = Utf8Request(
        {**made.META, "wsgi.input": io.BytesIO(body), "CONTENT_TYPE": f"{content_type}; charset={charset}"}
    )
    assert request.GET["state"] == request.POST["state"] == "\u00fc+2AA-"
