"""The sign-in that a client requires before the user can approve its request (OpenID Connect Core §3.1.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from oauthserver import scopes
from oauthserver.errors import ReauthenticationRequired, SecondFactorRequired
from tokens.sessions import aal, users
from tokens.sessions.users import SignedInUser

NONE = "none"
_LOGIN = "login"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInRequirements:
    """The parameters of a request that concern the sign-in; an absent one is empty."""

    prompt: str = ""
    max_age: int | None = None
    """Seconds."""
    acr_values: str = ""
    user_id: UUID | None = None
    """The user whom the client expects (`id_token_hint`); no other one may approve (§3.1.2.2)."""
    requested_at: datetime

    @property
    def prompts(self) -> list[str]:
        return scopes.parse(self.prompt)

    @property
    def requires_second_factor(self) -> bool:
        """True if every known value of `acr_values` is `aal2`."""
        known = [value for value in scopes.parse(self.acr_values) if value in (aal.AAL1, aal.AAL2)]
        return bool(known) and aal.AAL1 not in known

    def find_required_action(self, signed_in: SignedInUser) -> str:
        """`reauthenticate` or `verify_second_factor`; empty if the session is sufficient."""
        authenticated_at = sign_in_time(signed_in)
        oldest = self.requested_at if _LOGIN in self.prompts else None
        if self.max_age is not None:
            # A sign-in after the request is new enough, however long the user takes to decide.
            oldest = max(oldest or users.EPOCH, self.requested_at - timedelta(seconds=self.max_age))
        is_older = oldest is not None and (authenticated_at is None or authenticated_at < oldest)
        if is_older or self.user_id not in (None, signed_in.user.id):
            return "reauthenticate"
        if self.requires_second_factor and not signed_in.is_aal2:
            return "verify_second_factor"
        return ""

    def check(self, signed_in: SignedInUser) -> None:
        """Raises ReauthenticationRequired or SecondFactorRequired if the session is not sufficient."""
        match self.find_required_action(signed_in):
            case "reauthenticate":
                raise ReauthenticationRequired
            case "verify_second_factor":
                raise SecondFactorRequired


def sign_in_time(signed_in: SignedInUser) -> datetime | None:
    """The last authentication in the session; None for a token without one."""
    if signed_in.session is None:
        return None
    return max((entry.at for entry in signed_in.amr), default=signed_in.session.created_at)
