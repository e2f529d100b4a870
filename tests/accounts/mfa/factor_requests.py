"""Requests about second factors, and a user who has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from accounts.mfa import totp_algorithm
from accounts.models import Factor, User
from tests.conftest import Api, ApiResponse, read_success
from tests.factories import make_factor, make_session, make_user
from tokens.models import AmrClaim, Session

SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
PHONE = "12345677889"
NIL = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A user signed in at `aal1` with an authenticator app of that status."""

    user: User
    session: Session
    factor: Factor
    token: str
    refresh_token: str


def make_owner(*, status: str = "verified", factor_type: str = "totp", **columns: Any) -> Owner:
    made = make_session(make_user())
    if factor_type == "totp":
        columns = {"secret": SECRET, **columns}
    factor = make_factor(made.user, factor_type=factor_type, status=status, **columns)
    return Owner(
        user=made.user,
        session=made.session,
        factor=factor,
        token=made.access_token,
        refresh_token=made.refresh_token,
    )


def code(*, steps: int = 0, secret: str = SECRET) -> str:
    """The code of now, or of so many steps later."""
    return totp_algorithm.code_at(int(timezone.now().timestamp()) // 30 + steps, secret=secret)


def wrong_code() -> str:
    good = {code(steps=steps) for steps in range(-3, 4)}
    return next(text for text in ("000000", "111111", "222222", "333333", *map(str, range(444444, 555555)))
                if text not in good)  # fmt: skip


def enroll(api: Api, token: str, **body: Any) -> ApiResponse:
    return api.post("/factors", {"factor_type": "totp", **body}, bearer=token)


def challenge(api: Api, token: str, factor_id: object, body: Any = None, **options: Any) -> ApiResponse:
    return api.post(f"/factors/{factor_id}/challenge", body, bearer=token, **options)


def challenged(api: Api, token: str, factor_id: object, body: Any = None) -> str:
    """The id of a new challenge."""
    return str(read_success(challenge(api, token, factor_id, body))["id"])


def verify(api: Api, token: str, factor_id: object, challenge_id: object, code: object, **options: Any) -> ApiResponse:
    body = {"challenge_id": challenge_id, "code": code}
    return api.post(f"/factors/{factor_id}/verify", body, bearer=token, **options)


def step_up(api: Api, owner: Owner) -> dict[str, Any]:
    """The token response for a correct code."""
    challenge_id = challenged(api, owner.token, owner.factor.id)
    return read_success(verify(api, owner.token, owner.factor.id, challenge_id, code()))


def unenroll(api: Api, token: str, factor_id: object) -> ApiResponse:
    return api.delete(f"/factors/{factor_id}", bearer=token)


def methods(session: Session) -> list[str]:
    return sorted(AmrClaim.objects.filter(session=session).values_list("authentication_method", flat=True))
