"""Actions of operators on a user; each calls one service."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts.admin.forms import BANS, BanForm, EditForm, ImpersonationForm, NoteForm, RoleForm, SetPasswordForm
from accounts.admin.message_costs import describe_cost
from accounts.administration import (
    action_links,
    admin_factors,
    bulk_messages,
    notes,
    support_messages,
    user_administration,
)
from accounts.administration import errors as administration_errors
from accounts.administration.action_links import LinkRequest
from accounts.administration.bulk_messages import BulkMessage
from accounts.administration.user_administration import UserChanges
from accounts.models import User
from accounts.passwords import policy
from accounts.users import deletion, queries
from accounts.verification import impersonation
from authsvc import conf
from authsvc.console import formatting, operators
from authsvc.console.actions import ActionContext, ShownOnce, action
from authsvc.console.model_admin import OperatorAdmin
from authsvc.operator_access import Access
from tokens.sessions import impersonation as impersonation_sessions
from tokens.sessions import revocation

_SCHEDULE = "schedule"
_MESSAGE_LABELS = {
    BulkMessage.CONFIRMATION: "Confirmation",
    BulkMessage.RECOVERY: "Recovery email",
    BulkMessage.MAGIC_LINK: "Magic link",
}
_MESSAGE_OF_ACTION = {
    "resend_confirmation": BulkMessage.CONFIRMATION,
    "send_recovery": BulkMessage.RECOVERY,
    "send_magic_link": BulkMessage.MAGIC_LINK,
}
_LOCKS_OUT = "All sessions of the user end immediately."


class UserActions(OperatorAdmin):
    actions = (
        "edit", "add_note", "confirm_email", "confirm_phone", "resend_confirmation", "send_recovery", "send_magic_link",
        "create_link", "impersonate", "set_password", "set_role", "reset_failed_attempts", "reset_factors",
        "end_sessions", "ban", "unban", "anonymise", "delete",
    )  # fmt: skip
    row_actions = actions

    @action(label="Edit", success_message="Changed", form=EditForm, repeats_form=True, accepts_lists=False)
    def edit(self, row: User, context: ActionContext) -> str | None:
        user_administration.update(
            row.pk, context.form.changes(row), actor=context.actor, caller=context.caller, at=context.at
        )
        return None

    @action(label="Add note", success_message="Note added", form=NoteForm, access=Access.SUPPORT)
    def add_note(self, row: User, context: ActionContext) -> str | None:
        notes.add(row.pk, context.values["text"], actor=context.actor, caller=context.caller, at=context.at)
        return None

    @action(label="Confirm email", success_message="Email confirmed", access=Access.SUPPORT)
    def confirm_email(self, row: User, context: ActionContext) -> str | None:
        if not row.email or row.email_confirmed_at:
            raise administration_errors.NothingToConfirm
        user_administration.confirm(row.pk, email=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @action(label="Confirm phone", success_message="Phone confirmed", access=Access.SUPPORT)
    def confirm_phone(self, row: User, context: ActionContext) -> str | None:
        if not row.phone or row.phone_confirmed_at:
            raise administration_errors.NothingToConfirm
        user_administration.confirm(row.pk, phone=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @action(label="Send confirmation again", success_message="Confirmation queued", access=Access.SUPPORT)
    def resend_confirmation(self, row: User, context: ActionContext) -> str | None:
        return self._send(BulkMessage.CONFIRMATION, row, context)

    @action(label="Send recovery email", success_message="Recovery email queued", access=Access.SUPPORT)
    def send_recovery(self, row: User, context: ActionContext) -> str | None:
        return self._send(BulkMessage.RECOVERY, row, context)

    @action(label="Send magic link", success_message="Magic link queued", access=Access.SUPPORT)
    def send_magic_link(self, row: User, context: ActionContext) -> str | None:
        return self._send(BulkMessage.MAGIC_LINK, row, context)

    @action(
        label="Create sign-in link",
        success_message="Link created",
        confirmation="The link signs in as the user, once. Earlier links of the same type become invalid. Pass it on to"
        " the owner of the account only.",
        accepts_lists=False,
    )
    def create_link(self, row: User, context: ActionContext) -> ShownOnce:
        user = queries.require(row.pk)
        if not support_messages.can_send_recovery(user) or user.aud != context.caller.audience:
            raise administration_errors.NothingToSendTo
        request = LinkRequest(type="magiclink", email=user.email, redirect_to=conf.current().site.url)
        link = action_links.generate(request, actor=context.actor, caller=context.caller, at=context.at)
        expiry = formatting.datetime_text(context.at + conf.current().mailer.otp_exp)
        return ShownOnce(label="Sign-in link", text=link.url, hint=f"It expires at {expiry} (UTC).")

    @action(
        label="View as user",
        success_message="Link created",
        form=ImpersonationForm,
        confirmation="The application opens as the user sees it, for at most 15 minutes. Sign-in methods cannot be"
        " changed. The audit trail names you in all entries, and the user is notified by email unless that is disabled."
        " The session ends when you sign out of this console.",
        asks_for_name=True,
        needs_reason=True,
        for_one_row=True,
        accepts_lists=False,
        access=impersonation_sessions.ACCESS,
    )
    def impersonate(self, row: User, context: ActionContext) -> ShownOnce:
        if context.session_id is None:
            raise PermissionDenied
        link = impersonation.create_link(
            row.pk,
            redirect_to=context.values["redirect_to"],
            is_exchanged=context.values["is_exchanged"],
            operator_session_id=context.session_id,
            actor=context.actor,
            caller=context.caller,
            at=context.at,
        )
        minutes = impersonation_sessions.LINK_LIFETIME // timedelta(minutes=1)
        return ShownOnce(
            label="Link to the application",
            text=link,
            hint=f"It can be opened once, within {minutes} minutes. Use a private window to stay signed in to the"
            " application yourself.",
            is_link=True,
        )

    @action(
        label="Set password",
        success_message="Password set",
        form=SetPasswordForm,
        repeats_form=True,
        confirmation=f"The former password becomes invalid. {_LOCKS_OUT}",
        accepts_lists=False,
    )
    def set_password(self, row: User, context: ActionContext) -> str | ShownOnce | None:
        typed = context.values["password"]
        password = typed or policy.generate_password()
        changes = UserChanges(password=password)
        user_administration.update(row.pk, changes, actor=context.actor, caller=context.caller, at=context.at)
        return None if typed else ShownOnce(label="Password", text=password)

    @action(
        label="Set role",
        success_message="Role set",
        form=RoleForm,
        confirmation="New access tokens have this role. Issued tokens keep the former role until they expire.",
    )
    def set_role(self, row: User, context: ActionContext) -> str | None:
        changes = UserChanges(role=context.values["role"])
        user_administration.update(row.pk, changes, actor=context.actor, caller=context.caller, at=context.at)
        return f"{self.display_name(row)} has the role {changes.role}"

    @action(
        label="Reset failed attempts",
        success_message="Failed attempts reset",
        confirmation="Wrong passwords and codes are forgotten, and correct ones count from every address.",
        access=Access.SUPPORT,
    )
    def reset_failed_attempts(self, row: User, context: ActionContext) -> str | None:
        user_administration.reset_failed_attempts(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @action(
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

    @action(
        label="End all sessions",
        success_message="Signed out everywhere",
        confirmation="The user must sign in again on every device.",
        access=Access.SUPPORT,
    )
    def end_sessions(self, row: User, context: ActionContext) -> str | None:
        ended = revocation.revoke_all_sessions_as_operator(
            row.pk, actor=context.actor, caller=context.caller, at=context.at
        )
        return f"{self.display_name(row)}: {ended} {'session' if ended == 1 else 'sessions'} ended"

    @action(
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

    @action(label="Lift ban", success_message="No longer banned", access=Access.SUPPORT)
    def unban(self, row: User, context: ActionContext) -> str | None:
        user_administration.set_ban(
            row.pk, ban_duration="none", actor=context.actor, caller=context.caller, at=context.at
        )
        return None

    @action(
        label="Erase personal data",
        success_message="Personal data erased",
        confirmation=f"All personal data of the account is erased permanently; the row and its ID stay. {_LOCKS_OUT}",
        is_dangerous=True,
        asks_for_name=True,
    )
    def anonymise(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=True, actor=context.actor, caller=context.caller, at=context.at)
        return None

    @action(
        label="Delete",
        success_message="Deleted",
        confirmation=f"The account and all related data are deleted permanently. {_LOCKS_OUT}",
        is_dangerous=True,
        asks_for_name=True,
    )
    def delete(self, row: User, context: ActionContext) -> str | None:
        deletion.delete(row.pk, soft=False, actor=context.actor, caller=context.caller, at=context.at)
        return None

    def _send(self, message: BulkMessage, row: User, context: ActionContext) -> str | None:
        """Send a message to one user now, or queue it for one of several users."""
        if context.count > 1:
            if _SCHEDULE not in context.shared:
                context.shared[_SCHEDULE] = bulk_messages.read_schedule(at=context.at)
            schedule = context.shared[_SCHEDULE]
            bulk_messages.enqueue(
                message,
                row.pk,
                schedule=schedule,
                actor=context.actor,
                caller=context.caller,
                at=context.at,
                started_at=context.started_at,
            )
            return None
        to = bulk_messages.SERVICES[message](row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"{_MESSAGE_LABELS[message]} sent to {to}"

    def costs(self, request: HttpRequest, action: str, rows: QuerySet[Any]) -> list[tuple[str, str]]:
        message = _MESSAGE_OF_ACTION.get(action)
        if message is None:
            return super().costs(request, action, rows)
        at = timezone.now()
        cost = bulk_messages.estimate_cost(
            message,
            bulk_messages.read_recipients(rows),
            find_refusal=lambda user: self._find_refusal(request, user.id, user.role),
            at=at,
        )
        return describe_cost(cost, at=at)

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
            "impersonate": not impersonation.find_refusal(user, at=timezone.now()),
            "send_recovery": support_messages.can_send_recovery(user),
            "ban": not is_banned,
            "unban": is_banned,
        }
        return [name for name in self.row_actions if is_available.get(name, True)]

    def initial_values(self, row: User) -> dict[str, Any]:
        return {
            "email": row.email or "",
            "phone": f"+{row.phone}" if row.phone else "",
            "user_metadata": row.raw_user_meta_data or {},
            "app_metadata": row.raw_app_meta_data or {},
            "redirect_to": conf.current().site.url,
        }

    def account_role(self, row: User) -> str | None:
        # It may have changed while the action ran for other rows.
        return User.objects.filter(pk=row.pk).values_list("role", flat=True).first()

    def find_refusal(self, request: HttpRequest, row: User) -> str:
        return self._find_refusal(request, row.pk, self.account_role(row))

    def _find_refusal(self, request: HttpRequest, user_id: UUID, role: str | None) -> str:
        if user_id == operators.operator_of(request).id:
            # Prevents the last operator from locking all operators out.
            return administration_errors.OwnAccount.message
        return self.find_role_refusal(request, role)
