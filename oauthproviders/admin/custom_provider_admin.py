"""The list of custom providers, and a provider's page. Secrets are never shown."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.safestring import SafeString

from authsvc import conf
from authsvc.console import formatting, operators
from authsvc.console.actions import ActionContext, action
from authsvc.console.formatting import EMPTY, Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.operators import Access
from oauthproviders.admin import built_in_pages, editing
from oauthproviders.custom import custom_providers, provider
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.models import CustomProvider


@admin.register(CustomProvider)
class CustomProviderAdmin(OperatorAdmin):
    list_display = ("identifier", "name", "provider_type", "state", "address", "updated_at")
    list_filter = ("provider_type", "enabled")
    search_fields = ("identifier", "name", "issuer")
    ordering = ("-created_at", "-id")
    actions = ("enable", "disable", "delete")
    row_actions = actions
    change_form_template = "operator/provider.html"
    fieldsets = (
        ("Use", {"fields": ("identifier", "name", "provider_type", "users", "callback_url", "sign_in_url")}),
        (
            "Client",
            {
                "fields": (
                    "client_id", "acceptable_client_ids", "scopes", "pkce_enabled", "authorization_params",
                    "skip_nonce_check",
                )
            },
        ),
        (
            "Addresses",
            {
                "fields": (
                    "issuer", "discovery_url", "discovery_cached_at", "authorization_url", "token_url", "userinfo_url",
                    "jwks_uri",
                )
            },
        ),
        ("Profile", {"fields": ("email_optional", "attribute_mapping", "custom_claims_allowlist")}),
        ("Times", {"fields": ("created_at", "updated_at")}),
    )  # fmt: skip

    class Media:
        css = {"all": ("operator/content.css",)}

    @action(label="Enable", success_message="Enabled")
    def enable(self, row: CustomProvider, context: ActionContext) -> str | None:
        self._set_enabled(row, True, context)
        return None

    @action(
        label="Disable",
        success_message="Disabled",
        confirmation="Users cannot sign in through a disabled provider. Sessions that exist stay.",
    )
    def disable(self, row: CustomProvider, context: ActionContext) -> str | None:
        self._set_enabled(row, False, context)
        return None

    @action(
        label="Delete",
        success_message="Deleted",
        confirmation="The definition and its client secret are deleted permanently. Accounts, identities and sessions"
        " stay, but users whose only sign-in method it is can no longer sign in.",
        is_dangerous=True,
        asks_for_name=True,
        accepts_lists=False,
    )
    def delete(self, row: CustomProvider, context: ActionContext) -> str | None:
        custom_providers.delete(row.identifier, actor=context.actor, caller=context.caller, at=context.at)
        return None

    def consequences(self, action: str, rows: list[CustomProvider]) -> list[str]:
        if action == "enable":
            return []
        return [f"Users with an identity of {row.identifier}: {self.users(row)}." for row in rows]

    def available_actions(self, row: CustomProvider) -> list[str]:
        return [name for name in self.row_actions if name != ("enable" if row.enabled else "disable")]

    def find_refusal(self, request: HttpRequest, row: CustomProvider) -> str:
        if not conf.current().custom_providers.enabled:
            return custom_providers.CustomProvidersDisabled.message
        return super().find_refusal(request, row)

    def get_urls(self) -> list[URLPattern]:
        return [*editing.urls(self), *built_in_pages.urls(self), *super().get_urls()]

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [*(editing.links() if _can_change(request) else ()), built_in_pages.link()]

    def row_links(self, request: HttpRequest, row: CustomProvider) -> list[tuple[str, str]]:
        return [editing.edit_link(row)] if _can_change(request) else []

    def row_context(self, request: HttpRequest, row: CustomProvider) -> dict[str, Any]:
        return {"state": self.state(row), "test_url": editing.test_url(row) if _can_change(request) else ""}

    @admin.display(description="state", ordering="enabled")
    def state(self, row: CustomProvider) -> SafeString:
        if not conf.current().custom_providers.enabled:
            return formatting.badge("custom providers are disabled", Tone.QUIET)
        return formatting.badge("enabled", Tone.GOOD) if row.enabled else formatting.badge("disabled", Tone.QUIET)

    @admin.display(description="address")
    def address(self, row: CustomProvider) -> str:
        return formatting.short_text(row.issuer or row.authorization_url)

    @admin.display(description="linked users")
    def users(self, row: CustomProvider) -> str:
        count = custom_providers.count_linked_users(row.identifier)
        return f"{count:,}+" if count == custom_providers.MAX_COUNTED_USERS else f"{count:,}"

    @admin.display(description="callback URL")
    def callback_url(self, row: CustomProvider) -> SafeString:
        return formatting.copy_field(provider.callback_url(), name="callback_url", label="Callback URL")

    @admin.display(description="sign-in URL")
    def sign_in_url(self, row: CustomProvider) -> SafeString | str:
        if not row.enabled:
            return EMPTY
        base = conf.current().api.external_url.rstrip("/")
        url = f"{base}/authorize?{urlencode({'provider': row.identifier}, safe=':')}"
        return formatting.copy_field(url, name="sign_in_url", label="Sign-in URL")

    def _set_enabled(self, row: CustomProvider, enabled: bool, context: ActionContext) -> None:
        changes = ProviderDefinition(enabled=enabled)
        custom_providers.update(row.identifier, changes, actor=context.actor, caller=context.caller, at=context.at)


def _can_change(request: HttpRequest) -> bool:
    is_permitted = operators.operator_of(request).access >= Access.ADMIN
    return is_permitted and conf.current().custom_providers.enabled
