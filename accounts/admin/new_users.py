"""Pages that add a user: creation and invitation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django import forms
from django.contrib.messages import constants as levels
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from accounts import errors as account_errors
from accounts.admin.forms import InvitationForm, NewUserForm
from accounts.administration import invitations, user_administration
from accounts.administration.user_administration import NewUser
from accounts.models import User
from accounts.passwords import policy
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from authsvc import conf, messaging
from authsvc.console import actions, operators
from authsvc.console.actions import ActionContext
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.operators import Access
from authsvc.errors import ApiError


def urls(page: OperatorAdmin) -> list[URLPattern]:
    """The routes of the pages, next to the list of users."""
    return [
        path("create/", page.admin_site.admin_view(partial(create_user, page)), name="accounts_user_create"),
        path("invite/", page.admin_site.admin_view(partial(invite_user, page)), name="accounts_user_invite"),
    ]


def links() -> list[tuple[str, str]]:
    """The labels and URLs of the pages."""
    return [
        ("Create user", reverse("admin:accounts_user_create")),
        ("Invite user", reverse("admin:accounts_user_invite")),
    ]


def create_user(page: OperatorAdmin, request: HttpRequest) -> HttpResponse:
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

    return _add_user(page, request, NewUserForm, create, title="Create user", success_message="Created")


def invite_user(page: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """Invite a user by email."""

    def invite(context: ActionContext) -> UserRecord:
        if operators.operator_of(request).access < Access.ADMIN:
            _refuse_operator(context.values["email"])
        return invitations.invite(
            email=context.values["email"],
            data=context.values["user_metadata"],
            redirect_to=conf.current().site.url,
            sender=messaging.OPERATORS,
            actor=context.actor,
            caller=context.caller,
            at=context.at,
        )

    return _add_user(page, request, InvitationForm, invite, title="Invite user", success_message="Invited")


def _refuse_operator(email: str) -> None:
    """Raise EmailExists for the address of an operator: the invitation to an unconfirmed account resets it."""
    user = queries.find_by("email", identifiers.email(email), aud=None)
    if user is not None and operators.access_of(user.role) is not None:
        raise account_errors.EmailExists


def _add_user(
    page: OperatorAdmin,
    request: HttpRequest,
    form_class: type[forms.Form],
    add: Callable[[ActionContext], UserRecord],
    *,
    title: str,
    success_message: str,
) -> HttpResponse:
    operators.require(request, Access.SUPPORT)
    form = form_class(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            user = add(actions.create_context(request, form))
        except ApiError as error:
            if error.status >= 500:
                raise
            form.add_error(None, error.message)
        else:
            row = User.objects.get(pk=user.id)
            page.message_user(request, f"{success_message}: {page.display_name(row)}", levels.SUCCESS)
            return HttpResponseRedirect(page.row_url(row))
    status = 400 if form.errors else 200
    return actions.form_page(page, request, "operator/form.html", title=title, form=form, status=status)
