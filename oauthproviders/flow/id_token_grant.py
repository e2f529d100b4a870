"""The id_token grant: an ID token of somebody else's for a session of ours."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from accounts.identities import errors as identity_errors
from authsvc.api.openapi.document import ErrorTypes
from authsvc.caller import Caller
from authsvc.errors import OAuthError, ValidationFailed
from oauthproviders import errors
from oauthproviders.flow import id_token
from oauthproviders.flow.id_token import Presented
from oauthproviders.flow.inputs import IdTokenInput
from tokens.api import payloads, schemas
from tokens.api.authentication import BearerAuthentication


class IdTokenGrant:
    """Sign in with an ID token that somebody else's sign-in has given an application; or link its identity."""

    input = IdTokenInput
    response_schema: ClassVar[Any] = schemas.Session
    documented_errors: ClassVar[ErrorTypes] = (
        OAuthError,
        ValidationFailed,
        errors.ProviderDisabled,
        *BearerAuthentication.documented_errors,
        *identity_errors.EXTERNAL_IDENTITY,
    )

    def exchange(self, body: IdTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        entered = id_token.enter(Presented(**{"id_token": "", **given}), caller=caller, at=at)
        return payloads.token_response(entered.tokens, user=entered.user)
