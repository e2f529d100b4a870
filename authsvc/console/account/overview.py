"""The account page: sign-in methods and sessions of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from accounts.mfa import recovery_codes
from accounts.models import FactorType
from accounts.passkeys import form as passkey_form
from accounts.passkeys import management
from accounts.users.queries import get_user_record
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf
from authsvc.console import formatting, pages
from authsvc.console.account.account_view import render_page
from authsvc.console.formatting import Tone
from authsvc.console.sign_in import console_session
from authsvc.console.user_panels import MAX_PANEL_ROWS, Button, Panel, PanelRow
from authsvc.display_text import EMPTY
from tokens.models import Session
from tokens.sessions.users import SignedInUser

_TYPES: Mapping[str, str] = {
    FactorType.TOTP: "Authenticator app",
    FactorType.PHONE: "Phone",
    FactorType.WEBAUTHN: "Security key",
}


def show(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """The page; during a sign-in that lacks a second factor, the choice of one to enrol."""
    if console_session.needs_enrolment(current):
        if "next" in request.GET:
            console_session.set_value(request, console_session.NEXT, pages.next_url(request))
        choices = factor_links()
        return render_page(request, "operator/enrolment.html", title="Add a second factor", choices=choices)
    user = get_user_record(current)
    panels = [_factors(user)]
    if passkey_form.is_enabled():
        panels.append(_passkeys(user))
    if conf.current().mfa.recovery_codes_enabled and user.has_verified_factor:
        panels.append(_recovery_codes(user))
    panels.append(_sessions(request, current))
    return render_page(request, "operator/account.html", title="Your account", panels=panels)


def factor_links() -> list[tuple[str, str]]:
    """Labels and URLs of the pages that enrol a factor which the console can verify."""
    config = conf.current()
    links = []
    if config.mfa.totp_enroll_enabled and config.mfa.totp_verify_enabled:
        links.append(("Add authenticator app", reverse("admin:account_app")))
    if config.mfa.web_authn_enroll_enabled and config.mfa.web_authn_verify_enabled and not config.webauthn.missing:
        links.append(("Add security key", reverse("admin:account_key")))
    return links


def factor_label(factor: FactorRecord) -> str:
    """The name of a factor, or its type."""
    return factor.friendly_name or _TYPES.get(factor.factor_type, factor.factor_type)


def _factors(user: UserRecord) -> Panel:
    factors = [factor for factor in user.factors if factor.status == "verified"]
    return Panel(
        title="Second factors",
        columns=("Name", "Type", "Added"),
        rows=[
            PanelRow(
                cells=(factor_label(factor), _TYPES.get(factor.factor_type, factor.factor_type), _day(factor)),
                url=reverse("admin:account_factor_rename", args=[factor.id]),
                button=_remove(reverse("admin:account_factor_remove", args=[factor.id])),
            )
            for factor in factors
        ],
        empty_text="No second factor. A password alone opens this account.",
        page_links=factor_links(),
        position=10,
    )


def _passkeys(user: UserRecord) -> Panel:
    return Panel(
        title="Passkeys",
        columns=("Name", "Added", "Last used"),
        rows=[
            PanelRow(
                cells=(
                    row.friendly_name or "Passkey",
                    formatting.datetime_text(row.created_at),
                    formatting.datetime_text(row.last_used_at),
                ),
                url=reverse("admin:account_passkey_rename", args=[row.id]),
                button=_remove(reverse("admin:account_passkey_remove", args=[row.id])),
            )
            for row in management.list_passkeys(user)
        ],
        empty_text="No passkey. A passkey replaces the password at sign-in.",
        page_links=[("Add passkey", reverse("admin:account_passkey"))],
        position=20,
    )


def _recovery_codes(user: UserRecord) -> Panel:
    remaining = recovery_codes.count_remaining(user)
    return Panel(
        title="Recovery codes",
        columns=("Codes left",),
        rows=[PanelRow(cells=(remaining,))] if remaining else [],
        empty_text="No codes. A code replaces a lost second factor once.",
        page_links=[("Create recovery codes", reverse("admin:account_recovery_codes"))],
        position=30,
    )


def _sessions(request: HttpRequest, current: SignedInUser) -> Panel:
    # Not imported: the import of a model admin creates the site, which imports this module.
    model_admin: Any = admin.site._registry[Session]
    own_id = current.session.id if current.session else None
    own = model_admin.get_queryset(request).filter(user_id=current.user.id)
    latest = list(own.order_by("-created_at", "-id")[: MAX_PANEL_ROWS + 1])
    sessions = sorted(latest[:MAX_PANEL_ROWS], key=lambda row: row.pk != own_id)
    return Panel(
        title="Sessions",
        columns=("Device", "Address", "Age", "Last used", "Signed in by", "Level", "State"),
        rows=[
            PanelRow(
                cells=(
                    model_admin.device(row),
                    row.ip or EMPTY,
                    model_admin.age(row),
                    model_admin.last_used(row),
                    model_admin.methods(row),
                    model_admin.level(row),
                    formatting.badge("This session", Tone.GOOD) if row.pk == own_id else "",
                ),
                button=None
                if row.pk == own_id
                else Button(label="End", url=reverse("admin:account_session_end"), action="end", row=row.pk),
            )
            for row in sessions
        ],
        empty_text="",
        page_links=[("End all other sessions", reverse("admin:account_sessions_end"))] if len(latest) > 1 else [],
        position=40,
    )


def _remove(url: str) -> Button:
    return Button(label="Remove", url=url, action="ask", row="")


def _day(factor: FactorRecord) -> str:
    return (factor.created_at or "")[:10] or EMPTY
