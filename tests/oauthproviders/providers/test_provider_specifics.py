"""Behaviour of single providers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from responses import RequestsMock

from oauthproviders.base.contract import InvalidProviderResponse, ProviderToken, ProviderUnavailable
from oauthproviders.providers import id_token_profiles, linkedin_oidc, vercel_marketplace
from tests.fakes.http_peer import in_json
from tests.oauthproviders.providers.conftest import authorization_request, profile_of, provider_of, publish, request_to
from tests.oauthproviders.providers.provider_documents import (
    ADA,
    MICROSOFT,
    TENANT,
    document_of,
    form_of,
    has_verified_address,
)
from tests.oauthproviders.providers.recordings import ABSENT, ALL, SECRET

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
