"""Panels of a user's page: notes, identities, second factors."""

from __future__ import annotations

from accounts.models import Factor, Identity, OperatorNote, User
from authsvc.console import formatting, personal_data, user_panels
from authsvc.console.formatting import Tone
from authsvc.console.user_panels import Panel, PanelRow


def notes(row: User, *, is_hidden: bool) -> Panel:
    newest = OperatorNote.objects.filter(user_id=row.pk).order_by("-created_at", "-id")[: user_panels.MAX_PANEL_ROWS]
    return Panel(
        title="Notes",
        columns=("Time", "Operator", "Note"),
        rows=[
            PanelRow(
                cells=(
                    note.created_at,
                    personal_data.mask_address(note.author) if is_hidden else note.author,
                    formatting.long_text(personal_data.HIDDEN if is_hidden else note.text),
                )
            )
            for note in newest
        ],
        empty_text="No notes.",
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
                    kind, personal_data.HIDDEN if is_hidden and name else name,
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
