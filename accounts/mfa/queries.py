"""Statements on second factors that need a lock, as hand-written SQL."""

from __future__ import annotations

from datetime import datetime

from authsvc.db.sql import fetch_rows, namespaced

_BATCH_SIZE = 1_000


def delete_abandoned_factors(*, before: datetime) -> None:
    """Delete enrolments of all users that began before this time and were never challenged.

    Skips rows that another request has locked, so that no request waits; the next call deletes them.
    """
    factors = namespaced("mfa_factors")
    sql = f"""
        DELETE FROM {factors} WHERE id IN (
            SELECT f.id FROM {factors} f WHERE f.status = 'unverified' AND f.created_at < %s
                AND NOT EXISTS (SELECT FROM {namespaced("mfa_challenges")} c WHERE c.factor_id = f.id)
            ORDER BY f.created_at LIMIT {_BATCH_SIZE} FOR UPDATE OF f SKIP LOCKED)
    """
    fetch_rows(sql, (before,))
