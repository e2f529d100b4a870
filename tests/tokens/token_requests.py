"""Requests to the token endpoint, their errors, and the rows and audit entries that they leave."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt

from accounts.models import User
from authsvc.models import AuditLogEntry
from tests.conftest import Api, ApiResponse
from tests.factories import VERIFIER
from tokens.models import Session

REFRESH_TOKEN_REUSED = (400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")
REFRESH_TOKEN_NOT_FOUND = (400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
SESSION_NOT_FOUND = (403, "session_not_found", "Session from session_id claim in JWT does not exist")


def refresh(api: Api, token: str, **options: Any) -> ApiResponse:
    return api.post("/token?grant_type=refresh_token", {"refresh_token": token}, **options)


def rotate(api: Api, token: str) -> str:
    """Refresh with a valid token and return the refresh token of the response."""
    response = refresh(api, token)
    assert response.status_code == 200, response.content
    return str(response.json()["refresh_token"])


def exchange_code(api: Api, auth_code: str | None, verifier: str = VERIFIER) -> ApiResponse:
    return api.post("/token?grant_type=pkce", {"auth_code": auth_code, "code_verifier": verifier})


def error_of(response: ApiResponse) -> tuple[int, str, str]:
    """Status, error code and message of an error response."""
    body = response.json()
    assert body["code"] == response.status_code, body
    return response.status_code, body["error_code"], body["msg"]


def verification_result(response: ApiResponse) -> str:
    """`session`, `code`, `none`, or the error code of a response of /verify, from its body or its redirect."""
    if response.status_code == 303:
        target = urlsplit(response.headers["Location"])
        parameters = parse_qs(target.fragment) | parse_qs(target.query)
        if "error_code" in parameters:
            return parameters["error_code"][0]
        return "session" if "access_token" in parameters else "code" if "code" in parameters else "none"
    body = response.json()
    return "session" if "access_token" in body else str(body["error_code"])


def read_claims(access_token: str) -> dict[str, Any]:
    """The claims of a token, without verification of its signature."""
    return jwt.decode(access_token, options={"verify_signature": False})


def audited_actions(user: User) -> list[str]:
    """The actions of a user in the audit trail, in alphabetical order, without refusals."""
    entries = AuditLogEntry.objects.filter(payload__actor_id=str(user.id))
    return sorted(entries.exclude(payload__action__endswith="_refused").values_list("payload__action", flat=True))


def session_exists(session: Session) -> bool:
    return Session.objects.filter(id=session.id).exists()
