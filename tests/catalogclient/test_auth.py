"""Authentication managers as seen by the server."""

from __future__ import annotations

import base64
import copy
import pickle
import sys
import traceback
import types
import warnings
from typing import Any

import pytest

from catalogclient import (
    AuthManager,
    BasicAuth,
    BearerAuth,
    CatalogError,
    CustomAuth,
    EntraAuth,
    GoogleAuth,
    HeaderAuth,
    InsecureTransportWarning,
    InvalidArgumentError,
    NoAuth,
    OAuth2ClientCredentials,
    OAuth2TokenExchange,
    RestCatalog,
    SigV4Auth,
)
from catalogclient.auth import PreparedRequest
from catalogclient.auth._config import create_manager
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("auth", "field", "value"),
    [
        (None, "Authorization", None),
        ({"type": "none"}, "Authorization", None),
        ({"type": "bearer", "token": "t0k"}, "Authorization", "Bearer t0k"),
        ({"type": "bearer", "token": lambda: "call"}, "Authorization", "Bearer call"),
        ({"type": "header", "name": "X-Key", "value": "v"}, "X-Key", "v"),
        ({"type": "header", "name": "Authorization", "value": "Token v"}, "Authorization", "Token v"),
        ({"type": "custom", "get_headers": lambda: {"A": "b"}}, "A", "b"),
        ({"type": "custom", "getHeaders": lambda: {"A": "b"}}, "A", "b"),
        (
            {"type": "basic", "username": "ä", "password": "p:w"},
            "Authorization",
            f"Basic {base64.b64encode('ä:p:w'.encode()).decode()}",
        ),
    ],
)
def test_static_credentials(peer: HttpPeer, connect: Connect, auth: Any, field: str, value: str | None) -> None:
    peer.respond(in_json({}))
    connect(auth=auth).list_namespaces()
    assert peer.received[0].headers.get_all(field) == (None if value is None else [value])


@pytest.mark.parametrize(
    "auth",
    [
        *({}, {"type": "magic"}, {"type": "bearer"}, {"type": "bearer", "token": ""}, "bearer"),
        {"type": "bearer", "token": "a b"},
        {"type": "bearer", "token": "a\nb"},
        {"type": "bearer", "token": 5},
        {"type": "header", "name": "X Y", "value": "v"},
        {"type": "header", "name": "Host", "value": "v"},
        {"type": "header", "name": "X", "value": "a\r\nb"},
        {"type": "basic", "username": "a:b", "password": "p"},
        {"type": "custom"},
        {"type": "custom", "get_headers": "x"},
        {"type": "sigv4", "region": ""},
        {"type": "sigv4", "region": "eu"},
        {"type": "oauth2"},
        {"type": "oauth2", "client_secret": "s", "client_auth": "magic"},
        {"type": "oauth2", "client_secret": "s", "token_url": "http://u:p@h/t"},
        {"type": "token-exchange", "subject_token": "s", "subject_token_type": "magic"},
        {"type": "token-exchange", "subject_token": "s", "actor_token": "a"},
    ],
)
def test_invalid_auth_mappings_are_rejected(auth: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        create_manager(auth)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    "failing", [lambda: 1 / 0, lambda: None, lambda: {"A": "x\r\ny"}, lambda: {"A": 5}, lambda: {"A b": "c"}]
)
def test_a_failing_token_callable_raises_catalog_error(peer: HttpPeer, connect: Connect, failing: Any) -> None:
    with pytest.raises(CatalogError):
        connect(auth=CustomAuth(failing)).list_namespaces()
    with pytest.raises(CatalogError):
        connect(auth=BearerAuth(failing)).list_namespaces()
    with pytest.raises(CatalogError):
        connect(auth=SigV4Auth("eu", credentials=failing)).list_namespaces()
    assert peer.received == []


def test_the_exception_of_a_callable_is_the_cause(connect: Connect) -> None:
    with pytest.raises(CatalogError) as caught:
        connect(auth={"type": "custom", "get_headers": lambda: 1 / 0}).list_namespaces()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_manager_of_the_caller(peer: HttpPeer, connect: Connect) -> None:
    class Mine(AuthManager):
        closed = False

        def apply(self, request: PreparedRequest) -> None:
            assert request.method == "POST"
            assert request.url.endswith("/v1/namespaces")
            assert request.body == b'{"namespace":["a"]}'
            request.headers["X-Mine"] = "1"

        def close(self) -> None:
            self.closed = True

    mine = Mine()
    peer.respond(in_json({}))
    with connect(auth=mine) as catalog:
        catalog.create_namespace("a")
    assert peer.received[0].headers["X-Mine"] == "1"
    assert not mine.closed


