"""The list of custom providers, and a provider's page. Secrets are never shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.safestring import SafeString

from authsvc import conf
from authsvc.console import filters, formatting, operators
from authsvc.console.actions import ActionContext, action
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.display_text import EMPTY, short_text
from authsvc.operator_access import Access
from oauthproviders import registry
from oauthproviders.admin import built_in_pages, editing
from oauthproviders.custom import custom_providers, provider
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.models import CustomProvider, ProviderType

_TYPES: dict[str, str] = {ProviderType.OIDC.value: "OpenID Connect", ProviderType.OAUTH2.value: "OAuth 2.0"}
_OAUTH2_URLS = ("authorization_url", "token_url", "userinfo_url")
_LABELS = {
    "client_id": "Client ID",
    "acceptable_client_ids": "Further client IDs",
    "discovery_url": "Discovery URL",
    "discovery_cached_at": "Discovery read at",
    "authorization_url": "Authorization endpoint",
    "token_url": "Token endpoint",
    "userinfo_url": "User info endpoint",
}


class TypeFilter(filters.ChoiceFilter):
    title = "type"
    parameter_name = "provider_type"
    options = tuple(_TYPES.items())


@admin.register(CustomProvider)
class CustomProviderAdmin(OperatorAdmin):
    list_display = ("identifier", "name", "kind", "state", "address", "updated_at")
    list_filter = (TypeFilter, "enabled")
    search_fields = ("identifier", "name", "issuer")
    search_help_text = "Identifier, name or issuer"
    ordering = ("-created_at", "-id")
    actions = ("enable", "disable", "delete")
    row_actions = actions
    change_form_template = "operator/provider.html"

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

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        is_openid = obj is not None and obj.provider_type == ProviderType.OIDC
        openid_client = ("acceptable_client_ids", "nonce") if is_openid else ()
        urls = ("issuer", "discovery_url", "discovery_cached_at") if is_openid else _OAUTH2_URLS
        client = ("client_id", *openid_client, "requested_scopes", "pkce", "parameters")
        return [
            ("Use", {"fields": ("identifier", "name", "kind", "users", "callback_url", "sign_in_url")}),
            ("Client", {"fields": client}),
            ("URLs", {"fields": urls}),
            ("Profile", {"fields": ("without_email", "mapping", "claims")}),
            ("Times", {"fields": ("created_at", "updated_at")}),
        ]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(request, obj, change, labels=_LABELS, **options)

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

    @admin.display(description="type", ordering="provider_type")
    def kind(self, row: CustomProvider) -> str:
        return _TYPES.get(row.provider_type, row.provider_type)

    @admin.display(description="scopes")
    def requested_scopes(self, row: CustomProvider) -> str:
        return " ".join(row.scopes) or EMPTY

    @admin.display(description="PKCE")
    def pkce(self, row: CustomProvider) -> str:
        return "Yes, S256" if row.pkce_enabled else "No"

    @admin.display(description="nonce of ID tokens")
    def nonce(self, row: CustomProvider) -> str:
        return "Not compared" if row.skip_nonce_check else "Compared"

    @admin.display(description="further parameters")
    def parameters(self, row: CustomProvider) -> SafeString | str:
        return formatting.json_block(row.authorization_params)

    @admin.display(description="users without an email address")
    def without_email(self, row: CustomProvider) -> str:
        return "May sign in" if row.email_optional else "Are refused"

    @admin.display(description="attribute mapping")
    def mapping(self, row: CustomProvider) -> SafeString | str:
        return formatting.json_block(row.attribute_mapping)

    @admin.display(description="further claims")
    def claims(self, row: CustomProvider) -> str:
        return short_text(", ".join(row.custom_claims_allowlist))

    @admin.display(description="address")
    def address(self, row: CustomProvider) -> str:
        return short_text(row.issuer or row.authorization_url)

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
        return formatting.copy_field(registry.sign_in_url(row.identifier), name="sign_in_url", label="Sign-in URL")

    def _set_enabled(self, row: CustomProvider, enabled: bool, context: ActionContext) -> None:
        changes = ProviderDefinition(enabled=enabled)
        custom_providers.update(row.identifier, changes, actor=context.actor, caller=context.caller, at=context.at)


def _can_change(request: HttpRequest) -> bool:
    is_permitted = operators.operator_of(request).access >= Access.ADMIN
    return is_permitted and conf.current().custom_providers.enabled
