"""Where one provider differs from the others."""

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

from authsvc import conf
from oauthproviders import registry
from oauthproviders.base.contract import Token
from oauthproviders.errors import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.providers import azure, id_token_profiles, linkedin_oidc, vercel_marketplace
from tests.fakes.http_peer import Answer, in_json
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import FLOW, Internet, begin, profile_of, provider_of
from tests.oauthproviders.providers.recordings import ABSENT, ALL, SECRET, Recording

ADA = "ada@example.com"


def form_of(request: requests.PreparedRequest) -> dict[str, str]:
    body = request.body
    return dict(parse_qsl(body if isinstance(body, str) else (body or b"").decode()))


def document_of(recording: Recording) -> str:
    (address,) = recording.data["documents"]
    return str(address)


def verified(recording: Recording, internet: Internet) -> bool:
    (address,) = profile_of(recording, internet).addresses
    assert address.primary
    return address.verified


# Apple


def test_apple_is_sent_blanks_as_percent_20(internet: Internet) -> None:
    internet.answers = ALL["apple"].answers()
    assert "&scope=email%20name&" in begin(ALL["apple"], nonce="n1").url
    assert "n1" not in begin(ALL["apple"], nonce="n1").url


def test_apple_is_told_client_and_secret_in_the_body_too(internet: Internet) -> None:
    recording = ALL["apple"]
    profile_of(recording, internet)
    request = internet.request_to(recording.data["token"])
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
def test_apple_tells_the_name_beside_the_token_or_not_at_all(user: str, name: str | None, internet: Internet) -> None:
    profile = profile_of(ALL["apple"], internet, data={"user": user})
    assert (profile.claims.get("name"), profile.claims.get("full_name")) == (name, name)
    assert [each.email for each in profile.addresses] == [ADA]


@pytest.mark.parametrize("user", ["{", "[]", '"Ada"', '{"name":"Ada"}', '{"name":{"firstName":"\\u0000"}}'])
def test_a_name_from_apple_that_cannot_be_read_is_refused(user: str, internet: Internet) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["apple"], internet, data={"user": user})


def test_apple_may_have_no_address_for_somebody(internet: Internet) -> None:
    (address,) = profile_of(ALL["apple"].with_value(["id_token", "email"], ABSENT), internet).addresses
    assert (address.email, address.verified, address.primary) == ("", True, True)


@pytest.mark.parametrize(
    ("said", "custom_claims"),
    [
        ({"is_private_email": True}, {"is_private_email": True}),
        ({"is_private_email": "true", "auth_time": 1}, {"is_private_email": True, "auth_time": 1}),
        ({"is_private_email": "perhaps", "transfer_sub": "t"}, {"transfer_sub": "t"}),
        ({}, None),
    ],
)
def test_what_apple_says_further(said: Mapping[str, Any], custom_claims: Any) -> None:
    token = {"iss": "https://appleid.apple.com", "sub": "7", "email": ADA, **said}
    assert id_token_profiles.profile_of(token).claims.get("custom_claims") == custom_claims


@pytest.mark.parametrize("iss", ["https://appleid.apple.com.example", "https://accounts.google.com", ""])
def test_an_id_token_for_apple_from_another_issuer_is_refused(iss: str, internet: Internet) -> None:
    internet.answers = ALL["google"].answers()
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["apple"].with_value(["id_token", "iss"], iss), internet)


# ID tokens in general

OF_ISSUERS = pytest.mark.parametrize("name", [name for name, each in ALL.items() if "id_token" in each.data])


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
def test_an_id_token_for_somebody_else_is_refused(name: str, changes: Mapping[str, Any], internet: Internet) -> None:
    recording = ALL[name]
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.changed(id_token={**recording.data["id_token"], **changes}), internet)


