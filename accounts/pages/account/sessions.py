"""Sessions of the user, which end here, and the recent activity of the account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpResponse
from django.utils.functional import Promise
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.pages.account.account_page import AccountPage, QuestionPage
from authsvc import user_agents
from authsvc.api.throttling import Bucket
from authsvc.audit import Action, search
from authsvc.audit.search import EntryKind
from authsvc.db.fields import parse_json
from tokens.models import Session
from tokens.sessions import listing, revocation, session_limits
from tokens.sessions.errors import SessionAlreadyEnded

_MAX_EVENTS = 10
_MINUTE = timedelta(minutes=1)
_EVENTS: dict[str, str | Promise] = {
    Action.LOGIN: _("Signed in"),
    Action.LOGOUT: _("Signed out"),
    Action.SIGNED_UP: _("Account confirmed"),
    Action.INVITE_ACCEPTED: _("Invitation accepted"),
    Action.MODIFIED: _("Account changed"),
    Action.UPDATED_PASSWORD: _("Password changed"),
    Action.IDENTITY_LINKED: _("Account linked"),
    Action.IDENTITY_UNLINKED: _("Account unlinked"),
    Action.FACTOR_VERIFIED: _("Second factor used"),
    Action.FACTOR_UNENROLLED: _("Second factor removed"),
    Action.FACTOR_DELETED: _("Second factor removed"),
    Action.FACTOR_UPDATED: _("Second factor renamed"),
    Action.RECOVERY_CODES_CREATED: _("Recovery codes created"),
    Action.RECOVERY_CODE_USED: _("Recovery code used"),
    Action.PASSKEY_CREATED: _("Passkey added"),
    Action.PASSKEY_UPDATED: _("Passkey renamed"),
    Action.PASSKEY_DELETED: _("Passkey removed"),
    Action.OAUTH_GRANT_APPROVED: _("Access granted to an application"),
    Action.PERSONAL_DATA_EXPORTED: _("Data downloaded"),
}
"""Action → text. Other actions are not listed."""


@dataclass(frozen=True, slots=True)
class _Row:
    id: UUID
    device: str
    address: str
    age: str
    unused_for: str
    is_current: bool
    is_application: bool


@dataclass(frozen=True, slots=True)
class _Event:
    age: str
    text: str | Promise
    device: str
    address: str
    is_own: bool


class SessionsPage(AccountPage):
    """Lists the sessions; the form ends the one whose ID it contains."""

    template = "pages/account/sessions.html"
    title = _("Sessions")
    bucket = Bucket.USER
    back = "pages:sessions"

    def get_context(self) -> dict[str, Any]:
        rows = [self._row(session) for session in listing.list_sessions(self.current.user, at=self.at)]
        return {
            **super().get_context(),
            "rows": sorted(rows, key=lambda row: not row.is_current),
            "events": list(_events(self.user.id, at=self.at)),
        }

    def submit(self, form: forms.Form) -> HttpResponse:
        session_id = self._session_id()
        revocation.end_own_session(self.current, session_id, caller=self.caller, at=self.at)
        return self.done(_("The session is ended."))

    def _session_id(self) -> UUID:
        """The session to end. Raises SessionAlreadyEnded for one that is not in the list."""
        text = self.request.POST.get("session", "")
        rows = (self._row(session) for session in listing.list_sessions(self.current.user, at=self.at))
        for row in rows:
            if str(row.id) == text and not row.is_current:
                return row.id
        raise SessionAlreadyEnded

    def _row(self, session: Session) -> _Row:
        assert self.current.session is not None  # noqa: S101  (narrowing)
        return _Row(
            id=session.id,
            device=device_name(session.user_agent),
            address=session.ip or "",
            age=_time_since(session.created_at, self.at),
            unused_for=_time_since(session_limits.last_used_at(session_limits.record_of(session)), self.at),
            is_current=session.id == self.current.session.id,
            is_application=session.oauth_client_id is not None,
        )


class OtherSessionsPage(QuestionPage):
    title = _("End all other sessions")
    button = _("End all other sessions")
    text = _("Your other browsers, and applications that use your account, must sign in again.")
    bucket = Bucket.USER
    back = "pages:sessions"

    def submit(self, form: forms.Form) -> HttpResponse:
        revocation.sign_out(self.current, scope="others", caller=self.caller, at=self.at)
        return self.done(_("All other sessions have ended."))


def device_name(user_agent: str | None) -> str:
    """The browser and system of a session, or the name of the program."""
    browser, system = user_agents.parse(user_agent)
    if browser and system:
        return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or gettext("Unknown device")


def _time_since(start: datetime | None, at: datetime) -> str:
    """A text such as "3 hours, 5 minutes"; empty without a start."""
    if start is None:
        return ""
    return timesince(start, at) if at - start >= _MINUTE else gettext("less than a minute")


def _events(user_id: UUID, *, at: datetime) -> Iterator[_Event]:
    kinds = (EntryKind.SIGN_IN, EntryKind.CHANGE)
    for entry in search.entries_about_user(user_id, kinds=kinds, limit=_MAX_EVENTS * 2):
        payload: Any = parse_json(entry.payload_json)
        if not isinstance(payload, dict) or payload.get("action") not in _EVENTS:
            continue
        # Address and device of an operator are none of the user's data.
        is_own = payload.get("actor_id") == str(user_id) and "impersonator_id" not in payload
        yield _Event(
            age=_time_since(entry.created_at, at),
            text=_EVENTS[payload["action"]],
            device=device_name(payload.get("user_agent")) if is_own and payload.get("user_agent") else "",
            address=entry.address if is_own else "",
            is_own=is_own,
        )
