"""Revokes sessions: at logout, with changes of an account, and by operators."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows, namespaced
from tokens.models import Session
from tokens.sessions import aal, errors, impersonation, locks, session_events
from tokens.sessions.users import SignedInUser


def sign_out(signed_in: SignedInUser, *, scope: str, caller: Caller, at: datetime) -> None:
    """Revoke sessions of a user: all (`global`), this one (`local`) or all other ones (`others`).

    A token without a session revokes all sessions for every scope. An impersonated session ends for every scope, and
    no other session of the user does. Raises UnsupportedLogoutScope, and ImpersonationNotAllowed for `others`.
    """
    if scope not in ("", "global", "local", "others"):
        raise errors.UnsupportedLogoutScope(scope)
    own_session_id = signed_in.session.id if signed_in.session else None
    if signed_in.is_impersonated:
        if scope == "others":
            impersonation.refuse(signed_in, request="POST logout", caller=caller, at=at)
        impersonation.sign_out(signed_in, caller=caller, at=at)
        return
    with transaction.atomic(durable=True):
        audit.record(audit.Action.LOGOUT, actor=signed_in.user, caller=caller, at=at)
        if own_session_id and scope == "local":
            # The database cascades the deletion; Django's cascade would read every dependent row first.
            Session.objects.filter(id=own_session_id)._raw_delete("default")
            session_events.record_end(signed_in.user.id, [own_session_id], reason="logout_local")
        else:
            _wait_for_exchanges(signed_in)
            kept = own_session_id if scope == "others" else None
            reason = "logout_others" if scope == "others" else "logout"
            revoke_all_sessions(signed_in.user.id, except_session_id=kept, reason=reason)


def _wait_for_exchanges(signed_in: SignedInUser) -> None:
    """Wait for exchanges of OAuth clients in progress; the next statements see the sessions that they start."""
    if conf.current().oauth_server.enabled:
        locks.lock_user(signed_in.user.id)


def sign_out_browser(signed_in: SignedInUser, *, caller: Caller, at: datetime) -> None:
    """Revoke the session of a browser, and the sessions of OAuth clients that were granted in it.

    Sessions with the scope `offline_access` continue without the browser (OpenID Connect Back-Channel Logout §2.7).
    At most three statements.
    """
    if signed_in.session is None:
        raise errors.SessionNotFound
    session_id = signed_in.session.id
    table = namespaced("sessions")
    is_offline = "'offline_access' = ANY(string_to_array(scopes, ' '))"
    sql = f"""
        WITH locked AS (
            SELECT id, id <> %(id)s AND coalesce({is_offline}, false) AS continues FROM {table}
            WHERE user_id = %(user_id)s AND %(id)s IN (id, approving_session_id) ORDER BY id FOR UPDATE
        ), continued AS (
            UPDATE {table} SET approving_session_id = NULL WHERE id IN (SELECT id FROM locked WHERE continues)
        )
        DELETE FROM {table} WHERE id IN (SELECT id FROM locked WHERE NOT continues)
        {"RETURNING id" if session_events.is_end_recorded() else ""}
    """  # noqa: S608  (own table names)
    with transaction.atomic(durable=True):
        _wait_for_exchanges(signed_in)
        audit.record(audit.Action.LOGOUT, actor=signed_in.user, caller=caller, at=at)
        ended = fetch_rows(sql, {"user_id": signed_in.user.id, "id": session_id})
        session_events.record_end(signed_in.user.id, [ended_id for (ended_id,) in ended], reason="logout_local")


def replace_browser_session(previous: SignedInUser, *, session_id: UUID, caller: Caller, at: datetime) -> None:
    """Revoke the session of a browser in which `session_id` has signed in.

    Sessions of OAuth clients follow the new session of the same user, and end with that of another one. At most six
    statements.
    """
    if previous.session is None:
        raise errors.SessionNotFound
    sessions = Session.objects.filter(user_id=previous.user.id)
    if not sessions.filter(id=session_id).exists():
        sign_out_browser(previous, caller=caller, at=at)
        return
    with transaction.atomic(durable=True):
        _wait_for_exchanges(previous)
        audit.record(audit.Action.LOGOUT, actor=previous.user, caller=caller, at=at)
        sessions.filter(approving_session_id=previous.session.id).update(approving_session_id=session_id)
        sessions.filter(id=previous.session.id)._raw_delete("default")
        session_events.record_end(previous.user.id, [previous.session.id], reason="logout_local")


def end_own_session(signed_in: SignedInUser, session_id: UUID, *, caller: Caller, at: datetime) -> None:
    """Revoke another session of the signed-in user. Raises SessionAlreadyEnded when the user has no such session."""
    with transaction.atomic(durable=True):
        locks.lock_signed_in_user(signed_in)
        if not Session.objects.filter(id=session_id, user_id=signed_in.user.id).exists():
            raise errors.SessionAlreadyEnded
        traits = {"ended_session_id": str(session_id)}
        audit.record(audit.Action.LOGOUT, actor=signed_in.user, caller=caller, at=at, traits=traits)
        revoke_session(session_id, reason="logout")


def revoke_session(session_id: UUID, *, reason: str) -> None:
    """Revoke a session, and delete the user's unfinished flows that link an identity.

    `reason` is that of the lifecycle event. One statement; joins the caller's transaction.
    """
    sql = f"""
        WITH revoked AS (DELETE FROM {namespaced("sessions")} WHERE id = %s RETURNING user_id),
        abandoned AS ({_delete_linking_flows("IN (SELECT user_id FROM revoked)")})
        SELECT user_id FROM revoked
    """  # noqa: S608  (own table names)
    with transaction.atomic(savepoint=False):
        for (user_id,) in fetch_rows(sql, (session_id,)):
            session_events.record_end(user_id, [session_id], reason=reason)


def revoke_all_sessions(user_id: UUID, *, except_session_id: UUID | None = None, reason: str) -> None:
    """Revoke the sessions of a user, and delete the user's unfinished flows that link an identity.

    `reason` is that of the lifecycle event. One statement; joins the caller's transaction.
    """
    sql = f"""
        WITH abandoned AS ({_delete_linking_flows("= %s")})
        {_delete_in_order("user_id = %s AND id IS DISTINCT FROM %s::uuid")}
    """
    with transaction.atomic(savepoint=False):
        ended = fetch_rows(sql, (user_id, user_id, except_session_id))
        session_events.record_end(user_id, [session_id for (session_id,) in ended], reason=reason)


def _delete_linking_flows(users: str) -> str:
    """SQL that deletes unfinished flows, except those that another transaction is completing or deleting.

    It would wait for them, while the other transaction may wait for the session.
    """
    flows = namespaced("flow_state")
    locked = f"SELECT id FROM {flows} WHERE linking_target_id {users} FOR UPDATE SKIP LOCKED"  # noqa: S608  (own names)
    return f"DELETE FROM {flows} WHERE id IN ({locked})"  # noqa: S608  (own names)


def _delete_in_order(condition: str) -> str:
    """SQL that deletes sessions. Locks them in the order of their ids, as `step_down`, so that none waits for another.

    Returns the ids where the end of a session is recorded.
    """
    sessions = namespaced("sessions")
    locked = f"SELECT id FROM {sessions} WHERE {condition} ORDER BY id FOR UPDATE"  # noqa: S608  (own names)
    returning = "RETURNING id" if session_events.is_end_recorded() else ""
    return f"DELETE FROM {sessions} WHERE id IN ({locked}) {returning}"  # noqa: S608  (own names)


def revoke_weaker_sessions(user_id: UUID, *, except_session_id: UUID) -> None:
    """Revoke the sessions of a user below `aal2` when one is raised. One statement; joins the caller's transaction."""
    _revoke(user_id, f"aal < '{aal.AAL2}' AND id <> %s", except_session_id, reason="mfa_upgrade")