@OF_ISSUERS
@pytest.mark.parametrize("id_token", ["", "a.b.c", "a.b", "\0", "é", None, 7])
def test_without_an_id_token_that_is_one_nobody_signs_in(name: str, id_token: Any, internet: Internet) -> None:
    recording = ALL[name]
    answer = {**recording.token_answer(), "id_token": id_token}
    internet.answers = {**recording.answers(), recording.data["token"]: in_json(answer)}
    provider = provider_of(recording)
    with pytest.raises(InvalidProviderResponse):
        provider.profile(provider.exchange(code="authcode", secret=""))


@pytest.mark.parametrize("name", ["apple", "google"])
def test_a_provider_that_does_not_say_where_it_is_lets_nobody_begin(name: str, internet: Internet) -> None:
    recording = ALL[name]
    with pytest.raises(
        ProviderUnavailable, match=f'^OIDC discovery from "{recording.issuer}/.well-known/openid-configuration"'
    ):
        begin(recording)


# Azure

NOT_VERIFIED: Sequence[Any] = (False, "0", "false", "True", "", 0, 1, None, [], {})


TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
MICROSOFT = "https://login.microsoftonline.com"
ONE_TENANT = (f"{MICROSOFT}/{TENANT}", f"https://login.microsoftonline.us/{TENANT}")
MANY_TENANTS = ("", *(f"{MICROSOFT}/{name}" for name in ("common", "organizations", "consumers", "Common")))


def authority(url: str) -> azure.Authority:
    return azure.authority_of(conf.Provider(url=url))


@pytest.mark.parametrize(
    ("said", "is_verified"),
    [
        *(({"xms_edov": value}, True) for value in (True, "1", "true")),
        *(({"xms_edov": value}, False) for value in NOT_VERIFIED),
    ],
)
@pytest.mark.parametrize("is_of_own_tenant", [True, False])
def test_azure_may_say_whether_the_domain_of_an_address_is_verified(
    is_of_own_tenant: bool, said: Mapping[str, Any], is_verified: bool
) -> None:
    token = {"iss": "i", "sub": "7", "email": ADA, **said}
    (address,) = azure.profile_of(token, is_of_own_tenant=is_of_own_tenant).addresses
    assert address.verified is is_verified


