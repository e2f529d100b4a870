"""Second factors: enrolment of apps, phones and security keys, names, removal, and recovery codes."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.mfa import challenges, enrolment, key_form, recovery_codes, removal, verification
from accounts.mfa.code_form import factor_name, verified_factors
from accounts.mfa.enrolment import EnrolmentRequest
from accounts.mfa.errors import FactorNotFound
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.pages import browser_session
from accounts.pages.account.account_page import (
    AccountPage,
    AccountRowPage,
    NameForm,
    QuestionPage,
    format_day,
    without_separators,
)
from accounts.pages.forms import CodeForm
from accounts.users import queries
from accounts.users.records import FactorRecord
from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError

_UNFINISHED = "enrolment"
"""Name of the cookie's value with the ID of the factor whose enrolment the user has begun."""
_CHALLENGE = "enrolment_challenge"
_ADDED = _("Your second factor is added. Other sessions without it have ended.")


def enrolment_links() -> list[tuple[str | Promise, str]]:
    """Labels and routes of the pages that add a factor."""
    mfa = conf.current().mfa
    offered = (
        (mfa.totp_enroll_enabled and mfa.totp_verify_enabled, _("Add an authenticator app"), "pages:factor_app"),
        (mfa.phone_enroll_enabled and mfa.phone_verify_enabled, _("Add a phone"), "pages:factor_phone"),
        (
            mfa.web_authn_enroll_enabled and mfa.web_authn_verify_enabled and not conf.current().webauthn.missing,
            _("Add a security key"),
            "pages:factor_key",
        ),
    )
    return [(label, route) for is_offered, label, route in offered if is_offered]


class FactorsPage(AccountPage):
    template = "pages/account/factors.html"
    title = _("Second factors")
    http_method_names = ["get", "head"]

    def get_context(self) -> dict[str, Any]:
        verified = verified_factors(self.user)
        has_codes = conf.current().mfa.recovery_codes_enabled and bool(verified)
        return {
            **super().get_context(),
            "factors": [
                {"id": factor.id, "name": factor_name(factor), "added": format_day(factor.created_at)}
                for factor in verified
            ],
            "links": [(label, reverse(route)) for label, route in enrolment_links()],
            "codes": recovery_codes.count_remaining(self.user) if has_codes else None,
        }


class _EnrolmentPage(AccountPage):
    """The first step of an enrolment: asks for the name of the new factor."""

    form_class: ClassVar[type[NameForm]] = NameForm
    bucket = Bucket.FACTOR_CHALLENGE
    back = "pages:factors"
    factor_type: ClassVar[FactorType]
    default_name: ClassVar[str | Promise]

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return self.form_class(data, initial={"name": enrolment.free_name(self.user, str(self.default_name))})

    def enroll(self, *, name: str, phone: str = "") -> UUID:
        """Start an enrolment, in place of one that this browser began earlier and did not complete."""
        removal.delete_unfinished(self.user, unfinished_id(self.request))
        enrolled = enrolment.enroll(
            self.current,
            self.user,
            EnrolmentRequest(factor_type=self.factor_type, friendly_name=name, phone=phone),
            caller=self.caller,
            at=self.at,
        )
        self.request.session[_UNFINISHED] = str(enrolled.id)
        return enrolled.id


class AppPage(_EnrolmentPage):
    title = _("Add an authenticator app")
    text = _("An authenticator app on your phone or computer shows a new code every 30 seconds.")
    factor_type = FactorType.TOTP
    default_name = _("Authenticator app")

    def submit(self, form: NameForm) -> HttpResponse:
        self.enroll(name=form.cleaned_data["name"])
        return self.redirect(reverse("pages:factor_app_code"))


class _CodePage(AccountPage):
    """The last step of an enrolment: verifies the first code."""

    form_class = CodeForm
    bucket = Bucket.FACTOR_VERIFY
    button = _("Verify")
    back = "pages:factors"

    def verify(self, *, challenge_id: UUID, code: str) -> HttpResponse:
        response = FactorResponse(challenge_id=challenge_id, code=code.replace(" ", ""))
        factor_id = unfinished_id(self.request)
        verification.verify(self.current, self.user, factor_id, response, caller=self.caller, at=self.at)
        return complete(self)


class AppCodePage(_CodePage):
    """Shows the secret of the new app, and verifies its first code."""

    template = "pages/account/app_code.html"
    title = _("Add an authenticator app")

    def redirect_before_page(self) -> HttpResponse | None:
        if step := super().redirect_before_page():
            return step
        self.totp = enrolment.unfinished_totp(self.user, unfinished_id(self.request))
        return None if self.totp else self.redirect(reverse("pages:factor_app"))

    def get_context(self) -> dict[str, Any]:
        assert self.totp is not None  # noqa: S101  (narrowing)
        svg = mark_safe(self.totp.qr_code)  # noqa: S308  (own SVG)
        return {**super().get_context(), "totp": {"secret": self.totp.secret, "uri": self.totp.uri, "svg": svg}}

    def submit(self, form: CodeForm) -> HttpResponse:
        factor_id = unfinished_id(self.request)
        challenge = challenges.create(self.current, self.user, factor_id, caller=self.caller, at=self.at)
        return self.verify(challenge_id=challenge.id, code=form.cleaned_data["code"])


class PhoneFactorForm(NameForm):
    phone = forms.CharField(
        label=_("Phone number"),
        help_text=_("With the country code, for example +49 170 1234567."),
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "tel", "inputmode": "tel"}),
    )

    def clean_phone(self) -> str:
        return without_separators(self.cleaned_data["phone"])


