"""The proofs that AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_* require of a session that changes a password or a contact.

An email address or phone proves a later password change and recovers the account, so a change of them needs the same
proofs as a change of the password.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from accounts import errors
from accounts.passwords import hashing
from accounts.users.queries import get_user_record
from authsvc import conf
from tokens.sessions import lifecycle
from tokens.sessions.users import SignedInUser


def needs_nonce(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if the change needs the nonce of a reauthentication.

    A session younger than AUTH_SECURITY_REAUTHENTICATION_INTERVAL needs none, and an anonymous user has no contact that
    could get one.
    """
    user, config = signed_in.user, conf.current().passwords
    has_no_contact = user.is_anonymous and not user.email and not user.phone
    return config.update_requires_reauthentication and not has_no_contact and not _is_recent(signed_in, at=at)


def needs_current_password(signed_in: SignedInUser) -> bool:
    """True if the change needs the current password: the user has one, and did not sign in by recovery."""
    if not conf.current().passwords.update_requires_current:
        return False
    is_recovering = lifecycle.is_recovery(entry.method for entry in signed_in.amr)
    return hashing.stored_hash(get_user_record(signed_in)) not in (None, hashing.NO_PASSWORD) and not is_recovering


def is_needed(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if a request that cannot carry a proof must not change the email address or phone."""
    return needs_nonce(signed_in, at=at) or needs_current_password(signed_in)


def check_new_sign_in_method(signed_in: SignedInUser, *, at: datetime) -> None:
    """Require a session that needs no nonce before it adds an identity or passkey, if there are such sessions.

    The new identity or passkey starts sessions that AUTH_SECURITY_REAUTHENTICATION_INTERVAL exempts from the nonce.
    Raises RecentSignInNeeded.
    """
    if conf.current().passwords.reauthentication_interval and needs_nonce(signed_in, at=at):
        raise errors.RecentSignInNeeded


def _is_recent(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if the session is younger than the interval and began with a sign-in, not with the code of a change."""
    interval, session = conf.current().passwords.reauthentication_interval, signed_in.session
    if interval == timedelta() or session is None or at > session.created_at + interval:
        return False
    return not lifecycle.began_with_change(entry.method for entry in signed_in.amr)
