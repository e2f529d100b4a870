"""Users in the operator console: search, details, support actions, bans, deletion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.messages import constants as levels
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.administration import admin_factors, support_messages, user_administration
from accounts.administration import errors as administration_errors
from accounts.forms import BANS, BanForm, RoleForm
from accounts.models import Factor, Identity, User
from accounts.users import deletion, failed_attempts, identifiers, queries
from accounts.users.search import listing
from accounts.users.search.queries import NEWEST
from authsvc import conf
from authsvc.console import filters, formatting, model_admin, operators, personal_data, user_panels
from authsvc.console.formatting import EMPTY, Tone
from authsvc.console.model_admin import ActionContext, OperatorAdmin
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
        "confirm_email", "confirm_phone", "resend_confirmation", "send_recovery", "set_role",
        "reset_failed_attempts", "reset_factors",
        "end_sessions", "ban", "unban", "anonymise", "delete",
    )  # fmt: skip
    row_actions = actions
    personal_columns = frozenset({"email", "phone", "email_change", "phone_change", "raw_user_meta_data"})

    class Media:
        css = {"all": ("operator/content.css",)}

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

    @model_admin.action(
        label="Set role",
        success_message="Role set",
        form=RoleForm,
        confirmation="New access tokens have this role. Issued tokens keep the former role until they expire.",
    )
    def set_role(self, row: User, context: ActionContext) -> str | None:
        changes = user_administration.UserChanges(role=context.values["role"])
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
        is_dangerous=True,
        access=Access.SUPPORT,
    )
    def ban(self, row: User, context: ActionContext) -> str | None:
        duration = context.values["duration"]
        user_administration.set_ban(
            row.pk, ban_duration=duration, actor=context.actor, caller=context.caller, at=context.at
        )
        return f"{self.display_name(row)} is banned: {dict(BANS)[duration].lower()}"

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
    )
    def anonymise(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @model_admin.action(
        label="Delete",
        success_message="Deleted",
        confirmation=f"The account and all related data are deleted permanently. {_LOCKS_OUT}",
        is_dangerous=True,
    )
    def delete(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=False, actor=context.actor, caller=context.caller, at=context.at)
        return None

    def run_action(
        self, request: HttpRequest, call: Callable[[], str | None], *, row: Any, success_message: str
    ) -> None:
        if row.pk == operators.operator_of(request).id:
            # Prevents the last operator from locking all operators out.
            self.message_user(
                request, f"{self.display_name(row)}: {administration_errors.OwnAccount.message}", levels.ERROR
            )
        else:
            super().run_action(request, call, row=row, success_message=success_message)

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
            _identities(obj, is_hidden=is_hidden), _factors(obj, is_hidden=is_hidden),
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
