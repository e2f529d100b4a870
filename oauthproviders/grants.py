"""The id_token grant: an ID token of somebody else's for a session of ours."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from accounts import refusals as account_refusals
from authsvc.core.caller import Caller
from authsvc.core.errors import OAuthError, ValidationFailed
from authsvc.core.web.declarations import Refusals
from oauthproviders import errors
from oauthproviders.inputs import IdTokenInput
from oauthproviders.services import id_token
from oauthproviders.services.id_token import Presented
from tokens import payloads, shapes
from tokens.authentication import BearerAuthentication


class IdTokenGrant:
    """Sign in with an ID token that somebody else's sign-in has given an application; or link its identity."""

    input = IdTokenInput
    shape: ClassVar[Any] = shapes.Session
    refusals: ClassVar[Refusals] = (
        OAuthError,
        ValidationFailed,
        errors.ProviderDisabled,
        *BearerAuthentication.refusals,
        *account_refusals.ARRIVAL,
    )

    def exchange(self, body: IdTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        entered = id_token.enter(Presented(**{"id_token": "", **given}), caller=caller, at=at)
        return payloads.token_response(entered.tokens, subject=entered.user)
