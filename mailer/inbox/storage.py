"""Development only: keeps what would have been sent in a folder that all serving processes share."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from authsvc import conf

CAPACITY = 200
"""Letters kept; the oldest go first."""

_ID = re.compile(r"[0-9]{20}-[0-9a-f]{8}")
_ACTION_LINK = re.compile(r"https?://[^\s<>\"']+[?&](?:token|token_hash)=[^\s<>\"']+")
_ADDRESS = re.compile(r"\w+://\S+")
_CODE = re.compile(r"(?<![\w+-])[0-9]{6,10}(?![\w-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One mail or text message as it was handed over for delivery."""

    id: str
    """Time and chance; sorts by the time of arrival."""
    channel: str
    """`email`, or the channel of a text message: `sms`, `whatsapp`."""
    to: str
    subject: str = field(repr=False)
    html: str = field(repr=False)
    text: str = field(repr=False)
    message_id: str

    @property
    def kept_at(self) -> datetime:
        return datetime.fromtimestamp(int(self.id[:20]) / 1e9, UTC)

    @property
    def link(self) -> str:
        """The action link in the text, or nothing."""
        found = _ACTION_LINK.search(self.text)
        return found.group() if found else ""

    @property
    def code(self) -> str:
        """The code in the text or else in the subject, or nothing."""
        found = _CODE.search(_ADDRESS.sub("", self.text)) or _CODE.search(self.subject)
        return found.group() if found else ""


def keep(*, channel: str, to: str, subject: str, html: str, text: str, message_id: str) -> None:
    """Keep one message as the newest; does nothing while the inbox is off.

    Raises OSError when the folder cannot be written.
    """
    if not conf.current().mailer.dev_inbox_enabled:
        return
    letter = Letter(
        id=f"{time.time_ns():020d}-{secrets.token_hex(4)}",
        channel=channel,
        to=to,
        subject=subject,
        html=html,
        text=text,
        message_id=message_id,
    )
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = folder / f"{letter.id}.part"
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(letter), file)
    unfinished.replace(folder / f"{letter.id}.json")  # readers never see half a letter
    for name in sorted(_names(".json", ".part"), reverse=True)[CAPACITY:]:
        (folder / name).unlink(missing_ok=True)


def letters() -> list[Letter]:
    """All letters kept, the newest first."""
    names = sorted(_names(".json"), reverse=True)
    found = (letter(name.removesuffix(".json")) for name in names[:CAPACITY])
    return [kept for kept in found if kept is not None]


def letter(letter_id: str) -> Letter | None:
    """One letter; None when there is none of that id (any more)."""
    if not _ID.fullmatch(letter_id):
        return None
    try:
        return Letter(**json.loads((_folder() / f"{letter_id}.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _names(*suffixes: str) -> list[str]:
    """File names in the folder that are ours."""
    folder = _folder()
    entries = folder.iterdir() if folder.is_dir() else ()
    return [entry.name for entry in entries if entry.suffix in suffixes and _ID.fullmatch(entry.stem)]


def _folder() -> Path:
    return Path(settings.DEV_INBOX_FOLDER)
