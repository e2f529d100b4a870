"""The appearance of the pages by settings: name, logo, color, note and links."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from authsvc import conf

_LINK_TEXTS: dict[str, str | Promise] = {
    "terms": _("Terms of service"),
    "privacy": _("Privacy"),
    "support": _("Support"),
    "imprint": _("Imprint"),
}
_Rgb = tuple[float, float, float]
_BLACK, _WHITE = "#000000", "#ffffff"
_LIGHT_PAGE, _DARK_SURFACE = "#f3f4f6", "#111a2b"
"""The backgrounds of `pages.css` on which text has the least contrast: the darker light one, the lighter dark one."""
_MIN_CONTRAST = 4.5
"""Of text (WCAG 2.2, 1.4.3)."""
_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Variables of every template."""

    name: str
    logo: str
    """The URL of an image to show instead of the name; empty without one."""
    style: SafeString
    """Custom properties for the style sheet; empty for the default color."""
    sign_in_text: str
    links: Sequence[tuple[str | Promise, str]]
    """Texts and URLs."""
    style_source: str
    """The style in the Content-Security-Policy."""
    image_source: str
    """The origin of the logo in the Content-Security-Policy; empty for this origin."""


def current() -> Theme:
    """The theme of the settings, in the active language."""
    config = conf.current()
    style, digest = color_style(config.pages.color) if config.pages.color else (mark_safe(""), "")
    logo = urlsplit(config.pages.logo)
    return Theme(
        name=config.pages.name or urlsplit(config.site.url).hostname or "",
        logo=config.pages.logo,
        style=style,
        # An operator may have translations of this text.
        sign_in_text=gettext(config.pages.sign_in_text),
        links=[(_LINK_TEXTS[link], url) for link in conf.PAGE_LINKS if (url := config.pages.links.get(link))],
        style_source=f"'sha256-{digest}'" if digest else "",
        image_source=f"{logo.scheme}://{logo.netloc}" if logo.netloc else "",
    )


@lru_cache(maxsize=8)
def color_style(color: str) -> tuple[SafeString, str]:
    """The style for a color, which the settings have validated, and its digest (CSP level 3 §2.3.1)."""
    text = max((_WHITE, _BLACK), key=lambda candidate: contrast(candidate, color))
    link = f"light-dark({readable(color, on=_LIGHT_PAGE)}, {readable(color, on=_DARK_SURFACE)})"
    style = f":root {{ --accent: {color}; --accent-text: {text}; --link: {link}; --focus: {link}; }}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return mark_safe(style), digest  # noqa: S308  (only hexadecimal digits vary)


def readable(color: str, *, on: str) -> str:
    """The color, mixed with as much black or white as text on this background needs."""
    target = max((_BLACK, _WHITE), key=lambda candidate: contrast(candidate, on))
    mixtures = (_mix(color, target, share=step / _STEPS) for step in range(_STEPS + 1))
    return next(mixture for mixture in mixtures if contrast(mixture, on) >= _MIN_CONTRAST)


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colors (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in _rgb(color)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mix(color: str, other: str, *, share: float) -> str:
    mixed = ((1 - share) * value + share * target for value, target in zip(_rgb(color), _rgb(other), strict=True))
    return "#" + "".join(f"{round(value * 255):02x}" for value in mixed)


def _rgb(color: str) -> _Rgb:
    red, green, blue = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue
