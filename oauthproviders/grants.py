"""The id_token grant: an ID token of somebody else's for a session of ours."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from authsvc.core.caller import Caller
from oauthproviders.inputs import IdTokenInput
from oauthproviders.services import id_token
from oauthproviders.services.id_token import Presented
from tokens import payloads


class IdTokenGrant:
    input = IdTokenInput

    def exchange(self, body: IdTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        entered = id_token.enter(Presented(**{"id_token": "", **given}), caller=caller, at=at)
        return payloads.token_response(entered.tokens, subject=entered.user)
