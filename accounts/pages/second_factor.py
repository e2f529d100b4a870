"""The second factor of a sign-in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.mfa import challenges, key_form, recovery_codes, verification
from accounts.mfa import errors as mfa_errors
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorStatus, FactorType
from accounts.pages import browser_session, destinations
from accounts.pages.forms import CODE_ATTRIBUTES
from accounts.pages.page import Page
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from tokens.sessions import browser_sessions

_RECOVERY_CODE = "recovery"
_CHALLENGE = "challenge"
_CODE_TYPES = (FactorType.TOTP, FactorType.PHONE)


class CodeForm(forms.Form):
    factor = forms.ChoiceField(label=_("Second factor"))
    code = forms.CharField(
        label=_("Code"),
        max_length=255,
        widget=forms.TextInput(attrs=CODE_ATTRIBUTES),
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


class SecondFactorPage(Page):
    """Asks for a code or a key. The button `sms` sends a code to a phone, `ask` prompts for a key."""

    template = "pages/second_factor.html"
    title = _("Second factor")
    text = _("Your account is protected by a second factor.")

    def redirect_before_page(self) -> HttpResponse | None:
        """Requires a signed-in user whose session lacks the second factor; a user without one has nothing to prove."""
        current = browser_session.signed_in(self.request)
        if current is None:
            step = reverse("pages:sign_in")
            return self.redirect(destinations.with_next(step, destinations.next_path(self.request)))
        if not browser_sessions.needs_second_factor(current):
            return self.redirect(destinations.after_sign_in(self.request))
        return None

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return CodeForm(data, choices=_choices(self.user))

    def get_context(self) -> dict[str, Any]:
        phones = [{"id": phone.id, "label": factor_name(phone)} for phone in _phones(self.user)]
        return {
            "accepts_codes": bool(_choices(self.user)),
            "has_phone": bool(phones),
            "phones": phones,
            "has_key": key_form.first_key(self.user) is not None,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "sms" in request.POST:
            return self.attempt(None, self._send_sms)
        if self._asks_for_key:
            return self.attempt(None, self._prompt_for_key)
        if "credential" in request.POST:
            return self.attempt(None, self._verify_key)
        return super().post(request, *args, **kwargs)

    def check_limits(self) -> None:
        asks = "sms" in self.request.POST or self._asks_for_key
        throttling.check(Bucket.FACTOR_CHALLENGE if asks else Bucket.FACTOR_VERIFY, self.request)

    def submit(self, form: CodeForm) -> HttpResponse:
        choice, code = form.cleaned_data["factor"], form.cleaned_data["code"].strip()
        # The tokens are discarded: the browser has the cookie only.
        if choice == _RECOVERY_CODE:
            recovery_codes.verify(self.current, self.user, code=code, caller=self.caller, at=self.at)
        else:
            factor = next(candidate for candidate in self.user.factors if candidate.id == choice)
            response = FactorResponse(challenge_id=self._challenge_id(factor), code=code.replace(" ", ""))
            verification.verify(self.current, self.user, UUID(factor.id), response, caller=self.caller, at=self.at)
        return self._complete()

    @property
    def _asks_for_key(self) -> bool:
        return self.request.POST.get("ask") == "key"

    def _challenge_id(self, factor: FactorRecord) -> UUID:
        """An app needs no message, so its challenge is created with the response."""
        if factor.factor_type == FactorType.TOTP:
            return challenges.create(self.current, self.user, UUID(factor.id), caller=self.caller, at=self.at).id
        return UUID(self.request.session.get(_CHALLENGE) or "0" * 32)

    def _send_sms(self, _form: None) -> HttpResponse:
        """Send a code to the phone of the button. Raises FactorNotFound."""
        phone = next((phone for phone in _phones(self.user) if phone.id == self.request.POST["sms"]), None)
        if phone is None:
            raise mfa_errors.FactorNotFound
        challenge = challenges.create(self.current, self.user, UUID(phone.id), caller=self.caller, at=self.at)
        self.request.session[_CHALLENGE] = str(challenge.id)
        form = CodeForm(choices=_choices(self.user), initial={"factor": phone.id})
        return self.show(form, sent_to=factor_name(phone))

    def _prompt_for_key(self, _form: None) -> HttpResponse:
        ceremony = key_form.start_ceremony(
            self.request, self.current, self.user, self._key_id(), type="get", caller=self.caller, at=self.at
        )
        return self.show(template="pages/key_prompt.html", ceremony=ceremony, other_way=_("Use a code instead"))

    def _verify_key(self, _form: None) -> HttpResponse:
        response = key_form.read_response(self.request, type="get")
        verification.verify(self.current, self.user, self._key_id(), response, caller=self.caller, at=self.at)
        return self._complete()

    def _key_id(self) -> UUID:
        """Raises FactorNotFound."""
        key = key_form.first_key(self.user)
        if key is None:
            raise mfa_errors.FactorNotFound
        return UUID(key.id)

    def _complete(self) -> HttpResponse:
        browser_session.step_up(self.request)
        return self.redirect(destinations.after_sign_in(self.request))


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


def _phones(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in _code_factors(user) if factor.factor_type == FactorType.PHONE]


def _choices(user: UserRecord) -> list[tuple[str, str | Promise]]:
    choices: list[tuple[str, str | Promise]] = [(factor.id, factor_name(factor)) for factor in _code_factors(user)]
    if conf.current().mfa.recovery_codes_enabled:
        choices.append((_RECOVERY_CODE, _("Recovery code")))
    return choices


def _code_factors(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in verified_factors(user) if factor.factor_type in _CODE_TYPES]