class PhoneFactorPage(_EnrolmentPage):
    title = _("Add a phone")
    text = _("At each sign-in, a code is sent to this phone.")
    form_class = PhoneFactorForm
    factor_type = FactorType.PHONE
    default_name = _("Phone")

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        form = super().create_form(data)
        form.initial["phone"] = f"+{self.user.phone}" if self.user.phone else ""
        return form

    def submit(self, form: PhoneFactorForm) -> HttpResponse:
        factor_id = self.enroll(name=form.cleaned_data["name"], phone=form.cleaned_data["phone"])
        user = queries.require(self.user.id)
        challenge = challenges.create(self.current, user, factor_id, caller=self.caller, at=self.at)
        self.request.session[_CHALLENGE] = str(challenge.id)
        return self.redirect(reverse("pages:factor_phone_code"))


class PhoneCodePage(_CodePage):
    title = _("Add a phone")

    def redirect_before_page(self) -> HttpResponse | None:
        if step := super().redirect_before_page():
            return step
        id = str(unfinished_id(self.request))
        found = (factor for factor in self.user.factors if factor.id == id and factor.factor_type == FactorType.PHONE)
        self.factor = next(found, None)
        return None if self.factor else self.redirect(reverse("pages:factor_phone"))

    def get_context(self) -> dict[str, Any]:
        assert self.factor is not None  # noqa: S101  (narrowing)
        text = gettext("A code was sent to +%(phone)s.") % {"phone": self.factor.phone}
        return {**super().get_context(), "text": text}

    def submit(self, form: CodeForm) -> HttpResponse:
        challenge_id = UUID(self.request.session.get(_CHALLENGE) or "0" * 32)
        return self.verify(challenge_id=challenge_id, code=form.cleaned_data["code"])


class KeyPage(_EnrolmentPage):
    """Asks for the name of a security key, prompts for the key, and verifies the response of the browser."""

    title = _("Add a security key")
    text = _("A security key is a device that you plug in or hold to your phone.")
    factor_type = FactorType.WEBAUTHN
    default_name = _("Security key")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "credential" in request.POST:
            return self._complete()
        return super().post(request, *args, **kwargs)

    def submit(self, form: NameForm) -> HttpResponse:
        factor_id = self.enroll(name=form.cleaned_data["name"])
        vars(self)["user"] = queries.require(self.user.id)  # with the new factor
        ceremony = key_form.start_ceremony(
            self.request, self.current, self.user, factor_id, type="create", caller=self.caller, at=self.at
        )
        return self.show(form, template="pages/account/ceremony.html", ceremony=ceremony)

    def _complete(self) -> HttpResponse:
        try:
            throttling.check(Bucket.FACTOR_VERIFY, self.request)
            response = key_form.read_response(self.request, type="create")
            factor_id = unfinished_id(self.request)
            verification.verify(self.current, self.user, factor_id, response, caller=self.caller, at=self.at)
        except ApiError as error:
            return self.show_error(error)
        return complete(self)


class _FactorPage(AccountRowPage):
    back = "pages:factors"

    @cached_property
    def row(self) -> FactorRecord:
        factor_id = str(self.kwargs["factor_id"])
        for factor in self.user.factors:
            if factor.id == factor_id:
                return factor
        raise FactorNotFound


class FactorNamePage(_FactorPage):
    title = _("Rename second factor")
    button = _("Save")
    form_class = NameForm
    bucket = Bucket.USER

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return NameForm(data, initial={"name": self.row.friendly_name or ""})

    def submit(self, form: NameForm) -> HttpResponse:
        name = form.cleaned_data["name"]
        enrolment.rename(self.user, UUID(self.row.id), friendly_name=name, caller=self.caller, at=self.at)
        return self.done(gettext("Renamed: %(name)s") % {"name": name})


class FactorRemovalPage(_FactorPage, QuestionPage):
    title = _("Remove second factor")
    button = _("Remove")
    is_dangerous = True
    bucket = Bucket.USER

    def get_context(self) -> dict[str, Any]:
        text = gettext(
            "“%(name)s” can no longer be used at sign-in. With the last factor, your recovery codes are deleted too."
        ) % {"name": factor_name(self.row)}
        return {**super().get_context(), "text": text}

    def submit(self, form: forms.Form) -> HttpResponse:
        name = factor_name(self.row)
        removal.unenroll(self.current, self.user, UUID(self.row.id), caller=self.caller, at=self.at)
        return self.done(gettext("Removed: %(name)s") % {"name": name})


class RecoveryCodesPage(AccountPage):
    """Creates a set of codes and shows it once."""

    title = _("Recovery codes")
    text = _("Ten new codes replace the earlier ones, which become invalid. Each code replaces a lost factor once.")
    button = _("Create recovery codes")
    bucket = Bucket.FACTOR_CHALLENGE
    back = "pages:factors"

    def submit(self, form: forms.Form) -> HttpResponse:
        codes = recovery_codes.create(self.current, self.user, caller=self.caller, at=self.at)
        return self.show(form, template="pages/account/recovery_codes.html", codes=codes)


def complete(page: AccountPage) -> HttpResponse:
    """The new factor has raised the session to aal2, and so the cookie follows."""
    page.request.session.pop(_UNFINISHED, None)
    page.request.session.pop(_CHALLENGE, None)
    browser_session.step_up(page.request)
    return page.done(_ADDED)


def unfinished_id(request: HttpRequest) -> UUID:
    """The ID of the factor whose enrolment is not completed, or the nil UUID, which no row has."""
    return UUID(request.session.get(_UNFINISHED) or "0" * 32)
