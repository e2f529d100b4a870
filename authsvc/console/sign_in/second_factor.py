"""Second factor of the console's sign-in, required of every operator who has one."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from accounts.mfa import challenges, code_form, key_form, recovery_codes, verification
from accounts.mfa.code_form import FactorCodeForm
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.users.queries import get_user_record
from accounts.users.records import UserRecord
from authsvc.api import throttling
from authsvc.api.exception_handler import with_error
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of, page_caller_of
from authsvc.console import pages
from authsvc.console.sign_in import console_session
from authsvc.errors import ApiError
from tokens.sessions import browser_sessions
from tokens.sessions.users import SignedInUser

_CHALLENGE = "challenge"


@require_http_methods(["GET", "HEAD", "POST"])
@pages.csrf_protected
def second_factor(request: HttpRequest) -> HttpResponse:
    """The page that asks for a code or a key. The form field `ask` sends an SMS code, or prompts for the key."""
    current = console_session.signed_in(request)
    if current is None:
        return HttpResponseRedirect(reverse("admin:login"))
    if not browser_sessions.needs_second_factor(current):
        return HttpResponseRedirect(pages.next_url(request))
    user = get_user_record(current)
    form = FactorCodeForm(choices=code_form.choices(user))
    if request.method != "POST":
        return _page(request, user, form)
    key = key_form.first_key(user)
    try:
        if "ask" in request.POST:
            throttling.check(Bucket.FACTOR_CHALLENGE, request)
            if request.POST["ask"] == "key" and key:
                ceremony = key_form.start_ceremony(
                    request, current, user, UUID(key.id), type="get", caller=caller_of(request), at=timezone.now()
                )
                return _page(request, user, form, key_ceremony=ceremony)
            return _send_sms(request, current, user)
        throttling.check(Bucket.FACTOR_VERIFY, request)
        if "credential" in request.POST and key:
            response = key_form.read_response(request, type="get")
            caller, at = page_caller_of(request), timezone.now()
            verification.verify(current, user, UUID(key.id), response, caller=caller, at=at)
        else:
            form = FactorCodeForm(request.POST, choices=code_form.choices(user))
            if not form.is_valid():
                return _page(request, user, form, status=400)
            _verify(request, current, user, choice=form.cleaned_data["factor"], code=form.cleaned_data["code"])
    except ApiError as error:
        if error.status >= 500:
            raise
        return with_error(request, _page(request, user, form, status=error.status, problem=error.message), error)
    console_session.step_up(request)
    return HttpResponseRedirect(pages.next_url(request))


def _verify(request: HttpRequest, current: SignedInUser, user: UserRecord, *, choice: str, code: str) -> None:
    """Verify a code and step up the session. Raises the errors of verification."""
    caller, at = page_caller_of(request), timezone.now()
    if choice == code_form.RECOVERY_CODE:
        recovery_codes.verify(current, user, code=code, caller=caller, at=at)
        return
    factor = next(candidate for candidate in user.factors if candidate.id == choice)
    if factor.factor_type == FactorType.TOTP:
        challenge_id = challenges.create(current, user, UUID(factor.id), caller=caller, at=at).id
    else:
        challenge_id = console_session.get_id(request, _CHALLENGE)
    # The tokens are discarded: the browser has the cookie only.
    verification.verify(
        current,
        user,
        UUID(factor.id),
        FactorResponse(challenge_id=challenge_id, code=code.replace(" ", "")),
        caller=caller,
        at=at,
    )


def _send_sms(request: HttpRequest, current: SignedInUser, user: UserRecord) -> HttpResponse:
    """Send a code by SMS to the chosen phone, or to the first one."""
    phones = code_form.phones(user)
    candidates = [phone for phone in phones if phone.id == request.POST.get("factor")] or phones
    if not candidates:
        return _page(request, user, FactorCodeForm(choices=code_form.choices(user)), status=400)
    challenge = challenges.create(current, user, UUID(candidates[0].id), caller=caller_of(request), at=timezone.now())
    console_session.set_value(request, _CHALLENGE, str(challenge.id))
    form = FactorCodeForm(choices=code_form.choices(user), initial={"factor": candidates[0].id})
    return _page(request, user, form, sent_to=code_form.factor_name(candidates[0]))


def _page(
    request: HttpRequest,
    user: UserRecord,
    form: FactorCodeForm,
    *,
    status: int = 200,
    problem: str = "",
    sent_to: str = "",
    key_ceremony: dict[str, str] | None = None,
) -> HttpResponse:
    """The page that asks for the second factor.

    `sent_to`: name of the phone that gets an SMS code; `key_ceremony`: variables of the browser's key prompt.
    """
    return pages.render_standalone(
        request,
        "operator/second_factor.html",
        status=status,
        title="Second factor",
        form=form,
        accepts_codes=bool(code_form.choices(user)),
        has_phone=bool(code_form.phones(user)),
        has_key=key_form.first_key(user) is not None,
        problem=problem,
        sent_to=sent_to,
        key_ceremony=key_ceremony,
        next=pages.next_url(request),
    )
