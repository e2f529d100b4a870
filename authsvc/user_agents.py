"""Names the browser and system of a user agent, for display only."""

from __future__ import annotations

from authsvc.display_text import short_text

_MAX_LENGTH = 60
# The first match counts: a browser also names the browsers that it descends from.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def describe(user_agent: str | None) -> str:
    """A short name such as "Firefox on Windows"; empty when the user agent is unknown.

    Returns the user agent itself in one short line when it is not a browser's.
    """
    browser, system = parse(user_agent)
    return f"{browser} on {system}" if system else browser


def parse(user_agent: str | None) -> tuple[str, str]:
    """The names of the browser and its system, both of them empty when the user agent is unknown.

    For another program, the first is the user agent in one short line.
    """
    text = user_agent or ""
    if not text.startswith("Mozilla/"):
        return short_text(text[:_MAX_LENGTH]) if text else "", ""
    browser = next((name for token, name in _BROWSERS if token in text), "Browser")
    return browser, next((name for token, name in _SYSTEMS if token in text), "")
