"""OAuth 2.0 managers."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from catalogclient import (
    CatalogError,
    CommitStateUnknownError,
    InvalidArgumentError,
    InvalidResponseError,
    NetworkError,
    OAuth2ClientCredentials,
    OAuth2TokenExchange,
    OAuthError,
    RequestInfo,
    ResponseInfo,
    RestCatalog,
    RetryInfo,
    RetryPolicy,
    ServerError,
    UnauthorizedError,
)
from catalogclient.auth import _oauth2
from tests.catalogclient.conftest import AT_ONCE, Connect, plain_catalog
from tests.fakes.http_peer import HttpPeer, Received, Response, in_json, redirect

OWN = "/v1/oauth/tokens"


@pytest.fixture
def issuer() -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        running.respond(granted("t1"))
        yield running


def granted(token: str, **more: Any) -> Response:
    return in_json({"access_token": token, "token_type": "bearer", "expires_in": 3600, **more})


def credentials(issuer: HttpPeer, **more: Any) -> OAuth2ClientCredentials:
    return OAuth2ClientCredentials("id", "s3cr3t", token_url=f"{issuer.url}/token", **more)


def sent_tokens(peer: HttpPeer) -> list[str]:
    return [request.headers["Authorization"] for request in peer.received]


def test_the_token_endpoint_of_the_catalog_receives_credentials_in_the_form(peer: HttpPeer) -> None:
    peer.respond(granted("t1", token_type="BEARER"), path="/iceberg/v1/oauth/tokens")
    peer.respond(in_json({}))
    with pytest.warns(DeprecationWarning, match="token endpoint") as caught:
        catalog = RestCatalog(
            f"{peer.url}/iceberg", config_mode="never", auth={"type": "oauth2", "client_id": "id", "client_secret": "s"}
        )
    assert len(caught) == 1
    with catalog:
        catalog.list_namespaces()
        catalog.list_namespaces()
    token_request, first, second = peer.received
    assert token_request.body == b"grant_type=client_credentials&scope=catalog&client_id=id&client_secret=s"
    assert token_request.headers["Authorization"] is None
    assert token_request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert token_request.headers["Idempotency-Key"] is None
    assert first.headers["Authorization"] == second.headers["Authorization"] == "Bearer t1"


def test_other_token_endpoints_receive_credentials_in_the_header(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json({}))
    auth = OAuth2ClientCredentials(
        "a:b", "c d", token_url=f"{issuer.url}/t", scope="", audience="x", resource="y", extra={"k": "v"}
    )
    connect(auth=auth, headers={"X-A": "1"}).list_namespaces()
    (token_request,) = issuer.received
    assert token_request.headers["Authorization"] == f"Basic {base64.b64encode(b'a%3Ab:c+d').decode()}"
    assert token_request.form == {"grant_type": "client_credentials", "audience": "x", "resource": "y", "k": "v"}
    assert token_request.headers["X-A"] is None


@pytest.mark.parametrize(("how", "in_form"), [("post", True), ("basic", False)])
def test_client_auth_selects_form_or_header(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect, how: Any, in_form: bool
) -> None:
    peer.respond(in_json({}))
    connect(auth=credentials(issuer, client_auth=how)).list_namespaces()
    (token_request,) = issuer.received
    assert ("client_secret" in token_request.form) is in_form
    assert (token_request.headers["Authorization"] is None) is in_form


def test_the_token_url_may_be_relative_and_the_client_id_missing(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(granted("t1"), path="/auth/token")
    peer.respond(in_json({}))
    connect(auth=OAuth2ClientCredentials(None, "s", token_url="/auth/token")).list_namespaces()
    assert peer.received[0].form == {"grant_type": "client_credentials", "scope": "catalog", "client_secret": "s"}


@pytest.mark.parametrize("path", ["/token/", "/token?p=policy", "/token/?p=a%20b"])
def test_the_token_url_is_requested_unchanged(peer: HttpPeer, issuer: HttpPeer, connect: Connect, path: str) -> None:
    peer.respond(in_json({}))
    auth = OAuth2ClientCredentials("id", "s", token_url=f"{issuer.url}{path}")
    connect(auth=auth).list_namespaces()
    assert issuer.received[0].target == path
    assert "policy" not in repr(auth)


def test_token_exchange(peer: HttpPeer, issuer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", token_type="N_A"))
    kind = "urn:ietf:params:oauth:token-type:jwt"
    auth = OAuth2TokenExchange(
        "subject", subject_token_type=kind, actor_token="actor", actor_token_type=kind, token_url=f"{issuer.url}/t"
    )
    connect(auth=auth).list_namespaces()
    assert issuer.received[0].form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "subject",
        "subject_token_type": kind,
        "actor_token": "actor",
        "actor_token_type": kind,
        "scope": "catalog",
    }
    assert sent_tokens(peer) == ["Bearer t1"]


@pytest.mark.parametrize(
    ("response", "more", "lifetime", "renewal"),
    [
        ({"expires_in": 60}, {}, 60, 30),
        ({"expires_in": 3600}, {}, 3600, 3540),
        ({"expires_in": "3600"}, {"refresh_margin": 10}, 3600, 3590),
        ({}, {"default_expires_in": 100}, 100, 50),
        ({}, {}, None, None),
    ],
)
def test_time_of_renewal(
    issuer: HttpPeer, connect: Connect, response: Any, more: Any, lifetime: float | None, renewal: float | None
) -> None:
    issuer.respond(in_json({"access_token": "t1", "token_type": "bearer", **response}))
    auth = credentials(issuer, **more)
    connect(auth=auth)
    before = time.monotonic()
    auth.token()
    known = auth._known
    assert known is not None
    if lifetime is None or renewal is None:
        assert known.expires_at == known.refresh_at == float("inf")
    else:
        assert known.expires_at - before == pytest.approx(lifetime, abs=20)
        assert known.expires_at - known.refresh_at == pytest.approx(lifetime - renewal)


def test_the_expiry_of_a_jwt_is_its_exp_claim(issuer: HttpPeer, connect: Connect) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 500}).encode()).decode().rstrip("=")
    for token, known_end in ((f"h.{claims}.s", True), ("h.!!!.s", False), ("h.bm8.s", False), ("opaque", False)):
        issuer.respond(in_json({"access_token": token}))
        auth = credentials(issuer)
        connect(auth=auth)
        auth.token()
        assert auth._known is not None
        left = auth._known.expires_at - time.monotonic()
        assert left == pytest.approx(500, abs=60) if known_end else left == float("inf")


def test_a_token_is_renewed_before_it_expires(peer: HttpPeer, issuer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), granted("t2"))
    catalog = connect(auth=credentials(issuer))
    catalog.list_namespaces()
    age(catalog, by=40)
    catalog.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1", "Bearer t2"]


def test_a_failed_early_renewal_keeps_the_token_and_is_repeated_after_a_pause(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), Response(status=503), granted("t2"))
    catalog = connect(auth=credentials(issuer, refresh_margin=60), retry=None)
    catalog.list_namespaces()
    age(catalog, by=40)
    with caplog.at_level(logging.WARNING, "catalogclient.auth"):
        catalog.list_namespaces()
    assert "before its expiry failed" in caplog.text
    catalog.list_namespaces()
    assert len(issuer.received) == 2
    age(catalog, by=16)
    catalog.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1"] * 3 + ["Bearer t2"]


def test_a_token_endpoint_that_hangs_does_not_stop_calls_with_a_valid_token(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_oauth2, "_EARLY_RENEWAL_TIMEOUT", 0.3)
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), Response(hang=True))
    auth = credentials(issuer)
    catalog = connect(auth=auth)
    catalog.list_namespaces()
    age(catalog, by=40)
    assert auth.may_block()
    catalog.list_namespaces()
    assert not auth.may_block()
    catalog.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1"] * 3
    assert len(issuer.received) == 2


def test_a_call_that_lacks_the_time_leaves_the_early_renewal_to_others(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), granted("t2"))
    auth = credentials(issuer)
    patient, impatient = connect(auth=auth), connect(auth=auth, total_timeout=5)
    patient.list_namespaces()
    age(patient, by=40)
    impatient.list_namespaces()
    patient.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1", "Bearer t1", "Bearer t2"]


def test_a_caller_with_a_rejected_token_does_not_depend_on_an_early_renewal(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_oauth2, "_EARLY_RENEWAL_TIMEOUT", 0.5)
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), Response(hang=True), granted("t2"))
    auth = credentials(issuer)
    catalog = connect(auth=auth)
    catalog.list_namespaces()
    age(catalog, by=40)
    renewing = threading.Thread(target=catalog.list_namespaces, daemon=True)
    renewing.start()
    issuer.wait_for_requests(2)
    assert auth.renew(rejected="t1") == "t2"
    renewing.join(30)
    assert len(issuer.received) == 3


def test_a_token_that_expires_during_its_early_renewal_is_not_used(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), Response(status=503, delay=1.0), granted("t2"))
    catalog = connect(auth=credentials(issuer), retry=None)
    catalog.list_namespaces()
    age(catalog, by=59.5)
    catalog.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1", "Bearer t2"]
    assert len(issuer.received) == 3


def age(catalog: RestCatalog, *, by: float) -> None:
    """Move the expiry of a catalog's token by seconds."""
    auth: Any = catalog._operations._auth
    known = auth._known
    auth._known = dataclasses.replace(known, expires_at=known.expires_at - by, refresh_at=known.refresh_at - by)


