"""Error classes of all apps: unique on the wire, valid codes and statuses, and no unused class."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator

from authsvc.errors import ApiError
from tests.live.servers import PROJECT

APPS = ("authsvc", "accounts", "tokens", "oauthproviders", "oauthserver", "hooks", "mailer")


def subclasses(parent: type[ApiError]) -> Iterator[type[ApiError]]:
    for child in parent.__subclasses__():
        if child.__module__.partition(".")[0] in APPS:
            yield child
            yield from subclasses(child)


def error_classes() -> set[type[ApiError]]:
    for app in APPS:
        for module in pkgutil.walk_packages(importlib.import_module(app).__path__, f"{app}."):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    return set(subclasses(ApiError))


def test_errors_are_unique() -> None:
    messages = defaultdict(set)
    for error in error_classes():
        # Texts that a constructor builds differ by its arguments.
        if "message" in vars(error):
            messages[error.status, error.error_code, error.message].add(error.__name__)
    assert [names for names in messages.values() if len(names) > 1] == []


def test_errors_have_valid_code_and_status() -> None:
    for error in error_classes():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", error.error_code), error
        assert 400 <= error.status <= 599, error


def test_every_error_is_used() -> None:
    sources = [path.read_text() for app in APPS for path in (PROJECT / app).rglob("*.py")]
    uses = [text for source in sources for text in re.findall(r"\w+", re.sub(r"class \w+", "", source))]
    unused = {error.__name__ for error in error_classes()} - set(uses)
    assert unused == set()