@pytest.mark.parametrize(
    ("url", "is_verified"), [*((url, True) for url in ONE_TENANT), *((url, False) for url in MANY_TENANTS)]
)
def test_an_address_of_azure_counts_without_that_only_where_the_tenant_is_the_operators(
    url: str, is_verified: bool
) -> None:
    token = {"iss": f"{MICROSOFT}/{TENANT}/v2.0", "sub": "7", "email": ADA}
    assert authority(url).profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize(
    ("url", "said", "is_verified"),
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
def test_a_tenant_of_somebody_elses_does_not_vouch_for_itself(
    url: str, said: Mapping[str, Any], is_verified: bool
) -> None:
    token = {"iss": f"https://sts.windows.net/{TENANT}/", "sub": "7", "email": ADA, **said}
    assert authority(url).profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize(("url", "is_verified"), [(f"{MICROSOFT}/{TENANT}", True), ("", False)])
def test_a_browser_that_comes_from_azure_brings_an_address_under_the_same_rule(
    url: str, is_verified: bool, internet: Internet
) -> None:
    silent = {key: value for key, value in ALL["azure"].data["id_token"].items() if key != "xms_edov"}
    token = f"{url or f'{MICROSOFT}/common'}/oauth2/v2.0/token"
    assert verified(ALL["azure"].changed(url=url, token=token, id_token=silent), internet) is is_verified


@pytest.mark.parametrize(
    ("url", "iss", "is_ours"),
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
def test_azure_takes_tokens_of_its_tenant_or_of_any(url: str, iss: str, is_ours: bool, internet: Internet) -> None:
    recording = ALL["azure"]
    base = url or f"{MICROSOFT}/common"
    changed = recording.changed(
        url=url,
        issuer=iss.removesuffix("/"),
        token=f"{base}/oauth2/v2.0/token",
        id_token={**recording.data["id_token"], "iss": iss},
    )
    internet.answers = changed.answers()
    known = internet.answers[f"{changed.issuer}/.well-known/openid-configuration"]
    internet.answers[f"{changed.issuer}/.well-known/openid-configuration"] = Answer(
        headers=known.headers,
        body=known.body.replace(f'"issuer": "{changed.issuer}"'.encode(), f'"issuer": "{iss}"'.encode()),
    )
    provider = provider_of(changed)
    token = provider.exchange(code="authcode", secret="")
    if is_ours:
        assert provider.profile(token).claims["iss"] == iss
    else:
        with pytest.raises(InvalidProviderResponse):
            provider.profile(token)


def test_a_tenant_for_customers_is_asked_whether_an_address_is_verified(internet: Internet) -> None:
    iss = f"https://contoso.ciamlogin.com/{TENANT}/v2.0"
    recording = ALL["azure"].changed(
        url=iss.removesuffix("/v2.0"),
        token=f"{iss.removesuffix('/v2.0')}/oauth2/v2.0/token",
        issuer=iss,
        id_token={"iss": iss, "aud": "cid", "sub": "7", "email": ADA, "name": "Ada L", "xms_edov": True},
    )
    profile = profile_of(recording, internet)
    assert profile.claims["name"] == "Ada L"
    assert "custom_claims" not in profile.claims
    assert not profile.addresses[0].verified


def test_azure_goes_to_every_tenant_unless_told_otherwise() -> None:
    assert begin(ALL["azure"].changed(url="")).url.startswith(f"{MICROSOFT}/common/oauth2/v2.0/authorize?")


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
def test_everybody_at_discord_has_a_picture(avatar: Any, discriminator: str, picture: str, internet: Internet) -> None:
    address = document_of(ALL["discord"])
    recording = ALL["discord"].with_value([address, "avatar"], avatar)
    said = profile_of(recording.with_value([address, "discriminator"], discriminator), internet).claims
    assert said["picture"] == said["avatar_url"] == f"https://cdn.discordapp.com/{picture}"


@pytest.mark.parametrize("discriminator", ["x", "", "²", "-1", "1.5", ABSENT])
def test_a_discriminator_that_is_no_number_is_refused_where_it_is_needed(
    discriminator: Any, internet: Internet
) -> None:
    address = document_of(ALL["discord"])
    recording = ALL["discord"].with_value([address, "avatar"], None)
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.with_value([address, "discriminator"], discriminator), internet)


# Whether an address is verified


@pytest.mark.parametrize(
    ("login_type", "said", "is_verified"),
    [("100", 0, False), ("100", 1, True), ("1", 0, True), (100, 0, False), (1, 0, True), (ABSENT, 0, True)],
)
def test_zoom_vouches_for_those_who_come_from_elsewhere(
    login_type: Any, said: int, is_verified: bool, internet: Internet
) -> None:
    address = document_of(ALL["zoom"])
    recording = ALL["zoom"].with_value([address, "login_type"], login_type)
    assert verified(recording.with_value([address, "verified"], said), internet) is is_verified


@pytest.mark.parametrize(("valid", "confirmed"), [(True, False), (False, True), (False, False), (True, ABSENT)])
def test_kakao_has_to_say_both(valid: bool, confirmed: Any, internet: Internet) -> None:
    account = (document_of(ALL["kakao"]), "kakao_account")
    recording = ALL["kakao"].with_value([*account, "is_email_valid"], valid)
    assert not verified(recording.with_value([*account, "is_email_verified"], confirmed), internet)


@pytest.mark.parametrize(
    ("name", "key"), [("discord", "verified"), ("keycloak", "email_verified"), ("slack_oidc", "email_verified")]
)
@pytest.mark.parametrize("value", [False, ABSENT])
def test_an_address_that_is_not_said_to_be_verified_is_not(name: str, key: str, value: Any, internet: Internet) -> None:
    assert not verified(ALL[name].with_value([document_of(ALL[name]), key], value), internet)


@pytest.mark.parametrize(("said", "is_verified"), [("false", False), (False, False), (True, True), ("TRUE", False)])
def test_linkedin_says_so_in_words_or_in_json(said: Any, is_verified: bool) -> None:
    token = {"iss": "i", "sub": "7", "email": ADA, "email_verified": said}
    assert linkedin_oidc.profile_of(token).addresses[0].verified is is_verified


@pytest.mark.parametrize("confirmed_at", [None, "", ABSENT])
def test_gitlab_without_a_confirmation_vouches_for_nothing(confirmed_at: Any, internet: Internet) -> None:
    recording = ALL["gitlab"].with_value(["https://gitlab.com/api/v4/user", "confirmed_at"], confirmed_at)
    assert not any(each.verified for each in profile_of(recording, internet).addresses)


# Google


@pytest.mark.parametrize(
    ("key", "value"), [("verified_email", True), ("email_verified", True), ("verified_email", False)]
)
def test_google_without_an_id_token_is_asked_for_a_profile(key: str, value: bool, internet: Internet) -> None:
    user_info = "https://www.googleapis.com/userinfo/v2/me"
    user = {"id": "7", "name": "Ada L", "picture": "https://i.example/a", "email": ADA, key: value, "hd": "example.com"}
    internet.answers = {user_info: in_json(user)}
    profile = provider_of(ALL["google"]).profile(Token(access_token="t"))
    assert dict(profile.claims) == {
        **{key: value for key, value in ALL["google"].identity_data.items() if key != "custom_claims"},
        "iss": user_info,
    }
    assert profile.addresses[0].verified is value


@pytest.mark.parametrize("sub", ["7", "", None])
def test_the_profile_of_google_has_its_subject_in_id_alone(sub: Any, internet: Internet) -> None:
    internet.answers = {"https://www.googleapis.com/userinfo/v2/me": in_json({"sub": "8", "id": sub, "email": ADA})}
    if sub == "7":
        assert provider_of(ALL["google"]).profile(Token(access_token="t")).claims["sub"] == "7"
    else:
        with pytest.raises(InvalidProviderResponse):
            provider_of(ALL["google"]).profile(Token(access_token="t"))


# What goes with a call


def test_facebook_gets_a_proof_that_the_secret_is_known(internet: Internet) -> None:
    profile_of(ALL["facebook"], internet)
    request = internet.request_to("https://graph.facebook.com/me")
    assert parse_qs(urlsplit(request.url or "").query) == {
        "fields": ["email,first_name,last_name,name,picture"],
        "appsecret_proof": [hmac.new(SECRET.encode(), b"t", hashlib.sha256).hexdigest()],
    }
    assert request.headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("name", "header", "value"), [("twitch", "Client-Id", "cid"), ("notion", "Notion-Version", "2021-08-16")]
)
def test_a_header_without_which_there_is_no_profile(name: str, header: str, value: str, internet: Internet) -> None:
    profile_of(ALL[name], internet)
    request = internet.request_to(document_of(ALL[name]))
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
def test_a_provider_is_told_what_of_a_profile_is_wanted(
    name: str, address: str, query: str, internet: Internet
) -> None:
    profile_of(ALL[name], internet)
    assert query in dict(parse_qsl(urlsplit(internet.request_to(address).url or "").query)).values()


