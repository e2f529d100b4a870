"""Runs the shared conformance scenarios against this server over HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests import ports
from tests.live import servers

FOLDER = servers.PROJECT.parent / "shared" / "conformance"

if not (FOLDER / "conformance.py").is_file():
    pytest.skip(f"no conformance scenarios at {FOLDER}", allow_module_level=True)


def _load() -> ModuleType:
    # Write no bytecode into a directory outside the project.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        specification = importlib.util.spec_from_file_location("conformance", FOLDER / "conformance.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


conformance: Any = _load()
conformance.load("oauth_server", "hooks", "wallets")
conformance.engine.RECEIVER.port = ports.free_port()
SCENARIOS: dict[str, tuple[str, Any]] = conformance.engine.SCENARIOS
# UUIDs are numbered in their order. The fabricated identity of a duplicate sign-up shifts those of the next step.
_RENUMBERED = (
    "id", "identities[0].id", "identities[0].identity_data.sub", "identities[0].identity_id", "identities[0].user_id",
    "user_metadata.sub",
)  # fmt: skip
DEVIATIONS: list[dict[str, str]] = [
    *json.loads((FOLDER / "deviations.json").read_text()),
    *(
        {"scenario": "sign_up_twice", "step": "old password still holds", "path": f".body.user.{member}"}
        for member in _RENUMBERED
    ),
]


INEXACT = [deviation for deviation in DEVIATIONS if not conformance.SAYS & deviation.keys()]
"""Deviations that permit any value; `conformance.ruled` applies the others to the recorded responses."""


def is_permitted(scenario: str, step: str, path: str) -> bool:
    permitted: bool = conformance.allowed(INEXACT, scenario, step, path)
    return permitted


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Any]:
    """The mail server of all profiles."""
    server = conformance.engine.Mailbox(ports.free_port())
    server.controller.start()
    yield server
    server.controller.stop()


@pytest.fixture(scope="module")
def url_of(mailbox: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """`url_of(profile)` returns the address of the server with that profile, which starts on first use."""
    urls: dict[str, str] = {}
    with contextlib.ExitStack() as running:

        def address(profile: str) -> str:
            if profile not in urls:
                port = ports.free_port()
                needed = conformance.settings(profile, port, mailbox.controller.port)
                server = servers.LiveServer(
                    folder=tmp_path_factory.mktemp(profile),
                    database_url=running.enter_context(servers.fresh_database()),
                    env={f"AUTH_{name}": value for name, value in needed.items()},
                    port=port,
                )
                urls[profile] = running.enter_context(server).url
            return urls[profile]

        yield address


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_responses_match_recordings(name: str, url_of: Callable[[str], str], mailbox: Any) -> None:
    profile, _ = SCENARIOS[name]

    steps, trouble = conformance.run(name, {profile: url_of(profile)}, mailbox)

    recorded = json.loads(conformance.golden_file(FOLDER / "golden", name).read_text())
    differences = [
        f"step {number} {expected['what']!r} {path}: {difference}"
        for number, (expected, step) in enumerate(zip(recorded, steps, strict=False), start=1)
        for path, difference in conformance.engine.differences(
            conformance.ruled(expected["answer"], DEVIATIONS, name, expected["what"]), step["answer"]
        )
        if not is_permitted(name, expected["what"], path)
    ]
    assert not differences, "\n".join([*differences, trouble or ""])
    assert trouble is None, trouble
    assert len(steps) == len(recorded)
