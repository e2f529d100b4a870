"""The second step of the console's sign-in: an operator who has a second factor shows it before anything opens."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from accounts.mfa import challenges, recovery_codes, verification
from accounts.mfa.factor_types import Answer
from accounts.models import FactorType
from accounts.users.records import FactorRecord, UserRecord
from accounts.users.user_source import get_user_record
from authsvc import clock, conf
from authsvc.api import callers
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint
from authsvc.console import authentication, csrf, pages, security_key
from authsvc.errors import ApiError
from tokens.sessions.users import SignedInUser

_RECOVERY = "recovery"
_CHALLENGE = "challenge"
_WITH_CODES = (FactorType.TOTP, FactorType.PHONE)


class CodeForm(forms.Form):
    factor = forms.ChoiceField(label="Second factor")
    code = forms.CharField(
        max_length=255,
        widget=forms.TextInput(
            attrs={"autofocus": True, "autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
        ),
    )

    def __init__(
        self, data: QueryDict | None = None, *, choices: list[tuple[str, str]], initial: dict[str, str] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        field = self.fields["factor"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  (narrowing)
        field.choices = choices
        if len(choices) == 1:
            field.widget = forms.HiddenInput()
            field.initial = choices[0][0]


@require_http_methods(["GET", "HEAD", "POST"])
@csrf.refused_from_elsewhere
def take(request: HttpRequest) -> HttpResponse:
    """The page that asks for a code or a key. `ask` in the form has one texted, or the browser asked for the key."""
    found = authentication.signed_in(request)
    if found is None:
        return HttpResponseRedirect(reverse("admin:login"))
    if not authentication.needs_second_step(found):
        return HttpResponseRedirect(pages.wanted(request))
    user = get_user_record(found)
    form = CodeForm(choices=_choices(user))
    if request.method != "POST":
        return _page(request, user, form)
    key = security_key.of(user)
    try:
        if "ask" in request.POST:
            Endpoint.throttle(Bucket.FACTOR_CHALLENGE, request)
            if request.POST["ask"] == "key" and key:
                return _page(request, user, form, key_options=security_key.ask(request, found, user, key))
            return _text(request, found, user)
        Endpoint.throttle(Bucket.FACTOR_VERIFY, request)
        if "credential" in request.POST and key:
            security_key.verify(request, found, user, key, credential=request.POST["credential"])
        else:
            form = CodeForm(request.POST, choices=_choices(user))
            if not form.is_valid():
                return _page(request, user, form, status=400)
            _verify(request, found, user, choice=form.cleaned_data["factor"], code=form.cleaned_data["code"])
    except ApiError as error:
        if error.status >= 500:
            raise
        return pages.refused(request, _page(request, user, form, status=error.status, problem=error.message), error)
    authentication.step_up(request)
    return HttpResponseRedirect(pages.wanted(request))


def _verify(request: HttpRequest, found: SignedInUser, user: UserRecord, *, choice: str, code: str) -> None:
    """Raise the session behind the cookie. Raises the errors of verification."""
    caller, at = callers.caller_of(request), clock.now()
    if choice == _RECOVERY:
        recovery_codes.verify(found, user, code=code, caller=caller, at=at)
        return
    factor = next(each for each in user.factors if each.id == choice)
    if factor.factor_type == FactorType.TOTP:
        challenge_id = challenges.open(found, user, UUID(factor.id), caller=caller, at=at).id
    else:
        challenge_id = UUID(authentication.kept(request, _CHALLENGE) or "0" * 32)
    # The tokens go nowhere: what the browser has is the cookie.
    verification.verify(
        found, user, UUID(factor.id), Answer(challenge_id=challenge_id, code=code), caller=caller, at=at
    )


def _text(request: HttpRequest, found: SignedInUser, user: UserRecord) -> HttpResponse:
    """Text a code to the phone that was chosen, or to the only one there is."""
    phones = _phones(user)
    chosen = [phone for phone in phones if phone.id == request.POST.get("factor")] or phones
    if not chosen:
        return _page(request, user, CodeForm(choices=_choices(user)), status=400)
    made = challenges.open(found, user, UUID(chosen[0].id), caller=callers.caller_of(request), at=clock.now())
    authentication.keep(request, _CHALLENGE, str(made.id))
    form = CodeForm(choices=_choices(user), initial={"factor": chosen[0].id})
    return _page(request, user, form, sent_to=_name(chosen[0]))


def _page(
    request: HttpRequest,
    user: UserRecord,
    form: CodeForm,
    *,
    status: int = 200,
    problem: str = "",
    sent_to: str = "",
    key_options: str = "",
) -> HttpResponse:
    """`sent_to`: where a code has just been texted to; `key_options`: what the browser is to ask a key."""
    return pages.alone(
        request,
        "operator/second_step.html",
        status=status,
        title="Second step",
        form=form,
        asks_for_code=bool(_choices(user)),
        has_phone=bool(_phones(user)),
        has_key=security_key.of(user) is not None,
        problem=problem,
        sent_to=sent_to,
        key_options=key_options,
        next=pages.wanted(request),
    )


def _phones(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in _with_codes(user) if factor.factor_type == FactorType.PHONE]


def _choices(user: UserRecord) -> list[tuple[str, str]]:
    choices = [(factor.id, _name(factor)) for factor in _with_codes(user)]
    if conf.current().mfa.recovery_codes_enabled:
        choices.append((_RECOVERY, "Recovery code"))
    return choices


def _with_codes(user: UserRecord) -> list[FactorRecord]:
    return [factor for factor in user.factors if factor.status == "verified" and factor.factor_type in _WITH_CODES]


def _name(factor: FactorRecord) -> str:
    kind = "Authenticator app" if factor.factor_type == FactorType.TOTP else f"Phone …{(factor.phone or '')[-4:]}"
    return f"{kind} ({factor.friendly_name})" if factor.friendly_name else kind