def test_kakao_is_told_the_client_in_the_body_alone(internet: Internet) -> None:
    profile_of(ALL["kakao"], internet)
    request = internet.request_to(ALL["kakao"].data["token"])
    assert "Authorization" not in request.headers
    assert form_of(request).items() >= {"client_id": "cid", "client_secret": SECRET}.items()


def test_x_gets_the_verifier_of_the_challenge_it_was_shown(internet: Internet) -> None:
    recording = ALL["x"]
    internet.answers = recording.answers()
    outset = begin(recording)
    provider_of(recording).exchange(code="authcode", secret=outset.secret)
    assert form_of(internet.request_to(recording.data["token"]))["code_verifier"] == outset.secret
    digest = base64.urlsafe_b64encode(hashlib.sha256(outset.secret.encode()).digest()).rstrip(b"=").decode()
    assert f"&code_challenge={digest}&code_challenge_method=S256&" in outset.url


@pytest.mark.parametrize("extra", [{"connection": "c"}, {"organization": "o"}, {"provider": "GoogleOAuth"}], ids=str)
def test_workos_is_told_whose_sign_in_it_is(extra: Mapping[str, str]) -> None:
    query = dict(parse_qsl(urlsplit(begin(ALL["workos"], **extra).url).query))
    assert query.items() >= extra.items()
    assert "scope" not in query


