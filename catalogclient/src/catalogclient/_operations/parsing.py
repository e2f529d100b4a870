"""Parses successful responses. Raises InvalidResponseError for documents that do not match the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from catalogclient import _endpoints, _error_mapping
from catalogclient import _results as results
from catalogclient._identifiers import NamespaceIdentifier, TableIdentifier, new_identifier, set_name, set_namespace
from catalogclient._log import CONFIG
from catalogclient._messages import HttpResponse, RawResponse
from catalogclient.errors import CatalogError, InvalidResponseError

# ISO 8601 without years and months, because their length depends on the calendar.
_DURATION = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)
_PEEK = 64
_KINDS: dict[type, str] = {str: " of strings", dict: " of objects"}
T = TypeVar("T")


def ignore_body(response: HttpResponse) -> None:
    """Ignore the body. Raises InvalidResponseError for an HTML page, which is from a proxy and not from a catalog."""
    if response.start(1) and "html" in response.headers.get("Content-Type", "").lower():
        raise InvalidResponseError("the response is an HTML page", status=response.status)


def raw(response: HttpResponse) -> RawResponse:
    """Return the response unparsed."""
    return RawResponse(response.status, response.headers, response.content)


def document(response: HttpResponse) -> dict[str, Any]:
    """Parse the body as a JSON object."""
    if not looks_like_json(response):
        raise InvalidResponseError("the response is not a JSON document", status=response.status)
    try:
        body = response.document()
    except (ValueError, RecursionError) as error:
        # The message of the JSON parser contains parts of the document, possibly a credential.
        raise InvalidResponseError(
            f"the response cannot be parsed: {type(error).__name__}", status=response.status
        ) from None
    if not isinstance(body, dict):
        raise InvalidResponseError("the response is not a JSON object", status=response.status)
    return body


def looks_like_json(response: HttpResponse) -> bool:
    """Return True if the body is declared as JSON or begins like a JSON object."""
    start = response.start(_PEEK).removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(start) and ("json" in response.headers.get("Content-Type", "").lower() or start.startswith(b"{"))


def items(body: Mapping[str, Any], key: str, kind: type[T]) -> list[T]:
    """Return the list of strings or objects at `key`. Missing or null means empty."""
    values = body.get(key)
    if values is None:
        return []
    if not isinstance(values, list) or not (kind is object or all(isinstance(value, kind) for value in values)):
        raise InvalidResponseError(f"{key} in the response is not a list{_KINDS.get(kind, '')}")
    return values


def levels(value: Any) -> tuple[str, ...]:
    """Return the levels of an identifier."""
    if not isinstance(value, list) or not all(isinstance(level, str) for level in value):
        raise InvalidResponseError("an identifier in the response is not a list of strings")
    return tuple(value)


def token(body: Mapping[str, Any]) -> str | None:
    """Return the token of the next page. None and the empty string mean that there is no next page."""
    page_token = body.get("next-page-token")
    if page_token is not None and not isinstance(page_token, str):
        raise InvalidResponseError("next-page-token in the response is not a string")
    return page_token or None


def mapping(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at `key`."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise InvalidResponseError(f"the response has no valid {key}")
    return value


def text(body: Mapping[str, Any], key: str) -> str:
    """Return the string at `key`."""
    value = body.get(key)
    if not isinstance(value, str):
        raise InvalidResponseError(f"the response has no valid {key}")
    return value


def metadata(body: Mapping[str, Any]) -> Any:
    """Return the metadata document, which is not validated further."""
    return mapping(body, "metadata")


def optional_text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def optional_object(body: Mapping[str, Any], key: str) -> Any:
    value = body.get(key)
    return value if isinstance(value, dict) else None


def strings(body: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the map of strings at `key`. Missing or null means empty.

    Some servers send numbers and booleans, which become strings. Values of other types are left out.
    """
    values = body.get(key)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidResponseError(f"{key} in the response is not an object")
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if isinstance(value, str | int | float)
    }


def secrets(body: dict[str, Any], key: str) -> results.SecretDict:
    """Return the map of strings at `key` and hide it in `body` as well."""
    hidden = results.SecretDict(strings(body, key))
    if key in body:
        body[key] = hidden
    return hidden


