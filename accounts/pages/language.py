"""The page behind the language menu."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, destinations, language_choice
from accounts.pages.page import HostedPage
from accounts.profile import profile
from accounts.users.queries import get_user_record
from authsvc import languages
from authsvc.api.throttling import Bucket
from tokens.sessions import browser_sessions


class LanguageForm(forms.Form):
    language = forms.ChoiceField(label=_("Language"), choices=lambda: list(languages.names().items()))


class LanguagePage(HostedPage):
    title = _("Language")
    text = _("Pages and messages of this service are in this language.")
    button = _("Save")
    form_class = LanguageForm
    bucket = Bucket.USER

    def create_form(self, data: object = None) -> forms.Form:
        return LanguageForm(data, initial={"language": translation.get_language()})  # type: ignore[arg-type]  # POST data

    def submit(self, form: LanguageForm) -> HttpResponse:
        code: str = form.cleaned_data["language"]
        self._save(code)
        response = self.redirect(destinations.own_page(self.request) or reverse("pages:account"))
        language_choice.remember(response, code)
        return response

    def _save(self, code: str) -> None:
        """Store the language of a signed-in user, for messages and other browsers."""
        current = browser_session.signed_in(self.request)
        if current is None or browser_sessions.needs_second_factor(current):
            return
        user = get_user_record(current)
        if user.user_metadata.get("locale") != code:
            profile.update_user(
                current,
                user,
                profile.UserUpdateRequest(data={"locale": code}),
                redirect_to="",
                caller=self.caller,
                at=self.at,
            )