# What a profile need not have


def test_a_picture_of_spotify_may_have_no_size(internet: Internet) -> None:
    address = document_of(ALL["spotify"])
    images = [{"url": "https://i.example/first", "height": None, "width": None}]
    assert profile_of(ALL["spotify"].with_value([address, "images"], images), internet).claims["picture"] == (
        "https://i.example/first"
    )


def test_twitch_must_know_somebody(internet: Internet) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(ALL["twitch"].with_value([document_of(ALL["twitch"]), "data"], []), internet)


LINKEDIN = "https://api.linkedin.com/v2/"


@pytest.mark.parametrize(
    ("way", "value", "key", "said"),
    [
        (["me", "firstName", "localized"], {"de_DE": "Ada"}, "name", "L"),
        (["me", "lastName"], {}, "name", "Ada"),
        (["me", "profilePicture"], ABSENT, "picture", None),
        (["me", "profilePicture", "displayImage~", "elements"], [], "picture", None),
    ],
)
def test_linkedin_may_leave_out_names_and_pictures(
    way: list[str | int], value: Any, key: str, said: Any, internet: Internet
) -> None:
    recording = ALL["linkedin"].with_value([f"{LINKEDIN}{way[0]}", *way[1:]], value)
    assert profile_of(recording, internet).claims.get(key) == said


def test_linkedin_may_leave_out_the_address(internet: Internet) -> None:
    recording = ALL["linkedin"].with_value([f"{LINKEDIN}emailAddress", "elements"], [])
    assert profile_of(recording, internet).addresses == ()


@pytest.mark.parametrize(("known", "sub"), [("g7", "global_user_id:g7"), ("", "s"), (" ", "s"), (None, "s")])
def test_vercel_knows_people_across_installations(known: Any, sub: str) -> None:
    said = vercel_marketplace.profile_of({"iss": "i", "sub": "s", "global_user_id": known}).claims
    assert said["sub"] == said["provider_id"] == sub


# ID tokens of issuers that have a flow of another kind, or none here


