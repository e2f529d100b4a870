"""Secrets never appear in logs, errors and representations."""

from __future__ import annotations

import logging
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalogclient import (
    BasicAuth,
    BearerAuth,
    CatalogError,
    CustomAuth,
    HeaderAuth,
    OAuth2ClientCredentials,
    RestCatalog,
    SigV4Auth,
)
from tests.catalogclient.conftest import AT_ONCE, Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json, redirect

CANARY = "c4n4ry-5ecret"


@pytest.fixture
def everything_seen(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Logs of all libraries at level DEBUG and all warnings, as one string."""
    caplog.set_level(logging.DEBUG)
    for name in ("catalogclient", "urllib3", "requests"):
        caplog.set_level(logging.DEBUG, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: caplog.text + "".join(str(warning.message) for warning in caught)


AUTHS: dict[str, Callable[[str], Any]] = {
    "bearer": lambda _: BearerAuth(CANARY),
    "header": lambda _: HeaderAuth("X-Key", CANARY),
    "custom": lambda _: CustomAuth(lambda: {"X-Key": CANARY}),
    "basic": lambda _: BasicAuth("user", CANARY),
    "oauth2": lambda url: OAuth2ClientCredentials("id", CANARY, token_url=f"{url}/token"),
    "sigv4": lambda _: SigV4Auth("eu", access_key="AK", secret_key=CANARY, session_token=CANARY),
}
RESPONSES: dict[str, Response] = {
    "400": Response(status=400, body=b"{bad"),
    "401": Response(status=401),
    "403": in_json({"error": {"message": "m", "type": "ForbiddenException", "code": 403}}, status=403),
    "404": Response(status=404, body=b"<html>"),
    "419": Response(status=419),
    "500": Response(status=500),
    "redirect": redirect("http://elsewhere.example/?q=1"),
    "not JSON": Response(headers={"Content-Type": "application/json"}, body=b"{"),
    "lost": Response(raw=b"", close=True),
    "half": Response(headers={"Content-Length": "99"}, body=b"{", close=True),
    "slow": Response(hang=True),
}


@pytest.mark.parametrize("kind", AUTHS)
@pytest.mark.parametrize("response", RESPONSES)
def test_failures_contain_no_secret(
    peer: HttpPeer, connect: Connect, everything_seen: Callable[[], str], kind: str, response: str
) -> None:
    peer.respond(in_json({"access_token": CANARY, "expires_in": 3600}), path="/token")
    peer.respond(RESPONSES[response])
    catalog = connect(
        auth=AUTHS[kind](peer.url),
        headers={"X-Private": CANARY},
        timeout=0.2 if response == "slow" else 10,
        properties={"token": CANARY},
        retry=None,
    )
    for call in (
        lambda: catalog.create_namespace("a"),
        lambda: catalog.update_table("a.t", updates=[]),
        lambda: catalog.load_table("a.t"),
    ):
        with pytest.raises(CatalogError) as caught:
            call()
        seen = [repr(caught.value), str(caught.value), str(vars(caught.value))]
        seen.append("".join(traceback.format_exception(caught.value)))
        assert CANARY not in "".join(seen) + repr(catalog) + everything_seen()
        assert CANARY.encode() not in pickle.dumps(caught.value)
        for cause in (caught.value.__cause__, caught.value.details):
            assert getattr(cause, "request", None) is None


def test_results_contain_no_secret(peer: HttpPeer, connect: Connect, everything_seen: Callable[[], str]) -> None:
    secret = {"s3.secret-access-key": CANARY, "token": CANARY}
    peer.respond(
        in_json({"defaults": secret, "overrides": {**secret, "uri": f"http://u:{CANARY}@h"}}), path="/v1/config"
    )
    peer.respond(
        in_json(
            {
                "metadata": {"format-version": 2, "table-uuid": "u"},
                "config": secret,
                "storage-credentials": [{"prefix": "s3://", "config": secret}],
                "status": "completed",
            }
        )
    )
    catalog = connect(config_mode="always", auth=BearerAuth(CANARY))
    results = [
        catalog.load_config(),
        catalog.load_table_result("a.t"),
        catalog.load_view_result("a.v"),
        catalog.load_credentials("a.t"),
        catalog.plan_table_scan("a.t"),
        catalog.request("GET", "x"),
        catalog,
    ]
    assert CANARY not in repr(results) + "".join(map(str, results)) + everything_seen()


def test_a_failed_token_request_contains_no_secret(
    peer: HttpPeer, connect: Connect, everything_seen: Callable[[], str]
) -> None:
    for response in (*RESPONSES.values(), in_json({"error": "invalid_client"}, status=401)):
        peer.respond(response, path="/token")
        auth = OAuth2ClientCredentials("id", CANARY, token_url=f"{peer.url}/token", client_auth="post", timeout=0.2)
        with pytest.raises(CatalogError) as caught:
            connect(auth=auth, retry=None).list_namespaces()
        assert CANARY not in "".join(traceback.format_exception(caught.value)) + everything_seen() + repr(auth)


def test_errors_contain_no_query_values(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=500))
    with pytest.raises(CatalogError) as caught:
        connect(retry=None).list_namespaces(page_token=CANARY)
    assert CANARY not in str(vars(caught.value))


def test_users_in_urls_are_rejected_and_not_printed() -> None:
    for build in (
        lambda: RestCatalog(f"http://u:{CANARY}@h"),
        lambda: OAuth2ClientCredentials("id", "s", token_url=f"https://u:{CANARY}@h/t"),
    ):
        with pytest.raises(CatalogError) as caught:
            build()
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_errors_contain_no_proxy_password(everything_seen: Callable[[], str]) -> None:
    proxies = {"http": f"http://user:{CANARY}@127.0.0.1:1"}
    with RestCatalog("http://catalog.example", proxies=proxies, retry=AT_ONCE) as catalog:
        with pytest.raises(CatalogError) as caught:
            catalog.list_namespaces()
        assert CANARY not in str(caught.value) + repr(catalog) + everything_seen()
        assert not caught.value.maybe_applied


def test_a_catalog_cannot_be_pickled_or_copied(connect: Connect) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(connect())


def test_server_messages_cannot_forge_log_lines(
    peer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "catalogclient")
    peer.respond(
        Response(
            status=500,
            headers={"Content-Type": "application/json", "X-Request-Id": "a\x1b[2Kb"},
            body=b'{"error":{"message":"a\\nFORGED","type":"b\\nFORGED"}}',
        )
    )
    with pytest.raises(CatalogError) as caught:
        connect().list_tables(["a\nFORGED"])
    assert "\n" not in str(caught.value)
    assert not any("\n" in record.getMessage() or "\x1b" in record.getMessage() for record in caplog.records)
