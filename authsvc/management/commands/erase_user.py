"""`manage.py erase_user`: everything about one person gone, or nothing left but an id; prints a receipt."""

from __future__ import annotations

import hashlib
import sys
from datetime import datetime
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser

from accounts.users import erasure, identifiers
from accounts.users.erasure import ErasureResult
from authsvc import clock
from authsvc.management import user_lookup
from authsvc.management.progress import Progress
from authsvc.management.service_command import ACTOR, ServiceCommand
from authsvc.personal_data import DataSubject


class Command(ServiceCommand):
    help = (
        "Erase a person. The audit trail keeps its entries, with a pseudonym for the person. Prints a receipt (JSON). "
        "Interrupted, it can be run again with the user's id, which it tells at its start."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="e-mail address, phone number or id")
        parser.add_argument("--keep-id", action="store_true", help="keep the user's row, with nothing personal in it")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *_: Any, user: str, keep_id: bool, yes: bool, **__: Any) -> None:
        person = _meant(user)
        what = "all that is personal but its id" if keep_id else "everything, for good"
        self.tell(f"user {person.id}: {what}")
        if not yes and self.ask('Type "erase" to go on: ') != "erase":
            raise CommandError("nothing has been erased")
        at = clock.now()
        progress = Progress(sys.stderr, what="entries of the audit trail")
        done = erasure.erase(
            person, keep_id=keep_id, actor=ACTOR, caller=self.caller(), at=at, on_progress=progress.advance
        )
        progress.finish()
        self.stdout.write(_receipt(person, done, keep_id=keep_id, at=at))
        if done.left:
            raise CommandError(f"still there, run it again in a moment: {', '.join(done.left)}")


def _meant(text: str) -> DataSubject:
    found = user_lookup.find(text)
    if found is not None:
        return user_lookup.person(found)
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise CommandError("there is no such user; if an erasure was interrupted, name the id that it told")
    person = DataSubject(id=user_id)
    if not erasure.has_data(person):
        raise CommandError("nothing is held about this id")
    return person


def _receipt(person: DataSubject, done: ErasureResult, *, keep_id: bool, at: datetime) -> str:
    """One JSON object in key order; `sha256` is the digest of its text without that member."""
    receipt = {
        "user_id": str(person.id),
        "kept_id": keep_id,
        "pseudonym": str(done.pseudonym),
        "erased_at": clock.rfc3339(at),
        "removed": {table: number for table, number in done.removed.items() if number},
        "rewritten": done.rewritten,
        "left": done.left,
    }
    text = orjson.dumps(receipt, option=orjson.OPT_SORT_KEYS)
    return orjson.dumps({**receipt, "sha256": hashlib.sha256(text).hexdigest()}, option=orjson.OPT_SORT_KEYS).decode()
