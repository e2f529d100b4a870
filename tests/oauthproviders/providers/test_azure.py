"""Microsoft Entra ID: verified addresses, issuers and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from responses import RequestsMock

from authsvc import conf
from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.providers import azure
from tests.fakes.http_peer import Response
from tests.oauthproviders.providers.conftest import authorization_request, profile_of, provider_of, publish
from tests.oauthproviders.providers.provider_documents import ADA, MICROSOFT, TENANT, has_verified_address
from tests.oauthproviders.providers.recordings import ALL

NOT_VERIFIED: Sequence[Any] = (False, "0", "false", "True", "", 0, 1, None, [], {})
ONE_TENANT = (f"{MICROSOFT}/{TENANT}", f"https://login.microsoftonline.us/{TENANT}")
MANY_TENANTS = ("", *(f"{MICROSOFT}/{name}" for name in ("common", "organizations", "consumers", "Common")))


def authority(url: str) -> azure.Authority:
    return azure.authority_of(conf.Provider(url=url))


@pytest.mark.parametrize(
    ("claims", "is_verified"),
    [
        *(({"xms_edov": value}, True) for value in (True, "1", "true")),
        *(({"xms_edov": value}, False) for value in NOT_VERIFIED),
    ],
)
@pytest.mark.parametrize("is_of_own_tenant", [True, False])
def test_xms_edov_decides_whether_an_azure_address_is_verified(
    is_of_own_tenant: bool, claims: Mapping[str, Any], is_verified: bool
) -> None:
    token = {"iss": f"{MICROSOFT}/{TENANT}/v2.0", "sub": "7", "email": ADA, **claims}
    (address,) = azure.profile_of(token, is_of_own_tenant=is_of_own_tenant).addresses
    assert address.verified is is_verified


@pytest.mark.parametrize(
    ("url", "is_verified"), [*((url, True) for url in ONE_TENANT), *((url, False) for url in MANY_TENANTS)]
)
def test_without_xms_edov_only_addresses_of_the_configured_tenant_are_verified(url: str, is_verified: bool) -> None:
    token = {"iss": f"{MICROSOFT}/{TENANT}/v2.0", "sub": "7", "email": ADA}
    assert authority(url).profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize(
    ("url", "claims", "is_verified"),
    [
        (ONE_TENANT[0], {}, False),
        (ONE_TENANT[0], {"email_verified": True}, True),
        ("", {}, False),
        ("", {"email_verified": True}, False),
        ("", {"email_verified": True, "xms_edov": "0"}, False),
        ("", {"xms_edov": True}, True),
    ],
    ids=str,
)
def test_email_verified_of_another_tenant_is_ignored(url: str, claims: Mapping[str, Any], is_verified: bool) -> None:
    token = {"iss": f"https://sts.windows.net/{TENANT}/", "sub": "7", "email": ADA, **claims}
    assert authority(url).profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize(("url", "is_verified"), [(f"{MICROSOFT}/{TENANT}", True), ("", False)])
def test_the_same_rule_applies_to_the_browser_flow_of_azure(
    url: str, is_verified: bool, mocked_requests: RequestsMock
) -> None:
    claims = {key: value for key, value in ALL["azure"].data["id_token"].items() if key != "xms_edov"}
    token = f"{url or f'{MICROSOFT}/common'}/oauth2/v2.0/token"
    assert (
        has_verified_address(ALL["azure"].with_data(url=url, token=token, id_token=claims), mocked_requests)
        is is_verified
    )


@pytest.mark.parametrize(
    ("url", "iss", "is_accepted"),
    [
        ("", f"{MICROSOFT}/{TENANT}/v2.0", True),
        ("", f"{MICROSOFT}/{TENANT}/v2.0/", True),
        (f"{MICROSOFT}/organizations", f"{MICROSOFT}/{TENANT}/v2.0", True),
        (f"{MICROSOFT}/{TENANT}", f"{MICROSOFT}/{TENANT}/v2.0", True),
        (f"{MICROSOFT}/{TENANT}", f"{MICROSOFT}/{TENANT[::-1]}/v2.0", False),
        (f"{MICROSOFT}/{TENANT}", f"{MICROSOFT}/{TENANT}/v2.0/x", False),
        ("", f"https://sts.windows.net/{TENANT}/", False),
        ("", "https://accounts.google.com", False),
        ("", f"https://login-microsoftonline.com/{TENANT}/v2.0", False),
        ("", f"https://elsewhere.example/#{MICROSOFT}/{TENANT}/v2.0", False),
        ("", f"{MICROSOFT}/a?b=/v2.0", False),
        ("https://login.microsoftonline.us/common", f"https://login.microsoftonline.us/{TENANT}/v2.0", True),
        ("https://login.microsoftonline.us/common", f"{MICROSOFT}/{TENANT}/v2.0", False),
        (f"https://contoso.ciamlogin.com/{TENANT}", f"https://contoso.ciamlogin.com/{TENANT}/v2.0", True),
    ],
)
def test_azure_accepts_issuers_of_the_configured_tenant(
    url: str, iss: str, is_accepted: bool, mocked_requests: RequestsMock
) -> None:
    recording = ALL["azure"]
    base = url or f"{MICROSOFT}/common"
    changed = recording.with_data(
        url=url,
        issuer=iss.removesuffix("/"),
        token=f"{base}/oauth2/v2.0/token",
        id_token={**recording.data["id_token"], "iss": iss},
    )
    documents = changed.documents()
    discovery_url = f"{changed.issuer}/.well-known/openid-configuration"
    document = documents[discovery_url]
    documents[discovery_url] = Response(
        headers=document.headers,
        body=document.body.replace(f'"issuer": "{changed.issuer}"'.encode(), f'"issuer": "{iss}"'.encode()),
    )
    publish(mocked_requests, documents)
    provider = provider_of(changed)
    token = provider.exchange(code="authcode", secret="")
    if is_accepted:
        assert provider.profile(token).claims["iss"] == iss
    else:
        with pytest.raises(InvalidProviderResponse):
            provider.profile(token)


def test_an_external_tenant_must_verify_addresses(mocked_requests: RequestsMock) -> None:
    iss = f"https://contoso.ciamlogin.com/{TENANT}/v2.0"
    recording = ALL["azure"].with_data(
        url=iss.removesuffix("/v2.0"),
        token=f"{iss.removesuffix('/v2.0')}/oauth2/v2.0/token",
        issuer=iss,
        id_token={"iss": iss, "aud": "cid", "sub": "7", "email": ADA, "name": "Ada L", "xms_edov": True},
    )
    profile = profile_of(recording, mocked_requests)
    assert profile.claims["name"] == "Ada L"
    assert "custom_claims" not in profile.claims
    assert not profile.addresses[0].verified


def test_the_default_tenant_of_azure_is_common() -> None:
    assert authorization_request(ALL["azure"].with_data(url="")).url.startswith(
        f"{MICROSOFT}/common/oauth2/v2.0/authorize?"
    )
