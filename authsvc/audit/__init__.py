"""The audit trail: recording, search, erasure of personal data, and the console page.

Callers write `audit.record(...)`. `search`, `erasure` and `admin` are imported by their own names.
"""

from __future__ import annotations

from authsvc.audit.recording import (
    Action,
    Actor,
    Administrator,
    PendingEntry,
    describe_changes,
    draft_entry,
    log_entry,
    prepare_entry,
    record,
    record_refusal,
    record_refused_sign_in,
)

__all__ = [
    "Action",
    "Actor",
    "Administrator",
    "PendingEntry",
    "describe_changes",
    "draft_entry",
    "log_entry",
    "prepare_entry",
    "record",
    "record_refusal",
    "record_refused_sign_in",
]
