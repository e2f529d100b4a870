"""POST /token?grant_type=id_token: issuers, their audiences, and how a token selects one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import responses

from accounts.models import User
from authsvc.conf import Provider
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import make_user
from tests.fakes.http_peer import MockedServer
from tests.fakes.issuer import Issuer
from tests.oauthproviders.flow.id_token_requests import BUILT_IN, NONCE, ONE_SIDED, RSA, exchange, invalid, parse_error
from tests.observations import assert_error
from tokens.models import Session

pytestmark = pytest.mark.django_db

MICROSOFT = "https://login.microsoftonline.com"
TENANT = f"{MICROSOFT}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"
PublishIssuer = Callable[[str], Issuer]


@pytest.fixture
def publish_issuer(issuer: Issuer, mocked_requests: responses.RequestsMock) -> PublishIssuer:
    """`publish_issuer(name)` returns an issuer whose documents are at its own URL."""

    def publish(name: str) -> Issuer:
        scheme, origin, path, *_ = urlsplit(name)
        published = Issuer(
            MockedServer(mocked_requests, url=f"{scheme}://{origin}"), path=path.removesuffix("/"), key=RSA
        )
        published.name = name
        published.publish_discovery()
        return published

    return publish


UNVERIFIED_FACEBOOK = "Unverified email with facebook. A confirmation email has been sent to your facebook email"


@pytest.mark.parametrize(
    ("name", "issuer_name"),
    [
        ("google", "https://accounts.google.com"),
        ("facebook", "https://www.facebook.com"),
        ("snapchat", "https://accounts.snapchat.com/accounts/oauth2/token"),
        ("apple", "https://appleid.apple.com"),
        ("apple", "https://account.apple.com"),
        ("azure", TENANT),
    ],
)
@pytest.mark.parametrize("by_issuer", [False, True])
def test_a_provider_is_selected_by_name_or_issuer(
    api: Api, publish_issuer: PublishIssuer, name: str, issuer_name: str, by_issuer: bool
) -> None:
    token = publish_issuer(issuer_name).token(xms_edov=True)
    parameters = {"provider": None, "client_id": "any", "issuer": issuer_name} if by_issuer else {"provider": name}
    response = exchange(api, token, **parameters)
    if name == "facebook":  # its addresses are unverified
        assert_error(response, 422, "provider_email_needs_verification", UNVERIFIED_FACEBOOK)
    else:
        read_success(response)
    user = User.objects.get()
    assert (user.email, [identity.provider for identity in user.identities.all()]) == ("ada@example.com", [name])


@pytest.mark.parametrize(
    ("name", "issuer_name", "url"),
    [("kakao", "https://kauth.kakao.com", ""), ("azure", TENANT, ""), ("azure", TENANT, f"{MICROSOFT}/common")],
)
def test_an_address_that_the_issuer_has_not_verified_matches_no_account(
    api: Api,
    publish_issuer: PublishIssuer,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    name: str,
    issuer_name: str,
    url: str,
) -> None:
    auth_config(providers={"keycloak": Provider(), name: Provider(enabled=True, client_ids=("cid",), url=url)})
    user = make_user(email="ada@example.com")
    response = exchange(api, publish_issuer(issuer_name).token(email_verified=None), provider=name)
    text = f"Unverified email with {name}. Verify the email with {name} in order to sign in"
    assert_error(response, 422, "provider_email_needs_verification", text)
    assert [identity.provider for identity in user.identities.all()] == ["email"]
    assert (mailbox.emails, Session.objects.count()) == ([], 0)


OWN = TENANT.removesuffix("/v2.0")
FOREIGN = f"{MICROSOFT}/72f988bf-86f1-41af-91ab-2d7cd011db47"


@pytest.mark.parametrize(
    ("url", "iss", "is_accepted"),
    [
        (OWN, TENANT, True),
        (OWN, f"{TENANT}/", True),
        (OWN, f"https://sts.windows.net/{OWN.rpartition('/')[2]}/", True),
        (OWN, f"{FOREIGN}/v2.0", False),
        (OWN, f"https://sts.windows.net/{FOREIGN.rpartition('/')[2]}/", False),
        (OWN, "https://sts.windows.net/", False),
        (OWN, f"{OWN}/v2.0/x", False),
        (OWN, f"{MICROSOFT}/common/v2.0", False),
        ("https://login.microsoftonline.us/t", "https://login.microsoftonline.us/t/v2.0", True),
        ("https://login.microsoftonline.us/t", f"{MICROSOFT}/t/v2.0", False),
        ("https://login.microsoftonline.us/t", "https://sts.windows.net/t/", False),
        ("https://login.microsoftonline.us/t", "/", False),
        ("", f"{FOREIGN}/v2.0", True),
        (f"{MICROSOFT}/organizations", f"{FOREIGN}/v2.0", True),
    ],
)
def test_only_issuers_of_the_configured_tenant_are_accepted(
    api: Api, publish_issuer: PublishIssuer, auth_config: ChangeConfig, url: str, iss: str, is_accepted: bool
) -> None:
    auth_config(providers={"azure": Provider(enabled=True, client_ids=("cid",), url=url)})
    response = exchange(api, publish_issuer(iss).token(xms_edov=True), provider="azure")
    if is_accepted:
        assert read_success(response)["user"]["app_metadata"]["provider"] == "azure"
    else:
        assert_error(response, *VALIDATION, NOT_AZURES)
        assert not User.objects.exists()


def test_vercel_uses_its_own_claims(api: Api, publish_issuer: PublishIssuer) -> None:
    claims: dict[str, Any] = {"user_email": "ada@example.com", "global_user_id": "g1", "email": None}
    token = publish_issuer("https://marketplace.vercel.com").token(**claims)
    body = read_success(exchange(api, token, provider="vercel_marketplace"))
    assert body["user"]["identities"][0]["id"] == "global_user_id:g1"


def test_keycloak_is_selected_by_the_url_of_the_realm(api: Api, issuer: Issuer) -> None:
    body = read_success(exchange(api, issuer.token(), provider=None, client_id="x", issuer=issuer.name))
    assert body["user"]["app_metadata"]["provider"] == "keycloak"


def test_the_alternative_issuer_of_google_is_accepted(api: Api, publish_issuer: PublishIssuer) -> None:
    token = publish_issuer("https://accounts.google.com").token(iss="accounts.google.com", hd="example.com")
    body = read_success(exchange(api, token, provider="google"))
    assert body["user"]["identities"][0]["identity_data"]["custom_claims"] == {"hd": "example.com"}


def test_the_ios_bundle_id_is_an_audience_of_apple_only(api: Api, publish_issuer: PublishIssuer) -> None:
    token = publish_issuer("https://appleid.apple.com").token(aud="com.example.app")
    read_success(exchange(api, token, provider="apple"))
    response = exchange(api, publish_issuer("https://accounts.google.com").token(aud="com.example.app"),
                     provider="google")  # fmt: skip
    assert parse_error(response) == invalid("Unacceptable audience in id_token: [com.example.app]")


def test_the_nonce_of_facebook_is_not_checked(api: Api, publish_issuer: PublishIssuer) -> None:
    token = publish_issuer("https://www.facebook.com").token(nonce="other", email_verified=None)
    response = exchange(api, token, provider="facebook")
    assert_error(response, 422, "provider_email_needs_verification", UNVERIFIED_FACEBOOK)
    google = publish_issuer("https://accounts.google.com").token(nonce="other")
    assert parse_error(exchange(api, google, provider="google")) == ONE_SIDED


VALIDATION = (400, "validation_failed")
NOT_APPLES = "Detected ID token issuer is not an Apple ID token issuer"
NOT_AZURES = "Detected ID token issuer is not an Azure ID token issuer"


@pytest.mark.parametrize(
    ("parameters", "iss", "text"),
    [
        ({"provider": "apple"}, "https://id.example.com", NOT_APPLES),
        ({"provider": "apple"}, "https://appleid.apple.com.x", NOT_APPLES),
        ({"provider": "azure"}, "https://id.example.com", NOT_AZURES),
        ({"provider": "azure"}, "https://login.microsoftonline.com/../evil", NOT_AZURES),
        ({"provider": "azure"}, "https://login.microsoftonline.com/a?b=c", NOT_AZURES),
        ({"provider": "apple", "issuer": "https://account.apple.com"}, "https://appleid.apple.com",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "azure", "issuer": TENANT}, "https://sts.windows.net/t/",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "google", "issuer": "https://id.example.com"}, "https://accounts.google.com",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "github"}, "https://id.example.com", 'Custom OIDC provider "github" not allowed'),
        ({"provider": "Google"}, "https://accounts.google.com", 'Custom OIDC provider "Google" not allowed'),
        ({"provider": None, "client_id": "cid", "issuer": "https://id.example.com"}, "https://id.example.com",
         'Custom OIDC provider "" not allowed'),
    ],
)  # fmt: skip
def test_a_token_of_another_issuer_is_an_error(
    api: Api, publish_issuer: PublishIssuer, parameters: dict[str, Any], iss: str, text: str
) -> None:
    assert_error(exchange(api, publish_issuer(iss).token(), **parameters), *VALIDATION, text)
    assert not User.objects.exists()


@pytest.mark.parametrize(("provider", "name"), [("apple", "an Apple"), ("azure", "an Azure")])
def test_an_issuer_that_cannot_be_detected_is_an_error(api: Api, issuer: Issuer, provider: str, name: str) -> None:
    text = f"Unable to detect issuer in ID token for {name.removeprefix('an ')} provider"
    assert_error(exchange(api, "abc", provider=provider), *VALIDATION, text)


@pytest.mark.parametrize(
    ("provider", "issuer_name"),
    [
        ("google", "https://accounts.google.com"),
        ("facebook", "https://www.facebook.com"),
        ("kakao", "https://kauth.kakao.com"),
    ],
)
def test_a_disabled_provider_is_an_error(
    api: Api, issuer: Issuer, auth_config: ChangeConfig, provider: str, issuer_name: str
) -> None:
    auth_config(providers={name: Provider(client_ids=("cid",)) for name in BUILT_IN})
    text = f'Provider (issuer "{issuer_name}") is not enabled'
    assert_error(exchange(api, "abc", provider=provider), 400, "provider_disabled", text)


def test_keycloak_without_a_url_is_disabled(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",))})
    assert_error(exchange(api, "abc"), 400, "provider_disabled", 'Provider (issuer "") is not enabled')


def test_a_configured_issuer_is_accepted_for_its_configured_audiences(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    other = Issuer(issuer.server, path="/other", key=RSA)
    auth_config(
        federation={
            "id_token_issuers": (other.name,),
            "id_token_audiences": (f"{other.name}=app", f"{other.name}=second", "https://id.example=another"),
        }
    )
    parameters: dict[str, Any] = {"provider": None, "issuer": other.name}
    body = read_success(exchange(api, other.token(aud="app"), client_id="app", **parameters))
    assert body["user"]["app_metadata"]["provider"] == other.name
    for client_id in ("another", "second"):
        response = exchange(api, other.token(aud="app"), client_id=client_id, **parameters)
        assert parse_error(response) == invalid("Unacceptable audience in id_token: [app]")
    response = exchange(api, other.token(aud="another"), client_id="another", **parameters)
    assert parse_error(response) == invalid("Unacceptable audience in id_token: [another]")
    assert parse_error(exchange(api, other.token(aud="app", **NONCE), client_id="app", **parameters)) == ONE_SIDED
