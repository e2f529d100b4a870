"""GET and POST /verify."""

from __future__ import annotations

import re

from django.http import HttpResponse

from accounts import errors, identifiers
from accounts.inputs import VerifyInput
from accounts.services import verification
from accounts.services.verification import Verified
from authsvc.core import clock, redirects
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer, SeeOther
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import RedirectEndpoint, ServiceRequest
from tokens.payloads import token_fragment, token_response
from tokens.services.one_time_tokens import PKCE_MARK

_LINK_TOKEN = re.compile(rf"(?:{PKCE_MARK})?[0-9a-f]{{56}}")
_TOLD_TYPES = frozenset({"signup", "recovery", "invite"})


class VerifyView(RedirectEndpoint):
    bucket = Bucket.VERIFY

    def get(self, request: ServiceRequest) -> HttpResponse:
        asked, token = inputs.query(request.http, "type"), inputs.query(request.http, "token")
        if not asked:
            raise errors.VerificationTypeMissing
        if not token:
            raise errors.TokenMissing
        target = self.redirect_target(request)
        self.begin_redirecting(target, error_in_query=token.startswith(PKCE_MARK))
        done = verification.open_link(type=asked, token=token, caller=request.caller, at=clock.now())
        if done.tokens is None:
            return SeeOther(redirects.with_query(target, {"code": done.auth_code or ""}))
        return SeeOther(redirects.with_fragment(target, token_fragment(done.tokens, type=done.type)))

    def post(self, request: ServiceRequest) -> HttpResponse:
        done = self._redeem(inputs.parse(request.http, VerifyInput), request)
        told = {"type": done.type} if done.type in _TOLD_TYPES else {}
        assert done.tokens is not None  # noqa: S101  (only a browser is given a code instead)
        return Answer(token_response(done.tokens, subject=done.user, **told))

    @staticmethod
    def _redeem(body: VerifyInput, request: ServiceRequest) -> Verified:
        """Tell a code with its address from the token of a link, and redeem it."""
        if not body.type:
            raise errors.VerificationTypeMissing
        if bool(body.token) == bool(body.token_hash):
            raise errors.TokenOrHashMissing
        link = body.token_hash
        if body.token and not body.email and not body.phone and _LINK_TOKEN.fullmatch(body.token):
            link = body.token
        elif body.token_hash and (body.email or body.phone or body.redirect_to):
            raise errors.OnlyTokenHashAllowed
        if link:
            return verification.redeem_link(
                type=body.type, token=link, password=body.password, caller=request.caller, at=clock.now()
            )
        if bool(body.email) == bool(body.phone):
            raise errors.OnlyOneIdentifierOnVerify
        if body.phone:
            identifiers.phone(body.phone)
            raise errors.CodeExpired
        return verification.redeem_code(
            type=body.type,
            email=body.email or "",
            code=body.token or "",
            password=body.password,
            caller=request.caller,
            at=clock.now(),
        )
