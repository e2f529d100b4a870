"""Forms of operator actions on a user."""

from __future__ import annotations

from typing import Any

from django import forms

from authsvc import conf
from authsvc.console import operators
from authsvc.console.operators import Access

BANS = (
    ("1h", "1 hour"),
    ("24h", "1 day"),
    ("168h", "7 days"),
    ("720h", "30 days"),
    ("876000h", "Until it is lifted"),
)


class BanForm(forms.Form):
    duration = forms.ChoiceField(label="For", choices=BANS, initial="24h")


class RoleForm(forms.Form):
    role = forms.ChoiceField(label="Role")
    grants_access = forms.BooleanField(
        label="Grant operator access",
        required=False,
        help_text="Viewers see every account; other operators can also change accounts. Administrators can use the API"
        " too.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ordinary = conf.current().jwt.default_group_name
        staff = [(role, f"{role} ({_access_name(role)})") for role in operators.roles()]
        self.fields["role"].choices = [*([(ordinary, ordinary)] if ordinary else []), *staff]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if operators.access_of(values.get("role")) is not None and not values.get("grants_access"):
            self.add_error("grants_access", "This role grants operator access. Tick the box to confirm.")
        return values


def _access_name(role: str) -> str:
    access = operators.access_of(role)
    return {Access.VIEWER: "viewer", Access.SUPPORT: "support"}.get(access, "administrator") if access else ""