@pytest.mark.parametrize(
    ("token", "said", "is_verified"),
    [
        (
            {"iss": "https://www.facebook.com", "sub": "7", "name": "Ada L", "picture": "p", "given_name": "Ada"},
            {"name": "Ada L", "picture": "p"},
            True,
        ),
        (
            {"iss": "https://kauth.kakao.com", "sub": "7", "nickname": "Ada", "picture": "p"},
            {"name": "Ada", "preferred_username": "Ada", "picture": "p"},
            False,
        ),
        (
            {"iss": "https://accounts.snapchat.com/accounts/oauth2/token", "sub": "7", "name": "Ada", "locale": "en"},
            {"name": "Ada", "locale": "en"},
            True,
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
        ({"iss": "https://account.apple.com", "sub": "7", "email_verified": False}, {}, True),
        ({"iss": "https://id.example", "sub": "7", "name": "Ada", "role": "admin"}, {"name": "Ada"}, False),
        ({"iss": "https://id.example", "sub": "7", "email_verified": "true"}, {}, False),
        ({"iss": "https://id.example", "sub": "7", "email_verified": True}, {"email_verified": True}, True),
        ({"iss": f"https://sts.windows.net/{TENANT}/", "sub": "7", "name": "Ada"}, {"name": "Ada"}, False),
    ],
    ids=lambda value: value["iss"] if isinstance(value, dict) and "iss" in value else None,
)
def test_an_id_token_is_read_as_its_issuer_writes_it(
    token: Mapping[str, Any], said: Mapping[str, Any], is_verified: bool
) -> None:
    profile = id_token_profiles.profile_of({**token, "email": ADA})
    claims = {key: value for key, value in profile.claims.items() if key not in {"iss", "sub", "provider_id", "email"}}
    assert claims == said
    assert (profile.claims["iss"], profile.claims["sub"]) == (token["iss"], "7")
    assert [(each.email, each.verified, each.primary) for each in profile.addresses] == [(ADA, is_verified, True)]


# Twitter

REQUEST_TOKEN = "https://api.twitter.com/oauth/request_token"


def signed_by(request: requests.PreparedRequest, token_secret: str) -> dict[str, str]:
    """What a request says in its header, after a look at the signature (RFC 5849 §3.4)."""
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
    said = dict(pairs)
    assert said["oauth_signature"] == expected
    assert (said["oauth_signature_method"], said["oauth_consumer_key"]) == ("HMAC-SHA1", "cid")
    return said


def test_twitter_is_asked_for_a_token_before_the_browser_goes_there(internet: Internet) -> None:
    recording = ALL["twitter"]
    internet.answers = recording.answers()
    outset = begin(recording, scopes="repo", login_hint="u")
    assert (outset.url, outset.secret) == (f"{recording.authorize}?oauth_token=a", "b")
    request = internet.request_to(REQUEST_TOKEN)
    assert request.method == "POST"
    assert signed_by(request, "")["oauth_callback"] == f"{recordings.CALLBACK}?state={FLOW}"


def test_twitter_gets_every_later_call_signed_with_the_secret_of_its_token(internet: Internet) -> None:
    recording = ALL["twitter"]
    profile_of(recording, internet)
    exchange = internet.request_to(recording.data["token"])
    said = signed_by(exchange, "b")
    assert (exchange.method, said["oauth_token"], said["oauth_verifier"]) == ("POST", "a", "v")
    request = internet.request_to(document_of(recording))
    assert signed_by(request, "c")["oauth_token"] == "t"
    assert dict(parse_qsl(urlsplit(request.url or "").query)) == {
        "include_email": "true",
        "include_entities": "false",
        "skip_status": "true",
    }


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(body=b"oauth_token=a"),
        Answer(body=b"oauth_token=&oauth_token_secret=b"),
        Answer(body=b"oauth_token=a%00&oauth_token_secret=b"),
        Answer(body=b"\xff\xfe"),
        Answer(body=b"<!doctype html>"),
        Answer(body=b""),
    ],
    ids=lambda answer: repr(answer.body),
)
def test_without_a_request_token_nobody_is_sent_to_twitter(answer: Answer, internet: Internet) -> None:
    internet.answers = {REQUEST_TOKEN: answer}
    with pytest.raises(InvalidProviderResponse):
        begin(ALL["twitter"])


@pytest.mark.parametrize(
    ("brought", "secret"),
    [({"oauth_verifier": ""}, "b"), ({"oauth_token": ""}, "b"), ({"oauth_verifier": "", "denied": "a"}, "b"), ({}, "")],
)
def test_who_comes_back_from_twitter_without_everything_is_not_let_in(
    brought: Mapping[str, str], secret: str, internet: Internet
) -> None:
    internet.answers = ALL["twitter"].answers()
    with pytest.raises(InvalidProviderResponse):
        provider_of(ALL["twitter"], data=brought).exchange(code="", secret=secret)
    assert internet.asked == []


def test_the_callback_of_twitter_may_have_a_query_of_its_own(internet: Internet) -> None:
    recording = ALL["twitter"]
    internet.answers = recording.answers()
    config = conf.Provider(client_ids=("cid",), secret=conf.Secret(SECRET), redirect_uri="https://a.example/c?d=e")
    made: Any = registry.PROVIDERS["twitter"].make(config, data={})
    made.authorization_request(flow_id=FLOW, scopes="", extra={})
    told = signed_by(internet.request_to(REQUEST_TOKEN), "")["oauth_callback"]
    assert told == f"https://a.example/c?d=e&state={FLOW}"
