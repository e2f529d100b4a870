"""The client address of a request behind proxies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import ip_network

import pytest

from authsvc.caller import resolve_address, svc_forwarded_address

AuthConfig = Callable[..., object]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "address"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("2001:DB8:0:0::1", "198.51.100.7", "2001:db8::1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("::1", "2001:DB8::0:7", "2001:db8::7"),
        ("fc00::1%eth0", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7 , 10.2.3.4,192.168.0.1", "198.51.100.7"),
        ("10.0.0.1", "10.9.9.9, 10.2.3.4", "10.9.9.9"),
        ("10.0.0.1", "198.51.100.7, unknown, 10.2.3.4", "10.2.3.4"),
        ("10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, ", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9:80, 198.51.100.7:4711, 10.2.3.4:443", "198.51.100.7"),
        ("10.0.0.1", "[2001:DB8::0:7]:443", "2001:db8::7"),
        ("10.0.0.1", "[2001:db8::7]", "2001:db8::7"),
        ("10.0.0.1", "[::ffff:198.51.100.7]:4711", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7:", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:x", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:123456", "10.0.0.1"),
        ("10.0.0.1", "[2001:db8::7", "10.0.0.1"),
        ("10.0.0.1", "[unknown]:443", "10.0.0.1"),
        ("10.0.0.1", "2001:db8::7:443", "2001:db8::7:443"),
        ("10.0.0.1", "fe80::1%x'; --", "10.0.0.1"),
        ("10.0.0.1", "1" * 10_000, "10.0.0.1"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ("::ffff:192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("", "198.51.100.7", "198.51.100.7"),
        ("", None, ""),
        ("", "unknown", ""),
        ("unix:", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_forwarded_addresses_are_used_behind_trusted_proxies_only(
    peer: str, forwarded_for: str | None, address: str
) -> None:
    assert resolve_address(peer=peer, forwarded_for=forwarded_for, svc_forwarded_for=None) == address


def test_trusted_proxies_are_configurable(auth_config: AuthConfig) -> None:
    auth_config(api={"trusted_proxies": (ip_network("192.0.2.0/24"),)})
    header = "203.0.113.9, 10.0.0.5"
    assert resolve_address(peer="192.0.2.1", forwarded_for=header, svc_forwarded_for=None) == "10.0.0.5"
    assert resolve_address(peer="127.0.0.1", forwarded_for=header, svc_forwarded_for=None) == "127.0.0.1"
    auth_config(api={"trusted_proxies": ()})
    assert resolve_address(peer="192.0.2.1", forwarded_for=header, svc_forwarded_for=None) == "192.0.2.1"


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("192.168.1.100", "192.168.1.100"),
        (" 192.168.1.100 , 198.51.100.7", "192.168.1.100"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("", "192.0.2.1"),
        ("invalid", "192.0.2.1"),
        (",198.51.100.7", "192.0.2.1"),
        (None, "192.0.2.1"),
    ],
)
def test_the_service_header_takes_precedence_if_enabled(
    auth_config: AuthConfig, header: str | None, address: str
) -> None:
    auth_config(api={"forwarded_for_enabled": True})
    assert resolve_address(peer="192.0.2.1", forwarded_for=None, svc_forwarded_for=header) == address
    auth_config(api={"forwarded_for_enabled": False})
    assert resolve_address(peer="192.0.2.1", forwarded_for=None, svc_forwarded_for=header) == "192.0.2.1"


def test_an_invalid_service_header_is_logged(auth_config: AuthConfig, caplog: pytest.LogCaptureFixture) -> None:
    auth_config(api={"forwarded_for_enabled": True})
    with caplog.at_level(logging.WARNING):
        assert svc_forwarded_address("invalid") is None
    assert [record.message for record in caplog.records] == ["error processing Svc-Forwarded-For"]
