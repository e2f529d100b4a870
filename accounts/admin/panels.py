"""Panels of a user's page: notes, identities, second factors."""

from __future__ import annotations

from accounts.admin import timeline
from accounts.models import Factor, Identity, User
from authsvc.console import formatting, personal_data
from authsvc.console.formatting import Tone
from authsvc.console.timeline import START, Kind
from authsvc.console.user_panels import MAX_PANEL_ROWS, Panel, PanelRow

_FACTOR_TYPES = {"totp": "Authenticator app (TOTP)", "webauthn": "Security key", "phone": "Phone"}


def notes(row: User, *, is_hidden: bool) -> Panel:
    newest = list(timeline.notes(row.pk, is_hidden=is_hidden, before=START, limit=MAX_PANEL_ROWS + 1))
    return Panel(
        title="Notes",
        columns=("Time", "Operator", "Note"),
        rows=[
            PanelRow(cells=(note.at, note.actor, formatting.long_text(note.details)))
            for note in newest[:MAX_PANEL_ROWS]
        ],
        empty_text="No notes.",
        more_url=timeline.timeline_url(row.pk, kind=Kind.NOTE) if len(newest) > MAX_PANEL_ROWS else "",
        position=5,
    )


def identities(row: User, *, is_hidden: bool) -> Panel:
    rows = Identity.objects.filter(user_id=row.pk).order_by("created_at", "provider", "id")
    return Panel(
        title="Identities",
        columns=("Provider", "Provider user ID", "Email", "Since", "Last sign-in"),
        rows=[
            PanelRow(
                cells=(
                    identity.provider,
                    personal_data.HIDDEN if is_hidden else identity.provider_id,
                    personal_data.mask_address(identity.email) if is_hidden else identity.email,
                    identity.created_at,
                    identity.last_sign_in_at,
                )
            )
            for identity in rows
        ],
        empty_text="None.",
        position=10,
    )


def factors(row: User, *, is_hidden: bool) -> Panel:
    columns = ("factor_type", "friendly_name", "status", "phone", "created_at", "last_challenged_at")
    rows = Factor.objects.filter(user_id=row.pk).order_by("created_at", "id").values_list(*columns)
    return Panel(
        title="Second factors",
        columns=("Type", "Name", "Status", "Phone", "Since", "Last challenged"),
        rows=[
            PanelRow(
                cells=(
                    _FACTOR_TYPES.get(kind, kind), personal_data.HIDDEN if is_hidden and name else name,
                    formatting.badge(status, Tone.GOOD if status == "verified" else Tone.WAITING),
                    _phone_text(phone, is_hidden=is_hidden), since, challenged_at,
                )
            )
            for kind, name, status, phone, since, challenged_at in rows
        ],
        empty_text="None. A password, a link or a code is enough to sign in.",
        position=20,
    )  # fmt: skip


def _phone_text(phone: str | None, *, is_hidden: bool) -> str | None:
    if not phone:
        return None
    return personal_data.mask_address(phone) if is_hidden else f"+{phone}"
