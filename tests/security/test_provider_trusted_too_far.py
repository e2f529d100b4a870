"""Attack: a provider, or a client that names a connection or an audience, vouches for the address of another person."""

from __future__ import annotations

from typing import Any

import pytest
import responses
from django.utils import timezone

from accounts.models import Identity, User
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user
from tests.fakes.http_peer import MockedServer, in_json
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, provider_settings
from tests.oauthproviders.flow.id_token_requests import RSA, exchange
from tests.observations import redirect_fragment

pytestmark = pytest.mark.django_db

VICTIM = "ada@example.com"
MICROSOFT = "https://login.microsoftonline.com"
OWN_TENANT, OTHER_TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47", "9188040d-6c67-4c5b-b112-36a304b66dad"


def providers_of(user: User) -> list[str]:
    return sorted(identity.provider for identity in user.identities.all())


# WorkOS


@pytest.fixture
def workos(server: MockedServer, auth_config: ChangeConfig) -> MockedServer:
    auth_config(providers={"workos": provider_settings(url=server.url)})
    return server


def sign_in_at_workos(workos: MockedServer, *, organization: str, connection: str, **query: str) -> dict[str, str]:
    profile = {"id": f"prof_{organization}", "email": VICTIM, "connection_id": connection}
    profile |= {"organization_id": organization} if organization else {}
    workos.respond(in_json({"access_token": "t", "profile": profile}), path="/sso/token")
    return redirect_fragment(Browser(provider="workos").sign_in(**query))


def test_a_connection_that_the_client_names_is_not_trusted(workos: MockedServer) -> None:
    victim = make_user(email=VICTIM)
    fragment = sign_in_at_workos(workos, organization="org_evil", connection="conn_evil")
    assert fragment["error_code"] == "provider_email_needs_verification"
    assert providers_of(victim) == ["email"]


@pytest.mark.parametrize("setting", ["workos_organizations", "workos_connections"])
def test_only_the_configured_organization_or_connection_signs_in(
    setting: str, workos: MockedServer, auth_config: ChangeConfig
) -> None:
    victim = make_user(email=VICTIM)
    auth_config(federation={setting: ("org_own", "conn_own")})

    refused = sign_in_at_workos(workos, organization="org_evil", connection="conn_evil")
    without = sign_in_at_workos(workos, organization="", connection="conn_google")

    assert (refused["error_code"], without["error_code"]) == ("unexpected_failure", "unexpected_failure")
    assert (providers_of(victim), User.objects.count()) == (["email"], 1)
    assert "access_token" in sign_in_at_workos(workos, organization="org_own", connection="conn_own")
    assert providers_of(victim) == ["email", "workos"]


# Audiences of ID tokens


