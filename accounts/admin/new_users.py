"""Pages that add a user: creation and invitation."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial

from django import forms
from django.contrib.messages import constants as levels
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from accounts import errors as account_errors
from accounts.admin import message_costs
from accounts.admin.forms import InvitationForm, NewUserForm
from accounts.administration import bulk_messages, invitations, user_administration
from accounts.administration.user_administration import NewUser
from accounts.models import User
from accounts.passwords import policy
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from authsvc import conf, messaging, operator_access
from authsvc.console import actions, operators
from authsvc.console.actions import ActionContext
from authsvc.console.bulk_results import BulkResults
from authsvc.console.model_admin import OperatorAdmin
from authsvc.errors import ApiError
from authsvc.operator_access import Access

_MAX_SECONDS = 5.0
"""Time for the invitations of one request, whose recipients may be checked over the network."""


def urls(model_admin: OperatorAdmin) -> list[URLPattern]:
    """The routes of the pages, next to the list of users."""
    return [
        path(
            "create/", model_admin.admin_site.admin_view(partial(create_user, model_admin)), name="accounts_user_create"
        ),
        path(
            "invite/",
            model_admin.admin_site.admin_view(partial(invite_users, model_admin)),
            name="accounts_user_invite",
        ),
    ]


def links() -> list[tuple[str, str]]:
    """The labels and URLs of the pages."""
    return [
        ("Create user", reverse("admin:accounts_user_create")),
        ("Invite users", reverse("admin:accounts_user_invite")),
    ]


def create_user(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """Create an account without sending a message."""

    def create(context: ActionContext) -> UserRecord:
        values = context.values
        if values["password"]:
            policy.validate_password(values["password"])
        new_user = NewUser(
            email=values["email"],
            phone=values["phone"],
            password=values["password"] or None,
            email_confirm=bool(values["email"] and values["is_confirmed"]),
            phone_confirm=bool(values["phone"] and values["is_confirmed"]),
            user_metadata=values["user_metadata"],
        )
        return user_administration.create(new_user, actor=context.actor, caller=context.caller, at=context.at)

    return _add_user(model_admin, request, NewUserForm, create, title="Create user", success_message="Created")


def invite_users(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """Invite one or several users by email; the cost of several invitations is shown first."""
    operators.require(request, Access.SUPPORT)
    form = InvitationForm(request.POST if request.method == "POST" else None)
    costs: list[tuple[str, str]] = []
    has_refusals = False
    if form.is_valid():
        addresses = form.cleaned_data["email"]
        digest = hashlib.sha256("\n".join(addresses).encode()).hexdigest()
        if len(addresses) > 1 and form.cleaned_data["shown_cost"] != digest:
            schedule = bulk_messages.read_schedule(at=timezone.now())
            costs = message_costs.describe_invitations(len(addresses), schedule)
            form = _refill(form, addresses, shown_cost=digest)
        else:
            refused, left = _invite(model_admin, request, form, addresses)
            if not refused and not left:
                return HttpResponseRedirect(_page_after(model_admin, addresses))
            has_refusals = bool(refused)
            form = _refill(form, [*refused, *left], shown_cost="")
    return actions.form_page(
        model_admin,
        request,
        "operator/invite.html",
        title="Invite users",
        form=form,
        costs=costs,
        status=400 if form.errors or has_refusals else 200,
    )


def _refill(form: InvitationForm, addresses: list[str], *, shown_cost: str) -> InvitationForm:
    """The form again, with these addresses."""
    values = {"email": "\n".join(addresses), "user_metadata": form.data.get("user_metadata", "{}")}
    return InvitationForm(initial=values | {"shown_cost": shown_cost})


def _invite(
    model_admin: OperatorAdmin, request: HttpRequest, form: InvitationForm, addresses: list[str]
) -> tuple[list[str], list[str]]:
    """Invite users and report the results; return the refused addresses and those left after `_MAX_SECONDS`."""
    context = actions.create_context(request, form)
    results = BulkResults(total=len(addresses), until=context.at.isoformat())
    is_administrator = operators.operator_of(request).access >= Access.ADMIN
    deadline = time.monotonic() + _MAX_SECONDS
    refused: list[str] = []
    left: list[str] = []
    for number, address in enumerate(addresses):
        if time.monotonic() > deadline:
            left = addresses[number:]
            model_admin.message_user(
                request, f"{len(left):,} addresses are left. Continue with the button.", levels.WARNING
            )
            break
        try:
            if not is_administrator:
                _refuse_operator(address)
            invitations.invite(
                email=address,
                data=context.values["user_metadata"],
                redirect_to=conf.current().site.url,
                sender=messaging.OPERATORS,
                is_bulk=len(addresses) > 1,
                actor=context.actor,
                caller=context.caller,
                at=context.at,
            )
        except ApiError as error:
            if error.status >= 500:
                raise
            results.add_refusal(error.message, address)
            refused.append(address)
        else:
            results.done += 1
    if len(addresses) == 1 and not refused:
        model_admin.message_user(request, f"Invited: {addresses[0]}", levels.SUCCESS)
    elif results.handled:
        level, text = results.message("Invited", noun="user", plural="users")
        model_admin.message_user(request, text, level)
    return refused, left


def _page_after(model_admin: OperatorAdmin, addresses: list[str]) -> str:
    """The URL of the invited user's page, or of the list for several."""
    if len(addresses) > 1:
        return model_admin.list_url()
    user = queries.find_by("email", identifiers.email(addresses[0]), aud=None)
    return model_admin.row_url(User.objects.get(pk=user.id)) if user else model_admin.list_url()


def _refuse_operator(email: str) -> None:
    """Raise EmailExists for the address of an operator: the invitation to an unconfirmed account resets it."""
    user = queries.find_by("email", identifiers.email(email), aud=None)
    if user is not None and operator_access.access_of(user.role) is not None:
        raise account_errors.EmailExists


def _add_user(
    model_admin: OperatorAdmin,
    request: HttpRequest,
    form_class: type[forms.Form],
    add: Callable[[ActionContext], UserRecord],
    *,
    title: str,
    success_message: str,
) -> HttpResponse:
    operators.require(request, Access.SUPPORT)
    form = form_class(request.POST if request.method == "POST" else None)
    if user := actions.submit(request, form, add):
        row = User.objects.get(pk=user.id)
        model_admin.message_user(request, f"{success_message}: {model_admin.display_name(row)}", levels.SUCCESS)
        return HttpResponseRedirect(model_admin.row_url(row))
    status = 400 if form.errors else 200
    return actions.form_page(model_admin, request, "operator/form.html", title=title, form=form, status=status)