def test_an_expired_token_is_not_used(peer: HttpPeer, issuer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60), Response(status=503))
    catalog = connect(auth=credentials(issuer), retry=None)
    catalog.list_namespaces()
    age(catalog, by=61)
    with pytest.raises(ServerError):
        catalog.list_namespaces()
    assert len(peer.received) == 1


@pytest.mark.parametrize("status", [401, 419])
def test_a_rejected_token_is_replaced_once(peer: HttpPeer, issuer: HttpPeer, connect: Connect, status: int) -> None:
    peer.respond(Response(status=status), in_json({"namespace": ["a"]}))
    issuer.respond(granted("t1"), granted("t2"))
    connect(auth=credentials(issuer)).create_namespace("a")
    assert sent_tokens(peer) == ["Bearer t1", "Bearer t2"]
    assert len({request.headers["Idempotency-Key"] for request in peer.received}) == 1
    peer.respond(Response(status=status))
    with pytest.raises(UnauthorizedError):
        connect(auth=credentials(issuer)).create_namespace("a")


def test_a_rejected_token_without_a_replacement_raises_unauthorized(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect
) -> None:
    peer.respond(Response(status=401))
    issuer.respond(granted("t1"), in_json({"error": "invalid_client"}, status=401))
    with pytest.raises(UnauthorizedError) as caught:
        connect(auth=credentials(issuer)).list_namespaces()
    assert isinstance(caught.value.__cause__, OAuthError)


