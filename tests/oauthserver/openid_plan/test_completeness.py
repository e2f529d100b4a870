"""Each module of the plans has one test, and the documents name each one that is skipped or differs."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.live.servers import PROJECT
from tests.oauthserver.openid_plan import plans
from tests.oauthserver.openid_plan.plans import PLANS, Result

PAGE = PROJECT / "docs" / "reference" / "standards.md"


def _tests() -> Iterator[tuple[plans.Module, str]]:
    """The module of each test, with the docstring of the test."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        tests = importlib.import_module(f"{__package__}.{path.stem}")
        for name, test in vars(tests).items():
            if name.startswith("test_") and (found := plans.module_of(test)) is not None:
                yield found, test.__doc__ or ""


@cache
def results() -> dict[str, Result]:
    return {found.name: found.result for found, _ in _tests()}


def rows_of(pattern: str) -> list[tuple[str, ...]]:
    """The groups of each row of a table that matches."""
    return [match.groups() for match in re.finditer(pattern, PAGE.read_text(encoding="utf-8"), re.MULTILINE)]


def test_each_module_has_one_test() -> None:
    assert {name for modules in PLANS.values() for name in modules} == results().keys()
    assert max(Counter(found.name for found, _ in _tests()).values()) == 1
    assert all(text.startswith(f"{found.name}: ") for found, text in _tests())


def test_documents_name_the_other_results() -> None:
    documented = {name: result for name, result, _reason in rows_of(r"^\| `(oidcc-[\w-]+)` \| ([a-z]+) \| (.+) \|$")}
    others = {name: result.value for name, result in results().items() if result is not Result.PASSED}
    assert documented == others


def test_documents_state_the_number_of_each_result() -> None:
    documented = {
        plan: tuple(map(int, numbers))
        for plan, *numbers in rows_of(r"^\| `(oidcc-[\w-]+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$")
    }
    expected = {}
    for plan, modules in PLANS.items():
        count = Counter(results()[name] for name in modules)
        expected[plan] = (len(modules), *(count[result] for result in Result))
    assert documented == expected
