"""Read-only admin pages, and the columns that they hide."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import BaseModelAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

SECRET_COLUMNS = frozenset(
    "password encrypted_password secret token token_hash link_hash refresh_token_hmac_key auth_code code_challenge"
    " provider_access_token provider_refresh_token invite_token parent web_authn_credential"
    " last_webauthn_challenge_data otp_code session_data web_authn_session_data code_hash args client_secret"
    " code_verifier client_secret_hash authorization_code previous_secret body".split()
)
"""Columns of any table that no page shows, no filter accepts and no list query reads."""
MAX_COUNTED = 1_000
"""Limit of counts on the dashboard; counting a million rows takes half a second."""


class ReadOnly(BaseModelAdmin):  # type: ignore[type-arg]  # generic in its stubs only
    """Operators can view rows and cannot edit them by form."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(getattr(request.user, "is_staff", False))

    def has_view_permission(self, request: HttpRequest, _row: Model | None = None) -> bool:
        return self.has_module_permission(request)

    def has_add_permission(self, _request: HttpRequest, _row: Model | None = None) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _row: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _row: Model | None = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [name for name in super().get_fields(request, obj) if name not in SECRET_COLUMNS]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset = super().get_queryset(request)
        names = {column.name for column in queryset.model._meta.concrete_fields}
        return queryset.defer(*(SECRET_COLUMNS & names))
