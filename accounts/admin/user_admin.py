"""Users in the operator console: search, details, support actions, bans, deletion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.messages import constants as levels
from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.administration import (
    action_links,
    admin_factors,
    invitations,
    notes,
    support_messages,
    user_administration,
)
from accounts.administration import errors as administration_errors
from accounts.administration.action_links import LinkRequest
from accounts.administration.user_administration import NewUser, UserChanges
from accounts.admin.forms import BANS, BanForm, EditForm, InvitationForm, NewPasswordForm, NewUserForm, NoteForm, RoleForm
from accounts.models import Factor, Identity, OperatorNote, User
from accounts.passwords import policy
from accounts.users import deletion, failed_attempts, identifiers, queries
from accounts.users.records import UserRecord
from accounts.users.search import listing
from accounts.users.search.queries import NEWEST
from authsvc import conf
from authsvc.caller import caller_of
from authsvc.console import filters, formatting, model_admin, operators, personal_data, user_panels
from authsvc.console.formatting import EMPTY, Tone
from authsvc.console.model_admin import ActionContext, OperatorAdmin, ShownOnce
from authsvc.console.operators import Access
from authsvc.console.user_panels import Panel, PanelRow
from authsvc.errors import ApiError
from tokens.sessions import revocation

_MAX_RESULTS = 200
_UNCONFIRMED_FOR = timedelta(days=30)
_PERMANENT_BAN = timedelta(days=10 * 365)
_LOCKS_OUT = "All sessions of the user end immediately."


class StateFilter(filters.ChoiceFilter):
    title = "state"
    parameter_name = "state"
    options = (
        ("banned", "Banned"),
        ("unconfirmed", f"Not confirmed, created in the last {_UNCONFIRMED_FOR.days} days"),
        ("anonymous", "Anonymous"),
        ("operators", "Operators"),
        ("deleted", "Soft-deleted"),
    )

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        at = timezone.now()
        conditions = {
            "banned": Q(banned_until__gt=at),
            "unconfirmed": Q(confirmed_at=None, is_anonymous=False, created_at__gte=at - _UNCONFIRMED_FOR),
            "anonymous": Q(is_anonymous=True),
            "operators": Q(role__in=operators.roles()),
            "deleted": Q(deleted_at__isnull=False),
        }
        return queryset.filter(conditions[value])


@admin.register(User)
class UserAdmin(OperatorAdmin):
    list_display = ("account", "full_name", "state", "role", "created_at", "last_sign_in_at")
    list_filter = (StateFilter, filters.CreatedSinceFilter)
    search_fields = ("email",)  # shows the search box; get_search_results searches
    search_help_text = "Email address, phone, ID, or part of a name"
    ordering = ("-created_at", "-id")
    sortable_by = ()
    change_form_template = "operator/user.html"
    actions = (
        "edit", "add_note", "confirm_email", "confirm_phone", "resend_confirmation", "send_recovery", "send_magic_link",
        "create_link", "set_password", "set_role", "reset_failed_attempts", "reset_factors", "end_sessions", "ban",
        "unban", "anonymise", "delete",
    )  # fmt: skip
    row_actions = actions
    personal_columns = frozenset({"email", "phone", "email_change", "phone_change", "raw_user_meta_data"})

    class Media:
        css = {"all": ("operator/content.css",)}

    @model_admin.action(label="Edit", success_message="Changed", form=EditForm)
    def edit(self, row: User, context: ActionContext) -> str | None:
        user_administration.update(
            row.pk, _requested_changes(row, context.form), actor=context.actor, caller=context.caller, at=context.at
        )
        return None

    @model_admin.action(label="Add note", success_message="Note added", form=NoteForm, access=Access.SUPPORT)
    def add_note(self, row: User, context: ActionContext) -> str | None:
        notes.add(row.pk, context.values["text"], actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(label="Confirm email", success_message="Email confirmed", access=Access.SUPPORT)
    def confirm_email(self, row: User, context: ActionContext) -> str | None:
        if not row.email or row.email_confirmed_at:
            raise administration_errors.NothingToConfirm
        user_administration.confirm(row.pk, email=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(label="Confirm phone", success_message="Phone confirmed", access=Access.SUPPORT)
    def confirm_phone(self, row: User, context: ActionContext) -> str | None:
        if not row.phone or row.phone_confirmed_at:
            raise administration_errors.NothingToConfirm
        user_administration.confirm(row.pk, phone=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(label="Send confirmation again", success_message="Confirmation sent", access=Access.SUPPORT)
    def resend_confirmation(self, row: User, context: ActionContext) -> str | None:
        to = support_messages.resend_confirmation(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"Confirmation sent to {to}"

    @model_admin.action(label="Send recovery email", success_message="Recovery email sent", access=Access.SUPPORT)
    def send_recovery(self, row: User, context: ActionContext) -> str | None:
        to = support_messages.send_recovery(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"Recovery email sent to {to}"

    @model_admin.action(label="Send magic link", success_message="Magic link sent", access=Access.SUPPORT)
    def send_magic_link(self, row: User, context: ActionContext) -> str | None:
        to = support_messages.send_magic_link(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"Magic link sent to {to}"

    @model_admin.action(
        label="Create sign-in link",
        success_message="Link created",
        confirmation="The link signs in as the user, once. Earlier links of the same kind become invalid. Pass it on to"
        " the owner of the account only.",
    )
    def create_link(self, row: User, context: ActionContext) -> ShownOnce:
        user = queries.require(row.pk)
        if not support_messages.can_send_recovery(user) or user.aud != context.caller.audience:
            raise administration_errors.NothingToSendTo
        request = LinkRequest(type="magiclink", email=user.email, redirect_to=conf.current().site.url)
        link = action_links.generate(request, actor=context.actor, caller=context.caller, at=context.at)
        expiry = formatting.datetime_text(context.at + conf.current().mailer.otp_exp)
        return ShownOnce(label="Sign-in link", text=link.url, hint=f"It expires at {expiry} (UTC).")

    @model_admin.action(
        label="Set password",
        success_message="Password set",
        form=NewPasswordForm,
        confirmation=f"The former password becomes invalid. {_LOCKS_OUT}",
    )
    def set_password(self, row: User, context: ActionContext) -> str | ShownOnce | None:
        typed = context.values["password"]
        password = typed or policy.generate_password()
        changes = UserChanges(password=password)
        user_administration.update(row.pk, changes, actor=context.actor, caller=context.caller, at=context.at)
        return None if typed else ShownOnce(label="Password", text=password)

    @model_admin.action(
        label="Set role",
        success_message="Role set",
        form=RoleForm,
        confirmation="New access tokens have this role. Issued tokens keep the former role until they expire.",
    )
    def set_role(self, row: User, context: ActionContext) -> str | None:
        changes = UserChanges(role=context.values["role"])
        user_administration.update(row.pk, changes, actor=context.actor, caller=context.caller, at=context.at)
        return f"{self.display_name(row)} has the role {changes.role}"

    @model_admin.action(
        label="Reset failed attempts",
        success_message="Failed attempts reset",
        confirmation="Wrong passwords and codes are forgotten, and correct ones count from every address.",
        access=Access.SUPPORT,
    )
    def reset_failed_attempts(self, row: User, context: ActionContext) -> str | None:
        user_administration.reset_failed_attempts(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(
        label="Reset second factors",
        success_message="Second factors removed",
        confirmation="All second factors and recovery codes are removed, and sessions return to AAL1. Verify the user's"
        " identity first: afterwards a password, a link or a code is enough to sign in.",
        is_dangerous=True,
        asks_for_name=True,
        access=Access.SUPPORT,
    )
    def reset_factors(self, row: User, context: ActionContext) -> str | None:
        removed = admin_factors.reset(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"{self.display_name(row)}: {removed} second {'factor' if removed == 1 else 'factors'} removed"

    @model_admin.action(
        label="End all sessions",
        success_message="Signed out everywhere",
        confirmation="Sign out everywhere?",
        is_dangerous=True,
        access=Access.SUPPORT,
    )
    def end_sessions(self, row: User, context: ActionContext) -> str | None:
        ended = revocation.revoke_all_sessions_as_operator(
            row.pk, actor=context.actor, caller=context.caller, at=context.at
        )
        return f"{self.display_name(row)}: {ended} {'session' if ended == 1 else 'sessions'} ended"

    @model_admin.action(
        label="Ban",
        success_message="Banned",
        form=BanForm,
        confirmation="A banned user cannot sign in or use a session until the ban ends or is lifted.",
        needs_reason=True,
        access=Access.SUPPORT,
    )
    def ban(self, row: User, context: ActionContext) -> str | None:
        duration = context.values["duration"]
        period = dict(BANS)[duration].lower()
        notes.ban(
            row.pk, ban_duration=duration, period=period, actor=context.actor, caller=context.caller, at=context.at
        )
        return f"{self.display_name(row)} is banned: {period}"

    @model_admin.action(label="Lift ban", success_message="No longer banned", access=Access.SUPPORT)
    def unban(self, row: User, context: ActionContext) -> str | None:
        user_administration.set_ban(
            row.pk, ban_duration="none", actor=context.actor, caller=context.caller, at=context.at
        )
        return None

    @model_admin.action(
        label="Erase personal data",
        success_message="Personal data erased",
        confirmation=f"All personal data of the account is erased permanently; the row and its ID stay. {_LOCKS_OUT}",
        is_dangerous=True,
        asks_for_name=True,
    )
    def anonymise(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(
        label="Delete",
        success_message="Deleted",
        confirmation=f"The account and all related data are deleted permanently. {_LOCKS_OUT}",
        is_dangerous=True,
        asks_for_name=True,
    )
    def delete(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=False, actor=context.actor, caller=context.caller, at=context.at)
        return None

    def run_action(
        self, request: HttpRequest, call: Callable[[], str | ShownOnce | None], *, row: Any, success_message: str
    ) -> ShownOnce | None:
        if row.pk == operators.operator_of(request).id:
            # Prevents the last operator from locking all operators out.
            self.message_user(
                request, f"{self.display_name(row)}: {administration_errors.OwnAccount.message}", levels.ERROR
            )
            return None
        return super().run_action(request, call, row=row, success_message=success_message)

    def build_form(self, form: type[forms.Form], row: Any, data: Any) -> forms.Form:
        bound = super().build_form(form, row, data)
        if isinstance(bound, EditForm):
            bound.initial = {
                "email": row.email or "",
                "phone": f"+{row.phone}" if row.phone else "",
                "is_confirmed": True,
                "user_metadata": row.raw_user_meta_data or {},
                "app_metadata": row.raw_app_meta_data or {},
            }
        return bound

    def get_urls(self) -> list[URLPattern]:
        pages = (("create", self.create_user), ("invite", self.invite_user))
        return [
            *(path(f"{name}/", self.admin_site.admin_view(view), name=f"accounts_user_{name}") for name, view in pages),
            *super().get_urls(),
        ]

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        if operators.operator_of(request).access < Access.SUPPORT:
            return []
        names = (("Create user", "create"), ("Invite user", "invite"))
        return [(label, reverse(f"admin:accounts_user_{name}")) for label, name in names]

    def create_user(self, request: HttpRequest) -> HttpResponse:
        """The page that creates an account without sending a message."""

        def create(values: Mapping[str, Any], context: ActionContext) -> UserRecord:
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

        return self._add_user(request, NewUserForm, create, title="Create user", done="Created")

    def invite_user(self, request: HttpRequest) -> HttpResponse:
        """The page that invites a user by email."""

        def invite(values: Mapping[str, Any], context: ActionContext) -> UserRecord:
            return invitations.invite(
                email=values["email"],
                data=values["user_metadata"],
                redirect_to=conf.current().site.url,
                actor=context.actor,
                caller=context.caller,
                at=context.at,
            )

        return self._add_user(request, InvitationForm, invite, title="Invite user", done="Invited")

    def _add_user(
        self,
        request: HttpRequest,
        form_class: type[forms.Form],
        add: Callable[[Mapping[str, Any], ActionContext], UserRecord],
        *,
        title: str,
        done: str,
    ) -> HttpResponse:
        if operators.operator_of(request).access < Access.SUPPORT:
            raise PermissionDenied
        form = form_class(request.POST if request.method == "POST" else None)
        if form.is_valid():
            context = ActionContext(
                actor=operators.actor_of(request),
                caller=caller_of(request),
                at=timezone.now(),
                values=form.cleaned_data,
            )
            try:
                user = add(form.cleaned_data, context)
            except ApiError as error:
                if error.status >= 500:
                    raise
                form.add_error(None, error.message)
            else:
                row = User.objects.get(pk=user.id)
                self.message_user(request, f"{done}: {self.display_name(row)}", levels.SUCCESS)
                return HttpResponseRedirect(self.row_url(row))
        return self.form_page(request, form, title=title, status=400 if form.errors else 200)

    def account_role(self, row: User) -> str | None:
        return row.role

    def hide_personal_data(self, row: User) -> None:
        for name in ("email", "phone", "email_change", "phone_change"):
            setattr(row, name, personal_data.mask_text(getattr(row, name)))
        if row.raw_user_meta_data:
            row.raw_user_meta_data = personal_data.HIDDEN

    def display_name(self, row: Any) -> str:
        if row.deleted_at:
            return f"Deleted user {row.pk}"
        return str(row.email or (f"+{row.phone}" if row.phone else f"Anonymous user {row.pk}"))

    def available_actions(self, row: User) -> Iterable[str]:
        if row.deleted_at:
            return ("delete",)
        is_banned = row.banned_until is not None and row.banned_until > timezone.now()
        user = queries.require(row.pk)
        is_available = {
            "confirm_email": bool(row.email) and not row.email_confirmed_at,
            "confirm_phone": bool(row.phone) and not row.phone_confirmed_at,
            "resend_confirmation": support_messages.confirmable_column(user) is not None,
            "send_magic_link": support_messages.can_send_recovery(user),
            "create_link": support_messages.can_send_recovery(user),
            "send_recovery": support_messages.can_send_recovery(user),
            "ban": not is_banned,
            "unban": is_banned,
        }
        return [name for name in self.row_actions if is_available.get(name, True)]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        has_password = Q(password__isnull=False) & ~Q(password="")
        annotated: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(has_password=ExpressionWrapper(has_password, output_field=BooleanField()))
        )
        return annotated

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        if personal_data.is_hidden(request):  # a match of a part would reveal the rest
            return queryset.filter(pk__in=_find_exactly(search_term)), False
        ids = listing.find_ids(search_term, audience=conf.current().jwt.aud, limit=_MAX_RESULTS)
        if len(ids) == _MAX_RESULTS:
            self.message_user(
                request,
                f"Only the newest {_MAX_RESULTS} are shown. Type more of the email address or name.",
                levels.WARNING,
            )
        elif listing.is_too_short(search_term):
            self.message_user(
                request,
                "A text this short is searched at the beginning of email addresses and names, and anywhere among the"
                f" newest {NEWEST} users. Type three consecutive letters to search all users.",
                levels.WARNING,
            )
        return queryset.filter(pk__in=ids), False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        pending = (("Waiting for confirmation", {"fields": ("email_change", "phone_change")}),)
        return [
            (
                "Account",
                {
                    "fields": (
                        "user_id", "email", "phone", "full_name", "role", "audience", "password_state", "failures",
                    )
                },
            ),
            (
                "Times",
                {
                    "fields": (
                        "created_at", "invited_at", "email_confirmed_at", "phone_confirmed_at", "last_sign_in_at",
                        "confirmation_sent_at", "recovery_sent_at", "updated_at", "banned_until", "deleted_at",
                    )
                },
            ),
            *(pending if obj and (obj.email_change or obj.phone_change) else ()),
            ("Metadata", {"fields": ("user_metadata", "app_metadata"), "classes": ("collapse",)}),
        ]  # fmt: skip

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        context["state"] = self.state(obj)
        is_hidden = personal_data.is_hidden(request)
        context["panels"] = [
            _notes(obj, is_hidden=is_hidden), _identities(obj, is_hidden=is_hidden), _factors(obj, is_hidden=is_hidden),
            *user_panels.collect_panels(request, self.admin_site._registry.values(), obj.pk),
        ]  # fmt: skip
        return super().render_change_form(request, context, add, change, form_url, obj)

    @admin.display(description="account")
    def account(self, row: User) -> str:
        return self.display_name(row)

    @admin.display(description="ID")
    def user_id(self, row: User) -> SafeString | str:
        return formatting.code(row.pk)

    @admin.display(description="name")
    def full_name(self, row: User) -> str:
        metadata = row.raw_user_meta_data if isinstance(row.raw_user_meta_data, dict) else {}
        return formatting.short_text(metadata.get("full_name") or metadata.get("name"))

    @admin.display(description="audience")
    def audience(self, row: User) -> str:
        return row.aud or EMPTY

    @admin.display(description="password")
    def password_state(self, row: Any) -> str:
        return "Set" if row.has_password else "None"

    @admin.display(description="failed attempts")
    def failures(self, row: User) -> str:
        count = failed_attempts.read_count(row.pk)
        return f"{count} (only known addresses may sign in)" if failed_attempts.is_limited(count) else str(count)

    @admin.display(description="user metadata")
    def user_metadata(self, row: User) -> SafeString | str:
        return formatting.json_block(row.raw_user_meta_data)

    @admin.display(description="app metadata")
    def app_metadata(self, row: User) -> SafeString | str:
        return formatting.json_block(row.raw_app_meta_data)

    @admin.display(description="state")
    def state(self, row: User) -> SafeString:
        at = timezone.now()
        if row.deleted_at:
            return formatting.badge("deleted", Tone.QUIET)
        if row.banned_until and row.banned_until > at:
            is_long = row.banned_until - at > _PERMANENT_BAN
            return formatting.badge(
                "banned" if is_long else f"banned until {formatting.datetime_text(row.banned_until)}", Tone.BAD
            )
        if row.is_anonymous:
            return formatting.badge("anonymous", Tone.QUIET)
        if row.confirmed_at is None:
            return formatting.badge("not confirmed", Tone.WAITING)
        return formatting.badge("confirmed", Tone.GOOD)


def _notes(row: User, *, is_hidden: bool) -> Panel:
    newest = OperatorNote.objects.filter(user_id=row.pk).order_by("-created_at", "-id")[: user_panels.MAX_PANEL_ROWS]
    return Panel(
        title="Notes",
        columns=("Time", "Operator", "Note"),
        rows=[
            PanelRow(
                cells=(
                    note.created_at,
                    personal_data.mask_text(note.author) if is_hidden else note.author,
                    formatting.long_text(personal_data.HIDDEN if is_hidden else note.text),
                )
            )
            for note in newest
        ],
        empty_text="No notes.",
        position=5,
    )


def _identities(row: User, *, is_hidden: bool) -> Panel:
    identities = Identity.objects.filter(user_id=row.pk).order_by("created_at", "provider", "id")
    return Panel(
        title="Identities",
        columns=("Provider", "Provider user ID", "Email", "Since", "Last sign-in"),
        rows=[
            PanelRow(
                cells=(
                    identity.provider,
                    personal_data.HIDDEN if is_hidden else identity.provider_id,
                    personal_data.mask_text(identity.email) if is_hidden else identity.email,
                    identity.created_at,
                    identity.last_sign_in_at,
                )
            )
            for identity in identities
        ],
        empty_text="None.",
        position=10,
    )


def _factors(row: User, *, is_hidden: bool) -> Panel:
    columns = ("factor_type", "friendly_name", "status", "phone", "created_at", "last_challenged_at")
    factors = Factor.objects.filter(user_id=row.pk).order_by("created_at", "id").values_list(*columns)
    return Panel(
        title="Second factors",
        columns=("Type", "Name", "Status", "Phone", "Since", "Last challenged"),
        rows=[
            PanelRow(
                cells=(
                    kind, name, formatting.badge(status, Tone.GOOD if status == "verified" else Tone.WAITING),
                    _phone_text(phone, is_hidden=is_hidden), since, challenged_at,
                )
            )
            for kind, name, status, phone, since, challenged_at in factors
        ],
        empty_text="None. A password, a link or a code is enough to sign in.",
        position=20,
    )  # fmt: skip


def _requested_changes(row: User, form: EditForm) -> UserChanges:
    """The values of the form that differ from those of the row. Raises NothingChanged."""
    values = form.cleaned_data
    email = values["email"] if identifiers.lower_email(values["email"]) != (row.email or "") else ""
    phone = values["phone"] if identifiers.bare_phone(values["phone"]) != (row.phone or "") else ""
    changes = UserChanges(
        email=email or None,
        phone=phone or None,
        email_confirm=True if email and values["is_confirmed"] else None,
        phone_confirm=True if phone and values["is_confirmed"] else None,
        user_metadata=form.metadata_changes("user_metadata") or None,
        app_metadata=form.metadata_changes("app_metadata") or None,
    )
    if changes == UserChanges():
        raise administration_errors.NothingChanged
    return changes


def _phone_text(phone: str | None, *, is_hidden: bool) -> str | None:
    if not phone:
        return None
    return personal_data.mask_text(phone) if is_hidden else f"+{phone}"


def _find_exactly(text: str) -> list[UUID]:
    """The user with this ID, email address or phone number."""
    with contextlib.suppress(ValueError):
        return [UUID(text.strip())]
    audience = conf.current().jwt.aud
    with contextlib.suppress(ApiError):
        if "@" in text:
            user = queries.find_by("email", identifiers.email(text.strip()), aud=audience)
        else:
            user = queries.find_by("phone", identifiers.phone(text.strip()), aud=audience)
        return [user.id] if user else []
    return []
