"""What of this app an ORM does not write: taking what may be used once, one at a time where a number is limited."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from authsvc.db.sql import fetch_row, fetch_rows, namespaced


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenState:
    provider_type: str
    secret: str = field(repr=False)
    created_at: datetime


def take_client_state(state_id: UUID) -> TakenState | None:
    """Delete a secret of ours towards a provider and return it; None when it is not there, or another was first."""
    sql = f"""
        DELETE FROM {namespaced("oauth_client_states")} WHERE id = %s
        RETURNING provider_type, code_verifier, created_at
    """
    found = fetch_row(sql, (state_id,))
    return TakenState(provider_type=found[0], secret=found[1] or "", created_at=found[2]) if found else None


def lock_custom_providers() -> None:
    """Let nobody else add or change a provider until the transaction is over; they are read as ever."""
    fetch_rows(f"LOCK TABLE {namespaced('custom_oauth_providers')} IN SHARE ROW EXCLUSIVE MODE", ())
