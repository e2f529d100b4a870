"""The plans of RP-initiated logout and of back-channel logout."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import pytest

from authsvc.jobs import Run
from oauthserver import tasks
from oauthserver.logout.logout_tokens import EVENT
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import CHALLENGE
from tests.fakes.http_peer import HttpPeer
from tests.oauthserver.client_application import CALLBACK, query_of, register
from tests.oauthserver.logout_requests import browser_of, read_queue, session_of
from tests.oauthserver.openid_plan.plans import module
from tests.oauthserver.openid_plan.relying_party import STATE, RelyingParty, Tokens, flip_signature
from tests.page_browser import PageBrowser

pytestmark = pytest.mark.django_db

AFTER = "https://client.example.com/bye"
SIGNED_OUT = "/account/signed-out"


class LogoutParty(RelyingParty):
    """A relying party whose user is signed in to the hosted pages."""

    pages: PageBrowser
    tokens: Tokens

    @classmethod
    def sign_user_in(cls, api: Api, **metadata: Any) -> LogoutParty:
        defaults = {"post_logout_redirect_uris": [AFTER], "token_endpoint_auth_method": "client_secret_basic"}
        application = register(api, **{**defaults, **metadata})
        pages, session = browser_of()
        party = cls(api=api, application=application, browser=session)
        party.pages = pages
        party.tokens = party.sign_in()
        return party

    @property
    def id_token(self) -> str:
        return str(self.tokens.response["id_token"])

    def request_logout(self, **parameters: str) -> ApiResponse:
        endpoint = urlsplit(self.discover()["end_session_endpoint"]).path
        return self.pages.get(f"{endpoint}?{urlencode(parameters)}")

    def is_signed_in(self) -> bool:
        """True if a silent request succeeds in the user's browser."""
        query = {
            "client_id": self.application.client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid",
            "prompt": "none",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        location = self.pages.get(f"/oauth/authorize?{urlencode(query)}").headers["Location"]
        answered = query_of(location)
        if "authorization_id" in answered:
            answered = query_of(
                self.pages.get(urlsplit(location)._replace(scheme="", netloc="").geturl()).headers["Location"]
            )
        assert answered.get("error", "login_required") == "login_required"
        return "code" in answered


@pytest.fixture(autouse=True)
def _pages(_rs256: None, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True}, oauth_server={"authorization_path": ""})


@pytest.fixture
def party(api: Api) -> LogoutParty:
    return LogoutParty.sign_user_in(api)


def assert_refused(party: LogoutParty, **parameters: str) -> None:
    """An error page; the browser goes nowhere, and the user stays signed in."""
    response = party.request_logout(**parameters)
    assert (response.status_code, response.headers.get("Location")) == (400, None)
    assert party.is_signed_in()


