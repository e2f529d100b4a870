"""The second factor of a sign-in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.mfa import challenges, code_form, key_form, recovery_codes, verification
from accounts.mfa import errors as mfa_errors
from accounts.mfa.code_form import FactorCodeForm
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.pages import browser_session, destinations
from accounts.pages.page import HostedPage
from accounts.users.records import FactorRecord
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from tokens.sessions import browser_sessions

_CHALLENGE = "challenge"


class SecondFactorPage(HostedPage):
    """Asks for a code or a key. The button `sms` sends a code to a phone, `ask` prompts for a key."""

    template = "pages/second_factor.html"
    title = _("Second factor")
    text = _("Your account is protected by a second factor.")

    def redirect_before_page(self) -> HttpResponse | None:
        """Require a signed-in user whose session lacks the second factor; a user without one has nothing to prove."""
        current = browser_session.signed_in(self.request)
        if current is None:
            step = reverse("pages:sign_in")
            return self.redirect(destinations.with_next(step, destinations.next_path(self.request)))
        if not browser_sessions.needs_second_factor(current):
            return self.redirect(destinations.after_sign_in(self.request))
        return None

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return FactorCodeForm(data, choices=code_form.choices(self.user))

    def get_context(self) -> dict[str, Any]:
        phones = [{"id": phone.id, "label": code_form.factor_name(phone)} for phone in code_form.phones(self.user)]
        return {
            "accepts_codes": bool(code_form.choices(self.user)),
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

    def submit(self, form: FactorCodeForm) -> HttpResponse:
        choice, code = form.cleaned_data["factor"], form.cleaned_data["code"].strip()
        # The tokens are discarded: the browser has the cookie only.
        if choice == code_form.RECOVERY_CODE:
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
        phone = next((phone for phone in code_form.phones(self.user) if phone.id == self.request.POST["sms"]), None)
        if phone is None:
            raise mfa_errors.FactorNotFound
        challenge = challenges.create(self.current, self.user, UUID(phone.id), caller=self.caller, at=self.at)
        self.request.session[_CHALLENGE] = str(challenge.id)
        form = FactorCodeForm(choices=code_form.choices(self.user), initial={"factor": phone.id})
        return self.show(form, sent_to=code_form.factor_name(phone))

    def _prompt_for_key(self, _form: None) -> HttpResponse:
        ceremony = key_form.start_ceremony(
            self.request, self.current, self.user, self._key_id(), type="get", caller=self.caller, at=self.at
        )
        return self.show(template="pages/key_prompt.html", ceremony=ceremony, alternative=_("Use a code instead"))

    def _verify_key(self, _form: None) -> HttpResponse:
        response = key_form.read_response(self.request, type="get")
        verification.verify(self.current, self.user, self._key_id(), response, caller=self.caller, at=self.at)
        return self._complete()

    def _key_id(self) -> UUID:
        """The ID of the key to challenge. Raises FactorNotFound."""
        key = key_form.first_key(self.user)
        if key is None:
            raise mfa_errors.FactorNotFound
        return UUID(key.id)

    def _complete(self) -> HttpResponse:
        browser_session.step_up(self.request)
        return self.redirect(destinations.after_sign_in(self.request))
