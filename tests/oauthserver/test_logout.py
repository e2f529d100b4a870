"""RP-initiated logout, and logout tokens for clients whose sessions end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import jwt
import orjson
import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from authsvc.jobs import Retry, Run
from oauthserver import tasks
from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.grants import grants
from oauthserver.logout import logout_tokens
from oauthserver.logout.logout_tokens import EVENT, LogoutTokenOutcome
from oauthserver.models import OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import SignIn, make_session, make_user
from tests.fakes.http_peer import HttpPeer, redirect
from tests.fakes.http_peer import Response as PeerResponse
from tests.oauthserver import test_device as device
from tests.oauthserver.client_application import ISSUER, Application, refresh, register, sign_in
from tests.oauthserver.conftest import SIGNING_KEY
from tests.page_browser import PageBrowser
from tests.tokens.token_requests import read_claims
from tokens.jwt import signing_keys
from tokens.models import Session
from tokens.sessions import lifecycle, revocation

pytestmark = pytest.mark.django_db

AFTER = "https://client.example.com/bye"
RECEIVER = "https://client.example.com/backchannel"
LOGOUT = "/oauth/logout"
CALLER = Caller(address="192.0.2.1")


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")


def client_with_logout(api: Api, **metadata: Any) -> Application:
    defaults = {"post_logout_redirect_uris": [AFTER], "backchannel_logout_uri": RECEIVER}
    return register(api, **{**defaults, **metadata})


def browser_of(user: User | None = None) -> tuple[PageBrowser, SignIn]:
    """A browser at the hosted pages, and its session."""
    user = user or make_user()
    browser = PageBrowser()
    before = set(Session.objects.filter(user_id=user.id).values_list("id", flat=True))
    assert browser.sign_in(user.email or "").status_code == 303
    session = Session.objects.filter(user_id=user.id).exclude(id__in=before).get()
    found = AccountUsers().find_by_session(session.id)
    assert found is not None
    assert found.session is not None
    token = lifecycle.issue_access_token(
        user=found.user,
        session=found.session,
        amr=found.amr,
        method="password",
        caller=Caller(),
        at=timezone.now(),
    )
    return browser, SignIn(user=user, session=session, access_token=token.token, refresh_token="")


def read_queue() -> list[dict[str, str]]:
    """The arguments of the logout tokens that wait."""
    sql = "SELECT args, priority FROM procrastinate_jobs WHERE task_name = 'oauthserver.send_logout_token' ORDER BY id"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall()
    assert all(priority < 0 for _, priority in rows)
    return [orjson.loads(args) if isinstance(args, str) else args for args, _ in rows]


def queued_sessions() -> set[str]:
    return {job["session_id"] for job in read_queue()}


def session_of(tokens: dict[str, Any]) -> str:
    return str(read_claims(tokens["access_token"])["session_id"])


def lives(tokens: dict[str, Any]) -> bool:
    return Session.objects.filter(id=session_of(tokens)).exists()


def request_logout(browser: PageBrowser, **parameters: str) -> ApiResponse:
    return browser.get(f"{LOGOUT}?{urlencode(parameters)}")


# RP-initiated logout


def test_an_id_token_of_the_user_ends_the_session_of_the_browser(api: Api) -> None:
    browser, session = browser_of()
    client = client_with_logout(api)
    tokens = sign_in(api, client, session)
    assert read_claims(tokens["id_token"])["sid"] == session_of(tokens)

    response = request_logout(
        browser, id_token_hint=tokens["id_token"], post_logout_redirect_uri=AFTER, state="a b", ui_locales="de"
    )

    assert response.status_code == 303
    assert response.headers["Location"] == f"{AFTER}?state=a+b"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert not browser.is_in
    assert not lives(tokens)
    assert not Session.objects.filter(id=session.session.id).exists()
    assert queued_sessions() == {session_of(tokens)}


def test_an_expired_id_token_is_accepted(api: Api) -> None:
    browser, session = browser_of()
    tokens = sign_in(api, client_with_logout(api), session)
    claims = read_claims(tokens["id_token"])
    earlier = {name: claims[name] - 90_000 for name in ("iat", "exp")}
    expired = signing_keys.current().signing.encode({**claims, **earlier})
    response = request_logout(browser, id_token_hint=expired)
    assert response.headers["Location"] == "/account/signed-out"
    assert not browser.is_in


def test_without_an_id_token_of_the_user_the_page_asks(api: Api) -> None:
    client = client_with_logout(api, client_name="Shop <b>")
    other = sign_in(api, client, make_session())
    target = {"post_logout_redirect_uri": AFTER}
    requests: tuple[dict[str, str], ...] = (
        {}, {**target, "client_id": client.client_id}, {**target, "id_token_hint": other["id_token"]},
    )  # fmt: skip
    for parameters in requests:
        browser, session = browser_of()
        page = request_logout(browser, **parameters)
        assert page.status_code == 200
        assert str(session.user.email) in page.content.decode()
        assert ("Shop &lt;b&gt;" in page.content.decode()) == bool(parameters)
        assert other["id_token"] not in page.content.decode()
        assert browser.is_in


def test_the_confirmation_of_the_user_ends_the_session(api: Api) -> None:
    browser, session = browser_of()
    client = client_with_logout(api)
    tokens = sign_in(api, client, session)
    query = urlencode({"client_id": client.client_id, "post_logout_redirect_uri": AFTER, "state": "s"})

    response = browser.submit(f"{LOGOUT}?{query}", to=f"{LOGOUT}/confirm")

    assert (response.status_code, response.headers["Location"]) == (303, f"{AFTER}?state=s")
    assert not browser.is_in
    assert not lives(tokens)


def test_the_confirmation_cannot_be_forged(api: Api) -> None:
    browser, _ = browser_of()
    forged: Any = browser.client.post(f"{LOGOUT}/confirm", {})
    assert forged.status_code == 403
    foreign = browser.submit(LOGOUT, to=f"{LOGOUT}/confirm", headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert browser.get(f"{LOGOUT}/confirm").headers["Location"] == LOGOUT
    assert browser.is_in


def test_the_error_page_of_the_confirmation_stays_when_its_language_is_chosen(api: Api) -> None:
    pages, _ = browser_of()
    response = pages.client.post(f"{LOGOUT}/confirm", {})
    assert (response.status_code, f'name="page" value="{LOGOUT}/confirm"' in response.content.decode()) == (403, True)
    assert pages.get(f"{LOGOUT}/confirm").headers["Location"] == LOGOUT


def test_a_form_of_another_site_leads_to_the_question(api: Api) -> None:
    client = client_with_logout(api)
    browser, session = browser_of()
    tokens = sign_in(api, client, session)
    form = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": AFTER, "state": "s"}
    # The cookie is not sent with it (SameSite=Lax), and must not be replaced.
    answers: list[Any] = [
        PageBrowser().client.post(LOGOUT, sent, headers={"Origin": "https://client.example.com"})
        for sent in (form, {**form, "post_logout_redirect_uri": "https://evil.example"})
    ]
    assert [(answer.status_code, dict(answer.cookies)) for answer in answers] == [(303, {}), (400, {})]
    question = answers[0].headers["Location"]
    assert tokens["id_token"] not in question
    assert lives(tokens)

    response = browser.submit(question, to=f"{LOGOUT}/confirm")
    assert response.headers["Location"] == f"{AFTER}?state=s"
    assert (browser.is_in, lives(tokens)) == (False, False)


def test_a_form_with_the_id_token_of_the_user(api: Api) -> None:
    browser, session = browser_of()
    tokens = sign_in(api, client_with_logout(api), session)
    response: Any = browser.client.post(LOGOUT, {"id_token_hint": tokens["id_token"]})
    assert response.status_code == 303
    assert not browser.is_in


def test_a_browser_without_a_session_continues(api: Api) -> None:
    client = client_with_logout(api)
    browser = PageBrowser()
    response = request_logout(browser, client_id=client.client_id, post_logout_redirect_uri=AFTER)
    assert response.headers["Location"] == AFTER
    assert request_logout(browser).headers["Location"] == "/account/signed-out"


def test_invalid_requests_neither_redirect_nor_sign_out(api: Api) -> None:
    browser, session = browser_of()
    client, other = (
        client_with_logout(api),
        client_with_logout(api, post_logout_redirect_uris=["https://other.example"]),
    )
    tokens = sign_in(api, client, session)
    hint = tokens["id_token"]
    head, body, signature = hint.split(".")
    foreign_key = signing_keys.generate(algorithm="ES256")
    foreign = jwt.encode(
        read_claims(hint), jwt.PyJWK(foreign_key).key, algorithm="ES256", headers={"kid": SIGNING_KEY["kid"]}
    )
    by_secret = jwt.encode(read_claims(hint), "test-secret-of-at-least-32-characters", algorithm="HS256")
    unsigned = jwt.encode(read_claims(hint), "", algorithm="none")
    logout_token = logout_tokens.issue(
        client_id=session.session.id, user_id=session.user.id, session_id=session.session.id, at=timezone.now()
    )
    requests: list[dict[str, str]] = [
        {"post_logout_redirect_uri": AFTER},
        {"client_id": client.client_id, "post_logout_redirect_uri": f"{AFTER}/"},
        {"client_id": client.client_id, "post_logout_redirect_uri": f"{AFTER}?x=1"},
        {"client_id": client.client_id, "post_logout_redirect_uri": "https://client.example.com/cb"},
        {"client_id": client.client_id, "post_logout_redirect_uri": "//evil.example"},
        {"client_id": other.client_id, "post_logout_redirect_uri": AFTER},
        {"id_token_hint": hint, "client_id": other.client_id},
        {"client_id": "abc"},
        {"client_id": "11111111-1111-4111-8111-111111111111"},
        {"client_id": client.client_id, "post_logout_redirect_uri": AFTER, "state": "x" * 4097},
        *(
            {"id_token_hint": token}
            for token in (
                "x", "a.b.c", f"{head}.{body}.{signature[:-4]}AAAA", foreign, by_secret, unsigned, logout_token,
                tokens["access_token"], session.access_token, "x" * 20_000,
            )
        ),
    ]  # fmt: skip
    for parameters in requests:
        response = request_logout(browser, **parameters)
        assert response.status_code == 400, parameters
        assert "Location" not in response.headers
        assert hint not in response.content.decode()
    assert browser.is_in
    assert lives(tokens)


def test_the_page_does_not_exist_while_a_feature_is_disabled(api: Api, auth_config: ChangeConfig) -> None:
    assert api.get("/.well-known/openid-configuration").json()["end_session_endpoint"] == f"{ISSUER}{LOGOUT}"
    browser = PageBrowser()
    auth_config(oauth_server={"enabled": False})
    assert browser.get(LOGOUT).status_code == 404
    auth_config(oauth_server={"enabled": True}, pages={"enabled": False})
    assert browser.get(LOGOUT).status_code == 404
    assert "end_session_endpoint" not in api.get("/.well-known/openid-configuration").json()


# Sessions that end with the session of the browser


def test_offline_access_outlives_the_browser_and_is_announced(api: Api) -> None:
    browser, session = browser_of()
    client = client_with_logout(api)
    online = sign_in(api, client, session)
    offline = sign_in(api, client, session, scope="openid offline_access")
    elsewhere = sign_in(api, client, make_session(session.user))

    assert browser.submit("/account/sign-out").status_code == 303

    assert [lives(tokens) for tokens in (online, offline, elsewhere)] == [False, True, True]
    assert queued_sessions() == {session_of(online), session_of(offline)}
    assert refresh(client, offline["refresh_token"]).status_code == 200


def test_a_new_sign_in_of_the_same_user_keeps_the_sessions_of_clients(api: Api) -> None:
    browser, session = browser_of()
    tokens = sign_in(api, client_with_logout(api), session)
    browser.sign_in(session.user.email or "", query="?prompt=login")
    assert not Session.objects.filter(id=session.session.id).exists()
    assert lives(tokens)
    assert read_queue() == []
    browser.submit("/account/sign-out")
    assert not lives(tokens)


def test_a_sign_in_of_another_user_ends_them(api: Api) -> None:
    browser, session = browser_of()
    tokens = sign_in(api, client_with_logout(api), session)
    browser.sign_in(make_user().email or "", query="?prompt=login")
    assert not lives(tokens)
    assert queued_sessions() == {session_of(tokens)}


def test_a_device_stays_signed_in(api: Api) -> None:
    browser, session = browser_of()
    client = client_with_logout(api, grant_types=[DEVICE_CODE, "refresh_token"])
    started = device.start(client)
    device.approve(started, session)
    tokens = device.poll(client, started).json()
    browser.submit("/account/sign-out")
    assert lives(tokens)


# Logout tokens


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


# Metadata of clients


def test_logout_metadata(api: Api) -> None:
    metadata = {
        "post_logout_redirect_uris": [AFTER, "http://127.0.0.1/bye"],
        "backchannel_logout_uri": RECEIVER,
        "backchannel_logout_session_required": True,
    }
    body = {"redirect_uris": ["https://client.example.com/cb"], **metadata}
    for registered in (
        admin_requests.ask(api, "POST", "/admin/oauth/clients", body),
        api.post("/oauth/clients/register", body),
    ):
        content = registered.json()
        assert {name: content[name] for name in metadata} == metadata
    path = f"/admin/oauth/clients/{content['client_id']}"
    removed = {
        "post_logout_redirect_uris": [], "backchannel_logout_uri": "", "backchannel_logout_session_required": False,
    }  # fmt: skip
    changed = admin_requests.ask(api, "PUT", path, removed)
    assert changed.status_code == 200
    assert not metadata.keys() & changed.json().keys()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"post_logout_redirect_uris": ["javascript://x"]}, "invalid post_logout_redirect_uri 'javascript://x'"),
        ({"post_logout_redirect_uris": ["https://a/x#y"]}, "invalid post_logout_redirect_uri 'https://a/x#y'"),
        ({"post_logout_redirect_uris": ["https://a"] * 11}, "post_logout_redirect_uris cannot exceed 10 items"),
        ({"backchannel_logout_uri": "http://client.example.com/x"}, "invalid backchannel_logout_uri"),
        ({"backchannel_logout_uri": "myapp://x"}, "invalid backchannel_logout_uri"),
        ({"backchannel_logout_uri": "https://a/x#y"}, "invalid backchannel_logout_uri"),
    ],
)
def test_refused_logout_metadata(metadata: dict[str, Any], message: str, api: Api) -> None:
    body = {"redirect_uris": ["https://client.example.com/cb"], **metadata}
    response = api.post("/oauth/clients/register", body)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_client_metadata")
    assert response.json()["msg"].startswith(message)


def test_id_tokens_name_the_session_for_clients_with_logout_only(api: Api) -> None:
    assert "sid" not in read_claims(sign_in(api, register(api))["id_token"])
    only_back = register(api, backchannel_logout_uri=RECEIVER)
    assert "sid" in read_claims(sign_in(api, only_back)["id_token"])
