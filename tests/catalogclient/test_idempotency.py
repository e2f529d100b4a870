"""Idempotency keys."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogclient import generate_idempotency_key
from tests.catalogclient.conftest import Connect, untimed
from tests.fakes.http_peer import HttpPeer, in_json

FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_a_key_of_fixed_time_and_random_bytes() -> None:
    key = generate_idempotency_key(now_ms=0x017F22E279B0, rand=bytes.fromhex("0cc318c4dc0c0c07398f"))
    assert key == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_keys_are_unique_and_contain_the_current_time() -> None:
    keys = [generate_idempotency_key() for _ in range(10_000)]
    assert len(set(keys)) == len(keys)
    assert all(FORM.fullmatch(key) for key in keys)
    moment = int(keys[-1].replace("-", "")[:12], 16) / 1000
    assert abs(moment - time.time()) < 60


@untimed
@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_a_key_is_a_uuid_of_version_7_with_time_and_random_bytes(now_ms: int, rand: bytes) -> None:
    key = uuid.UUID(generate_idempotency_key(now_ms=now_ms, rand=rand))
    assert (key.version, key.variant) == (7, uuid.RFC_4122)
    assert key.int >> 80 == now_ms
    assert key.int & (1 << 62) - 1 == int.from_bytes(rand, "big") & (1 << 62) - 1
    assert FORM.fullmatch(str(key))


def test_every_call_has_a_new_key_unless_the_caller_passes_one(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"namespace": ["a"]}))
    catalog = connect()
    mine = "01990C5E-7b1a-7c3d-8e21-0a1b2c3d4e5f"
    catalog.create_namespace("a")
    catalog.create_namespace("a")
    catalog.create_namespace("a", idempotency_key=mine)
    first, second, third = (request.headers["Idempotency-Key"] for request in peer.received)
    assert first != second
    assert third == mine


@pytest.mark.parametrize(
    "key", ["x", "", 5, "01990c5e7b1a7c3d8e210a1b2c3d4e5f", "{01990c5e-7b1a-7c3d-8e21-0a1b2c3d4e5}"]
)
def test_invalid_keys_are_rejected(connect: Connect, key: Any) -> None:
    with pytest.raises(ValueError, match="36 characters"):
        connect().create_namespace("a", idempotency_key=key)
