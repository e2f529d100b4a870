"""Mapping of error responses."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from catalogclient import CatalogError, Endpoint, _error_mapping, errors
from catalogclient._endpoints import OPERATIONS
from catalogclient._messages import HttpResponse
from tests.catalogclient.conftest import untimed


def mapped(status: int, body: Any = b"", *, by: Endpoint = Endpoint.LOAD_TABLE, **fields: str) -> CatalogError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if isinstance(body, bytes) else {"Content-Type": "application/json"}
    headers = CaseInsensitiveDict({**kind, **{name.replace("_", "-"): value for name, value in fields.items()}})
    return _error_mapping.error_from_response(HttpResponse(status, headers, io.BytesIO(content)), OPERATIONS[by])


def error_document(kind: Any, message: str = "m", code: int = 404) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code, "stack": ["a"]}}


def test_all_fields_of_an_error() -> None:
    error = mapped(404, error_document("NoSuchTableException"), Retry_After="7", X_Request_Id="r")
    assert type(error) is errors.NoSuchTableError
    assert (error.message, error.status, error.type, error.code) == ("m", 404, "NoSuchTableException", 404)
    assert (error.stack, error.request_id, error.retry_after) == (["a"], "r", 7.0)
    assert error.details == error_document("NoSuchTableException")
    assert error.is_not_found
    assert not error.is_conflict


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>no</html>", "Request failed with status 404"),
        (b"", "Request failed with status 404"),
        (b"no such thing", "no such thing"),
        (b"x" * 201, "Request failed with status 404"),
        (b"{bad", "{bad"),
        ({"error": {"message": 5, "code": "x", "stack": "s", "type": []}}, "Request failed with status 404"),
        ({"message": "flat", "type": "NoSuchTableException", "code": 404}, "flat"),
        ({"Message": "aws"}, "aws"),
        ({"detail": "problem"}, "problem"),
        ({"error": "invalid_client", "error_description": "d"}, "d"),
        ({"error": "invalid_client"}, "invalid_client"),
        ([1], "Request failed with status 404"),
    ],
)
def test_forms_of_error_messages(body: Any, message: str) -> None:
    error = mapped(404, body)
    assert type(error) is errors.NoSuchTableError
    assert error.message == message
    assert error.code is None or error.code == 404


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NoSuchWarehouseException", errors.NoSuchWarehouseError),
        ("NoSuchNamespaceException", errors.NoSuchNamespaceError),
        ("NoSuchTableException", errors.NoSuchTableError),
        ("NoSuchIcebergTableException", errors.NoSuchTableError),
        ("NoSuchViewException", errors.NoSuchViewError),
        ("NoSuchFunctionException", errors.NoSuchFunctionError),
        ("NoSuchPlanIdException", errors.NoSuchPlanIdError),
        ("NoSuchPlanTaskException", errors.NoSuchPlanTaskError),
        ("AlreadyExistsException", errors.AlreadyExistsError),
        ("NamespaceNotEmptyException", errors.NamespaceNotEmptyError),
        ("CommitFailedException", errors.CommitFailedError),
        ("CommitStateUnknownException", errors.CommitStateUnknownError),
        ("UnprocessableEntityException", errors.UnprocessableEntityError),
        ("UnsupportedOperationException", errors.UnsupportedOperationError),
        ("AuthenticationTimeoutException", errors.AuthenticationTimeoutError),
    ],
)
def test_the_error_type_takes_precedence_over_the_status(kind: str, expected: type[CatalogError]) -> None:
    error = mapped(400, error_document(kind))
    assert type(error) is expected
    assert error.is_commit_state_unknown is (expected is errors.CommitStateUnknownError)


NAMESPACE_404 = "LIST_NAMESPACES CREATE_NAMESPACE LOAD_NAMESPACE_METADATA NAMESPACE_EXISTS DROP_NAMESPACE"
NAMESPACE_404 += " UPDATE_NAMESPACE_PROPERTIES LIST_TABLES CREATE_TABLE LIST_FUNCTIONS REGISTER_TABLE LIST_VIEWS"
NAMESPACE_404 += " CREATE_VIEW REGISTER_VIEW"
TABLE_404 = "PLAN_TABLE_SCAN LOAD_TABLE UPDATE_TABLE DROP_TABLE TABLE_EXISTS UNREGISTER_TABLE LOAD_CREDENTIALS"
TABLE_404 += " RENAME_TABLE REPORT_METRICS COMMIT_TRANSACTION"
BY_OPERATION: list[tuple[int, str, type[CatalogError]]] = [
    (404, NAMESPACE_404, errors.NoSuchNamespaceError),
    (404, TABLE_404, errors.NoSuchTableError),
    (404, "LOAD_VIEW REPLACE_VIEW DROP_VIEW VIEW_EXISTS RENAME_VIEW", errors.NoSuchViewError),
    (404, "LOAD_FUNCTION", errors.NoSuchFunctionError),
    (404, "FETCH_PLANNING_RESULT CANCEL_PLANNING", errors.NoSuchPlanIdError),
    (404, "FETCH_SCAN_TASKS", errors.NoSuchPlanTaskError),
    (404, "LOAD_CONFIG", errors.NoSuchWarehouseError),
    (404, "SIGN_REQUEST", errors.NotFoundError),
    (409, "CREATE_NAMESPACE CREATE_TABLE REGISTER_TABLE RENAME_TABLE", errors.AlreadyExistsError),
    (409, "CREATE_VIEW RENAME_VIEW REGISTER_VIEW", errors.AlreadyExistsError),
    (409, "DROP_NAMESPACE", errors.NamespaceNotEmptyError),
    (409, "UPDATE_TABLE COMMIT_TRANSACTION REPLACE_VIEW", errors.CommitFailedError),
    (409, "LOAD_TABLE DROP_TABLE", errors.ConflictError),
]


@pytest.mark.parametrize(("status", "names", "expected"), BY_OPERATION)
@pytest.mark.parametrize("kind", [None, "", "NotFoundError"])
def test_the_operation_selects_the_class_of_an_unknown_error_type(
    status: int, names: str, expected: type[CatalogError], kind: str | None
) -> None:
    for name in names.split():
        assert type(mapped(status, error_document(kind), by=Endpoint[name])) is expected, name


def test_message_and_type_are_the_servers_if_the_operation_selects_the_class() -> None:
    error = mapped(404, error_document("NotFoundException", "No file at s3://b/lost.json"), by=Endpoint.REGISTER_TABLE)
    assert type(error) is errors.NoSuchNamespaceError
    assert str(error) == "No file at s3://b/lost.json [HTTP 404 NotFoundException]"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, errors.BadRequestError),
        (401, errors.UnauthorizedError),
        (403, errors.ForbiddenError),
        (405, errors.UnsupportedOperationError),
        (406, errors.UnsupportedOperationError),
        (419, errors.AuthenticationTimeoutError),
        (422, errors.UnprocessableEntityError),
        (429, errors.TooManyRequestsError),
        (418, errors.ResponseError),
        (500, errors.ServerError),
        (501, errors.UnsupportedOperationError),
        (503, errors.ServiceUnavailableError),
        (599, errors.ServerError),
    ],
)
def test_statuses(status: int, expected: type[CatalogError]) -> None:
    assert type(mapped(status)) is expected
    assert mapped(status).is_authentication_timeout is (status == 419)


def test_the_text_of_an_html_page_is_truncated() -> None:
    assert len(mapped(500, b"<" + b"x" * 9_000).details) == 2_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", 2.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        *((text, None) for text in (None, "", "-1", "1.5", "soon", "9" * 40)),
    ],
)
def test_retry_after_in_seconds(text: str | None, expected: float | None) -> None:
    assert _error_mapping.parse_retry_after(text) == expected


def test_retry_after_as_a_date() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert _error_mapping.parse_retry_after(at) == pytest.approx(100, abs=30)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "type", "code", "stack", "detail"]), inner)
    ),
    max_leaves=9,
)


@untimed
@given(json_values, st.integers(400, 599))
def test_any_document_is_parsed_as_an_error_body(document: Any, status: int) -> None:
    error = mapped(status, document)
    assert error.status == status
    assert isinstance(error.message, str)
    assert isinstance(error.stack, list)
    assert str(error)


@untimed
@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_as_an_error_body(body: bytes) -> None:
    assert mapped(500, body).status == 500