def credentials(body: dict[str, Any]) -> list[results.StorageCredential]:
    """Return the storage credentials and hide them in `body` as well."""
    entries = items(body, "storage-credentials", dict)
    if "storage-credentials" in body:
        body["storage-credentials"] = entries
    return [results.StorageCredential(text(entry, "prefix"), secrets(entry, "config")) for entry in entries]


def etag(response: HttpResponse) -> str | None:
    """Return the ETag without the suffix (`--gzip`) that some servers add to compressed responses.

    Such a server does not recognise the ETag with the suffix in If-None-Match.
    """
    tag = response.headers.get("ETag")
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if not tag or not encoding:
        return tag
    quote = '"' if tag.endswith('"') else ""
    return tag.removesuffix(quote).removesuffix(f"--{encoding}") + quote


def config(response: HttpResponse) -> results.CatalogConfig:
    """Parse the configuration (OpenAPI, `CatalogConfig`)."""
    body = document(response)
    endpoints = [_endpoints.parse(entry) for entry in items(body, "endpoints", str)]
    return results.CatalogConfig(
        raw=body,
        defaults=secrets(body, "defaults"),
        overrides=secrets(body, "overrides"),
        endpoints=frozenset(endpoint for endpoint in endpoints if endpoint) or None,
        idempotency_key_lifetime=duration(body.get("idempotency-key-lifetime")),
    )


