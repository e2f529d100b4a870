"""Sessions of the operator: ends one, or all but the session of this browser."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from authsvc.caller import caller_of
from authsvc.console.account.account_view import render_form, to_account
from tokens.sessions import revocation
from tokens.sessions.users import SignedInUser


def end(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """End the session whose ID the form field of a panel contains."""
    try:
        session_id = UUID(request.POST.get("_selected_action", ""))
    except ValueError:
        raise Http404 from None
    revocation.end_own_session(current, session_id, caller=caller_of(request), at=timezone.now())
    messages.success(request, "Session ended.")
    return to_account()


def end_others(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    if request.method == "POST":
        revocation.sign_out(current, scope="others", caller=caller_of(request), at=timezone.now())
        messages.success(request, "All other sessions have ended.")
        return to_account()
    text = "Your other browsers, and applications that use your account, must sign in again."
    return render_form(request, title="End all other sessions", text=text)
