"""Sign-in to the console with a passkey. A second factor of the account is still asked for."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone

from accounts.passkeys import authentication, form
from authsvc import operator_access
from authsvc.caller import page_caller_of
from tokens.sessions import refresh_tokens


def start_sign_in() -> dict[str, str]:
    """Start a ceremony of `navigator.credentials.get`. Returns the variables of `operator/passkey.html`."""
    return form.ceremony_variables(authentication.start(at=timezone.now()), type="get")


def sign_in(request: HttpRequest, *, not_after: datetime, at: datetime) -> UUID:
    """Start a session of the operator whose passkey responded; returns its id. Raises the errors of the API."""
    signed_in = authentication.complete(
        form.read_response(request),
        caller=page_caller_of(request),
        at=at,
        roles=operator_access.roles(),
        not_after=not_after,
    )
    # The tokens are discarded: the browser gets the cookie only.
    return refresh_tokens.decode(signed_in.tokens.refresh_token).session_id
