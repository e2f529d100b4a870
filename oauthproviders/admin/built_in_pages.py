"""Pages of built-in providers: state, settings, callback URL, and a test."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from authsvc import conf
from authsvc.conf import declaration
from authsvc.conf.declaration import Setting
from authsvc.conf.types import Secret
from authsvc.console import actions, formatting, operators
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.user_panels import Panel, PanelRow
from authsvc.display_text import EMPTY, short_text
from authsvc.operator_access import Access
from oauthproviders import provider_checks, registry
from oauthproviders.admin import provider_tests

_REQUIRED = ("enabled", "client_ids", "secret", "redirect_uri")


def urls(model_admin: OperatorAdmin) -> list[URLPattern]:
    """The routes of the pages, next to the list of custom providers."""
    view = model_admin.admin_site.admin_view
    return [
        path("built-in/", view(partial(show_list, model_admin)), name="built_in_providers"),
        path("built-in/<slug:name>/", view(partial(show_provider, model_admin)), name="built_in_provider"),
        path(
            "built-in/<slug:name>/test/",
            view(require_POST(partial(test_provider, model_admin))),
            name="built_in_provider_test",
        ),
    ]


def link() -> tuple[str, str]:
    return "Built-in providers", reverse("admin:built_in_providers")


def show_list(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """All built-in providers; those that are enabled first."""
    names = sorted(registry.PROVIDERS, key=lambda name: (not _config(name).enabled, name))
    rows = [
        PanelRow(
            cells=(name, _state(name), ", ".join(_missing_settings(name)) or EMPTY, " ".join(_scopes(name)) or EMPTY),
            url=reverse("admin:built_in_provider", args=[name]),
        )
        for name in names
    ]
    columns = ("Provider", "State", "Missing settings", "Scopes requested")
    panel = Panel(title="Providers", columns=columns, rows=rows, empty_text="", position=0)
    return _page(model_admin, request, title="Built-in providers", panels=[panel], callback=_callback_field())


def show_provider(model_admin: OperatorAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The settings of one provider. Secrets are not shown."""
    if name not in registry.PROVIDERS:
        raise Http404
    config = _config(name)
    settings = [
        PanelRow(cells=(formatting.code(_variable(name, setting)), _value(name, field, setting), setting.help))
        for field, setting in _settings()
    ]
    facts = [
        ("Callback URL", _callback_field(config.redirect_uri)),
        ("Scopes requested", " ".join(_scopes(name)) or EMPTY),
    ]
    expected = registry.callback_url()
    if config.redirect_uri and config.redirect_uri != expected:
        facts.insert(1, ("Callback URL of this server", f"{expected}. The setting has another URL."))
    if not registry.configuration_error(name, config):
        url = formatting.copy_field(registry.sign_in_url(name), name="sign_in_url", label="Sign-in URL")
        facts.append(("Sign-in URL", url))
    can_test = operators.operator_of(request).access >= Access.ADMIN and config.enabled
    panel = Panel(title="Settings", columns=("Setting", "Value", "Meaning"), rows=settings, empty_text="", position=0)
    return _page(
        model_admin, request, title=name, panels=[panel], facts=facts, state=_state(name),
        test_url=reverse("admin:built_in_provider_test", args=[name]) if can_test else "",
        parent=link(),
    )  # fmt: skip


def test_provider(model_admin: OperatorAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """Test an enabled provider and show each step."""
    operators.require(request, Access.ADMIN)
    if name not in registry.PROVIDERS or not _config(name).enabled:
        raise Http404
    context = actions.create_context(request)
    steps = provider_checks.check_built_in_provider(name, actor=context.actor, caller=context.caller, at=context.at)
    back_url = reverse("admin:built_in_provider", args=[name])
    return provider_tests.result_page(model_admin, request, steps, name=name, back_url=back_url)


def _page(model_admin: OperatorAdmin, request: HttpRequest, **context: Any) -> HttpResponse:
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "back_url": model_admin.list_url(),
        **context,
    }
    return TemplateResponse(request, "operator/built_in_providers.html", context)


def _config(name: str) -> conf.Provider:
    return conf.current().providers[name]


def _settings() -> list[tuple[str, Setting]]:
    """The fields of a provider's settings, with their declarations."""
    return [(name, member) for name, member in declaration.members(conf.Provider) if isinstance(member, Setting)]


def _variable(name: str, setting: Setting) -> str:
    return f"AUTH_EXTERNAL_{name.upper()}_{setting.documented_name}"


def _is_required(name: str, field: str) -> bool:
    return field in _REQUIRED or (field == "url" and name == "keycloak")


def _missing_settings(name: str) -> list[str]:
    """Variables without a value, of a provider that is enabled or partly configured."""
    config = _config(name)
    required = [(field, setting) for field, setting in _settings() if _is_required(name, field)]
    missing = [_variable(name, setting) for field, setting in required if not getattr(config, field)]
    return missing if len(missing) < len(required) else []


def _value(name: str, field: str, setting: Setting) -> SafeString | str:
    value = getattr(_config(name), field)
    if not value and field != "enabled" and _is_required(name, field):
        return formatting.badge("missing", Tone.WAITING)
    if isinstance(value, Secret):
        return "set, hidden"
    return short_text(setting.type.format(value))


def _state(name: str) -> SafeString:
    if not _config(name).enabled:
        return formatting.badge("disabled", Tone.QUIET)
    if _missing_settings(name):
        return formatting.badge("incomplete", Tone.BAD)
    return formatting.badge("enabled", Tone.GOOD)


def _scopes(name: str) -> tuple[str, ...]:
    return getattr(registry.PROVIDERS[name], "default_scopes", ())


def _callback_field(url: str = "") -> SafeString:
    return formatting.copy_field(url or registry.callback_url(), name="callback_url", label="Callback URL")
