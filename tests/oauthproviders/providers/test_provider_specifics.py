"""Behaviour of single providers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
import requests
from oauthlib.oauth1.rfc5849 import signature  # type: ignore[import-untyped]
from responses import RequestsMock

from authsvc import conf
from oauthproviders import registry
from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken, ProviderUnavailable
from oauthproviders.providers import azure, id_token_profiles, linkedin_oidc, vercel_marketplace
from tests.fakes.http_peer import Response, in_json
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import (
    FLOW,
    authorization_request,
    profile_of,
    provider_of,
    publish,
    request_to,
)
from tests.oauthproviders.providers.recordings import ABSENT, ALL, SECRET, Recording

ADA = "ada@example.com"


def form_of(request: requests.PreparedRequest) -> dict[str, str]:
    body = request.body
    return dict(parse_qsl(body if isinstance(body, str) else (body or b"").decode()))


def document_of(recording: Recording) -> str:
    (url,) = recording.data["documents"]
    return str(url)


def has_verified_address(recording: Recording, mocked_requests: RequestsMock) -> bool:
    (address,) = profile_of(recording, mocked_requests).addresses
    assert address.primary
    return address.verified


# Apple


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


# ID tokens in general

OF_ISSUERS = pytest.mark.parametrize("name", [name for name, recording in ALL.items() if "id_token" in recording.data])


@OF_ISSUERS
@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "cid-of-an-app"},
        {"aud": ["another", "cid-of-an-app"]},
        {"aud": "another"},
        {"exp": 1},
        {"at_hash": "wrong"},
        {"iss": "https://elsewhere.example"},
    ],
    ids=str,
)
def test_an_id_token_with_invalid_claims_is_an_error(
    name: str, changes: Mapping[str, Any], mocked_requests: RequestsMock
) -> None:
    recording = ALL[name]
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.with_data(id_token={**recording.data["id_token"], **changes}), mocked_requests)


@OF_ISSUERS
@pytest.mark.parametrize("id_token", ["", "a.b.c", "a.b", "\0", "é", None, 7])
def test_a_malformed_id_token_is_an_error(name: str, id_token: Any, mocked_requests: RequestsMock) -> None:
    recording = ALL[name]
    response = {**recording.token_response(), "id_token": id_token}
    publish(mocked_requests, {**recording.documents(), recording.data["token"]: in_json(response)})
    provider = provider_of(recording)
    with pytest.raises(InvalidProviderResponse):
        provider.profile(provider.exchange(code="authcode", secret=""))


@pytest.mark.parametrize(
    ("name", "address"),
    [("apple", "https://appleid.apple.com/auth/authorize?"), ("google", "https://accounts.google.com/o/oauth2/auth?")],
)
def test_without_discovery_document_users_are_sent_to_the_known_address_and_their_return_is_an_error(
    name: str, address: str, mocked_requests: RequestsMock
) -> None:
    recording = ALL[name]
    assert authorization_request(recording).url.startswith(address)
    with pytest.raises(
        ProviderUnavailable, match=f'^OIDC discovery from "{recording.issuer}/.well-known/openid-configuration"'
    ):
        provider_of(recording).exchange(code="authcode", secret="")


# Azure

NOT_VERIFIED: Sequence[Any] = (False, "0", "false", "True", "", 0, 1, None, [], {})


TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
MICROSOFT = "https://login.microsoftonline.com"
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


# Discord


@pytest.mark.parametrize(
    ("avatar", "discriminator", "picture"),
    [
        ("a_x", "0001", "avatars/7/a_x.gif"),
        ("abc", "0001", "avatars/7/abc.png"),
        ("abc", "none", "avatars/7/abc.png"),
        (None, "0007", "embed/avatars/2.png"),
        (None, "0", "embed/avatars/0.png"),
        ("", "9999", "embed/avatars/4.png"),
    ],
)
def test_every_discord_user_has_a_picture(
    avatar: Any, discriminator: str, picture: str, mocked_requests: RequestsMock
) -> None:
    address = document_of(ALL["discord"])
    recording = ALL["discord"].with_value([address, "avatar"], avatar)
    claims = profile_of(recording.with_value([address, "discriminator"], discriminator), mocked_requests).claims
    assert claims["picture"] == claims["avatar_url"] == f"https://cdn.discordapp.com/{picture}"


@pytest.mark.parametrize("discriminator", ["x", "", "²", "-1", "1.5", ABSENT])
def test_an_invalid_discriminator_of_discord_is_an_error(discriminator: Any, mocked_requests: RequestsMock) -> None:
    address = document_of(ALL["discord"])
    recording = ALL["discord"].with_value([address, "avatar"], None)
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.with_value([address, "discriminator"], discriminator), mocked_requests)


# Verified addresses


@pytest.mark.parametrize(
    ("login_type", "value", "is_verified"),
    [("100", 0, False), ("100", 1, True), ("1", 0, False), ("101", 0, False), (1, True, True), (ABSENT, ABSENT, False)],
)
def test_zoom_states_whether_an_account_is_verified_for_every_login_type(
    login_type: Any, value: Any, is_verified: bool, mocked_requests: RequestsMock
) -> None:
    address = document_of(ALL["zoom"])
    recording = ALL["zoom"].with_value([address, "login_type"], login_type)
    assert has_verified_address(recording.with_value([address, "verified"], value), mocked_requests) is is_verified


@pytest.mark.parametrize(("valid", "confirmed"), [(True, False), (False, True), (False, False), (True, ABSENT)])
def test_a_kakao_address_must_be_valid_and_verified(valid: bool, confirmed: Any, mocked_requests: RequestsMock) -> None:
    account = (document_of(ALL["kakao"]), "kakao_account")
    recording = ALL["kakao"].with_value([*account, "is_email_valid"], valid)
    assert not has_verified_address(recording.with_value([*account, "is_email_verified"], confirmed), mocked_requests)


@pytest.mark.parametrize(
    ("name", "key"),
    [("discord", "verified"), ("keycloak", "email_verified"), ("slack_oidc", "email_verified")],
)
@pytest.mark.parametrize("value", [False, ABSENT])
def test_an_address_without_a_true_claim_is_not_verified(
    name: str, key: str, value: Any, mocked_requests: RequestsMock
) -> None:
    assert not has_verified_address(ALL[name].with_value([document_of(ALL[name]), key], value), mocked_requests)


@pytest.mark.parametrize(("claim", "is_verified"), [("false", False), (False, False), (True, True), ("TRUE", False)])
def test_linkedin_has_email_verified_as_text_or_boolean(claim: Any, is_verified: bool) -> None:
    token = {"iss": "i", "sub": "7", "email": ADA, "email_verified": claim}
    assert linkedin_oidc.profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize("confirmed_at", [None, "", ABSENT])
def test_gitlab_addresses_are_verified_only_with_a_confirmation(
    confirmed_at: Any, mocked_requests: RequestsMock
) -> None:
    recording = ALL["gitlab"].with_value(["https://gitlab.com/api/v4/user", "confirmed_at"], confirmed_at)
    assert not any(address.verified for address in profile_of(recording, mocked_requests).addresses)


@pytest.mark.parametrize(
    ("claim", "is_verified"),
    [("true", True), ("false", False), ("True", False), ("1", False), (1, False), (None, False)],
)
def test_keycloak_has_email_verified_as_text_or_boolean(
    claim: Any, is_verified: bool, mocked_requests: RequestsMock
) -> None:
    recording = ALL["keycloak"].with_value([document_of(ALL["keycloak"]), "email_verified"], claim)
    assert has_verified_address(recording, mocked_requests) is is_verified


@pytest.mark.parametrize(("name", "path"), [("github", "/api/v3"), ("discord", "/api")])
def test_the_issuer_of_an_identity_is_at_the_configured_url(
    name: str, path: str, mocked_requests: RequestsMock
) -> None:
    profile = profile_of(ALL[name].at_server("https://own.example.com"), mocked_requests)
    assert profile.claims["iss"] == f"https://own.example.com{path}"


# Google


@pytest.mark.parametrize(
    ("key", "value"), [("verified_email", True), ("email_verified", True), ("verified_email", False)]
)
def test_the_profile_of_google_is_fetched_without_an_id_token(
    key: str, value: bool, mocked_requests: RequestsMock
) -> None:
    user_info = "https://www.googleapis.com/userinfo/v2/me"
    user = {"id": "7", "name": "Ada L", "picture": "https://i.example/a", "email": ADA, key: value, "hd": "example.com"}
    publish(mocked_requests, {user_info: in_json(user)})
    profile = provider_of(ALL["google"]).profile(ProviderToken(access_token="t"))
    assert dict(profile.claims) == {
        **{key: value for key, value in ALL["google"].identity_data.items() if key != "custom_claims"},
        "iss": user_info,
    }
    assert profile.addresses[0].verified is value


@pytest.mark.parametrize("sub", ["7", "", None])
def test_the_subject_of_a_google_profile_is_its_id(sub: Any, mocked_requests: RequestsMock) -> None:
    publish(
        mocked_requests, {"https://www.googleapis.com/userinfo/v2/me": in_json({"sub": "8", "id": sub, "email": ADA})}
    )
    if sub == "7":
        assert provider_of(ALL["google"]).profile(ProviderToken(access_token="t")).claims["sub"] == "7"
    else:
        with pytest.raises(InvalidProviderResponse):
            provider_of(ALL["google"]).profile(ProviderToken(access_token="t"))


# Requests


def test_facebook_gets_an_appsecret_proof(mocked_requests: RequestsMock) -> None:
    profile_of(ALL["facebook"], mocked_requests)
    request = request_to(mocked_requests, "https://graph.facebook.com/me")
    assert parse_qs(urlsplit(request.url or "").query) == {
        "fields": ["email,first_name,last_name,name,picture"],
        "appsecret_proof": [hmac.new(SECRET.encode(), b"t", hashlib.sha256).hexdigest()],
    }
    assert request.headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("name", "header", "value"), [("twitch", "Client-Id", "cid"), ("notion", "Notion-Version", "2021-08-16")]
)
def test_required_headers_of_the_profile_request(
    name: str, header: str, value: str, mocked_requests: RequestsMock
) -> None:
    profile_of(ALL[name], mocked_requests)
    request = request_to(mocked_requests, document_of(ALL[name]))
    assert (request.headers[header], request.headers["Authorization"]) == (value, "Bearer t")


@pytest.mark.parametrize(
    ("name", "address", "query"),
    [
        ("snapchat", "https://kit.snapchat.com/v1/me", "{me { externalId displayName bitmoji { avatar id } email } }"),
        (
            "linkedin",
            "https://api.linkedin.com/v2/me",
            "(id,firstName,lastName,profilePicture(displayImage~:playableStreams))",
        ),
        ("linkedin", "https://api.linkedin.com/v2/emailAddress", "(elements*(handle~))"),
        (
            "x",
            "https://api.x.com/2/users/me",
            "id,name,username,confirmed_email,profile_image_url,url,created_at",
        ),
    ],
)
def test_the_profile_request_names_the_fields(
    name: str, address: str, query: str, mocked_requests: RequestsMock
) -> None:
    profile_of(ALL[name], mocked_requests)
    assert query in dict(parse_qsl(urlsplit(request_to(mocked_requests, address).url or "").query)).values()


def test_kakao_gets_client_credentials_in_the_body_only(mocked_requests: RequestsMock) -> None:
    profile_of(ALL["kakao"], mocked_requests)
    request = request_to(mocked_requests, ALL["kakao"].data["token"])
    assert "Authorization" not in request.headers
    assert form_of(request).items() >= {"client_id": "cid", "client_secret": SECRET}.items()


def test_x_gets_the_verifier_of_the_code_challenge(mocked_requests: RequestsMock) -> None:
    recording = ALL["x"]
    publish(mocked_requests, recording.documents())
    authorization = authorization_request(recording)
    provider_of(recording).exchange(code="authcode", secret=authorization.secret)
    assert form_of(request_to(mocked_requests, recording.data["token"]))["code_verifier"] == authorization.secret
    digest = base64.urlsafe_b64encode(hashlib.sha256(authorization.secret.encode()).digest()).rstrip(b"=").decode()
    assert f"&code_challenge={digest}&code_challenge_method=S256&" in authorization.url


@pytest.mark.parametrize("extra", [{"connection": "c"}, {"organization": "o"}, {"provider": "GoogleOAuth"}], ids=str)
def test_workos_parameters_are_forwarded(extra: Mapping[str, str]) -> None:
    query = dict(parse_qsl(urlsplit(authorization_request(ALL["workos"], **extra).url).query))
    assert query.items() >= extra.items()
    assert "scope" not in query


# Optional members of profiles


def test_a_spotify_picture_without_a_size(mocked_requests: RequestsMock) -> None:
    address = document_of(ALL["spotify"])
    images = [{"url": "https://i.example/first", "height": None, "width": None}]
    assert profile_of(ALL["spotify"].with_value([address, "images"], images), mocked_requests).claims["picture"] == (
        "https://i.example/first"
    )


def test_a_twitch_response_without_a_user_is_an_error(mocked_requests: RequestsMock) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["twitch"].with_value([document_of(ALL["twitch"]), "data"], []), mocked_requests)


LINKEDIN = "https://api.linkedin.com/v2/"


@pytest.mark.parametrize(
    ("path", "value", "key", "claim"),
    [
        (["me", "firstName", "localized"], {"de_DE": "Ada"}, "name", "L"),
        (["me", "lastName"], {}, "name", "Ada"),
        (["me", "profilePicture"], ABSENT, "picture", None),
        (["me", "profilePicture", "displayImage~", "elements"], [], "picture", None),
    ],
)
def test_linkedin_profiles_without_names_and_pictures(
    path: list[str | int], value: Any, key: str, claim: Any, mocked_requests: RequestsMock
) -> None:
    recording = ALL["linkedin"].with_value([f"{LINKEDIN}{path[0]}", *path[1:]], value)
    assert profile_of(recording, mocked_requests).claims.get(key) == claim


def test_linkedin_profiles_without_an_address(mocked_requests: RequestsMock) -> None:
    recording = ALL["linkedin"].with_value([f"{LINKEDIN}emailAddress", "elements"], [])
    assert profile_of(recording, mocked_requests).addresses == ()


@pytest.mark.parametrize(("global_user_id", "sub"), [("g7", "global_user_id:g7"), ("", "s"), (" ", "s"), (None, "s")])
def test_the_subject_of_vercel_is_the_global_user_id(global_user_id: Any, sub: str) -> None:
    claims = vercel_marketplace.profile_of({"iss": "i", "sub": "s", "global_user_id": global_user_id}).claims
    assert claims["sub"] == claims["provider_id"] == sub


# ID tokens of other issuers


@pytest.mark.parametrize(
    ("token", "expected", "is_verified"),
    [
        (
            {"iss": "https://www.facebook.com", "sub": "7", "name": "Ada L", "picture": "p", "given_name": "Ada"},
            {"name": "Ada L", "picture": "p"},
            False,
        ),
        (
            {"iss": "https://kauth.kakao.com", "sub": "7", "nickname": "Ada", "picture": "p"},
            {"name": "Ada", "preferred_username": "Ada", "picture": "p"},
            False,
        ),
        (
            {"iss": "https://accounts.snapchat.com/accounts/oauth2/token", "sub": "7", "name": "Ada", "locale": "en"},
            {"name": "Ada", "locale": "en"},
            False,
        ),
        (
            {"iss": "accounts.google.com", "sub": "7", "name": "Ada", "email_verified": True},
            {"name": "Ada", "full_name": "Ada"},
            True,
        ),
        (
            {"iss": f"{MICROSOFT}/{TENANT}/v2.0", "sub": "7", "name": "Ada", "xms_edov": "0"},
            {"full_name": "Ada", "custom_claims": {"email": ADA, "xms_edov": "0"}},
            False,
        ),
        ({"iss": "https://account.apple.com", "sub": "7", "email_verified": False}, {}, False),
        ({"iss": "https://account.apple.com", "sub": "7", "email_verified": "false"}, {}, False),
        ({"iss": "https://account.apple.com", "sub": "7"}, {}, False),
        ({"iss": "https://account.apple.com", "sub": "7", "email_verified": "true"}, {}, True),
        ({"iss": "https://id.example", "sub": "7", "name": "Ada", "role": "admin"}, {"name": "Ada"}, False),
        ({"iss": "https://id.example", "sub": "7", "email_verified": "true"}, {}, False),
        ({"iss": "https://id.example", "sub": "7", "email_verified": True}, {"email_verified": True}, True),
        ({"iss": f"https://sts.windows.net/{TENANT}/", "sub": "7", "name": "Ada"}, {"name": "Ada"}, False),
    ],
    ids=lambda value: value["iss"] if isinstance(value, dict) and "iss" in value else None,
)
def test_the_profile_of_an_id_token_depends_on_its_issuer(
    token: Mapping[str, Any], expected: Mapping[str, Any], is_verified: bool
) -> None:
    profile = id_token_profiles.profile_of({**token, "email": ADA})
    claims = {key: value for key, value in profile.claims.items() if key not in {"iss", "sub", "provider_id", "email"}}
    assert claims == expected
    assert (profile.claims["iss"], profile.claims["sub"]) == (token["iss"], "7")
    assert [(address.email, address.verified, address.primary) for address in profile.addresses] == [
        (ADA, is_verified, True)
    ]


# Twitter

REQUEST_TOKEN = "https://api.twitter.com/oauth/request_token"


def verify_signature(request: requests.PreparedRequest, token_secret: str) -> dict[str, str]:
    """Verify the signature of a request (RFC 5849 §3.4) and return its OAuth parameters."""
    sent: str | bytes = request.headers["Authorization"]
    header = sent.decode() if isinstance(sent, bytes) else sent
    pairs = signature.collect_parameters(headers={"Authorization": header}, exclude_oauth_signature=False)
    query = parse_qsl(urlsplit(request.url or "").query)
    base = signature.signature_base_string(
        request.method or "",
        signature.base_string_uri(request.url or ""),
        signature.normalize_parameters([*query, *(pair for pair in pairs if pair[0] != "oauth_signature")]),
    )
    key = f"{SECRET}&{token_secret}".encode()
    expected = base64.b64encode(hmac.new(key, base.encode(), hashlib.sha1).digest()).decode()
    parameters = dict(pairs)
    assert parameters["oauth_signature"] == expected
    assert (parameters["oauth_signature_method"], parameters["oauth_consumer_key"]) == ("HMAC-SHA1", "cid")
    return parameters


def test_the_authorization_request_fetches_a_twitter_request_token(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    publish(mocked_requests, recording.documents())
    authorization = authorization_request(recording, scopes="repo", login_hint="u")
    assert (authorization.url, authorization.secret) == (f"{recording.authorize}?oauth_token=a", "b")
    request = request_to(mocked_requests, REQUEST_TOKEN)
    assert request.method == "POST"
    assert verify_signature(request, "")["oauth_callback"] == f"{recordings.CALLBACK}?state={FLOW}"


def test_twitter_requests_are_signed_with_the_token_secret(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    profile_of(recording, mocked_requests)
    exchange = request_to(mocked_requests, recording.data["token"])
    parameters = verify_signature(exchange, "b")
    assert (exchange.method, parameters["oauth_token"], parameters["oauth_verifier"]) == ("POST", "a", "v")
    request = request_to(mocked_requests, document_of(recording))
    assert verify_signature(request, "c")["oauth_token"] == "t"
    assert dict(parse_qsl(urlsplit(request.url or "").query)) == {
        "include_email": "true",
        "include_entities": "false",
        "skip_status": "true",
    }


@pytest.mark.parametrize(
    "response",
    [
        Response(status=500),
        Response(body=b"oauth_token=a"),
        Response(body=b"oauth_token=&oauth_token_secret=b"),
        Response(body=b"oauth_token=a%00&oauth_token_secret=b"),
        Response(body=b"\xff\xfe"),
        Response(body=b"<!doctype html>"),
        Response(body=b""),
    ],
    ids=lambda response: repr(response.body),
)
def test_an_invalid_request_token_response_is_an_error(response: Response, mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, {REQUEST_TOKEN: response})
    with pytest.raises(InvalidProviderResponse):
        authorization_request(ALL["twitter"])


@pytest.mark.parametrize(
    ("data", "secret"),
    [({"oauth_verifier": ""}, "b"), ({"oauth_token": ""}, "b"), ({"oauth_verifier": "", "denied": "a"}, "b"), ({}, "")],
)
def test_an_incomplete_twitter_callback_is_an_error(
    data: Mapping[str, str], secret: str, mocked_requests: RequestsMock
) -> None:
    publish(mocked_requests, ALL["twitter"].documents())
    with pytest.raises(InvalidProviderResponse):
        provider_of(ALL["twitter"], data=data).exchange(code="", secret=secret)
    assert len(mocked_requests.calls) == 0


def test_the_twitter_redirect_uri_may_have_a_query(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    publish(mocked_requests, recording.documents())
    config = conf.Provider(client_ids=("cid",), secret=conf.Secret(SECRET), redirect_uri="https://a.example/c?d=e")
    provider: Any = registry.PROVIDERS["twitter"].make(config, data={})
    provider.authorization_request(state=FLOW, scopes="", extra={})
    callback = verify_signature(request_to(mocked_requests, REQUEST_TOKEN), "")["oauth_callback"]
    assert callback == f"https://a.example/c?d=e&state={FLOW}"
