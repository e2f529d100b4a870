"""A client rotates the addresses of its IPv6 network to escape the limits of requests."""

from __future__ import annotations

import pytest

from tests import factories
from tests.conftest import Api, ChangeConfig

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("slow_refill")]

BURST = 30


def guess(api: Api, address: str, *, header: str = "X-Forwarded-For") -> int:
    body = {"email": "ann@example.com", "password": "a wrong guess"}
    return api.post("/token?grant_type=password", body, headers={header: address}).status_code


def exhaust(api: Api, address: str, **options: str) -> None:
    for _ in range(BURST):
        assert guess(api, address, **options) == 400
    assert guess(api, address, **options) == 429


@pytest.mark.parametrize("path", ["/token?grant_type=password", "/verify", "/recover", "/otp", "/magiclink", "/resend"])
def test_addresses_of_one_64_share_the_limit(api: Api, path: str) -> None:
    statuses = [
        api.post(path, {}, headers={"X-Forwarded-For": f"2001:db8:0:1::{number:x}"}).status_code
        for number in range(1, BURST + 2)
    ]

    assert 429 not in statuses[:BURST]
    assert statuses[BURST] == 429
    # Another network has its own limit.
    assert api.post(path, {}, headers={"X-Forwarded-For": "2001:db8:0:2::1"}).status_code != 429


def test_the_owner_signs_in_from_another_network(api: Api) -> None:
    factories.make_user(email="ann@example.com")
    exhaust(api, "2001:db8:0:1::1")

    response = api.post(
        "/token?grant_type=password",
        {"email": "ann@example.com", "password": factories.PASSWORD},
        headers={"X-Forwarded-For": "2001:db8:0:2::1"},
    )

    assert response.status_code == 200


@pytest.mark.parametrize(
    "form", ["::ffff:198.51.100.7", "2002:c633:6407::1", "2002:c633:6407:9::5", "64:ff9b::c633:6407"]
)
def test_an_ipv6_form_of_an_ipv4_address_is_that_address(api: Api, form: str) -> None:
    exhaust(api, "198.51.100.7")
    assert guess(api, form) == 429
    assert guess(api, "198.51.100.8") == 400


def test_ipv4_clients_behind_a_stateless_translator_are_different_clients(api: Api) -> None:
    exhaust(api, "64:ff9b::198.51.100.7")
    assert guess(api, "64:ff9b::198.51.100.8") == 400


def test_addresses_in_the_configured_header_share_the_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"header": "X-Real-IP"})
    exhaust(api, "2001:db8:0:1::1", header="X-Real-IP")
    assert guess(api, "2001:db8:0:1:ffff::2", header="X-Real-IP") == 429
    assert guess(api, "2001:db8:0:2::1", header="X-Real-IP") == 400


def test_addresses_forwarded_by_a_trusted_client_share_the_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"forwarded_for_enabled": True})
    exhaust(api, "2001:db8:0:1::1", header="Svc-Forwarded-For")
    assert guess(api, "2001:db8:0:1:ffff::2", header="Svc-Forwarded-For") == 429
    assert guess(api, "2001:db8:0:2::1", header="Svc-Forwarded-For") == 400
