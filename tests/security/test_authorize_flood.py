"""A client without a session fills the tables of flows and challenges."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import Model
from django.utils import timezone

from accounts.models import CeremonyType, FactorChallenge, PasskeyChallenge
from authsvc import tasks
from authsvc.jobs.cleanup import MANDATORY_BATCH_SIZE
from oauthproviders.models import ClientState
from oauthserver.models import OAuthAuthorization
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.oauthproviders.browser import provider_settings
from tests.oauthserver import client_application
from tests.oauthserver.client_application import Application
from tests.oauthserver.test_pushed_requests import push
from tokens.models import FlowState

pytestmark = pytest.mark.django_db

BURST = 30
AUTHORIZE = "/authorize?provider=github"
FAR = timedelta(days=2)


@pytest.fixture(autouse=True)
def github(auth_config: ChangeConfig) -> None:
    auth_config(
        providers={"github": provider_settings(url="https://provider.example.com")},
        signup={"manual_linking_enabled": True},
    )


@pytest.mark.usefixtures("slow_refill")
def test_a_flood_of_started_sign_ins_is_refused(api: Api) -> None:
    statuses = [api.get(AUTHORIZE).status_code for _ in range(2 * BURST)]

    assert statuses == [302] * BURST + [429] * BURST
    assert FlowState.objects.count() == BURST
    assert api.get(AUTHORIZE, headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 302


@pytest.mark.usefixtures("slow_refill")
def test_a_flood_of_started_links_is_refused(api: Api) -> None:
    bearer = factories.make_session().access_token
    path = "/user/identities/authorize?provider=github"

    statuses = [api.get(path, bearer=bearer).status_code for _ in range(BURST + 1)]

    assert statuses == [302] * BURST + [429]


@pytest.mark.usefixtures("slow_refill")
def test_a_flood_of_callbacks_is_refused(api: Api) -> None:
    locations = [api.get(f"/callback?state={uuid4()}&code=x").headers["Location"] for _ in range(BURST + 1)]

    assert "over_request_rate_limit" not in "".join(locations[:BURST])
    assert "error_code=over_request_rate_limit" in locations[BURST]


@pytest.mark.usefixtures("slow_refill")
def test_a_flood_of_authorization_requests_is_refused(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"enabled": True, "authorization_path": "/consent", "allow_dynamic_registration": True})
    public = client_application.register(api)
    confidential = client_application.register(api, token_endpoint_auth_method="client_secret_post")
    metadata = {"redirect_uris": [client_application.CALLBACK], "token_endpoint_auth_method": "client_secret_post"}
    registered = api.post("/oauth/clients/register", metadata).json()
    own = Application(registered["client_id"], registered["client_secret"], "client_secret_post")

    pushed = [push(public, scope="email").status_code for _ in range(BURST - 1)]
    authorized = [client_application.authorize(api, public, scope="email").status_code for _ in range(2)]

    assert (pushed, authorized) == ([201] * (BURST - 1), [302, 429])
    # A confidential client pushes the requests of all its users from one address.
    assert [push(client, scope="email").status_code for client in (public, own, confidential)] == [429, 429, 201]
    assert OAuthAuthorization.objects.count() == BURST + 1


@pytest.mark.parametrize("parameter", ["scopes", "anything", "redirect_to", "invite_token"])
def test_a_query_of_any_size_is_refused(api: Api, parameter: str) -> None:
    response = api.get(f"{AUTHORIZE}&{parameter}={'x' * 9_000}")

    assert response.status_code == 400
    assert response.json()["error_code"] == "validation_failed"
    assert not FlowState.objects.exists()
    assert api.get(f"{AUTHORIZE}&scopes={'x' * 1_000}").status_code == 302


def expired_rows() -> list[Model]:
    at = timezone.now() - FAR
    factor = factories.make_factor(factories.make_user())
    return [
        FlowState.objects.create(provider_type="github", authentication_method="oauth", created_at=at),
        factories.make_flow(factories.make_user(), at=at),
        ClientState.objects.create(provider_type="twitter", code_verifier="v" * 43, created_at=at),
        FactorChallenge.objects.create(factor=factor, created_at=at),
        PasskeyChallenge.objects.create(
            challenge_type=CeremonyType.AUTHENTICATION, session_data={}, created_at=at, expires_at=at
        ),
    ]


@pytest.mark.parametrize("enabled", [True, False])
def test_expired_rows_are_removed_whatever_the_cleanup_setting(
    api: Api, auth_config: ChangeConfig, enabled: bool
) -> None:
    auth_config(database={"cleanup_enabled": enabled})
    rows = expired_rows()
    assert api.get(AUTHORIZE).status_code == 302

    tasks.clean_up()

    assert [row for row in rows if type(row)._default_manager.filter(pk=row.pk).exists()] == []
    assert FlowState.objects.count() == 1  # the one that has just begun


def test_a_flood_is_removed_at_once(auth_config: ChangeConfig) -> None:
    auth_config(database={"cleanup_enabled": False})
    FlowState.objects.bulk_create(
        FlowState(provider_type="github", authentication_method="oauth", created_at=timezone.now() - FAR)
        for _ in range(2 * MANDATORY_BATCH_SIZE + 1)
    )

    tasks.clean_up()

    assert not FlowState.objects.exists()