@pytest.mark.parametrize("ended", [False, True])
def test_fifty_threads_share_one_token_request(peer: HttpPeer, issuer: HttpPeer, connect: Connect, ended: bool) -> None:
    peer.respond(in_json({}))
    catalog = connect(auth=credentials(issuer), pool_maxsize=50)
    if ended:
        catalog.list_namespaces()
        age(catalog, by=4000)
    before = len(issuer.received)
    body = json.dumps({"access_token": "t2", "expires_in": 3600}).encode()
    issuer.respond(Response(delay=0.3, headers={"Content-Type": "application/json"}, body=body))
    in_threads(catalog.list_namespaces, 50)
    assert len(issuer.received) - before == 1
    assert sent_tokens(peer)[-50:] == ["Bearer t2"] * 50


class Forgetful(HttpPeer):
    """Fake server that accepts one token."""

    token = "t1"

    def next_response(self, received: Received) -> Response:
        super().next_response(received)
        known = received.headers["Authorization"] == f"Bearer {self.token}"
        return in_json({}) if known else Response(status=401, delay=0.2)


def test_concurrent_rejections_replace_the_token_once(issuer: HttpPeer) -> None:
    threads = 32
    meeting = threading.Barrier(threads)
    with (
        Forgetful() as peer,
        plain_catalog(peer.url, auth=credentials(issuer), pool_maxsize=threads) as catalog,
    ):
        catalog.list_namespaces()
        peer.token = "t2"
        issuer.respond(granted("t2"))

        def ask() -> None:
            meeting.wait()
            catalog.list_namespaces()

        in_threads(ask, threads)
        assert len(issuer.received) == 2
        assert sent_tokens(peer)[1:].count("Bearer t2") == threads


def in_threads(work: Any, count: int) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_other_threads_continue_during_an_early_renewal(peer: HttpPeer, issuer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    issuer.respond(granted("t1", expires_in=60))
    catalog = connect(auth=credentials(issuer))
    catalog.list_namespaces()
    age(catalog, by=45)
    issuer.respond(Response(hang=True))
    renewing = threading.Thread(target=catalog.list_namespaces, daemon=True)
    renewing.start()
    while len(issuer.received) < 2:
        time.sleep(0.01)
    catalog.list_namespaces()
    assert sent_tokens(peer) == ["Bearer t1", "Bearer t1"]
    assert renewing.is_alive()
    issuer.stopping.set()
    renewing.join(30)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (in_json({"error": "invalid_client", "error_description": "d"}, status=401), OAuthError),
        (in_json({"error": "unheard_of"}, status=400), OAuthError),
        (Response(status=404), OAuthError),
        (in_json({"token_type": "bearer"}), InvalidResponseError),
        (in_json({"access_token": ""}), InvalidResponseError),
        (in_json({"access_token": "two words"}), InvalidResponseError),
        (in_json({"access_token": "t", "token_type": "mac"}), InvalidResponseError),
        (Response(body=b"<html>"), InvalidResponseError),
        (in_json({"access_token": "t" * 2_000_000}), InvalidResponseError),
        (Response(status=500), ServerError),
        (Response(raw=b"", close=True), NetworkError),
        (redirect("http://elsewhere.example/"), CatalogError),
    ],
)
def test_responses_without_a_token_are_rejected(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect, response: Response, kind: type[CatalogError]
) -> None:
    issuer.respond(response)
    with pytest.raises(kind) as caught:
        connect(auth=credentials(issuer), retry=RetryPolicy(max_attempts=2, backoff_base=0.001)).list_namespaces()
    assert (caught.value.operation, caught.value.url) == ("get_token", f"{issuer.url}/token")
    assert peer.received == []
    assert len(issuer.received) == (2 if kind in (ServerError, NetworkError) else 1)


