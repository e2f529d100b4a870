"""Authenticator assurance level (AAL) of a session: the methods that raise it, and the changes that need `aal2`."""

from __future__ import annotations

from collections.abc import Iterable

from authsvc.errors import ApiError
from tokens.sessions import errors
from tokens.sessions.users import SignedInUser, TokenUser

AAL1 = "aal1"
AAL2 = "aal2"
SECOND_FACTORS = frozenset({"totp", "mfa/phone", "mfa/webauthn", "mfa/recovery_code"})
"""Methods that raise a session to `aal2`."""
_RECOVERY_METHODS = frozenset({"otp", "magiclink", "recovery"})
CHANGE_METHODS = frozenset({"email_change", "phone_change"})
"""Methods of sessions that the confirmation of a new email address or phone started. These sessions are no recovery."""


def aal_of(methods: Iterable[str]) -> str:
    """`aal2` when a second factor is among the methods, else `aal1`."""
    return AAL1 if SECOND_FACTORS.isdisjoint(methods) else AAL2


def highest_aal(user: TokenUser) -> str:
    """The highest level that the user can reach with their enrolled factors."""
    return AAL2 if user.has_verified_factor else AAL1


def is_recovery(methods: Iterable[str]) -> bool:
    """True if the session began with a code or link from an email, so that the user may not know the password."""
    return not _RECOVERY_METHODS.isdisjoint(methods)


def began_with_change(methods: Iterable[str]) -> bool:
    """True if the session began with the confirmation of a new email address or phone."""
    return not CHANGE_METHODS.isdisjoint(methods)


def check_aal(signed_in: SignedInUser, *, error: type[ApiError]) -> None:
    """Raises `error` for a session below `aal2` of a user who has a verified factor.

    The rule of every change of sign-in methods: email, phone, password, identities, factors, recovery codes, passkeys.
    The level is that of the session's row, which removal of the factor lowers at once, and not that of the token.
    Raises ImpersonationNotAllowed for a session in which an operator impersonates the user.
    """
    if signed_in.is_impersonated:
        raise errors.ImpersonationNotAllowed
    if signed_in.user.has_verified_factor and not signed_in.is_aal2:
        raise error
