"""Validation of the URLs of custom providers."""

from __future__ import annotations

import pytest

from oauthproviders.custom import safe_urls

LOOPBACK = "URL cannot point to localhost or loopback addresses"
RESOLVES_TO = "URL cannot resolve to "
NO_HOST = "URL must have a valid hostname"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://id.example.com", "URL must use HTTPS"),
        ("HTTPS://8.8.8.8", "URL must use HTTPS"),
        ("ftp://id.example.com", "URL must use HTTPS"),
        ("id.example.com", "URL must use HTTPS"),
        ("javascript:alert(1)", "URL must use HTTPS"),
        ("https://", NO_HOST),
        ("https:///path", NO_HOST),
        ("https://[::1", NO_HOST),
        ("https://8.8.8.8:port/", NO_HOST),
        ("https://8.8.8.8:99999/", NO_HOST),
        ("https://user@8.8.8.8/", NO_HOST),
        ("https://:secret@8.8.8.8/", NO_HOST),
        ("https://8.8.8.8/a b", NO_HOST),
        ("https://8.8.\n8.8/", NO_HOST),
        ("https://8.8.8.8/ä", NO_HOST),
        ("https://localhost/", LOOPBACK),
        ("https://LOCALHOST./", LOOPBACK),
        ("https://app.localhost/", LOOPBACK),
        ("https://127.0.0.1/", LOOPBACK),
        ("https://127.9.9.9:8443/", LOOPBACK),
        ("https://[::1]/", LOOPBACK),
        ("https://2130706433/", f"{RESOLVES_TO}loopback addresses"),
        ("https://0x7f.1/", f"{RESOLVES_TO}loopback addresses"),
        ("https://[::ffff:127.0.0.1]/", f"{RESOLVES_TO}loopback addresses"),
        ("https://10.0.0.1/", f"{RESOLVES_TO}private network addresses"),
        ("https://172.31.255.255/", f"{RESOLVES_TO}private network addresses"),
        ("https://192.168.1.1/", f"{RESOLVES_TO}private network addresses"),
        ("https://100.64.0.1/", f"{RESOLVES_TO}private network addresses"),
        ("https://[fd00::1]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[::ffff:10.0.0.1]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[64:ff9b::10.0.0.1]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[2002:0a00:0001::]/", f"{RESOLVES_TO}private network addresses"),
        ("https://240.0.0.1/", f"{RESOLVES_TO}private network addresses"),
        ("https://[64:ff9b:1::8.8.8.8]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[fec0::1]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[::8.8.8.8]/", f"{RESOLVES_TO}private network addresses"),
        ("https://[64:ff9b::168.63.129.16]/", f"{RESOLVES_TO}private network addresses"),
        ("https://169.254.1.1/", f"{RESOLVES_TO}link-local addresses"),
        ("https://[fe80::1]/", f"{RESOLVES_TO}link-local addresses"),
        ("https://169.254.169.254/", f"{RESOLVES_TO}cloud metadata endpoints"),
        ("https://168.63.129.16/", f"{RESOLVES_TO}cloud metadata endpoints"),
        ("https://[::ffff:168.63.129.16]/", f"{RESOLVES_TO}cloud metadata endpoints"),
        ("https://100.100.100.200/", f"{RESOLVES_TO}cloud metadata endpoints"),
        ("https://[fd00:ec2::254]/", f"{RESOLVES_TO}cloud metadata endpoints"),
        ("https://224.0.0.1/", f"{RESOLVES_TO}multicast addresses"),
        ("https://[ff02::1]/", f"{RESOLVES_TO}multicast addresses"),
        ("https://0.0.0.0/", f"{RESOLVES_TO}unspecified addresses"),
        ("https://[::]/", f"{RESOLVES_TO}unspecified addresses"),
        ("https://unknown.invalid/", "Unable to resolve hostname"),
        (f"https://{'a' * 64}.example/", "Unable to resolve hostname"),
    ],
)
def test_an_unsafe_url_is_an_error(url: str, reason: str) -> None:
    with pytest.raises(safe_urls.UnsafeUrl) as caught:
        safe_urls.check(url, private_allowed=False)
    assert str(caught.value) == reason


@pytest.mark.parametrize("url", ["https://8.8.8.8/a?b=c#d", "https://8.8.8.8:8443", "https://[2606:4700::1111]/"])
def test_a_public_url_is_safe(url: str) -> None:
    safe_urls.check(url, private_allowed=False)


@pytest.mark.parametrize(
    "url", ["https://localhost/", "https://10.0.0.1/", "https://[::1]:8443/", "https://unknown.invalid"]
)
def test_private_addresses_are_safe_when_allowed(url: str) -> None:
    safe_urls.check(url, private_allowed=True)


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "https:///a", "https://a@b/"])
def test_a_malformed_url_is_unsafe_when_private_addresses_are_allowed(url: str) -> None:
    with pytest.raises(safe_urls.UnsafeUrl):
        safe_urls.check(url, private_allowed=True)
