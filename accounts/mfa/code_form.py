"""The form for a code of a second factor: of an app, of a message, or a recovery code.

Hosted pages show it in the language of the user, the console in English.
"""

from __future__ import annotations

from django import forms
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.models import FactorStatus, FactorType
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf

CODE_ATTRIBUTES = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
"""HTML attributes of an input for a code."""
RECOVERY_CODE = "recovery"
"""The choice of a recovery code in place of a factor."""
_CODE_TYPES = (FactorType.TOTP, FactorType.PHONE)


class FactorCodeForm(forms.Form):
    factor = forms.ChoiceField(label=_("Second factor"))
    code = forms.CharField(
        label=_("Code"),
        max_length=255,
        widget=forms.TextInput(attrs={"autofocus": True, **CODE_ATTRIBUTES}),
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        choices: list[tuple[str, str | Promise]],
        initial: dict[str, str] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        field = self.fields["factor"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  (narrowing)
        field.choices = choices
        if len(choices) == 1:
            field.widget = forms.HiddenInput()
            field.initial = choices[0][0]
            if field.initial == RECOVERY_CODE:
                self.fields["code"].label = _("Recovery code")


def choices(user: UserRecord) -> list[tuple[str, str | Promise]]:
    """The factors whose codes the form accepts, by ID, and the recovery codes."""
    offered: list[tuple[str, str | Promise]] = [(factor.id, factor_name(factor)) for factor in _code_factors(user)]
    if conf.current().mfa.recovery_codes_enabled:
        offered.append((RECOVERY_CODE, _("Recovery code")))
    return offered


def phones(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in _code_factors(user) if factor.factor_type == FactorType.PHONE]


def factor_name(factor: FactorRecord) -> str:
    """The name under which a page lists a factor."""
    match factor.factor_type:
        case FactorType.TOTP:
            kind = gettext("Authenticator app")
        case FactorType.PHONE:
            kind = gettext("Phone …%(digits)s") % {"digits": (factor.phone or "")[-4:]}
        case _:
            kind = gettext("Security key")
    return f"{kind} ({factor.friendly_name})" if factor.friendly_name else kind


def verified_factors(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in user.factors if factor.status == FactorStatus.VERIFIED]


def _code_factors(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in verified_factors(user) if factor.factor_type in _CODE_TYPES]