def test_fields_of_oauth_error(peer: HttpPeer, issuer: HttpPeer, connect: Connect) -> None:
    issuer.respond(in_json({"error": "invalid_client", "error_description": "d", "error_uri": "u"}, status=401))
    with pytest.raises(OAuthError) as caught:
        connect(auth=credentials(issuer)).list_namespaces()
    error = caught.value
    assert (error.error, error.error_description, error.error_uri) == ("invalid_client", "d", "u")
    assert (error.status, error.message) == (401, "d")


def test_closing_the_catalog_closes_connections_to_the_token_endpoint(
    peer: HttpPeer, issuer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json({}))
    config: Any = {"type": "oauth2", "client_secret": "s", "token_url": f"{issuer.url}/t"}
    catalog = connect(auth=config)
    auth: Any = catalog._operations._auth
    catalog.list_namespaces()
    auth.renew(rejected="t1")
    catalog.close()
    auth.renew(rejected="t1")
    first, second, third = (request.connection for request in issuer.received)
    assert first == second != third
    auth.close()


def test_a_manager_without_a_catalog_cannot_request_a_token() -> None:
    with pytest.raises(InvalidArgumentError):
        OAuth2ClientCredentials("id", "s").token()


def test_client_secrets_without_tls_log_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    auth = OAuth2ClientCredentials("id", "s3cr3t", token_url="http://10.0.0.1/t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        caplog.set_level(logging.WARNING, "catalogclient")
        RestCatalog("https://catalog.example", auth=auth).close()
    assert "without TLS" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_token_requests_use_the_connection_options_of_the_catalog(issuer: HttpPeer) -> None:
    proxied = OAuth2ClientCredentials("id", "s", token_url="http://issuer.example/t")
    with RestCatalog("http://127.0.0.1:1", auth=proxied, proxies={"http://issuer.example": issuer.url}, retry=AT_ONCE):
        assert proxied.token() == "t1"
    assert issuer.received[0].target == "http://issuer.example/t"


class TokenExpiry:
    """Lets the token of a catalog expire before each repeated attempt."""

    def __init__(self) -> None:
        self.catalogs: list[RestCatalog] = []

    def on_request(self, info: RequestInfo) -> None:
        """Do nothing."""

    def on_response(self, info: ResponseInfo) -> None:
        """Do nothing."""

    def on_retry(self, info: RetryInfo) -> None:
        for catalog in self.catalogs:
            age(catalog, by=3600)


def test_a_failed_token_request_does_not_hide_an_unknown_commit(peer: HttpPeer, connect: Connect) -> None:
    lost, silent = Response(raw=b"", close=True), Response(raw=b"", close=True)
    peer.respond(in_json({"idempotency-key-lifetime": "PT1H"}), path="/v1/config")
    peer.respond(granted("t1", expires_in=60), silent, path="/token")
    peer.respond(lost)
    auth = OAuth2ClientCredentials("id", "s", token_url="/token")
    expiry = TokenExpiry()
    retry = RetryPolicy(backoff_base=0.001, max_attempts=2)
    catalog = connect(auth=auth, config_mode="always", retry=retry, hooks=[expiry])
    expiry.catalogs.append(catalog)
    with pytest.raises(CommitStateUnknownError) as caught:
        catalog.update_table("a.t", updates=[])
    assert caught.value.maybe_applied
    assert isinstance(caught.value.__cause__, NetworkError)


def test_a_commit_without_a_token_is_not_unknown(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(raw=b"", close=True), path="/token")
    auth = OAuth2ClientCredentials("id", "s", token_url="/token")
    with pytest.raises(NetworkError) as caught:
        connect(auth=auth, retry=None).update_table("a.t", updates=[])
    assert not caught.value.maybe_applied
    assert caught.value.operation == "get_token"
