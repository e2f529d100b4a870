"""Each event type is recorded by a request of the API, once and without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pytest
import responses
from django.utils import timezone

from accounts.models import Identity, User
from authsvc import events
from authsvc.events import ActorType, Event, EventType
from authsvc.jobs import cleanup
from tests import factories
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.accounts.passkeys import passkey_requests
from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import PASSWORD
from tests.fakes.http_peer import MockedServer
from tests.oauthproviders.browser import Browser, start_link_flow
from tests.oauthproviders.conftest import use_github
from tests.oauthserver import client_application
from tests.oauthserver.conftest import SIGNING_KEY

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"
RECORDED_ELSEWHERE = {EventType.WEBHOOK_PING}
"""The webhooks record their ping themselves."""
WITHOUT_USER = {EventType.OAUTH_CLIENT_CREATED, EventType.OAUTH_CLIENT_UPDATED, EventType.OAUTH_CLIENT_DELETED}
SECRET_NAMES = (
    "password_hash", "encrypted_password", "client_secret", "secret", "access_token", "refresh_token", "public_key",
    "confirmation_token", "recovery_token",
)  # fmt: skip


@dataclass
class Sink:
    subscribed: set[EventType]
    events: list[Event] = field(default_factory=list)

    def is_subscribed(self, type: EventType) -> bool:
        return type in self.subscribed

    def record(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class Bench:
    api: Api
    auth_config: ChangeConfig
    mocked_requests: responses.RequestsMock

    def register_client(self) -> client_application.Application:
        self.auth_config(
            oauth_server={"enabled": True, "authorization_path": "/oauth/consent"},
            jwt={"issuer": client_application.ISSUER, "keys": (SIGNING_KEY,), "valid_methods": ("ES256", "HS256")},
        )
        return client_application.register(self.api)

    def ask(self, method: str, path: str, body: Any = None) -> None:
        admin_requests.expect_success(self.api, method, path, body)


Scenario = Callable[[Bench], object]


def sign_up(bench: Bench) -> dict[str, Any]:
    bench.auth_config(mailer={"autoconfirm": True})
    return read_success(bench.api.post("/signup", {"email": EMAIL, "password": PASSWORD}))


def sign_in(bench: Bench) -> None:
    factories.make_user(email=EMAIL, password=PASSWORD)
    read_success(bench.api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}))


def update_user(bench: Bench) -> None:
    token = factories.make_session().access_token
    read_success(bench.api.request("PUT", "/user", {"data": {"color": "red"}}, bearer=token))


def delete_user(bench: Bench) -> None:
    bench.ask("DELETE", f"/admin/users/{factories.make_user().id}", {})


def sign_out(bench: Bench) -> None:
    assert bench.api.post("/logout", bearer=factories.make_session().access_token).status_code == 204


def step_up(bench: Bench) -> None:
    factor_requests.step_up(bench.api, factor_requests.make_owner(status="unverified"))


def unenroll(bench: Bench) -> None:
    owner = factor_requests.make_owner()
    stepped_up = factor_requests.step_up(bench.api, owner)
    read_success(factor_requests.unenroll(bench.api, stepped_up["access_token"], owner.factor.id))


def link_identity(bench: Bench) -> None:
    server = MockedServer(bench.mocked_requests, url="https://provider.example.com")
    use_github(server, bench.auth_config)
    token = factories.make_session(factories.make_user(email="work@example.com")).access_token
    assert Browser().callback(start_link_flow(bench.api, token)).status_code == 302


def unlink_identity(bench: Bench) -> None:
    bench.auth_config(signup={"manual_linking_enabled": True})
    made = factories.make_session(factories.make_user(email=EMAIL))
    identity = Identity.objects.create(
        provider="github", provider_id="7", user=made.user, identity_data={"sub": "7"},
        created_at=made.session.created_at, updated_at=made.session.created_at,
    )  # fmt: skip
    read_success(bench.api.delete(f"/user/identities/{identity.id}", bearer=made.access_token))


def create_passkey(bench: Bench) -> passkey_requests.PasskeyOwner:
    bench.auth_config(passkeys={"enabled": True}, webauthn=PARTY)
    return passkey_requests.make_owner(bench.api)


def delete_passkey(bench: Bench) -> None:
    holder = create_passkey(bench)
    assert bench.api.delete(f"/passkeys/{holder.passkey.id}", bearer=holder.token).status_code == 204


def approve_grant(bench: Bench) -> tuple[client_application.Application, factories.SignIn]:
    client, session = bench.register_client(), factories.make_session()
    client_application.approve(bench.api, client, session)
    return client, session


def revoke_grant(bench: Bench) -> None:
    client, session = approve_grant(bench)
    path = f"/user/oauth/grants?client_id={client.client_id}"
    assert bench.api.delete(path, bearer=session.access_token).status_code == 204


def update_client(bench: Bench) -> None:
    client = bench.register_client()
    bench.ask("PUT", f"/admin/oauth/clients/{client.client_id}", {"client_name": "Television"})


def delete_client(bench: Bench) -> None:
    client = bench.register_client()
    response = admin_requests.ask(bench.api, "DELETE", f"/admin/oauth/clients/{client.client_id}")
    assert response.status_code == 204


SCENARIOS: dict[EventType, Scenario] = {
    EventType.USER_CREATED: sign_up,
    EventType.USER_CONFIRMED: sign_up,
    EventType.USER_UPDATED: update_user,
    EventType.USER_DELETED: delete_user,
    EventType.USER_INVITED: lambda bench: bench.ask("POST", "/invite", {"email": EMAIL}),
    EventType.SESSION_STARTED: sign_in,
    EventType.SESSION_UPGRADED: step_up,
    EventType.SESSION_REVOKED: sign_out,
    EventType.IDENTITY_LINKED: link_identity,
    EventType.IDENTITY_UNLINKED: unlink_identity,
    EventType.FACTOR_ENROLLED: step_up,
    EventType.FACTOR_UNENROLLED: unenroll,
    EventType.PASSKEY_CREATED: create_passkey,
    EventType.PASSKEY_DELETED: delete_passkey,
    EventType.OAUTH_GRANT_APPROVED: approve_grant,
    EventType.OAUTH_GRANT_REVOKED: revoke_grant,
    EventType.OAUTH_CLIENT_CREATED: Bench.register_client,
    EventType.OAUTH_CLIENT_UPDATED: update_client,
    EventType.OAUTH_CLIENT_DELETED: delete_client,
}
DATA: dict[EventType, set[str]] = {
    EventType.USER_CREATED: {"provider", "via"},
    EventType.USER_CONFIRMED: {"what"},
    EventType.USER_UPDATED: {"changed"},
    EventType.USER_DELETED: {"soft"},
    EventType.USER_INVITED: set(),
    EventType.SESSION_STARTED: {"session"},
    EventType.SESSION_UPGRADED: {"session", "factor_id"},
    EventType.SESSION_REVOKED: {"session_ids", "reason"},
    EventType.IDENTITY_LINKED: {"identity"},
    EventType.IDENTITY_UNLINKED: {"identity"},
    EventType.FACTOR_ENROLLED: {"factor"},
    EventType.FACTOR_UNENROLLED: {"factor"},
    EventType.PASSKEY_CREATED: {"passkey"},
    EventType.PASSKEY_DELETED: {"passkey"},
    EventType.OAUTH_GRANT_APPROVED: {"client_id", "scopes"},
    EventType.OAUTH_GRANT_REVOKED: {"client_id", "scopes"},
    EventType.OAUTH_CLIENT_CREATED: {"client"},
    EventType.OAUTH_CLIENT_UPDATED: {"client"},
    EventType.OAUTH_CLIENT_DELETED: {"client"},
}


@pytest.fixture
def bench(api: Api, auth_config: ChangeConfig, mocked_requests: responses.RequestsMock) -> Bench:
    return Bench(api, auth_config, mocked_requests)


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink(subscribed=set())
    events.sinks.append(sink)
    yield sink
    events.sinks.remove(sink)


def test_each_type_has_a_scenario() -> None:
    assert SCENARIOS.keys() == DATA.keys() == set(EventType) - RECORDED_ELSEWHERE


@pytest.mark.parametrize("type", SCENARIOS, ids=str)
def test_the_only_subscribed_type_is_recorded_once(type: EventType, bench: Bench, sink: Sink) -> None:
    sink.subscribed = {type}

    SCENARIOS[type](bench)

    # The sessions of factories are events too; they have no request.
    [event] = [event for event in sink.events if event.request is not None]
    assert (event.type, set(event.data)) == (type, DATA[type])
    assert (event.user is None) == (type in WITHOUT_USER)
    if event.user is not None:
        assert str(event.user_id) == str(event.user["id"])
    assert event.actor.type in (ActorType.USER, ActorType.ADMIN, ActorType.ANONYMOUS)
    text = orjson.dumps({"user": event.user, "data": event.data}, default=str)
    assert PASSWORD.encode() not in text
    assert not [name for name in SECRET_NAMES if f'"{name}"'.encode() in text]


def test_a_subscription_to_users_alone(bench: Bench, sink: Sink) -> None:
    sink.subscribed = {type for type in EventType if type.startswith("user.")} - {EventType.USER_CONFIRMED}

    session = sign_up(bench)
    read_success(bench.api.request("PUT", "/user", {"data": {"color": "red"}}, bearer=session["access_token"]))
    assert bench.api.post("/logout", bearer=session["access_token"]).status_code == 204

    assert [event.type for event in sink.events] == [EventType.USER_CREATED, EventType.USER_UPDATED]
    assert sink.events[1].data == {"changed": ["user_metadata"]}
    assert sink.events[1].user is not None
    assert orjson.loads(orjson.dumps(sink.events[1].user["user_metadata"]))["color"] == "red"


def test_the_end_of_sessions_with_their_user(bench: Bench, sink: Sink) -> None:
    made = factories.make_session()
    sink.subscribed = {EventType.SESSION_REVOKED}

    bench.ask("DELETE", f"/admin/users/{made.user.id}", {})

    [event] = sink.events
    assert event.data == {"session_ids": [str(made.session.id)], "reason": "user_deleted"}


def test_the_cleanup_of_anonymous_users(bench: Bench, sink: Sink) -> None:
    bench.auth_config(signup={"anonymous_enabled": True})
    anonymous, permanent = factories.make_user(is_anonymous=True), factories.make_user()
    factories.backdate(anonymous, permanent, by=timedelta(days=31))
    recent = factories.make_user(is_anonymous=True)
    sink.subscribed = {EventType.USER_DELETED}

    for rule in cleanup.rules:
        if rule.table == "users":
            rule.run(at=timezone.now())

    [event] = sink.events
    assert (event.user_id, event.actor.type, event.request) == (anonymous.id, ActorType.SYSTEM, None)
    assert set(User.objects.values_list("id", flat=True)) == {permanent.id, recent.id}


def test_a_link_that_changes_an_unconfirmed_user(bench: Bench, sink: Sink) -> None:
    user = factories.make_user(email=EMAIL, confirmed=False, data={"color": "blue"})
    sink.subscribed = {EventType.USER_CREATED, EventType.USER_UPDATED}

    body = {"type": "signup", "email": EMAIL, "password": "another password 1", "data": {"color": "red"}}
    bench.ask("POST", "/admin/generate_link", body)

    [event] = sink.events
    assert (event.type, event.user_id) == (EventType.USER_UPDATED, user.id)
    assert event.data == {"changed": ["password", "user_metadata"]}
