"""Apple: its authorization and token requests, and the profile in its ID token."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from responses import RequestsMock

from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.providers import id_token_profiles
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import authorization_request, profile_of, publish, request_to
from tests.oauthproviders.providers.provider_documents import ADA, form_of
from tests.oauthproviders.providers.recordings import ABSENT, ALL, SECRET


def test_apple_gets_spaces_as_percent_20(mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, ALL["apple"].documents())
    assert "&scope=email%20name&" in authorization_request(ALL["apple"], nonce="n1").url
    assert "n1" not in authorization_request(ALL["apple"], nonce="n1").url


def test_apple_gets_client_and_secret_in_the_body_and_the_header(mocked_requests: RequestsMock) -> None:
    recording = ALL["apple"]
    profile_of(recording, mocked_requests)
    request = request_to(mocked_requests, recording.data["token"])
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(f"cid:{SECRET}".encode()).decode()
    assert form_of(request) == {
        "grant_type": "authorization_code",
        "code": "authcode",
        "redirect_uri": recordings.CALLBACK,
        "client_id": "cid",
        "secret": SECRET,
    }


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("", None),
        ("{}", None),
        ('{"name":null}', None),
        ('{"name":{"firstName":"","lastName":null}}', None),
        ('{"name":{"firstName":"Ada"}}', "Ada"),
        ('{"name":{"lastName":"L"},"email":"mallory@example.com"}', "L"),
    ],
)
def test_the_name_of_an_apple_user_comes_from_the_callback(
    user: str, name: str | None, mocked_requests: RequestsMock
) -> None:
    profile = profile_of(ALL["apple"], mocked_requests, data={"user": user})
    assert (profile.claims.get("name"), profile.claims.get("full_name")) == (name, name)
    assert [address.email for address in profile.addresses] == [ADA]


@pytest.mark.parametrize("user", ["{", "[]", '"Ada"', '{"name":"Ada"}', '{"name":{"firstName":"\\u0000"}}'])
def test_an_invalid_name_of_an_apple_user_is_an_error(user: str, mocked_requests: RequestsMock) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["apple"], mocked_requests, data={"user": user})


def test_an_apple_user_without_an_address_counts_as_verified(mocked_requests: RequestsMock) -> None:
    (address,) = profile_of(ALL["apple"].with_value(["id_token", "email"], ABSENT), mocked_requests).addresses
    assert (address.email, address.verified, address.primary) == ("", True, True)


@pytest.mark.parametrize(
    ("claims", "custom_claims"),
    [
        ({"is_private_email": True}, {"is_private_email": True}),
        ({"is_private_email": "true", "auth_time": 1}, {"is_private_email": True, "auth_time": 1}),
        ({"is_private_email": "perhaps", "transfer_sub": "t"}, {"transfer_sub": "t"}),
        ({}, None),
    ],
)
def test_custom_claims_of_apple(claims: Mapping[str, Any], custom_claims: Any) -> None:
    token = {"iss": "https://appleid.apple.com", "sub": "7", "email": ADA, **claims}
    assert id_token_profiles.profile_of(token).claims.get("custom_claims") == custom_claims


@pytest.mark.parametrize("iss", ["https://appleid.apple.com.example", "https://accounts.google.com", ""])
def test_an_id_token_of_another_issuer_than_apple_is_an_error(iss: str, mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, ALL["google"].documents())
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["apple"].with_value(["id_token", "iss"], iss), mocked_requests)
