"""RP-initiated logout, and the sessions of clients that end with that of the browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from django.db import connection
from django.utils import timezone

from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.logout import logout_tokens
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import make_session, make_user
from tests.oauthserver import device_requests as device
from tests.oauthserver.client_application import ISSUER, refresh, register, sign_in
from tests.oauthserver.conftest import SIGNING_KEY
from tests.oauthserver.logout_requests import AFTER, RECEIVER, browser_of, client_with_logout, read_queue, session_of
from tests.page_browser import PageBrowser
from tests.tokens.token_requests import read_claims
from tokens.jwt import signing_keys
from tokens.models import Session

pytestmark = pytest.mark.django_db

LOGOUT = "/oauth/logout"


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")


def queued_sessions() -> set[str]:
    return {job["session_id"] for job in read_queue()}


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
