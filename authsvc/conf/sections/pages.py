"""Settings of the hosted pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from authsvc.conf.declaration import setting, settings_by_key
from authsvc.conf.report import SettingsReport
from authsvc.conf.value_types import BOOLEAN, TEXT, ValueType, quote

PAGE_LINKS = ("terms", "privacy", "support", "imprint")
"""Links in the footer of each page, in this order."""
_COLOR = re.compile(r"#[0-9a-f]{6}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\uffff\"'<>\\^`{|}]")
"""Characters that no URL contains unescaped (RFC 3986 §2); a host name outside ASCII is written in Punycode."""
_HOST = re.compile(r"[a-zA-Z0-9.-]+(?::[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](?::[0-9]{1,5})?")


def _parse_color(text: str) -> str:
    lowered = text.strip().lower()
    if lowered and _COLOR.fullmatch(lowered) is None:
        raise ValueError("must be six hexadecimal digits after #, such as #0f766e")
    return lowered


def _parse_logo(text: str) -> str:
    if text and not _is_url(text, schemes=("https",)):
        raise ValueError("must be an https URL, or a path that begins with one /")
    return text


def _parse_link(text: str) -> str:
    if text and not _is_url(text, schemes=("https", "http")) and not _is_email_link(text):
        raise ValueError("must be an http(s) URL, a path that begins with one /, or mailto: with an address")
    return text


def _is_url(text: str, *, schemes: tuple[str, ...]) -> bool:
    """True for an absolute URL with one of these schemes and no user name, and for a path on this host."""
    if _UNSAFE.search(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if not parts.scheme and not parts.netloc:
        return text.startswith("/")
    return parts.scheme in schemes and _HOST.fullmatch(parts.netloc) is not None


def _is_email_link(text: str) -> bool:
    return text.startswith("mailto:") and "@" in text and not _UNSAFE.search(text)


_COLOR_TYPE = ValueType("color", _parse_color, "color (`#rrggbb`)")
_LOGO = ValueType("URL", _parse_logo, "https URL, or path")
_LINK = ValueType("URL", _parse_link, "URL, path or `mailto:`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of this service below `/account/`."""

    enabled: bool = setting(
        "AUTH_PAGES_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Serve pages for users below `/account/`: sign-in, sign-up, recovery, second factor and the account.",
    )
    account_deletion_enabled: bool = setting(
        "AUTH_PAGES_ACCOUNT_DELETION_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Let users delete their account on its pages.",
    )
    name: str = setting(
        "AUTH_PAGES_NAME",
        type=TEXT,
        default="",
        help="Name above each page and in its title; empty = the host of AUTH_SITE_URL.",
        example="Example Ltd.",
    )
    logo: str = setting(
        "AUTH_PAGES_LOGO_URL",
        type=_LOGO,
        default="",
        help="Image to show instead of the name, at most 56 pixels high.",
        example="https://cdn.example.com/logo.svg",
    )
    color: str = setting(
        "AUTH_PAGES_COLOR",
        type=_COLOR_TYPE,
        default="",
        help="Color of buttons; that of links is derived from it, with enough contrast. Empty = blue.",
        example="#0f766e",
    )
    sign_in_text: str = setting(
        "AUTH_PAGES_SIGN_IN_TEXT",
        type=TEXT,
        default="",
        help="Note on the sign-in page, as plain text.",
        example="Use the account of your department.",
    )
    links: Mapping[str, str] = settings_by_key(
        "AUTH_PAGES_<LINK>_URL",
        type=_LINK,
        keys=PAGE_LINKS,
        help="Link in the footer of each page.",
        example="https://example.com/privacy",
    )
    templates_folder: str = setting(
        "AUTH_PAGES_TEMPLATES_FOLDER",
        type=TEXT,
        default="",
        restart=True,
        help="Folder with templates that replace or extend those of the pages: `pages/<name>.html`.",
        example="/etc/authsvc/templates",
    )


def check_pages(pages: Pages, report: SettingsReport) -> None:
    if pages.templates_folder and not Path(pages.templates_folder).is_dir():
        report.error("AUTH_PAGES_TEMPLATES_FOLDER", f"{quote(pages.templates_folder)} is not a folder")