def duration(text: object) -> timedelta | None:
    """Parse an ISO 8601 duration of weeks, days, hours, minutes and seconds. Returns None for anything else."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text) if isinstance(text, str) and len(text) < 64 else None
    if match is None or not any(match.groups()):
        CONFIG.debug("ignored the configuration key idempotency-key-lifetime: not an ISO 8601 duration")
        return None
    weeks, days, hours, minutes, seconds = (float((number or "0").replace(",", ".")) for number in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def table_page(response: HttpResponse) -> results.TablePage:
    """Parse a page of tables."""
    body = document(response)
    return results.TablePage(_identifiers(body), token(body))


def view_page(response: HttpResponse) -> results.ViewPage:
    """Parse a page of views."""
    body = document(response)
    return results.ViewPage(_identifiers(body), token(body))


def function_page(response: HttpResponse) -> results.FunctionPage:
    """Parse a page of functions."""
    body = document(response)
    return results.FunctionPage([levels(identifier) for identifier in items(body, "identifiers", object)], token(body))


def namespace_page(response: HttpResponse) -> results.NamespacePage:
    """Parse a page of namespaces."""
    body = document(response)
    return results.NamespacePage(
        [NamespaceIdentifier(levels(identifier)) for identifier in items(body, "namespaces", object)], token(body)
    )


def namespace(body: dict[str, Any], requested: tuple[str, ...]) -> results.NamespaceMetadata:
    """Parse the metadata of the namespace that was requested."""
    properties = body.get("properties")
    return results.NamespaceMetadata(
        raw=body,
        namespace=NamespaceIdentifier(levels(body["namespace"]) if body.get("namespace") is not None else requested),
        properties=strings(body, "properties"),
        properties_supported=not ("properties" in body and properties is None),
    )


def namespace_properties(response: HttpResponse) -> results.UpdateNamespacePropertiesResult:
    """Parse the result of an update of namespace properties."""
    body = document(response)
    return results.UpdateNamespacePropertiesResult(
        raw=body,
        updated=items(body, "updated", str),
        removed=items(body, "removed", str),
        missing=items(body, "missing", str),
    )


def table(response: HttpResponse) -> results.LoadTableResult:
    """Parse a load result."""
    body = document(response)
    return results.LoadTableResult(
        raw=body,
        metadata=metadata(body),
        metadata_location=optional_text(body, "metadata-location"),
        config=secrets(body, "config"),
        storage_credentials=credentials(body),
        remote_signing_config=optional_object(body, "remote-signing-config"),
        etag=etag(response),
    )


def unregistered_table(response: HttpResponse) -> results.UnregisterTableResult:
    """Parse the result of unregistering a table."""
    body = document(response)
    return results.UnregisterTableResult(
        raw=body, metadata=metadata(body), metadata_location=text(body, "metadata-location")
    )


def commit(response: HttpResponse) -> results.CommitTableResult:
    """Parse the result of a commit."""
    body = document(response)
    location = optional_text(body, "metadata-location")
    if not location:
        raise InvalidResponseError(
            f"Server returned {response.status} without required `metadata-location` field on CommitTableResponse",
            status=response.status,
        )
    return results.CommitTableResult(raw=body, metadata=metadata(body), metadata_location=location, etag=etag(response))


def view(response: HttpResponse) -> results.LoadViewResult:
    """Parse a load result of a view."""
    body = document(response)
    return results.LoadViewResult(
        raw=body,
        metadata=metadata(body),
        metadata_location=optional_text(body, "metadata-location"),
        config=secrets(body, "config"),
    )


def function(response: HttpResponse) -> results.LoadFunctionResult:
    """Parse a load result of a function."""
    body = document(response)
    return results.LoadFunctionResult(
        raw=body, metadata=metadata(body), metadata_location=optional_text(body, "metadata-location")
    )


def plan(response: HttpResponse) -> results.PlanResult:
    """Parse the state of a scan plan."""
    body = document(response)
    status = body.get("status")
    if status not in ("completed", "submitted", "cancelled", "failed"):
        raise InvalidResponseError("the response has no known plan status", status=response.status)
    return results.PlanResult(
        raw=body,
        status=status,
        plan_id=optional_text(body, "plan-id"),
        storage_credentials=credentials(body),
        error=_plan_error(body) if status == "failed" else None,
        **_tasks(body),
    )


def new_plan(response: HttpResponse) -> results.PlanResult:
    """Parse the state of a plan that was just created."""
    result = plan(response)
    if result.status == "cancelled":
        raise InvalidResponseError("the server returned a new plan as cancelled", status=response.status)
    if result.status == "submitted" and not result.plan_id:
        raise InvalidResponseError("the response has no plan-id", status=response.status)
    return result


def scan_tasks(response: HttpResponse) -> results.ScanTasks:
    """Parse the files of a plan task."""
    body = document(response)
    return results.ScanTasks(raw=body, **_tasks(body))


def signature(response: HttpResponse) -> results.RemoteSignResult:
    """Parse a signed storage request."""
    body = document(response)
    fields = mapping(body, "headers")
    for name in fields:
        items(fields, name, str)
    return results.RemoteSignResult(
        uri=text(body, "uri"), headers=fields, cacheable="private" in response.headers.get("Cache-Control", "").lower()
    )


def _identifiers(body: dict[str, Any]) -> list[TableIdentifier]:
    identifiers: list[TableIdentifier] = []
    previous: Any = None
    namespace_levels: tuple[str, ...] = ()
    entries: list[Any] = items(body, "identifiers", object)
    for entry in entries:
        try:
            namespace_document, name = entry["namespace"], entry["name"]
        except (TypeError, KeyError):
            raise InvalidResponseError("identifiers in the response lack a namespace or name") from None
        # The identifiers of a page share their namespace, which is converted once.
        if namespace_document != previous or previous is None:
            namespace_levels = levels(namespace_document)
            previous = namespace_document
        if not isinstance(name, str):
            raise InvalidResponseError("the response has no valid name")
        # Half the cost of the constructor of a frozen dataclass.
        identifier = new_identifier(TableIdentifier)
        set_namespace(identifier, namespace_levels)
        set_name(identifier, name)
        identifiers.append(identifier)
    return identifiers


def _plan_error(body: dict[str, Any]) -> CatalogError:
    error = _error_mapping.parse_error_body(body)
    return CatalogError(error.message or "scan planning failed", type=error.type, code=error.code, stack=error.stack)


def _tasks(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "plan_tasks": items(body, "plan-tasks", str),
        "file_scan_tasks": items(body, "file-scan-tasks", dict),
        "delete_files": items(body, "delete-files", dict),
    }
