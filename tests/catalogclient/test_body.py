"""Decompression and size limits of response bodies."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest

from catalogclient import InvalidResponseError, NetworkError
from catalogclient._http import Body

TEXT = random.Random(1).randbytes(300_000) + bytes(2_000_000) + b"end"
RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
FORMS = {
    "identity": ("identity", TEXT),
    "gzip": ("GZIP ", gzip.compress(TEXT, 1)),
    "two members and padding": (
        "x-gzip",
        gzip.compress(TEXT[:1_000_000], 1) + gzip.compress(TEXT[1_000_000:], 1) + b"\0",
    ),
    "deflate": ("deflate", zlib.compress(TEXT, 1)),
    "deflate without header": ("deflate", RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush()),
}


def read(
    encoding: str | None, sent: bytes, *, size: int = 65_536, status: int = 200, limit: int | None = None
) -> bytes:
    body = Body(status=status, encoding=encoding, limit=limit)
    for start in range(0, len(sent), size):
        if not body.append(sent[start : start + size]):
            break
    return body.finish().getvalue()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [777, 10_000_000])
def test_every_form_of_a_body_is_read(form: str, size: int) -> None:
    encoding, sent = FORMS[form]
    assert read(encoding, sent, size=size) == TEXT
    assert read(encoding, sent, size=size, limit=len(TEXT)) == TEXT
    with pytest.raises(InvalidResponseError, match="longer than"):
        read(encoding, sent, size=size, limit=len(TEXT) - 1)


def test_a_bomb_is_rejected_in_bounded_memory() -> None:
    bomb = gzip.compress(bytes(16_000_000), 1)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidResponseError, match="longer than"):
            read("gzip", bomb, limit=100_000)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "gzip;q=1", "UTF-8"])
def test_bodies_with_unknown_and_repeated_encodings_stay_as_they_are(encoding: str) -> None:
    sent = gzip.compress(gzip.compress(b"{}"))
    assert read(encoding, sent) == sent
    assert read(encoding, b"{}", status=404) == b"{}"


@pytest.mark.parametrize("sent", [b"{}", FORMS["gzip"][1][:-9], FORMS["gzip"][1][:-1] + b"x"])
def test_a_damaged_body_is_a_network_error(sent: bytes) -> None:
    with pytest.raises(NetworkError) as caught:
        read("gzip", sent)
    assert caught.value.sent


@pytest.mark.parametrize(
    ("encoding", "sent", "limit", "length"),
    [
        ("gzip", b"{}", None, 0),
        ("br", b"{}", None, 2),
        (None, bytes(3_000_000), None, 1_048_576),
        (None, bytes(3_000_000), 10, 65_536),
    ],
)
def test_the_body_of_an_error_is_read_as_far_as_possible(
    encoding: str | None, sent: bytes, limit: int | None, length: int
) -> None:
    assert len(read(encoding, sent, status=503, limit=limit)) == length
