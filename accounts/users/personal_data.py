"""Personal data of an account: its export, and its erasure with all related rows and audit entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.models import (
    Factor,
    FactorChallenge,
    FailedAttempts,
    Identity,
    OperatorNote,
    Passkey,
    PasskeyChallenge,
    RecoveryCode,
    User,
)
from accounts.users import deletion
from authsvc import audit, personal_data
from authsvc.audit import erasure
from authsvc.caller import Caller
from authsvc.personal_data import DataSubject, Row, export_rows

_AUDIT_TABLE = "audit_log_entries"
_FACTOR_SECRETS = {"secret", "web_authn_credential", "last_webauthn_challenge_data"}


class AccountPersonalData:
    """The users, identities, second factors and passkeys of a data subject."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "users", export_rows(User.objects.filter(id=data_subject.id), without={"password"})
        yield "identities", export_rows(Identity.objects.filter(user_id=data_subject.id).order_by("created_at", "id"))
        factors = Factor.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_factors", export_rows(factors, without=_FACTOR_SECRETS)
        challenges = FactorChallenge.objects.filter(factor__user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_challenges", export_rows(challenges, without={"otp_code", "web_authn_session_data"})
        codes = RecoveryCode.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_recovery_codes", export_rows(codes, without={"code_hash"})
        passkeys = Passkey.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "webauthn_credentials", export_rows(passkeys, without={"credential_id", "public_key"})
        ceremonies = PasskeyChallenge.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "webauthn_challenges", export_rows(ceremonies, without={"session_data"})

        notes = OperatorNote.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "operator_notes", export_rows(notes)
        failures = FailedAttempts.objects.filter(user_id=data_subject.id)
        yield "failed_attempts", export_rows(failures)

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        # The database deletes all other rows with the user's row.
        return {"failed_attempts": FailedAttempts.objects.filter(user_id=data_subject.id).delete_rows()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureResult:
    """The result of one run; table → number of rows."""

    pseudonym: UUID
    """The pseudonym of the data subject in the audit trail."""
    removed: Mapping[str, int]
    rewritten: Mapping[str, int]
    left: Mapping[str, int]
    """Rows that cannot be removed yet, such as a message that is being sent. Another run removes them."""


def erase(
    data_subject: DataSubject,
    *,
    keep_id: bool,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
    on_progress: Callable[[int], None],
) -> ErasureResult:
    """Erase all personal data of a data subject, or with `keep_id` all but the id of the user's row.

    `on_progress` takes the number of audit entries rewritten since its last call. The erasure may be interrupted and
    repeated, also after the user's row has been deleted.
    """
    before = _count_rows(data_subject)
    if before["users"]:
        # First, so that no new sign-in adds data during the erasure.
        deletion.delete(data_subject.id, soft=keep_id, actor=actor, caller=caller, at=at)
    with transaction.atomic(durable=True):
        if keep_id:
            _erase_columns(data_subject.id, at=at)
        # Notes of an erased operator about users stay.
        author = str(personal_data.pseudonym(data_subject.id))
        OperatorNote.objects.filter(author_id=data_subject.id).update(author_id=None, author=author)
        for source in personal_data.sources:
            source.erase(data_subject)
    rewritten = 0
    for number in erasure.pseudonymise_entries(data_subject, keep_id=keep_id):
        rewritten += number
        on_progress(number)
    after = _count_rows(data_subject)
    left = {table: number for table, number in after.items() if not (keep_id and table == "users")}
    return ErasureResult(
        pseudonym=personal_data.pseudonym(data_subject.id),
        removed=dict(before - after),
        rewritten={_AUDIT_TABLE: rewritten, **({"users": after["users"]} if keep_id else {})},
        left=left,
    )


def has_data(data_subject: DataSubject) -> bool:
    """True if there is data of a data subject, including audit entries that an earlier erasure has pseudonymised."""
    has_rows = any(True for source in personal_data.sources for _, rows in source.export(data_subject) for _ in rows)
    return has_rows or erasure.has_entries_of_pseudonym(personal_data.pseudonym(data_subject.id))


def _count_rows(data_subject: DataSubject) -> Counter[str]:
    """Table → number of rows of the data subject, without the audit trail, from which nothing is removed."""
    return Counter(
        table
        for source in personal_data.sources
        for table, rows in source.export(data_subject)
        if table != _AUDIT_TABLE
        for _ in rows
    )


def _erase_columns(user_id: UUID, *, at: datetime) -> None:
    """Remove hashes and times from a soft-deleted row, because a known address could be compared with its hash.

    Must run inside a transaction.
    """
    times = [f"{name}_sent_at" for name in ("confirmation", "recovery", "email_change", "phone_change")]
    times += ["reauthentication_sent_at", "invited_at", "email_confirmed_at", "phone_confirmed_at", "last_sign_in_at"]
    User.objects.filter(id=user_id).erase_deleted(
        email=None, phone=None, email_change="", phone_change="", updated_at=at, **dict.fromkeys(times)
    )
    Identity.objects.filter(user_id=user_id).delete_rows()
    deletion.delete_factors(user_id)