@module("oidcc-rp-initiated-logout-discovery-endpoint-verification")
def test_discovery(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-discovery-endpoint-verification: `end_session_endpoint`."""
    assert party.discover()["end_session_endpoint"].startswith("https://")


@module("oidcc-rp-initiated-logout")
def test_logout(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout: the browser returns with `state`, and a silent request gets `login_required`."""
    assert party.is_signed_in()
    response = party.request_logout(id_token_hint=party.id_token, post_logout_redirect_uri=AFTER, state=STATE)
    assert response.headers["Location"] == f"{AFTER}?state={STATE}"
    assert not party.is_signed_in()


@module("oidcc-rp-initiated-logout-bad-post-logout-redirect-uri")
def test_unregistered_redirect_uri(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-bad-post-logout-redirect-uri: an error page."""
    uri = "https://client.example.com/other"
    assert_refused(party, id_token_hint=party.id_token, post_logout_redirect_uri=uri, state=STATE)


@module("oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri")
def test_added_query(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri: an error page."""
    assert_refused(party, id_token_hint=party.id_token, post_logout_redirect_uri=f"{AFTER}?foo=bar", state=STATE)


@module("oidcc-rp-initiated-logout-modified-id-token-hint")
def test_modified_id_token(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-modified-id-token-hint: the signature is that of another token."""
    assert_refused(party, id_token_hint=flip_signature(party.id_token), post_logout_redirect_uri=AFTER, state=STATE)


@module("oidcc-rp-initiated-logout-bad-id-token-hint")
def test_bad_id_token(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-bad-id-token-hint: no ID token of this service."""
    assert_refused(party, id_token_hint="not.a.token", post_logout_redirect_uri=AFTER, state=STATE)


@module("oidcc-rp-initiated-logout-no-id-token-hint")
def test_without_id_token(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-no-id-token-hint: without a client, the browser does not return to any."""
    assert_refused(party, post_logout_redirect_uri=AFTER, state=STATE)


def assert_page_asks(party: LogoutParty, **parameters: str) -> None:
    """The user is asked, and then sees the page of this service."""
    page = party.request_logout(**parameters)
    assert (page.status_code, party.is_signed_in()) == (200, True)
    response = party.pages.submit(f"/oauth/logout?{urlencode(parameters)}", to="/oauth/logout/confirm")
    assert (response.status_code, response.headers["Location"]) == (303, SIGNED_OUT)
    assert not party.is_signed_in()


@module("oidcc-rp-initiated-logout-no-params")
def test_without_parameters(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-no-params: the user is asked."""
    assert_page_asks(party)


@module("oidcc-rp-initiated-logout-only-state")
def test_only_state(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-only-state: the user is asked."""
    assert_page_asks(party, state=STATE)


@module("oidcc-rp-initiated-logout-no-post-logout-redirect-uri")
def test_without_redirect_uri(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-no-post-logout-redirect-uri: the page of this service."""
    assert party.request_logout(id_token_hint=party.id_token, state=STATE).headers["Location"] == SIGNED_OUT
    assert not party.is_signed_in()


@module("oidcc-rp-initiated-logout-no-state")
def test_without_state(party: LogoutParty) -> None:
    """oidcc-rp-initiated-logout-no-state: the browser returns without `state`."""
    response = party.request_logout(id_token_hint=party.id_token, post_logout_redirect_uri=AFTER)
    assert response.headers["Location"] == AFTER
    assert not party.is_signed_in()


@module("oidcc-backchannel-logout-discovery-endpoint-verification")
def test_backchannel_discovery(party: LogoutParty) -> None:
    """oidcc-backchannel-logout-discovery-endpoint-verification: with `sid`."""
    metadata = party.discover()
    assert metadata["backchannel_logout_supported"] is True
    assert metadata["backchannel_logout_session_supported"] is True


@module("oidcc-backchannel-rp-initiated-logout")
def test_backchannel_logout(api: Api, peer: HttpPeer) -> None:
    """oidcc-backchannel-rp-initiated-logout: the client gets a logout token for the session that it has."""
    party = LogoutParty.sign_user_in(
        api, backchannel_logout_uri=f"{peer.url}/logout", backchannel_logout_session_required=True
    )
    party.request_logout(id_token_hint=party.id_token, post_logout_redirect_uri=AFTER, state=STATE)
    (job,) = [job for job in read_queue() if job["session_id"] == session_of(party.tokens.response)]
    tasks.send_logout_token.function(Run(attempt=1, retry_delay=None), **job)

    (received,) = peer.received
    assert (received.method, received.path) == ("POST", "/logout")
    token = received.form["logout_token"]
    header = jwt.get_unverified_header(token)
    assert header["alg"] == "RS256"
    claims = jwt.decode(
        token,
        jwt.PyJWK(party.read_keys()[header["kid"]]),
        algorithms=["RS256"],
        audience=party.application.client_id,
        issuer=party.discover()["issuer"],
        options={"require": ["iss", "aud", "iat", "exp", "jti", "events"]},
    )
    assert claims["events"] == {EVENT: {}}
    assert (claims["sub"], claims["sid"]) == (party.tokens.id_token["sub"], party.tokens.id_token["sid"])
    assert claims["iat"] <= time.time() + 5
    assert "nonce" not in claims
