"""Checks the recorded responses of the conformance scenarios against the OpenAPI document."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests import openapi
from tests.live import servers

FOLDER = servers.PROJECT.parent / "shared" / "conformance"

if not (FOLDER / "golden").is_dir():
    pytest.skip(f"no conformance scenarios at {FOLDER}", allow_module_level=True)

DEVIATIONS: list[dict[str, str]] = json.loads((FOLDER / "deviations.json").read_text())
FOLDERS = (FOLDER / "golden", *(FOLDER / "golden" / name for name in ("oauth_server", "hooks", "wallets")))
RECORDINGS = sorted(path for folder in FOLDERS for path in folder.glob("*.json"))


def filled_in(value: Any) -> Any:
    """A recorded value with numbers in place of numeric placeholders."""
    if isinstance(value, dict):
        return {key: filled_in(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled_in(inner) for inner in value]
    return 0 if value == "<unix time>" else value


def headers_of(response: dict[str, Any]) -> dict[str, str]:
    headers = {"Content-Type": response.get("type", "")}
    if "redirect" in response:
        parameters = {**response["redirect"]["query"], **response["redirect"]["fragment"]}
        headers["Location"] = f"/?error_code={parameters.get('error_code', '')}"
    body = response.get("body")
    if response["status"] >= 400 and isinstance(body, dict):
        headers["X-Sb-Error-Code"] = body.get("error_code") or body.get("code", "")
    return headers


def is_deviation(scenario: str, step: str) -> bool:
    """Return True if a response is expected to deviate from the recording."""
    return any(
        fnmatch.fnmatchcase(scenario, deviation["scenario"]) and fnmatch.fnmatchcase(step, deviation.get("step", "*"))
        for deviation in DEVIATIONS
    )


@pytest.mark.parametrize("recording", RECORDINGS, ids=[path.stem for path in RECORDINGS])
def test_recorded_responses_match_document(recording: Path) -> None:
    problems = []
    for step in json.loads(recording.read_text()):
        request, response, step_name = step["request"], step["answer"], step["what"]
        if "note" in request:
            continue
        content = orjson.dumps(filled_in(response["body"])) if "body" in response else b""
        wrong = openapi.find_problems(
            request["method"],
            request["path"],
            response["status"],
            headers=headers_of(response),
            content=content,
            checks_formats=False,
        )
        if wrong and not is_deviation(recording.stem, step_name):
            problems += [f"{step_name!r}: {text}" for text in wrong]
    assert not problems, "\n".join(problems)


def test_recordings_cover_most_of_the_api() -> None:
    called = {
        (openapi.find(step["request"]["path"]), step["request"]["method"].lower())
        for recording in RECORDINGS
        for step in json.loads(recording.read_text())
        if "note" not in step["request"]
    }
    operations = {
        (path, method)
        for path, item in openapi.document()["paths"].items()
        for method in item
        if method in openapi.METHODS
    }
    assert len(called & operations) >= 30
