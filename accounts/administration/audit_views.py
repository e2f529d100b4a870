"""GET /admin/audit."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, schemas
from accounts.users import payloads
from accounts.users.search import paging
from authsvc.api import turns
from authsvc.api.openapi.document import TOTALS, Parameter, ResponseDoc, document
from authsvc.api.renderers import Answer
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
        errors=(errors.ListParameterInvalid, errors.PaginationInvalid, errors.AuditQueryInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Read the audit trail."""
        asked = request.http.GET
        paging.refuse_unknown(asked, _PARAMETERS)
        page = paging.read(asked)
        scope, value = "", ""
        if "query" in asked:
            scope, value = _condition(paging.first(asked, "query"))
        turns.of_process.give_way(rows=page.limit)
        entries, total = search.find_entries(
            scope=scope,
            value=value,
            limit=page.limit,
            offset=page.offset,
            count_exactly=paging.first(asked, "count") == "exact",
        )
        answer = Answer([payloads.audit_entry(entry) for entry in entries])
        answer["X-Total-Count"] = str(total)
        answer["Link"] = paging.links(request.http.path, asked, page=page, total=total)
        return answer


def _condition(query: str) -> tuple[str, str]:
    scope, separated, value = query.partition(":")
    if not separated or scope not in search.SCOPES:
        raise errors.AuditQueryInvalid(query)
    return scope, value