def test_the_token_of_another_application_is_not_accepted(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    other = Issuer(issuer.server, path="/other", key=RSA)
    victim = make_user(email=VICTIM)
    auth_config(federation={"id_token_issuers": (other.name,), "id_token_audiences": (f"{other.name}=own-app",)})
    stolen = other.token(aud="app-of-the-attacker")
    named: dict[str, Any] = {"provider": None, "issuer": other.name}

    for client_id in ("app-of-the-attacker", "own-app", f"{other.name}=own-app"):
        response = exchange(api, stolen, client_id=client_id, **named)
        assert response.json()["error_description"] == "Unacceptable audience in id_token: [app-of-the-attacker]"
    assert providers_of(victim) == ["email"]
    body = exchange(api, other.token(aud="own-app"), client_id="own-app", **named).json()
    assert body["user"]["id"] == str(victim.id)


def test_an_issuer_without_configured_audiences_accepts_no_token(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    other = Issuer(issuer.server, path="/other", key=RSA)
    third = Issuer(issuer.server, path="/third", key=RSA)
    auth_config(federation={"id_token_issuers": (other.name, third.name), "id_token_audiences": (f"{third.name}=app",)})
    response = exchange(api, other.token(aud="app"), client_id="app", provider=None, issuer=other.name)
    assert response.status_code == 400
    assert not User.objects.exists()


# Providers without a statement about verification


@pytest.mark.parametrize(
    ("name", "path", "document"),
    [
        ("figma", "/v1/me", {"id": "666", "email": VICTIM}),
        ("fly", "/oauth/token/info", {"user_id": "666", "email": VICTIM}),
        ("notion", "/v1/users/me", {"bot": {"owner": {"user": {"id": "666", "person": {"email": VICTIM}}}}}),
        ("facebook", "/me", {"id": "666", "email": VICTIM}),
        ("snapchat", "/v1/me", {"data": {"me": {"externalId": "666", "email": VICTIM}}}),
        ("zoom", "/v2/users/me", {"id": "666", "email": VICTIM, "verified": 0, "login_type": "101"}),
        (
            "slack",
            "/api/openid.connect.userInfo",
            {"https://slack.com/user_id": "U666", "email": VICTIM, "email_verified": False},
        ),
    ],
)
def test_an_unverified_address_does_not_open_the_account(
    name: str, path: str, document: dict[str, Any], server: MockedServer, auth_config: ChangeConfig
) -> None:
    auth_config(providers={name: provider_settings(url=server.url)})
    victim = make_user(email=VICTIM)
    browser = Browser(provider=name)
    token_path = {
        "figma": "/v1/oauth/token",
        "fly": "/oauth/token",
        "notion": "/v1/oauth/token",
        "facebook": "/oauth/access_token",
        "snapchat": "/accounts/oauth2/token",
        "zoom": "/oauth/token",
        "slack": "/api/oauth.access",
    }[name]
    server.respond(in_json({"access_token": "t"}), path=token_path)
    server.respond(in_json(document), path=path)

    assert redirect_fragment(browser.sign_in())["error_code"] == "provider_email_needs_verification"
    assert providers_of(victim) == ["email"]

    # After the confirmation of an address the identity signs in as before.
    User.objects.filter(identities__provider=name).update(email_confirmed_at=timezone.now())
    assert "access_token" in redirect_fragment(browser.sign_in())


# Microsoft Entra ID across tenants


@pytest.fixture
def microsoft(mocked_requests: responses.RequestsMock) -> MockedServer:
    return MockedServer(mocked_requests, url=MICROSOFT)


def publish(microsoft: MockedServer, tenant: str) -> Issuer:
    issuer = Issuer(microsoft, path=f"/{tenant}/v2.0", key=RSA)
    issuer.publish_discovery()
    return issuer


def test_the_same_subject_in_another_tenant_is_another_user(issuer: Issuer, api: Api, microsoft: MockedServer) -> None:
    tokens = [
        publish(microsoft, tenant).token(sub="7", email=f"{number}@example.com", xms_edov=True)
        for number, tenant in enumerate((OWN_TENANT, OTHER_TENANT))
    ]
    users = [exchange(api, token, provider="azure").json()["user"] for token in tokens]
    again = [exchange(api, token, provider="azure").json()["user"]["id"] for token in tokens]

    assert users[0]["id"] != users[1]["id"]
    assert again == [user["id"] for user in users]
    assert [user["identities"][0]["id"] for user in users] == [f"{OWN_TENANT}:7", f"{OTHER_TENANT}:7"]
    assert {user["identities"][0]["identity_data"]["sub"] for user in users} == {"7"}


def test_an_identity_from_before_is_kept_for_its_own_tenant_only(
    issuer: Issuer, api: Api, microsoft: MockedServer
) -> None:
    owner = make_user(email=VICTIM)
    data = {"iss": f"https://sts.windows.net/{OWN_TENANT}/", "sub": "7", "email": VICTIM, "email_verified": True}
    stored = Identity.objects.create(
        user=owner, provider="azure", provider_id="7", identity_data=data, created_at=timezone.now()
    )
    foreign = publish(microsoft, OTHER_TENANT).token(sub="7", email="mallory@example.com", xms_edov=True)
    own = publish(microsoft, OWN_TENANT).token(sub="7", email="renamed@example.com", xms_edov=True)

    assert exchange(api, foreign, provider="azure").json()["user"]["id"] != str(owner.id)
    body = exchange(api, own, provider="azure").json()

    assert body["user"]["id"] == str(owner.id)
    stored.refresh_from_db()
    assert stored.provider_id == f"{OWN_TENANT}:7"
    assert exchange(api, own, provider="azure").json()["user"]["id"] == str(owner.id)
    assert Identity.objects.filter(provider="azure").count() == 2


def test_an_identity_from_before_cannot_be_linked_to_a_second_account(
    issuer: Issuer, api: Api, microsoft: MockedServer
) -> None:
    data = {"iss": f"{MICROSOFT}/{OWN_TENANT}/v2.0", "sub": "7", "email": VICTIM, "email_verified": True}
    Identity.objects.create(
        user=make_user(), provider="azure", provider_id="7", identity_data=data, created_at=timezone.now()
    )
    token = publish(microsoft, OWN_TENANT).token(sub="7", email=VICTIM, xms_edov=True)
    response = exchange(api, token, provider="azure", bearer=make_session().access_token, link_identity=True)
    assert response.json()["error_code"] == "identity_already_exists"
