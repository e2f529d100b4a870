"""Pages that create, edit and test a custom provider."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.contrib.messages import constants as levels
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST

from authsvc.console import actions, operators
from authsvc.console.actions import ActionContext
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.user_panels import Panel
from authsvc.errors import ValidationFailed
from authsvc.operator_access import Access
from oauthproviders import provider_checks
from oauthproviders.admin import forms, provider_tests
from oauthproviders.admin.forms import ProviderForm
from oauthproviders.custom import custom_providers
from oauthproviders.models import CustomProvider, ProviderType

_TITLES = {ProviderType.OIDC: "Add OpenID Connect provider", ProviderType.OAUTH2: "Add OAuth 2.0 provider"}


def urls(model_admin: OperatorAdmin) -> list[URLPattern]:
    """The routes of the pages, next to the list of custom providers."""
    view = model_admin.admin_site.admin_view
    return [
        path(
            "create/<slug:provider_type>/", view(partial(create_provider, model_admin)), name="custom_provider_create"
        ),
        path("<uuid:row_id>/edit/", view(partial(edit_provider, model_admin)), name="custom_provider_edit"),
        path(
            "<uuid:row_id>/test/", view(require_POST(partial(test_provider, model_admin))), name="custom_provider_test"
        ),
    ]


def links() -> list[tuple[str, str]]:
    """The labels and URLs of the pages that create a provider."""
    return [
        (title, reverse("admin:custom_provider_create", args=[provider_type.value]))
        for provider_type, title in _TITLES.items()
    ]


def edit_link(row: CustomProvider) -> tuple[str, str]:
    return "Edit", reverse("admin:custom_provider_edit", args=[row.pk])


def test_url(row: CustomProvider) -> str:
    return reverse("admin:custom_provider_test", args=[row.pk])


def create_provider(model_admin: OperatorAdmin, request: HttpRequest, provider_type: str) -> HttpResponse:
    """Create a provider of one type."""
    operators.require(request, Access.ADMIN)
    custom_providers.check_enabled()
    if provider_type not in forms.FORMS:
        raise Http404
    form = forms.FORMS[provider_type](request.POST if request.method == "POST" else None)
    return _respond(model_admin, request, form, title=_TITLES[ProviderType(provider_type)])


def edit_provider(model_admin: OperatorAdmin, request: HttpRequest, row_id: UUID) -> HttpResponse:
    """Change the values of a provider, except its identifier and type."""
    operators.require(request, Access.ADMIN)
    custom_providers.check_enabled()
    row = _find_row(row_id)
    form = forms.FORMS[row.provider_type](request.POST if request.method == "POST" else None, row=row)
    return _respond(model_admin, request, form, title=f"Edit {model_admin.display_name(row)}")


def test_provider(model_admin: OperatorAdmin, request: HttpRequest, row_id: UUID) -> HttpResponse:
    """Test a stored provider and show each step."""
    operators.require(request, Access.ADMIN)
    custom_providers.check_enabled()
    row = _find_row(row_id)
    context = actions.create_context(request)
    steps = provider_checks.check_custom_provider(
        row, sends_secret=True, actor=context.actor, caller=context.caller, at=context.at
    )
    return provider_tests.result_page(
        model_admin, request, steps, name=model_admin.display_name(row), back_url=model_admin.row_url(row)
    )


def _find_row(row_id: UUID) -> CustomProvider:
    row = CustomProvider.objects.filter(pk=row_id).first()
    if row is None:
        raise Http404
    return row


def _respond(model_admin: OperatorAdmin, request: HttpRequest, form: ProviderForm, *, title: str) -> HttpResponse:
    is_test = "test" in request.POST
    panels, test_errors = _test(request, form) if is_test else ([], [])
    if not is_test and (saved := actions.submit(request, form, partial(_save, form))):
        verb = "Created" if form.row is None else "Changed"
        model_admin.message_user(request, f"{verb}: {model_admin.display_name(saved)}", levels.SUCCESS)
        return HttpResponseRedirect(model_admin.row_url(saved))
    return actions.form_page(
        model_admin,
        request,
        "operator/provider_form.html",
        title=title,
        form=form,
        button="Create" if form.row is None else "Save",
        back_url=model_admin.row_url(form.row) if form.row else model_admin.list_url(),
        is_test=is_test,
        panels=panels,
        test_errors=test_errors,
        status=400 if form.errors or test_errors else 200,
    )


def _test(request: HttpRequest, form: ProviderForm) -> tuple[list[Panel], list[str]]:
    """Test the values of a form, which are not saved: the result, or the errors because of which it did not run."""
    if not form.is_valid():
        return [], [f"{form[name].label}: {error}" for name, errors in form.errors.items() for error in errors]
    context = actions.create_context(request, form)
    try:
        row = custom_providers.preview(
            form.definition(), row=form.row, resets_discovery_url=form.resets_discovery_url, at=context.at
        )
    except ValidationFailed as error:
        return [], [error.message]
    # The stored secret must not reach a server that was never saved, and so is not in the audit trail of changes.
    sends_secret = "client_secret" in form.changed_values or not form.has_new_urls
    steps = provider_checks.check_custom_provider(
        row, sends_secret=sends_secret, actor=context.actor, caller=context.caller, at=context.at
    )
    return [provider_tests.result_panel(steps)], []


def _save(form: ProviderForm, context: ActionContext) -> CustomProvider:
    if form.row is None:
        return custom_providers.create(form.definition(), actor=context.actor, caller=context.caller, at=context.at)
    if not form.changed_values:
        raise ValidationFailed("No value has changed.")
    if emptied := form.emptied_values():
        raise ValidationFailed(f"{emptied[0]} is required")
    return custom_providers.update(
        form.row.identifier,
        form.definition(),
        resets_discovery_url=form.resets_discovery_url,
        actor=context.actor,
        caller=context.caller,
        at=context.at,
    )
