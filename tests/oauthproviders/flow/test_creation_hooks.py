"""The hooks before and after the creation of a user, who comes from a provider, an ID token or a wallet."""

from __future__ import annotations

from typing import Any

import pytest
import responses

from accounts.models import Identity, User
from authsvc.conf.sections.hooks import Hook
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.hooks.conftest import SetHook, set_hook
from tests.oauthproviders.browser import Browser, GitHub, address
from tests.oauthproviders.flow.id_token_requests import exchange, use_issuer
from tests.oauthproviders.wallets import wallets
from tests.oauthproviders.wallets.wallets import SolanaWallet

__all__ = ["set_hook"]  # a fixture

pytestmark = pytest.mark.django_db

REFUSAL = in_json({"error": {"http_code": 403, "message": "Sign-ups are limited"}})


@pytest.fixture
def before(set_hook: SetHook, mocked_requests: responses.RequestsMock) -> MockedServer:
    return _receiver(Hook.BEFORE_USER_CREATED, set_hook, mocked_requests)


@pytest.fixture
def after(set_hook: SetHook, mocked_requests: responses.RequestsMock) -> MockedServer:
    return _receiver(Hook.AFTER_USER_CREATED, set_hook, mocked_requests)


def _receiver(hook: Hook, set_hook: SetHook, mocked_requests: responses.RequestsMock) -> MockedServer:
    set_hook(hook, uri=f"https://hooks.example.com/{hook}")
    server = MockedServer(mocked_requests, url=f"https://hooks.example.com/{hook}")
    server.respond(in_json({}))
    return server


def users(server: MockedServer) -> list[dict[str, Any]]:
    return [request.json()["user"] for request in server.received]


def test_a_new_user_of_a_provider(github: GitHub, browser: Browser, before: MockedServer, after: MockedServer) -> None:
    for _ in range(2):
        assert "access_token" in browser.sign_in().headers["Location"]
    user_id = str(User.objects.get().id)
    [asked], [told] = users(before), users(after)
    assert asked["id"] == told["id"] == user_id
    assert asked["app_metadata"] == {"provider": "github", "providers": ["github"]}
    assert (asked["email"], asked["user_metadata"]["sub"]) == ("ada@example.com", "7")


def test_an_identity_that_joins_an_account(
    github: GitHub, browser: Browser, before: MockedServer, after: MockedServer
) -> None:
    factories.make_user(email="ada@example.com")
    browser.sign_in()
    assert Identity.objects.filter(provider="github").exists()
    assert before.received == after.received == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "invalid_request"),
        (401, "unauthorized_client"),
        (403, "access_denied"),
        (422, "server_error"),
        (500, "server_error"),
        (503, "temporarily_unavailable"),
    ],
)
def test_a_refusal_is_a_redirect(
    github: GitHub, browser: Browser, before: MockedServer, status: int, error: str
) -> None:
    before.respond(in_json({"error": {"http_code": status, "message": "limited"}}))
    target = browser.sign_in().headers["Location"]
    assert f"error={error}&" in target
    assert "error_description=limited" in target
    assert not User.objects.exists()


def test_a_failure_after_the_creation_keeps_the_user(github: GitHub, browser: Browser, after: MockedServer) -> None:
    after.respond(REFUSAL)
    target = browser.sign_in().headers["Location"]
    assert "error=access_denied" in target
    assert "access_token" not in target
    assert User.objects.count() == 1


def test_a_user_whose_address_is_unverified(
    github: GitHub, browser: Browser, before: MockedServer, after: MockedServer
) -> None:
    github.set_user(address("ada@example.com", verified=False))
    assert "access_token" not in browser.sign_in().headers["Location"]
    [user_id] = [str(user.id) for user in User.objects.all()]
    assert [user["id"] for user in users(after)] == [user_id]


def test_a_new_user_of_an_id_token(
    api: Api, server: MockedServer, auth_config: ChangeConfig, before: MockedServer, after: MockedServer
) -> None:
    issuer = use_issuer(server, auth_config)
    before.respond(REFUSAL)
    assert exchange(api, issuer.token()).status_code == 403
    assert not User.objects.exists()
    before.respond(in_json({}))
    user = exchange(api, issuer.token()).json()["user"]
    assert [shown["id"] for shown in users(after)] == [user["id"]] == [users(before)[-1]["id"]]


def test_a_refused_wallet_may_use_its_message_again(
    api: Api, auth_config: ChangeConfig, before: MockedServer, after: MockedServer
) -> None:
    auth_config(wallets={"solana_enabled": True}, site={"allow_list": ("https://app.example.org/**",)})
    wallet = SolanaWallet()
    message = wallets.message(
        wallet.name, wallet.address, domain="app.example.org", URI="https://app.example.org/in", Chain_ID=""
    )
    body = {"chain": wallet.chain, "message": message, "signature": wallet.sign(message)}
    before.respond(REFUSAL)
    assert api.post("/token?grant_type=web3", body).status_code == 403
    assert not User.objects.exists()
    before.respond(in_json({}))
    assert api.post("/token?grant_type=web3", body).status_code == 200
    assert len(after.received) == 1