class Broken(AuthManager):
    """Sets a header field with an invalid value."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def apply(self, request: PreparedRequest) -> None:
        request.headers[self.name] = self.value


@pytest.mark.parametrize(("name", "value"), [("A", f"{CANARY}\r\nB: c"), (f"A\r\nB: {CANARY}", "c"), ("A", 5)])
def test_a_manager_cannot_set_values_with_line_breaks(peer: HttpPeer, connect: Connect, name: str, value: Any) -> None:
    with pytest.raises(CatalogError) as caught:
        connect(auth=Broken(name, value)).list_namespaces()
    assert CANARY not in "".join(traceback.format_exception(caught.value)).replace(repr(CANARY), "")
    assert peer.received == []


MANAGERS: list[AuthManager] = [
    NoAuth(),
    BearerAuth(CANARY),
    HeaderAuth("X-Key", CANARY),
    CustomAuth(lambda: {"A": CANARY}),
    BasicAuth("user", CANARY),
    OAuth2ClientCredentials("id", CANARY, token_url="https://id.example/t"),
    OAuth2TokenExchange(CANARY, client_secret=CANARY),
    SigV4Auth("eu", access_key="AK", secret_key=CANARY, session_token=CANARY),
    EntraAuth(credential=object()),
]


@pytest.mark.parametrize("auth", MANAGERS, ids=lambda auth: type(auth).__name__)
def test_managers_hide_secrets_and_cannot_be_copied(auth: AuthManager) -> None:
    assert CANARY not in repr(auth) + str(auth)
    assert type(auth).__name__ in repr(auth)
    with pytest.raises(TypeError):
        pickle.dumps(auth)
    with pytest.raises(TypeError):
        copy.deepcopy(auth)


@pytest.mark.parametrize(
    ("address", "auth", "warned"),
    [
        ("http://10.0.0.1", {"type": "bearer", "token": "t0k"}, 1),
        ("http://127.0.0.1", {"type": "bearer", "token": "t0k"}, 0),
        ("https://10.0.0.1", {"type": "bearer", "token": "t0k"}, 0),
        ("http://10.0.0.1", None, 0),
    ],
)
def test_credentials_without_tls_warn_once(address: str, auth: Any, warned: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RestCatalog(address, auth=auth).close()
    assert [warning.category for warning in caught] == [InsecureTransportWarning] * warned
    assert all(warning.filename == __file__ for warning in caught)


def test_a_sibling_has_other_credentials_and_the_same_connections(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p"}}), path="/v1/config")
    peer.respond(in_json({}))
    catalog = connect(warehouse="w", auth=BearerAuth("one"))
    catalog.list_namespaces()
    sibling = catalog.with_auth({"type": "bearer", "token": "two"})
    sibling.list_namespaces()
    catalog.close()
    sibling.list_namespaces()
    sibling.close()
    fields = [request.headers["Authorization"] for request in peer.received]
    assert fields == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
    assert len({request.connection for request in peer.received}) == 1
    with pytest.raises(CatalogError):
        sibling.list_namespaces()
    with pytest.raises(CatalogError):
        catalog.with_auth(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "extra"),
    [
        (GoogleAuth, "google"),
        (EntraAuth, "entra"),
        (lambda: SigV4Auth.from_botocore("eu", "glue"), "aws"),
        (lambda: create_manager({"type": "google"}), "google"),
        (lambda: create_manager({"type": "entra"}), "entra"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, make: Any, extra: str) -> None:
    for name in ("google", "google.auth", "azure", "azure.identity", "botocore", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidArgumentError, match=rf"catalogclient\[{extra}\]"):
        make()


class Entra:
    """Fake credential of azure-identity."""

    def __init__(self, *expiries: float) -> None:
        self.expiries = list(expiries)
        self.scopes_requested: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str) -> Any:
        self.scopes_requested.append(scopes)
        if not self.expiries:
            raise RuntimeError(CANARY)
        return types.SimpleNamespace(token=f"t{len(self.scopes_requested)}", expires_on=self.expiries.pop(0))


def test_entra_tokens_are_cached_until_shortly_before_expiry(peer: HttpPeer, connect: Connect) -> None:
    credential = Entra(9e12, 9e12)
    peer.respond(in_json({}), in_json({}), Response(status=401), in_json({}))
    catalog = connect(auth=EntraAuth(credential=credential, scopes=["s"]))
    for _ in range(3):
        catalog.list_namespaces()
    assert [request.headers["Authorization"] for request in peer.received] == ["Bearer t1"] * 3 + ["Bearer t2"]
    assert credential.scopes_requested == [("s",), ("s",)]
    with pytest.raises(CatalogError) as caught:
        connect(auth=EntraAuth(credential=Entra())).list_namespaces()
    assert CANARY not in str(caught.value)
    short = Entra(0.0, 0.0)
    auth = EntraAuth(credential=short)
    assert (auth.token(), auth.token()) == ("t1", "t2")


class Google:
    """Fake credentials of google-auth."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.refreshes = 0
        self.valid = False

    def refresh(self, request: object) -> None:
        self.refreshes += 1
        self.token, self.valid = f"t{self.refreshes}", True


def test_google_tokens_are_cached_while_valid(
    peer: HttpPeer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = Google()
    auth = types.ModuleType("google.auth")
    auth.default = lambda scopes: (credentials, "project")  # type: ignore[attr-defined]
    requests = types.ModuleType("google.auth.transport.requests")
    requests.Request = object  # type: ignore[attr-defined]
    for name, module in {
        "google": types.ModuleType("google"),
        "google.auth": auth,
        "google.auth.transport": types.ModuleType("google.auth.transport"),
        "google.auth.transport.requests": requests,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    peer.respond(in_json({}), in_json({}), Response(status=419), in_json({}))
    catalog = connect(auth={"type": "google"})
    for _ in range(3):
        catalog.list_namespaces()
    assert [request.headers["Authorization"] for request in peer.received] == ["Bearer t1"] * 3 + ["Bearer t2"]
    assert credentials.refreshes == 2