def revoke_client_sessions(user_id: UUID, client_id: UUID) -> None:
    """Revoke the sessions that a client has with a user. One statement; joins the caller's transaction."""
    _revoke(user_id, "oauth_client_id = %s", client_id, reason="oauth_grant_revoked")


def _revoke(user_id: UUID, condition: str, value: UUID, *, reason: str) -> None:
    ended = fetch_rows(_delete_in_order(f"user_id = %s AND {condition}"), (user_id, value))
    session_events.record_end(user_id, [session_id for (session_id,) in ended], reason=reason)


def revoke_session_as_operator(session_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Revoke a session and its refresh token. Raises SessionAlreadyEnded when it has already ended."""
    with transaction.atomic(durable=True):
        owner = Session.objects.filter(id=session_id).values_list("user_id", flat=True).first()
        if owner is None or not locks.lock_user(owner):
            raise errors.SessionAlreadyEnded
        session = Session.objects.select_for_update().filter(id=session_id).first()
        if session is None:
            raise errors.SessionAlreadyEnded
        if session.impersonator_id is not None:
            impersonation.record_end(session, cause="ended by an operator", actor=actor, caller=caller, at=at)
        else:
            traits = {"user_id": str(owner), "session_id": str(session_id)}
            audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        revoke_session(session_id, reason="admin")


def revoke_all_sessions_as_operator(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> int:
    """Revoke all sessions of a user; return their number."""
    with transaction.atomic(durable=True):
        locks.lock_user(user_id)
        sessions = list(Session.objects.select_for_update().filter(user_id=user_id).values_list("id"))
        traits = {"user_id": str(user_id), "sessions": len(sessions)}
        audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        revoke_all_sessions(user_id, reason="admin")
    return len(sessions)
