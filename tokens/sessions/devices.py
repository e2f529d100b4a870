"""A user agent in a few words, such as "Firefox on Windows"; for people to recognise, not for rules to rely on."""

from __future__ import annotations

_LONGEST = 60
# The first that occurs counts: browsers name those they descend from as well.
_PROGRAMS = (
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
    """What is not a browser is shown as it names itself; empty when nothing is known."""
    text = user_agent or ""
    if not text.startswith("Mozilla/"):
        return text[:_LONGEST]
    program = next((name for mark, name in _PROGRAMS if mark in text), "Browser")
    system = next((name for mark, name in _SYSTEMS if mark in text), "")
    return f"{program} on {system}" if system else program
