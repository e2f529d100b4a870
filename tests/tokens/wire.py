"""How the tests of token journeys ask, and where they look afterwards."""

from __future__ import annotations

from typing import Any

import jwt

from accounts.models import User
from authsvc.models import AuditLogEntry
from tests.conftest import Answer, Api
from tests.factories import VERIFIER
from tokens.models import Session

ALREADY_USED = (400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")
NOT_FOUND = (400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
NO_SESSION = (403, "session_not_found", "Session from session_id claim in JWT does not exist")


def refresh(api: Api, token: str, **given: Any) -> Answer:
    return api.post("/token?grant_type=refresh_token", {"refresh_token": token}, **given)


def refreshed(api: Api, token: str) -> str:
    """The refresh token that comes back for one that is accepted."""
    answer = refresh(api, token)
    assert answer.status_code == 200, answer.content
    return str(answer.json()["refresh_token"])


def exchange(api: Api, auth_code: str | None, verifier: str = VERIFIER) -> Answer:
    return api.post("/token?grant_type=pkce", {"auth_code": auth_code, "code_verifier": verifier})


def refusal(answer: Answer) -> tuple[int, str, str]:
    body = answer.json()
    assert body["code"] == answer.status_code, body
    return answer.status_code, body["error_code"], body["msg"]


def claims(access_token: str) -> dict[str, Any]:
    """What a token says, without a look at its signature."""
    return jwt.decode(access_token, options={"verify_signature": False})


def audited(user: User) -> list[str]:
    """What the audit trail says a user did, in alphabetical order."""
    return sorted(
        AuditLogEntry.objects.filter(payload__actor_id=str(user.id)).values_list("payload__action", flat=True)
    )


def is_alive(session: Session) -> bool:
    return Session.objects.filter(id=session.id).exists()
