"""Requests of all operations: method, URL, header fields and body."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from catalogclient import CatalogError, Endpoint, InvalidArgumentError, RestCatalog, TableIdentifier
from catalogclient._endpoints import OPERATIONS
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

N = "/v1/namespaces/a%1Fb"
T = f"{N}/tables/t"
V = f"{N}/views/v"
TABLE = {"metadata-location": "s3://b/0.json", "metadata": {"format-version": 2, "table-uuid": "u"}}
VIEW = {"metadata-location": "s3://b/0.json", "metadata": {"view-uuid": "u"}}
RENAME = {
    "source": {"namespace": ["a"], "name": "s"},
    "destination": {"namespace": ["b"], "name": "d"},
}
SIGN = {"region": "eu", "uri": "https://b.example/x", "method": "GET", "headers": {}}
REPORT = {"report-type": "commit-report", "table-name": "t", "snapshot-id": 1}

# Name, positional arguments, keywords, request line, body, answer.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Any, Any]] = [
    ("load_config", (), {}, "GET /v1/config", None, {"defaults": {}, "overrides": {}}),
    ("list_namespaces", (), {"parent": "a.b"}, "GET /v1/namespaces?parent=a%1Fb", None, {"namespaces": []}),
    ("create_namespace", ("a.b",), {}, "POST /v1/namespaces", {"namespace": ["a", "b"]}, {"namespace": ["a", "b"]}),
    ("load_namespace_metadata", ("a.b",), {}, f"GET {N}", None, {"namespace": ["a", "b"], "properties": {}}),
    ("namespace_exists", ("a.b",), {}, f"HEAD {N}", None, None),
    ("drop_namespace", ("a.b",), {}, f"DELETE {N}", None, None),
    (
        "update_namespace_properties",
        ("a.b",),
        {"updates": {"k": "v"}, "removals": ["x", "y", "x"]},
        f"POST {N}/properties",
        {"removals": ["x", "y"], "updates": {"k": "v"}},
        {"updated": ["k"], "removed": [], "missing": ["x"]},
    ),
    ("list_tables", ("a.b",), {"page_size": 5, "page_token": ""}, f"GET {N}/tables?pageToken=&pageSize=5", None, {}),
    (
        "create_table",
        ("a.b", {"name": "t", "schema": {"type": "struct", "fields": []}}),
        {},
        f"POST {N}/tables",
        {"stage-create": False, "name": "t", "schema": {"type": "struct", "fields": []}},
        TABLE,
    ),
    ("list_functions", ("a.b",), {}, f"GET {N}/functions", None, {"identifiers": [["a", "b", "f"]]}),
    ("load_function", ("a.b.f",), {}, f"GET {N}/functions/f", None, {"metadata": {"function-uuid": "u"}}),
    ("plan_table_scan", ("a.b.t",), {}, f"POST {T}/plan", {}, {"status": "completed"}),
    ("fetch_planning_result", ("a.b.t", "p/1"), {}, f"GET {T}/plan/p%2F1", None, {"status": "completed"}),
    ("cancel_planning", ("a.b.t", "p1"), {}, f"DELETE {T}/plan/p1", None, None),
    ("fetch_scan_tasks", ("a.b.t", "k1"), {}, f"POST {T}/tasks", {"plan-task": "k1"}, {}),
    (
        "register_table",
        ("a.b", {"name": "t", "metadata-location": "s3://b/0.json"}),
        {},
        f"POST {N}/register",
        {"name": "t", "metadata-location": "s3://b/0.json"},
        TABLE,
    ),
    ("load_table", ("a.b.t",), {"snapshots": "refs"}, f"GET {T}?snapshots=refs", None, TABLE),
    (
        "update_table",
        ("a.b.t",),
        {"updates": [{"action": "remove-properties", "removals": ["k"]}]},
        f"POST {T}",
        {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["k"]}]},
        TABLE,
    ),
    ("drop_table", ("a.b.t",), {}, f"DELETE {T}?purgeRequested=false", None, None),
    ("table_exists", ("a.b.t",), {}, f"HEAD {T}", None, None),
    ("unregister_table", ("a.b.t",), {}, f"POST {T}/unregister", None, TABLE),
    ("load_credentials", ("a.b.t",), {"plan_id": "p"}, f"GET {T}/credentials?planId=p", None, {}),
    ("sign_request", ("a.b.t", SIGN), {}, f"POST {T}/sign", SIGN, {"uri": "u", "headers": {}}),
    ("rename_table", (RENAME,), {}, "POST /v1/tables/rename", RENAME, None),
    ("report_metrics", ("a.b.t", REPORT), {}, f"POST {T}/metrics", REPORT, None),
    (
        "commit_transaction",
        ([{"identifier": TableIdentifier(("a",), "t"), "updates": []}],),
        {},
        "POST /v1/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["a"], "name": "t"}, "updates": [], "requirements": []}]},
        None,
    ),
    ("list_views", ("a.b",), {}, f"GET {N}/views", None, {"identifiers": []}),
    ("create_view", ("a.b", {"name": "v"}), {}, f"POST {N}/views", {"name": "v"}, VIEW),
    ("load_view", ("a.b.v",), {}, f"GET {V}", None, VIEW),
    ("replace_view", ("a.b.v", {"updates": []}), {}, f"POST {V}", {"updates": []}, VIEW),
    ("drop_view", ("a.b.v",), {}, f"DELETE {V}", None, None),
    ("view_exists", ("a.b.v",), {}, f"HEAD {V}", None, None),
    ("rename_view", ("a.s", "b.d"), {}, "POST /v1/views/rename", RENAME, None),
    (
        "register_view",
        ("a.b", {"name": "v", "metadata-location": "s3://b/0.json"}),
        {},
        f"POST {N}/register-view",
        {"name": "v", "metadata-location": "s3://b/0.json"},
        VIEW,
    ),
]
WITH_KEY = {
    *("create_namespace", "drop_namespace", "update_namespace_properties", "create_table", "plan_table_scan"),
    *("cancel_planning", "fetch_scan_tasks", "register_table", "update_table", "drop_table", "unregister_table"),
    *("rename_table", "commit_transaction", "create_view", "replace_view", "drop_view", "rename_view"),
    "register_view",
}
WITH_DELEGATION = {
    *("create_table", "load_table", "register_table", "table_exists"),
    *("plan_table_scan", "fetch_planning_result", "cancel_planning"),
}


def test_the_table_of_operations_is_complete() -> None:
    assert {call[0] for call in CALLS} | {"get_token"} == {operation.name for operation in OPERATIONS.values()}
    assert len(Endpoint) == 35


@pytest.mark.parametrize(
    ("name", "arguments", "options", "line", "body", "response"), CALLS, ids=[call[0] for call in CALLS]
)
def test_operation_sends_its_method_address_fields_and_body(
    peer: HttpPeer,
    connect: Connect,
    name: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    line: str,
    body: Any,
    response: Any,
) -> None:
    peer.respond(Response(status=204) if response is None else in_json(response))
    getattr(connect(access_delegation=["vended-credentials", "remote-signing"]), name)(*arguments, **options)
    (received,) = peer.received
    assert f"{received.method} {received.target}" == line
    assert (received.json() if received.body else None) == body
    assert received.headers.get("Content-Type") == (None if body is None else "application/json")
    keys = received.headers.get_all("Idempotency-Key") or []
    assert len(keys) == (1 if name in WITH_KEY else 0)
    delegation = "vended-credentials,remote-signing" if name in WITH_DELEGATION else None
    assert received.headers.get("X-Iceberg-Access-Delegation") == delegation


def test_plain_and_result_forms_of_an_operation_take_the_same_arguments() -> None:
    for name, method in inspect.getmembers(RestCatalog, inspect.isfunction):
        if name.endswith("_result") and name != "fetch_planning_result":
            plain = getattr(RestCatalog, name.removesuffix("_result"))
            extra = {"raw"} if name == "load_table_result" else set()
            assert set(inspect.signature(method).parameters) - extra == set(inspect.signature(plain).parameters), name


def test_requests_contain_only_the_documented_header_fields(
    peer: HttpPeer, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    peer.respond(in_json({"namespaces": []}))
    connect().list_namespaces()
    (received,) = peer.received
    assert received.target == "/v1/namespaces"
    names = {name.lower() for name in received.headers}
    assert names == {"host", "accept", "accept-encoding", "user-agent", "x-client-version"}
    assert received.headers["Accept"] == "application/json"
    assert re.fullmatch(r"catalogclient/[\d.]+ python/3\.\d+ requests/[\d.]+", received.headers["User-Agent"])


@pytest.mark.parametrize("path", ["/iceberg", "/iceberg/"])
def test_the_path_of_the_base_url_is_kept(peer: HttpPeer, connect: Connect, path: str) -> None:
    peer.respond(in_json({}))
    connect(path).list_namespaces()
    assert peer.received[0].target == "/iceberg/v1/namespaces"


def test_unknown_keywords_raise_type_error(connect: Connect) -> None:
    with pytest.raises(TypeError):
        connect().list_namespaces(namespace=["x"])  # type: ignore[call-arg]


@pytest.mark.parametrize("size", [0, -1, True, "5", 1.5])
def test_invalid_page_sizes_are_rejected_before_sending(peer: HttpPeer, connect: Connect, size: Any) -> None:
    with pytest.raises(CatalogError):
        connect().list_tables("a", page_size=size)
    assert peer.received == []


@pytest.mark.parametrize("parent", [None, [], "", (), {"namespace": []}])
def test_no_parent_is_no_parameter(peer: HttpPeer, connect: Connect, parent: Any) -> None:
    peer.respond(in_json({}))
    connect().list_namespaces(parent=parent)
    assert peer.received[0].target == "/v1/namespaces"


@pytest.mark.parametrize("delegation", [None, [], ()])
def test_access_delegation_of_a_call_overrides_the_options(peer: HttpPeer, connect: Connect, delegation: Any) -> None:
    peer.respond(in_json(TABLE))
    catalog = connect(access_delegation=["vended-credentials"])
    catalog.load_table("a.t", access_delegation=delegation)
    catalog.load_table("a.t", access_delegation=["remote-signing"])
    fields = [request.headers.get("X-Iceberg-Access-Delegation") for request in peer.received]
    assert fields == [None, "remote-signing"]


def test_referenced_by_lists_views_outermost_first(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(TABLE))
    connect().load_table("a.t", referenced_by=["p.q.v", ("x", "with,comma")])
    assert peer.received[0].target == "/v1/namespaces/a/tables/t?referenced-by=p%1Fq%1Fv,x%1Fwith%2Ccomma"


@pytest.mark.parametrize(
    "call",
    [
        lambda catalog: catalog.load_table("t"),
        lambda catalog: catalog.load_table(["t"]),
        lambda catalog: catalog.load_table(("..", "t")),
        lambda catalog: catalog.load_table({"namespace": ["a"]}),
        lambda catalog: catalog.drop_namespace([]),
        lambda catalog: catalog.drop_namespace([""]),
        lambda catalog: catalog.drop_namespace(["."]),
        lambda catalog: catalog.drop_namespace([1]),
        lambda catalog: catalog.drop_namespace(7),
        lambda catalog: catalog.drop_namespace(["\ud800"]),
        lambda catalog: catalog.create_table("a", {"name": ""}),
        lambda catalog: catalog.create_view("a", None),
        lambda catalog: catalog.load_table("a.t", snapshots="x"),
        lambda catalog: catalog.load_table("a.t", referenced_by="a.v"),
        lambda catalog: catalog.load_table("a.t", idempotency_key="0" * 36),
        lambda catalog: catalog.create_namespace("a", idempotency_key="x"),
        lambda catalog: catalog.create_namespace("a", {"k": float("nan")}),
        lambda catalog: catalog.update_table("a.t", {"properties": {"k": "v"}}),
        lambda catalog: catalog.update_table("a.t", {"updates": []}, updates=[{"action": "x"}]),
        lambda catalog: catalog.commit_transaction([]),
        lambda catalog: catalog.commit_transaction([{"updates": []}]),
        lambda catalog: catalog.update_namespace_properties("a", {"removals": []}, removals=[]),
        lambda catalog: catalog.rename_table({"source": "a.b"}),
        lambda catalog: catalog.plan_table_scan("a.t", {"snapshot-id": 1, "start-snapshot-id": 2}),
        lambda catalog: catalog.plan_table_scan("a.t", {"start-snapshot-id": 2}),
        lambda catalog: catalog.fetch_planning_result("a.t", ".."),
        lambda catalog: catalog.list_namespaces(headers={"authorization": "x"}),
        lambda catalog: catalog.list_namespaces(headers={"X-A": "a\r\nb"}),
        lambda catalog: catalog.list_namespaces(headers={"X-A": "a\x01b"}),
        lambda catalog: catalog.list_namespaces(headers={"X-A": "a "}),
        lambda catalog: catalog.list_namespaces(timeout=0),
        lambda catalog: catalog.sign_request("a.t", SIGN, signing_config={"headers": {"Authorization": ["x"]}}),
        lambda catalog: catalog.sign_request("a.t", SIGN, signing_config={"headers": {"X-A": "abc"}}),
        lambda catalog: catalog.request("GET", "../other"),
        lambda catalog: catalog.request("GET", "a b"),
        lambda catalog: catalog.request("GET", "a?b"),
        lambda catalog: catalog.request("GET", "{namespace}"),
        lambda catalog: catalog.request("GET", "%2e%2E/x"),
    ],
)
def test_invalid_arguments_are_rejected_before_sending(peer: HttpPeer, connect: Connect, call: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call(connect())
    assert isinstance(caught.value, ValueError)
    assert caught.value.status == 0
    assert peer.received == []


def test_the_old_form_of_update_table_names_the_new_form(connect: Connect) -> None:
    with pytest.raises(ValueError, match="set_properties"):
        connect().update_table("a.t", {"properties": {}})  # type: ignore[arg-type]


def test_both_forms_of_rename_send_the_same(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=204))
    catalog = connect()
    catalog.rename_table("a.s", ("b", "d"))
    catalog.rename_table(
        {"source": {"namespace": ["a"], "name": "s"}, "destination": {"namespace": ["b"], "name": "d"}}
    )
    assert [request.json() for request in peer.received] == [RENAME, RENAME]


def test_commit_table_is_another_name_of_update_table() -> None:
    assert RestCatalog.commit_table is RestCatalog.update_table


def test_sign_request_adds_the_signing_config(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(
        Response(
            headers={"Content-Type": "application/json", "Cache-Control": "private, max-age=60"},
            body=b'{"uri":"https://b.example/x","headers":{"Authorization":["s"]}}',
        )
    )
    result = connect().sign_request(
        "a.t",
        {"region": "eu", "uri": "u", "method": "GET", "headers": {}, "properties": {"mine": "1"}},
        signing_config={"properties": {"theirs": "2"}, "headers": {"X-Sign": ["a", "b"]}},
    )
    assert result.cacheable
    assert result.headers == {"Authorization": ["s"]}
    (received,) = peer.received
    assert received.json()["properties"] == {"mine": "1", "theirs": "2"}
    assert received.headers["X-Sign"] == "a, b"


def test_request_sends_custom_paths_with_the_same_checks(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"prefix": "p", "overrides": {"prefix": "p"}}), path="/v1/config")
    peer.respond(in_json({"x": 1}), path="/v1/p/vendor/a%2Fb")
    catalog = connect(warehouse="w")
    response = catalog.request("post", "vendor/a%2Fb", params={"q": "a b"}, json={"k": None})
    assert response.json() == {"x": 1}
    assert response.headers["content-TYPE"] == "application/json"
    received = peer.received[-1]
    assert received.target == "/v1/p/vendor/a%2Fb?q=a%20b"
    assert received.body == b'{"k":null}'
    assert received.method == "POST"
    assert "Idempotency-Key" in received.headers
    peer.respond(in_json({}), path="/health")
    assert catalog.request("GET", "/health", prefixed=False).status == 200
    assert "Idempotency-Key" not in peer.received[-1].headers
