"""The id_token grant: exchanges an ID token of another issuer for a session."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from accounts.identities import errors as identity_errors
from authsvc.api.openapi.document import ErrorTypes
from authsvc.caller import Caller
from authsvc.errors import OAuthError, ValidationFailed
from oauthproviders.flow import errors, id_token
from oauthproviders.flow.id_token import IdTokenCredential
from oauthproviders.flow.inputs import IdTokenInput
from tokens.api import grants, schemas
from tokens.api.authentication import BearerAuthentication


class IdTokenGrant:
    """Sign in with an ID token that the application obtained from another issuer, or link its identity."""

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
        parameters = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        result = id_token.sign_in(IdTokenCredential(**{"id_token": "", **parameters}), caller=caller, at=at)
        return grants.token_response(result.tokens, user=result.user)
