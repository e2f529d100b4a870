"""GET /admin/audit."""

from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpResponse
from rest_framework.response import Response

from accounts.administration import errors, schemas
from accounts.administration.views import AdminEndpoint
from authsvc.api import pagination, throttling
from authsvc.api.openapi.document import PAGE, PER_PAGE, TOTALS, Parameter, ResponseDoc, document
from authsvc.api.renderers import rfc3339
from authsvc.api.views import ServiceRequest
from authsvc.audit import search
from authsvc.db import read_replica

_PARAMETERS = frozenset(("page", "per_page", "query", "count"))


class AuditView(AdminEndpoint):
    @document(
        query=(
            PAGE,
            PER_PAGE,
            Parameter("count", "`exact` counts every row for the total instead of estimating a large one.", ("exact",)),
            Parameter("query", "`action:…`, `author:…` or `type:…` with a part of the value."),
        ),
        responses={200: ResponseDoc("Entries, newest first.", list[schemas.AuditEntry], headers=TOTALS)},
        errors=(pagination.ListParameterInvalid, pagination.PaginationInvalid, errors.AuditQueryInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the entries of the audit trail."""
        parameters = request.http.GET
        pagination.refuse_unknown(parameters, _PARAMETERS)
        page = pagination.parse(parameters)
        scope, value = "", ""
        if "query" in parameters:
            scope, value = _condition(pagination.first(parameters, "query"))
        with throttling.list_slot(), read_replica.permit(not pagination.requires_fresh(request.http)):
            entries, total = read_replica.read(
                lambda: search.find_entries(
                    scope=scope,
                    value=value,
                    limit=page.limit,
                    offset=page.offset,
                    count_exactly=pagination.first(parameters, "count") == "exact",
                )
            )
        response = Response([_payload(entry) for entry in entries])
        response["X-Total-Count"] = str(total)
        response["Link"] = pagination.links(request.http.path, parameters, page=page, total=total)
        return response


def _condition(query: str) -> tuple[str, str]:
    scope, separated, value = query.partition(":")
    if not separated or scope not in search.SCOPES:
        raise errors.AuditQueryInvalid(query)
    return scope, value


def _payload(entry: search.Entry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "payload": orjson.Fragment(entry.payload_json),
        "created_at": rfc3339(entry.created_at),
        "ip_address": entry.address,
    }
