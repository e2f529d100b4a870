"""Development only: stores messages in a folder that all serving processes share."""

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
"""Maximum number of stored messages; the oldest are deleted first."""

_ID = re.compile(r"[0-9]{20}-[0-9a-f]{8}")
_ACTION_LINK = re.compile(r"https?://[^\s<>\"']+[?&](?:token|token_hash)=[^\s<>\"']+")
_ADDRESS = re.compile(r"\w+://\S+")
_CODE = re.compile(r"(?<![\w+-])[0-9]{6,10}(?![\w-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """One email or SMS as it was delivered."""

    id: str
    """Time in nanoseconds and random digits; sorts by the time of arrival."""
    channel: str
    """`email`, `sms` or `whatsapp`."""
    to: str
    subject: str = field(repr=False)
    html: str = field(repr=False)
    text: str = field(repr=False)
    message_id: str

    @property
    def received_at(self) -> datetime:
        return datetime.fromtimestamp(int(self.id[:20]) / 1e9, UTC)

    @property
    def link(self) -> str:
        """The action link in the text, or an empty string."""
        match = _ACTION_LINK.search(self.text)
        return match.group() if match else ""

    @property
    def code(self) -> str:
        """The code in the text or else in the subject, or an empty string."""
        match = _CODE.search(_ADDRESS.sub("", self.text)) or _CODE.search(self.subject)
        return match.group() if match else ""


def save_message(*, channel: str, to: str, subject: str, html: str, text: str, message_id: str) -> None:
    """Store one message, if the inbox is enabled. Raises OSError if the folder is not writable."""
    if not conf.current().mailer.dev_inbox_enabled:
        return
    message = InboxMessage(
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
    unfinished = folder / f"{message.id}.part"
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(message), file)
    unfinished.replace(folder / f"{message.id}.json")  # readers never see an incomplete file
    for name in sorted(_names(".json", ".part"), reverse=True)[CAPACITY:]:
        (folder / name).unlink(missing_ok=True)


def list_messages() -> list[InboxMessage]:
    """All stored messages, the newest first."""
    names = sorted(_names(".json"), reverse=True)
    messages = (get_message(name.removesuffix(".json")) for name in names[:CAPACITY])
    return [message for message in messages if message is not None]


def get_message(inbox_id: str) -> InboxMessage | None:
    """One stored message, or None if it does not exist."""
    if not _ID.fullmatch(inbox_id):
        return None
    try:
        return InboxMessage(**json.loads((_folder() / f"{inbox_id}.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _names(*suffixes: str) -> list[str]:
    """Names of message files in the folder."""
    folder = _folder()
    entries = folder.iterdir() if folder.is_dir() else ()
    return [entry.name for entry in entries if entry.suffix in suffixes and _ID.fullmatch(entry.stem)]


def _folder() -> Path:
    return Path(settings.DEV_INBOX_FOLDER)
