"""`manage.py erase_user` erases the personal data of a user and prints a receipt."""

from __future__ import annotations

import hashlib
import sys
from datetime import datetime
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from accounts.users import identifiers, personal_data
from accounts.users.personal_data import ErasureResult
from authsvc.api.renderers import rfc3339
from authsvc.management import user_lookup
from authsvc.management.progress import Progress
from authsvc.management.service_command import ACTOR, ServiceCommand
from authsvc.personal_data import DataSubject


class Command(ServiceCommand):
    help = (
        "Erase a user's personal data. Audit entries are kept, with a pseudonym for the user. Prints a receipt (JSON). "
        "After an interruption, run it again with the user id that it prints at the start."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="email address, phone number or id")
        parser.add_argument("--keep-id", action="store_true", help="keep the user's row without personal data")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *_: Any, user: str, keep_id: bool, yes: bool, **__: Any) -> None:
        data_subject = _find(user)
        scope = "erase all personal data except the id" if keep_id else "erase everything permanently"
        self.print_notice(f"user {data_subject.id}: {scope}")
        if not yes and self.prompt('Type "erase" to continue: ') != "erase":
            raise CommandError("nothing was erased")
        at = timezone.now()
        progress = Progress(sys.stderr, noun="audit entries")
        result = personal_data.erase(
            data_subject, keep_id=keep_id, actor=ACTOR, caller=self.caller(), at=at, on_progress=progress.advance
        )
        progress.finish()
        self.stdout.write(_receipt(data_subject, result, keep_id=keep_id, at=at))
        if result.left:
            raise CommandError(f"some rows could not be deleted, run the command again: {', '.join(result.left)}")


def _find(text: str) -> DataSubject:
    user = user_lookup.find(text)
    if user is not None:
        return user_lookup.data_subject(user)
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise CommandError("user not found; after an interrupted erasure, specify the user id that it printed")
    data_subject = DataSubject(id=user_id)
    if not personal_data.has_data(data_subject):
        raise CommandError("no data exists for this id")
    return data_subject


def _receipt(data_subject: DataSubject, result: ErasureResult, *, keep_id: bool, at: datetime) -> str:
    """One JSON object in key order; `sha256` is the digest of its text without that member."""
    receipt = {
        "user_id": str(data_subject.id),
        "kept_id": keep_id,
        "pseudonym": str(result.pseudonym),
        "erased_at": rfc3339(at),
        "removed": {table: number for table, number in result.removed.items() if number},
        "rewritten": result.rewritten,
        "left": result.left,
    }
    text = orjson.dumps(receipt, option=orjson.OPT_SORT_KEYS)
    return orjson.dumps({**receipt, "sha256": hashlib.sha256(text).hexdigest()}, option=orjson.OPT_SORT_KEYS).decode()
