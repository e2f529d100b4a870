"""Logout tokens for clients whose sessions end (OpenID Connect Back-Channel Logout 1.0)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import jwt
import pytest
from django.db import connection
from django.utils import timezone

from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from authsvc.jobs import Retry, Run
from oauthserver import tasks
from oauthserver.grants import grants
from oauthserver.logout import logout_tokens
from oauthserver.logout.logout_tokens import EVENT, LogoutTokenOutcome
from oauthserver.models import OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import SignIn, make_session
from tests.fakes.http_peer import HttpPeer, redirect
from tests.fakes.http_peer import Response as PeerResponse
from tests.oauthserver.client_application import ISSUER, Application, refresh, register, sign_in
from tests.oauthserver.logout_requests import client_with_logout, read_queue, session_of
from tests.tokens.token_requests import read_claims
from tokens.models import Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db

CALLER = Caller(address="192.0.2.1")


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")


def test_every_end_of_a_session_queues_a_logout_token(api: Api) -> None:
    client = client_with_logout(api)
    clients_without = register(api)

    def end_by_logout(session: SignIn) -> None:
        assert api.post("/logout", bearer=session.access_token).status_code == 204

    def change_password(session: SignIn) -> None:
        body = {"password": "another horse battery"}
        assert api.put("/user", body, bearer=session.access_token).status_code == 200

    def ban(session: SignIn) -> None:
        path = f"/admin/users/{session.user.id}"
        assert admin_requests.ask(api, "PUT", path, {"ban_duration": "24h"}).status_code == 200

    def delete(session: SignIn, *, is_soft: bool) -> None:
        path = f"/admin/users/{session.user.id}"
        assert admin_requests.ask(api, "DELETE", path, {"should_soft_delete": is_soft}).status_code == 200

    def revoke_grant(session: SignIn) -> None:
        found = AccountUsers().find_by_session(session.session.id)
        assert found is not None
        grants.revoke(client.client_id, signed_in=found, caller=CALLER, at=timezone.now())

    ways = {
        "logout": end_by_logout,
        "password": change_password,
        "ban": ban,
        "deletion": lambda session: delete(session, is_soft=False),
        "soft deletion": lambda session: delete(session, is_soft=True),
        "revoked grant": revoke_grant,
    }
    for name, end in ways.items():
        session = make_session()
        tokens = sign_in(api, client, session)
        sign_in(api, clients_without, session)
        end(session)
        expected = {
            "client_id": client.client_id, "user_id": str(session.user.id), "session_id": session_of(tokens),
        }  # fmt: skip
        assert read_queue()[-1:] == [expected], name
    assert len(read_queue()) == len(ways)


def test_other_changes_queue_nothing(api: Api) -> None:
    session = make_session()
    client = client_with_logout(api)
    tokens = sign_in(api, client, session)
    refresh(client, tokens["refresh_token"])
    own = make_session(session.user)
    api.post("/logout?scope=local", bearer=own.access_token)
    api.put("/user", {"data": {"a": 1}}, bearer=session.access_token)
    admin_requests.ask(api, "PUT", f"/admin/users/{session.user.id}", {"ban_duration": "none"})
    admin_requests.ask(api, "PUT", f"/admin/users/{session.user.id}", {"app_metadata": {"a": 1}})
    assert read_queue() == []
    OAuthClient.objects.update(deleted_at=timezone.now())
    api.post("/logout", bearer=session.access_token)
    assert read_queue() == []


def test_the_logout_token(api: Api, peer: HttpPeer) -> None:
    client = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/logout")
    tokens = sign_in(api, client, make_session(), scope="openid")
    id_claims = read_claims(tokens["id_token"])
    revocation.revoke_session(Session.objects.get(id=session_of(tokens)).id, reason="admin")
    (job,) = read_queue()

    tasks.send_logout_token.function(Run(attempt=1, retry_delay=None), **job)

    (received,) = peer.received
    assert (received.method, received.path) == ("POST", "/logout")
    token = received.form["logout_token"]
    keys = jwt.PyJWKSet.from_dict(api.get("/.well-known/jwks.json").json())
    header = jwt.get_unverified_header(token)
    assert (header["typ"], header["alg"]) == ("logout+jwt", "ES256")
    claims = jwt.decode(token, keys[header["kid"]].key, algorithms=["ES256"], audience=client.client_id, issuer=ISSUER)
    assert claims["events"] == {EVENT: {}}
    assert (claims["sub"], claims["sid"]) == (id_claims["sub"], id_claims["sid"])
    assert claims["exp"] - claims["iat"] == 120
    assert claims["jti"]
    assert "nonce" not in claims
    assert api.get("/user", bearer=token).status_code == 403
    assert api.get("/oauth/userinfo", bearer=token).status_code == 403


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (PeerResponse(status=200), LogoutTokenOutcome.DELIVERED),
        (PeerResponse(status=204), LogoutTokenOutcome.DELIVERED),
        (PeerResponse(status=400), LogoutTokenOutcome.REFUSED),
        (PeerResponse(status=501), LogoutTokenOutcome.UNREACHABLE),
        (PeerResponse(status=503), LogoutTokenOutcome.UNREACHABLE),
        (PeerResponse(status=429), LogoutTokenOutcome.UNREACHABLE),
        (redirect("http://127.0.0.1:1/elsewhere", status=307), LogoutTokenOutcome.REFUSED),
    ],
)
def test_responses_of_clients(response: PeerResponse, outcome: LogoutTokenOutcome, api: Api, peer: HttpPeer) -> None:
    client = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/logout")
    session = make_session()
    peer.respond(response)
    row = OAuthClient.objects.get(id=client.client_id)
    found = logout_tokens.send(client_id=row.id, user_id=session.user.id, session_id=session.session.id)
    assert found is outcome
    assert len(peer.received) == 1


def test_an_unreachable_client_is_tried_again_for_a_while(api: Api, peer: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(milliseconds=300)})
    client = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/logout")
    session = make_session()
    arguments = {
        "client_id": client.client_id, "user_id": str(session.user.id), "session_id": str(session.session.id),
    }  # fmt: skip
    peer.respond(PeerResponse(delay=3.0))
    with pytest.raises(Retry):
        tasks.send_logout_token.function(Run(attempt=1, retry_delay=timedelta(seconds=15)), **arguments)
    peer.respond(PeerResponse(status=500))
    tasks.send_logout_token.function(Run(attempt=5, retry_delay=None), **arguments)
    assert len(tasks.send_logout_token.retry_delays) == 4


def test_a_client_that_answers_slowly_delays_the_other_jobs_once(
    api: Api, peer: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/slow")
    other = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/other")
    session = make_session()

    def send(client: Application) -> LogoutTokenOutcome:
        return logout_tokens.send(
            client_id=UUID(client.client_id), user_id=session.user.id, session_id=session.session.id
        )

    peer.respond(PeerResponse(status=503, delay=1.2))
    assert [send(slow), send(slow), send(slow)] == [LogoutTokenOutcome.UNREACHABLE] * 3
    peer.respond(PeerResponse(status=200))
    assert (send(other), send(slow)) == (LogoutTokenOutcome.DELIVERED, LogoutTokenOutcome.UNREACHABLE)
    assert [request.path for request in peer.received] == ["/slow", "/other"]
    monkeypatch.setattr(logout_tokens, "paused_until", dict.fromkeys(logout_tokens.paused_until, 0.0))
    assert send(slow) is LogoutTokenOutcome.DELIVERED


def test_clients_that_registered_themselves_reach_no_internal_server(api: Api, peer: HttpPeer) -> None:
    client = client_with_logout(api, backchannel_logout_uri=f"{peer.url}/logout")
    row = OAuthClient.objects.get(id=client.client_id)
    row.registration_type = "dynamic"
    row.save()
    session = make_session()
    found = logout_tokens.send(client_id=row.id, user_id=session.user.id, session_id=session.session.id)
    assert found is LogoutTokenOutcome.UNREACHABLE
    assert peer.received == []


def test_no_token_for_clients_that_receive_none(api: Api, auth_config: ChangeConfig) -> None:
    session = make_session()

    def send(client: Application) -> LogoutTokenOutcome:
        row = OAuthClient.objects.get(id=client.client_id)
        return logout_tokens.send(client_id=row.id, user_id=session.user.id, session_id=session.session.id)

    assert send(register(api)) is LogoutTokenOutcome.NOT_NEEDED
    client = client_with_logout(api)
    auth_config(jwt={"keys": (), "valid_methods": ()})
    assert send(client) is LogoutTokenOutcome.NOT_NEEDED
    OAuthClient.objects.update(deleted_at=timezone.now())
    assert send(client) is LogoutTokenOutcome.NOT_NEEDED
