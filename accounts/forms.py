"""What operators are asked before an action on a user."""

from __future__ import annotations

from typing import Any

from django import forms

from authsvc import conf

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
    is_meant = forms.BooleanField(
        label="Yes, make an operator",
        required=False,
        help_text="Operators see and change every account, here and by the API.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ordinary = conf.current().jwt.default_group_name
        operators = [(role, f"{role} (operator)") for role in conf.current().jwt.admin_roles]
        self.fields["role"].choices = [*([(ordinary, ordinary)] if ordinary else []), *operators]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("role") in conf.current().jwt.admin_roles and not values.get("is_meant"):
            self.add_error("is_meant", "This role makes an operator. Tick the box if that is what you want.")
        return values
