"""Hostile responses and invalid arguments: every failure is a CatalogError."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogclient import (
    CatalogError,
    CommitStateUnknownError,
    InvalidArgumentError,
    InvalidResponseError,
    RestCatalog,
    RetryPolicy,
    SecretDict,
    ServerError,
    Timeout,
    credentials,
    current_snapshot,
    current_snapshot_id,
    effective_config,
    get_current_schema,
    parse_decimal_type,
    ref,
    requirements,
    select_credential,
    snapshot_by_id,
    types_equal,
    updates,
)
from tests.catalogclient.conftest import AT_ONCE, Connect, untimed
from tests.fakes.http_peer import HttpPeer, Response, in_json

LONE = "\ud800"
METADATA = {"format-version": 2, "table-uuid": "u"}


@pytest.mark.parametrize(
    "value", ["Mon, 01 Jan 99999 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -9959", "9" * 400, "x", "\xff", "-1", "1e9"]
)
def test_a_broken_retry_after_does_not_hide_the_unknown_state_of_a_commit(
    peer: HttpPeer, connect: Connect, value: str
) -> None:
    peer.respond(Response(status=503, headers={"Retry-After": value}))
    with pytest.raises(CommitStateUnknownError):
        connect().update_table("a.t", updates=[])
    with pytest.raises(ServerError):
        connect(retry=None).list_namespaces()


@pytest.mark.parametrize(
    "config",
    [{"overrides": {"prefix": LONE}}, {"overrides": {"prefix": "p", "namespace-separator": LONE}}],
)
def test_lone_surrogates_in_the_configuration(peer: HttpPeer, connect: Connect, config: Any) -> None:
    peer.respond(in_json(config), path="/v1/config")
    with pytest.raises(InvalidResponseError):
        connect(warehouse="w").list_tables(["a", "b"])


CALLS: list[Callable[[Any], object]] = [
    lambda catalog: catalog.list_tables("a", page_token=LONE),
    lambda catalog: catalog.fetch_planning_result("a.t", LONE),
    lambda catalog: catalog.fetch_scan_tasks("a.t", LONE),
    lambda catalog: catalog.load_credentials("a.t", plan_id=LONE),
    lambda catalog: catalog.load_table("a.t", if_none_match=LONE),
    lambda catalog: catalog.load_table(("a", LONE)),
    lambda catalog: catalog.create_namespace("a", {LONE: "x"}),
    lambda catalog: catalog.create_namespace("a", 5),
    lambda catalog: catalog.load_table("a.t", headers=5),
    lambda catalog: catalog.load_table("a.t", timeout="x"),
    lambda catalog: catalog.load_table("a.t", timeout=math.nan),
    lambda catalog: catalog.load_table("a.t", timeout=(1, 2, 3)),
    lambda catalog: catalog.load_table("a.t", access_delegation=[5]),
    lambda catalog: catalog.load_table("a.t", referenced_by=5),
    lambda catalog: catalog.update_table("a.t", 5),
    lambda catalog: catalog.update_table("a.t", updates=5),
    lambda catalog: catalog.update_table("a.t", idempotency_key=LONE),
    lambda catalog: catalog.commit_transaction([5]),
    lambda catalog: catalog.commit_transaction(5),
    lambda catalog: catalog.reconcile_commit("a.t", {"updates": [{"action": "add-snapshot"}]}),
    lambda catalog: catalog.reconcile_commit("a.t", 5),
    lambda catalog: catalog.plan_table_scan("a.t", 5),
    lambda catalog: catalog.sign_request("a.t", 5),
    lambda catalog: catalog.sign_request("a.t", {}, signing_config={"headers": {"a": [5]}}),
    lambda catalog: catalog.rename_table({"source": 5, "destination": 5}),
    lambda catalog: catalog.update_namespace_properties("a", removals=[[]]),
    lambda catalog: catalog.request("GET", "x", params={LONE: "y"}),
    lambda catalog: catalog.request("GET\r\nX: y", "x"),
    lambda catalog: catalog.request("GET", 5),
    lambda catalog: list(catalog.plan_scan("a.t", poll_timeout=0)),
    lambda catalog: list(catalog.iter_tables("a", page_size=0)),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_invalid_arguments_raise_a_catalog_error_and_send_nothing(
    peer: HttpPeer, connect: Connect, number: int
) -> None:
    with pytest.raises(InvalidArgumentError):
        CALLS[number](connect())
    assert peer.received == []


OPTIONS: list[dict[str, Any]] = [
    *({"timeout": value} for value in (0, -1, math.nan, "x", True, (1,), [1, 2])),
    *({"total_timeout": value} for value in (0, math.nan, "x")),
    *({"pool_maxsize": value} for value in (0, 0.5, None, 10**9)),
    *({"max_response_bytes": value} for value in (0, 0.5, "x")),
    *({"prefix": value} for value in (LONE, 5)),
    *({"warehouse": value} for value in (LONE, 5)),
    *({"namespace_separator": value} for value in (LONE, 5, "")),
    *({"headers": value} for value in (5, {"a": 5}, {5: "a"})),
    *({"access_delegation": value} for value in (5, [5], "x")),
    *({"auth": value} for value in (5, "x", {"type": 5}, {"type": "bearer", "token": LONE})),
    *({"verify": value} for value in ("/no/such.pem", 5)),
    *({"cert": value} for value in ("/no/such.pem", ("/no/such.pem", "/no/such.key"), 5)),
    *({"retry": value} for value in (5, "x")),
    *({"hooks": value} for value in (5,)),
    *({"user_agent": value} for value in (5, "a\r\nb")),
    *({"proxies": value} for value in (5,)),
    *({"properties": value} for value in (5,)),
]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_invalid_options_raise_a_catalog_error(peer: HttpPeer, options: dict[str, Any]) -> None:
    peer.respond(in_json({}))
    with pytest.raises(InvalidArgumentError):
        RestCatalog(peer.url, **options).list_namespaces()
    assert peer.received == []


def test_a_missing_ca_bundle_fails_at_once(peer: HttpPeer, connect: Connect) -> None:
    with pytest.raises(InvalidArgumentError, match=r"/no/such\.pem") as caught:
        connect(verify="/no/such.pem").list_namespaces()
    assert caught.value.attempts <= 1


@pytest.mark.parametrize("endless", [math.inf, 1e12, 10**400])
def test_infinity_means_no_limit(peer: HttpPeer, connect: Connect, endless: float) -> None:
    peer.respond(Response(status=503), in_json({}))
    catalog = connect(timeout=endless, total_timeout=endless)
    catalog.list_namespaces()
    catalog.list_namespaces(timeout=(endless, 5))
    assert Timeout(connect=endless, read=5) == Timeout(connect=None, read=5)


@pytest.mark.parametrize("value", [0.5, 0, -1, True, "4", None])
def test_a_retry_policy_has_a_whole_number_of_attempts(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RetryPolicy(max_attempts=value)


def test_an_overflowing_backoff_is_the_longest_delay(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503))
    policy = RetryPolicy(max_attempts=9, backoff_factor=1e300, backoff_base=1e-9, backoff_max=0.001)
    with pytest.raises(ServerError):
        connect(retry=policy).list_namespaces()
    assert len(peer.received) == 9


@pytest.mark.parametrize("status", [101, 199])
def test_a_final_informational_status_is_a_failure(peer: HttpPeer, connect: Connect, status: int) -> None:
    peer.respond(Response(raw=f"HTTP/1.1 {status} Strange\r\nContent-Length: 0\r\n\r\n".encode(), close=True))
    catalog = connect()
    with pytest.raises(InvalidResponseError) as caught:
        catalog.table_exists("a.t")
    assert caught.value.status == status
    with pytest.raises(CommitStateUnknownError):
        catalog.update_table("a.t", updates=[])


def test_a_level_with_the_unit_separator_is_rejected(peer: HttpPeer, connect: Connect) -> None:
    catalog = connect()
    for call in (
        lambda: catalog.load_namespace_metadata(["a\x1fb"]),
        lambda: catalog.list_namespaces(parent=["a\x1fb"]),
        lambda: catalog.load_table(("a\x1fb", "t")),
        lambda: catalog.create_namespace(("x", "\x1f")),
    ):
        with pytest.raises(InvalidArgumentError, match=r"U\+001F"):
            call()
    assert peer.received == []
    with pytest.raises(CatalogError):
        catalog.load_table(("a", "b\x1fc"))
    assert peer.received[0].target == "/v1/namespaces/a/tables/b%1Fc"


def untyped(value: Any) -> Any:
    """Hide the type of an invalid argument from the type checker."""
    return value


ODD: list[Any] = [None, 5, "x", [], [5], {}, {"a": 5}, [[]], [{}], True, 1e400, [{"snapshot-id": "x"}]]
HELPERS: list[Callable[[Any], object]] = [
    lambda odd: requirements.for_update(odd, []),
    lambda odd: requirements.for_update(untyped({"table-uuid": "u", "refs": odd}), odd),
    lambda odd: requirements.for_update(untyped(METADATA), odd),
    requirements.for_replace_view,
    updates.from_staged,
    lambda odd: updates.from_staged(untyped({**METADATA, "schemas": odd, "sort-orders": odd, "properties": odd})),
    updates.set_properties,
    updates.remove_snapshots,
    updates.set_statistics,
    get_current_schema,
    lambda odd: get_current_schema(untyped({"schemas": odd})),
    current_snapshot_id,
    current_snapshot,
    lambda odd: current_snapshot(untyped({"current-snapshot-id": 1, "snapshots": odd})),
    lambda odd: snapshot_by_id(untyped({"snapshots": odd}), 1),
    lambda odd: ref(untyped({"refs": odd}), "main"),
    lambda odd: ref(untyped(METADATA), odd),
    lambda odd: select_credential(odd, "s3://b"),
    lambda odd: select_credential([], odd),
    effective_config,
    credentials.expires_at,
    lambda odd: credentials.expires_at(SecretDict(untyped({"s3.session-token-expires-at-ms": odd}))),
    parse_decimal_type,
    lambda odd: types_equal(odd, odd),
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_helpers_raise_nothing_but_a_catalog_error(odd: Any) -> None:
    for helper in HELPERS:
        with contextlib.suppress(CatalogError):
            helper(odd)


def test_an_empty_document_is_an_invalid_argument_of_a_helper() -> None:
    with pytest.raises(InvalidArgumentError):
        requirements.for_update(untyped({}), [])


def test_an_expiry_after_the_last_year_is_no_expiry() -> None:
    assert credentials.expires_at(SecretDict({"s3.session-token-expires-at-ms": "9" * 15})) is None
    assert credentials.expires_at(SecretDict({"s3.session-token-expires-at-ms": "9" * 13})) is not None


def test_a_table_without_a_location_has_its_configuration(peer: HttpPeer, connect: Connect) -> None:
    document = {"metadata": {**METADATA, "location": None}, "config": {"k": "v"}, "storage-credentials": []}
    peer.respond(in_json(document))
    assert effective_config(connect().load_table_result("a.t")) == {"k": "v"}


@pytest.mark.parametrize("references", [5, "0", {"0": 0}, [True], [0.0], [None], [[0]]])
def test_invalid_references_to_delete_files(peer: HttpPeer, connect: Connect, references: Any) -> None:
    task = {"data-file": {}, "delete-file-references": references}
    peer.respond(in_json({"status": "completed", "file-scan-tasks": [task], "delete-files": [{}]}))
    with pytest.raises(InvalidResponseError):
        list(connect().plan_scan("a.t"))


SCALARS: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "a", LONE, "completed", "PT1S", "9" * 15]),
)
KEYS = (
    "defaults overrides endpoints idempotency-key-lifetime prefix uri namespace-separator rest-page-size header.X "
    "namespaces identifiers next-page-token namespace name properties metadata metadata-location config prefix status "
    "storage-credentials remote-signing-config plan-id plan-tasks file-scan-tasks delete-files headers uri location "
    "delete-file-references error message type code stack updated removed missing current-snapshot-id snapshots"
).split()
VALUES: Any = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS: Any = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)
READS: list[Callable[[RestCatalog], object]] = [
    lambda catalog: list(catalog.iter_namespaces()),
    lambda catalog: effective_config(catalog.load_table_result("a.t")),
    lambda catalog: current_snapshot(catalog.load_table("a.t")),
    lambda catalog: catalog.update_table("a.t", updates=[]).metadata_location,
    lambda catalog: list(catalog.plan_scan("a.t", poll_timeout=0.001)),
    lambda catalog: [
        credentials.expires_at(credential.config) for credential in catalog.load_credentials("a.t", fallback=True)
    ],
    lambda catalog: catalog.create_namespace("a").properties,
    lambda catalog: list(catalog.iter_views("a")),
]


@pytest.fixture(scope="module")
def hostile() -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        yield running


@given(
    status=st.sampled_from([200, 200, 200, 201, 204, 304, 400, 404, 409, 418, 503]),
    config=DOCUMENTS,
    document=DOCUMENTS,
    number=st.integers(0, len(READS) - 1),
)
@settings(untimed, max_examples=75)
def test_any_document_of_a_server_is_a_result_or_a_catalog_error(
    hostile: HttpPeer, status: int, config: Any, document: Any, number: int
) -> None:
    body = json.dumps(document).encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json"}
    hostile.respond(Response(headers=headers, body=json.dumps(config).encode()), path="/v1/config")
    hostile.respond(Response(status=status, headers=headers, body=body))
    with RestCatalog(hostile.url, retry=AT_ONCE) as catalog, contextlib.suppress(CatalogError):
        assert repr(READS[number](catalog))
