"""Settings of the languages of hosted pages and messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.value_types import TEXT, ValueType, quote

ENGLISH = "en"
"""The language of the texts in the source."""
_BUILT_IN = Path(__file__).resolve().parents[3] / "locale"
_CODE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*")


def _parse_languages(text: str) -> tuple[str, ...]:
    codes = [item.strip().lower().replace("_", "-") for item in text.split(",") if item.strip()]
    for code in codes:
        if _CODE.fullmatch(code) is None:
            raise ValueError(f"{quote(code)} is not a language, such as en or pt-br")
    return tuple(dict.fromkeys(codes))


_LANGUAGES = ValueType("list of languages", _parse_languages, "languages, with commas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Languages:
    """The API, the console and the logs are English."""

    offered: tuple[str, ...] = setting(
        "AUTH_LANGUAGES",
        type=_LANGUAGES,
        default=(),
        help="Languages of hosted pages and messages; the first one is the default. Empty = English, and with"
        " AUTH_PAGES_ENABLED every other language that has texts.",
        example="en,de",
    )
    folder: str = setting(
        "AUTH_LANGUAGES_FOLDER",
        type=TEXT,
        default="",
        restart=True,
        help="Folder with texts of further languages, and with texts that replace built-in ones:"
        " `<language>/LC_MESSAGES/django.mo`.",
        example="/etc/authsvc/locale",
    )


def folders(languages: Languages) -> tuple[Path, ...]:
    """The folders with texts; those of the first folder replace those of the second."""
    return (Path(languages.folder), _BUILT_IN) if languages.folder else (_BUILT_IN,)


@cache
def installed(languages: Languages) -> tuple[str, ...]:
    """English, then the other languages that have texts."""
    files = (file for folder in folders(languages) for file in folder.glob("*/LC_MESSAGES/django.mo"))
    found = {file.parts[-3].lower().replace("_", "-") for file in files}
    return (ENGLISH, *sorted(found - {ENGLISH}))


def check_languages(languages: Languages, report: SettingsReport) -> None:
    if languages.folder and not Path(languages.folder).is_dir():
        report.error("AUTH_LANGUAGES_FOLDER", f"{quote(languages.folder)} is not a folder")
    if unknown := [code for code in languages.offered if code not in installed(languages)]:
        report.error(
            "AUTH_LANGUAGES", f"no texts for {', '.join(unknown)}; there are {', '.join(installed(languages))}"
        )
