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
from tokens.sessions import aal
from tokens.sessions.users import SignedInUser

FIRST_CONTACT_WINDOW = timedelta(minutes=10)
"""The time after a sign-in in which a permanent user without a contact may add one."""


def needs_nonce(signed_in: SignedInUser, *, is_contact: bool = False, at: datetime) -> bool:
    """True if the change needs the nonce of a reauthentication.

    A session younger than AUTH_SECURITY_REAUTHENTICATION_INTERVAL needs none. A user without email and phone cannot get
    one: an anonymous user needs none, and for a change of a contact only (`is_contact`), a recent sign-in at the
    provider replaces the nonce of a permanent user. Otherwise that user could never add a contact.
    """
    user, config = signed_in.user, conf.current().passwords
    if not config.update_requires_reauthentication:
        return False
    interval = config.reauthentication_interval
    if not user.email and not user.phone:
        if user.is_anonymous:
            return False
        interval = max(interval, FIRST_CONTACT_WINDOW) if is_contact else interval
    return not _is_younger(signed_in, interval, at=at)


def needs_current_password(signed_in: SignedInUser) -> bool:
    """True if the change needs the current password: the user has one, and did not sign in by recovery."""
    if not conf.current().passwords.update_requires_current:
        return False
    is_recovering = aal.is_recovery(entry.method for entry in signed_in.amr)
    return hashing.stored_hash(get_user_record(signed_in)) not in (None, hashing.NO_PASSWORD) and not is_recovering


def is_needed(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if a request that cannot carry a proof must not change the email address or phone."""
    return needs_nonce(signed_in, is_contact=True, at=at) or needs_current_password(signed_in)


def check_new_sign_in_method(signed_in: SignedInUser, *, at: datetime) -> None:
    """Require a session that needs no nonce before it adds an identity or passkey, if there are such sessions.

    The new identity or passkey starts sessions that are exempt from the nonce: with
    AUTH_SECURITY_REAUTHENTICATION_INTERVAL, and for a user who may add the first contact. Raises RecentSignInNeeded.
    """
    has_contact = bool(signed_in.user.email or signed_in.user.phone)
    exempts_new_sessions = bool(conf.current().passwords.reauthentication_interval) or not has_contact
    if exempts_new_sessions and needs_nonce(signed_in, is_contact=True, at=at):
        raise errors.RecentSignInNeeded


def _is_younger(signed_in: SignedInUser, interval: timedelta, *, at: datetime) -> bool:
    """True if the session is younger than the interval and began with a sign-in, not with the code of a change."""
    session = signed_in.session
    if interval == timedelta() or session is None or at > session.created_at + interval:
        return False
    return not aal.began_with_change(entry.method for entry in signed_in.amr)
