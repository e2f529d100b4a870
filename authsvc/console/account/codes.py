"""Recovery codes of the operator."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from accounts.mfa import recovery_codes
from accounts.users.queries import get_user_record
from authsvc.caller import caller_of
from authsvc.console.account.account_view import render_form
from authsvc.errors import ApiError
from tokens.sessions.users import SignedInUser

_TITLE = "Create recovery codes"
_TEXT = "Ten new codes replace the earlier ones, which become invalid."


def create(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Create a set of codes and show it once."""
    error = None
    if request.method == "POST":
        try:
            codes = recovery_codes.create(
                current, get_user_record(current), caller=caller_of(request), at=timezone.now()
            )
            return render_form(request, title="Recovery codes", codes=codes)
        except ApiError as refusal:
            error = refusal
    return render_form(request, title=_TITLE, text=_TEXT, error=error)
