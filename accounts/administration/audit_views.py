"""GET /admin/audit."""

from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpResponse
from rest_framework.response import Response

from accounts.administration import errors, schemas
from authsvc import clock
from authsvc.api import pagination, throttling
from authsvc.api.openapi.document import TOTALS, Parameter, ResponseDoc, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.audit import search
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

_PARAMETERS = frozenset(("page", "per_page", "query", "count"))


class AuditView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(
        query=(
            Parameter("page", "Counted from 1."),
            Parameter("per_page", "Entries on a page, 50 unless given."),
            Parameter("count", "`exact`: count every row for the total, where an estimate would be told.", ("exact",)),
            Parameter("query", "`action:…`, `author:…` or `type:…`, and part of what is looked for."),
        ),
        responses={200: ResponseDoc("Entries, newest first.", list[schemas.AuditEntry], headers=TOTALS)},
        errors=(pagination.ListParameterInvalid, pagination.PaginationInvalid, errors.AuditQueryInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Read the audit trail."""
        asked = request.http.GET
        pagination.refuse_unknown(asked, _PARAMETERS)
        page = pagination.parse(asked)
        scope, value = "", ""
        if "query" in asked:
            scope, value = _condition(pagination.first(asked, "query"))
        with throttling.list_slot():
            entries, total = search.find_entries(
                scope=scope,
                value=value,
                limit=page.limit,
                offset=page.offset,
                count_exactly=pagination.first(asked, "count") == "exact",
            )
        answer = Response([_payload(entry) for entry in entries])
        answer["X-Total-Count"] = str(total)
        answer["Link"] = pagination.links(request.http.path, asked, page=page, total=total)
        return answer


def _condition(query: str) -> tuple[str, str]:
    scope, separated, value = query.partition(":")
    if not separated or scope not in search.SCOPES:
        raise errors.AuditQueryInvalid(query)
    return scope, value


def _payload(entry: search.Entry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "payload": orjson.Fragment(entry.payload_json),
        "created_at": clock.rfc3339(entry.created_at) if entry.created_at else None,
        "ip_address": entry.address,
    }
