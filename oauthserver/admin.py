"""Clients in the console: list, page, registration, changes, new secret, deletion. Stored secrets are never shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
from django.contrib import admin
from django.contrib.messages import constants as levels
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.text import slugify

from authsvc import conf
from authsvc.console import actions, formatting, operators
from authsvc.console.actions import ActionContext, ShownOnce, action
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.display_text import EMPTY, short_text
from authsvc.operator_access import Access
from oauthserver.client_forms import ClientEditForm, RegistrationForm
from oauthserver.clients import clients
from oauthserver.clients.clients import RegisteredClient
from oauthserver.discovery import metadata
from oauthserver.models import AuthMethod, OAuthClient, RegistrationType
from tokens.api.errors import OAuthServerDisabled
from tokens.jwt import signing_keys

_DISABLED = OAuthServerDisabled.message


class DeletionFilter(admin.EmptyFieldListFilter):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.title = "state"

    def choices(self, changelist: Any) -> Iterator[Any]:
        for label, choice in zip(("All", "Active", "Deleted"), super().choices(changelist), strict=True):
            yield {**choice, "display": label}


def _address_field(label: str) -> Callable[[Any, OAuthClient], SafeString | str]:
    """A field of the page with one of `_addresses`."""

    @admin.display(description=label.lower())
    def address(_model_admin: Any, _row: OAuthClient) -> SafeString | str:
        url = _addresses().get(label)
        return formatting.copy_field(url, name=slugify(label), label=label) if url else EMPTY

    return address


@admin.register(OAuthClient)
class OAuthClientAdmin(OperatorAdmin):
    list_display = ("client", "id", "state", "client_type", "registration_type", "updated_at")
    list_filter = ("client_type", "registration_type", ("deleted_at", DeletionFilter))
    search_fields = ("id", "client_name")
    ordering = ("-created_at", "-id")
    actions = ("regenerate_secret", "delete")
    row_actions = actions
    change_form_template = "operator/oauth_client.html"
    fieldsets = (
        ("Client", {"fields": ("client", "id", "state", "client_uri", "logo_uri", "registration_type")}),
        (
            "Protocol",
            {
                "fields": (
                    "redirect_uri_lines",
                    "client_type",
                    "token_endpoint_auth_method",
                    "grant_type_words",
                    "key_ids",
                    "jwks_uri",
                    "scope",
                    "resource",
                    "require_pushed_authorization_requests",
                )
            },
        ),
        ("Logout", {"fields": ("logout_uri_lines", "backchannel_logout_uri")}),
        (
            "Settings of the application",
            {"fields": ("client_id", "issuer", "discovery_url", "authorization_url", "token_url", "userinfo_url")},
        ),
        ("Times", {"fields": ("created_at", "updated_at", "deleted_at")}),
    )

    @action(
        label="Replace secret",
        success_message="Replaced the secret of",
        confirmation="The present secret is invalid at once. The client cannot exchange codes or refresh tokens until"
        " it has the new one.",
        accepts_lists=False,
    )
    def regenerate_secret(self, row: OAuthClient, context: ActionContext) -> ShownOnce:
        registered = clients.regenerate_secret(str(row.id), actor=context.actor, caller=context.caller, at=context.at)
        return _secret(registered)

    @action(
        label="Delete",
        success_message="Deleted",
        confirmation="The client can no longer sign users in or refresh its tokens. Access tokens that other services"
        " verify stay valid until they expire. This cannot be undone.",
        is_dangerous=True,
        asks_for_name=True,
        accepts_lists=False,
    )
    def delete(self, row: OAuthClient, context: ActionContext) -> str | None:
        clients.delete(str(row.id), actor=context.actor, caller=context.caller, at=context.at)
        return None

    def available_actions(self, row: OAuthClient) -> list[str]:
        if row.deleted_at is not None:
            return []
        has_secret = row.token_endpoint_auth_method in (AuthMethod.BASIC, AuthMethod.POST)
        return [name for name in self.row_actions if has_secret or name != "regenerate_secret"]

    def find_refusal(self, request: HttpRequest, row: OAuthClient) -> str:
        return super().find_refusal(request, row) if conf.current().oauth_server.enabled else _DISABLED

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("register/", view(partial(register_client, self)), name="oauth_client_register"),
            path("<uuid:client_id>/edit/", view(partial(edit_client, self)), name="oauth_client_edit"),
            *super().get_urls(),
        ]

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [("Register client", reverse("admin:oauth_client_register"))] if _can_edit(request) else []

    def row_links(self, request: HttpRequest, row: Any) -> list[tuple[str, str]]:
        if row.deleted_at is not None or not _can_edit(request):
            return []
        return [("Edit", reverse("admin:oauth_client_edit", args=[row.id]))]

    def display_name(self, row: OAuthClient) -> str:
        return short_text(str(row))  # clients that register themselves choose any name

    @admin.display(description="name", ordering="client_name")
    def client(self, row: OAuthClient) -> str:
        return self.display_name(row)

    @admin.display(description="state", ordering="deleted_at")
    def state(self, row: OAuthClient) -> SafeString:
        if row.deleted_at is not None:
            return formatting.badge("deleted", Tone.BAD)
        if not conf.current().oauth_server.enabled:
            return formatting.badge("the OAuth server is disabled", Tone.QUIET)
        return formatting.badge("active", Tone.GOOD)

    @admin.display(description="client ID")
    def client_id(self, row: OAuthClient) -> SafeString:
        return formatting.copy_field(str(row.id), name="client_id", label="Client ID")

    issuer = _address_field("Issuer")
    discovery_url = _address_field("Discovery document")
    authorization_url = _address_field("Authorization endpoint")
    token_url = _address_field("Token endpoint")
    userinfo_url = _address_field("User information")

    @admin.display(description="redirect URIs")
    def redirect_uri_lines(self, row: OAuthClient) -> SafeString:
        return formatting.long_text("\n".join(row.redirect_uri_list))

    @admin.display(description="key IDs")
    def key_ids(self, row: OAuthClient) -> str:
        keys = orjson.loads(row.jwks)["keys"] if row.jwks else []
        return ", ".join(str(key.get("kid", "without an ID")) for key in keys) or "–"

    @admin.display(description="redirect URIs after logout")
    def logout_uri_lines(self, row: OAuthClient) -> SafeString:
        return formatting.long_text("\n".join(row.post_logout_redirect_uri_list))

    @admin.display(description="grant types")
    def grant_type_words(self, row: OAuthClient) -> str:
        return ", ".join(row.grant_type_list)


def _addresses() -> dict[str, str]:
    """The addresses that an application needs, by label; none while the OAuth server is disabled."""
    document = metadata.build()
    if not document:
        return {}
    return {
        # Libraries of OpenID Connect find everything else by the issuer.
        "Issuer": str(document["issuer"]),
        "Discovery document": f"{signing_keys.issuer_base()}/.well-known/openid-configuration",
        "Authorization endpoint": str(document["authorization_endpoint"]),
        "Token endpoint": str(document["token_endpoint"]),
        "User information": str(document["userinfo_endpoint"]),
    }


def register_client(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """Register a client, and show its secret once."""
    _require_editing(request)
    form = RegistrationForm(request.POST if request.method == "POST" else None)

    def register(context: ActionContext) -> RegisteredClient:
        return clients.register(
            form.registration(),
            registration_type=RegistrationType.MANUAL,
            actor=context.actor,
            caller=context.caller,
            at=context.at,
        )

    if registered := actions.submit(request, form, register):
        return _registered_page(model_admin, request, registered)
    status = 400 if form.errors else 200
    return actions.form_page(
        model_admin, request, "operator/form.html", title="Register client", form=form, status=status
    )


def edit_client(model_admin: OperatorAdmin, request: HttpRequest, client_id: Any) -> HttpResponse:
    """Change the metadata of a client."""
    _require_editing(request)
    client = clients.find(str(client_id))
    form = ClientEditForm(request.POST if request.method == "POST" else None, client=client)

    def update(context: ActionContext) -> OAuthClient:
        return clients.update(str(client_id), form.changes(), actor=context.actor, caller=context.caller, at=context.at)

    if changed := actions.submit(request, form, update):
        model_admin.message_user(request, f"Changed: {model_admin.display_name(changed)}", levels.SUCCESS)
        return HttpResponseRedirect(model_admin.row_url(client))
    return actions.form_page(
        model_admin,
        request,
        "operator/form.html",
        title="Edit client",
        form=form,
        status=400 if form.errors else 200,
        back_url=model_admin.row_url(client),
    )


def _can_edit(request: HttpRequest) -> bool:
    return operators.operator_of(request).access >= Access.ADMIN and conf.current().oauth_server.enabled


def _require_editing(request: HttpRequest) -> None:
    """Raise the refusal of an operator for whom `_can_edit` is false."""
    operators.require(request, Access.ADMIN)
    if not conf.current().oauth_server.enabled:
        raise OAuthServerDisabled


def _registered_page(model_admin: OperatorAdmin, request: HttpRequest, registered: RegisteredClient) -> HttpResponse:
    client = registered.client
    name = model_admin.display_name(client)
    secrets: list[tuple[str, Any]] = [(name, ShownOnce(label="Client ID", text=str(client.id)))]
    if registered.secret:
        secrets.append((name, _secret(registered)))
    return actions.form_page(
        model_admin,
        request,
        "operator/oauth_client_registered.html",
        title="Registered",
        secrets=secrets,
        addresses=list(_addresses().items()),
        back_url=model_admin.row_url(client),
    )


def _secret(registered: RegisteredClient) -> ShownOnce:
    return ShownOnce(label="Client secret", text=registered.secret, hint="Store it in the client's configuration.")
