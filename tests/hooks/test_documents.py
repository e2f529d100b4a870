"""The programs in the documents of hooks."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from django.db import connection

from authsvc.conf.sections.hooks import Hook
from authsvc.conf.types import Secret
from hooks.invocation import signatures
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tests.hooks.conftest import SetHook
from tests.live.documentation import pages

TUTORIAL = pages.DOCS / "tutorial" / "hooks.md"
EXAMPLES = pages.DOCS / "examples"
SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The files of both pages, in a folder from which they can be imported."""
    files = pages.programs(TUTORIAL) | pages.programs(pages.DOCS / "how-to" / "hooks.md")
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    yield files
    for name in [name for name in sys.modules if name.partition(".")[0] in ("company", "verify")]:
        del sys.modules[name]


def plan_in_token(api: Api) -> object:
    response = api.post("/signup", {"email": "ada@example.com", "password": PASSWORD})
    token = response.json()["access_token"]
    return jwt.decode(token, options={"verify_signature": False})["plan"]


@pytest.mark.django_db
def test_the_function_in_python(
    api: Api, programs: dict[str, str], set_hook: SetHook, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"autoconfirm": True})
    block = pages.blocks(TUTORIAL, "ini")[0]
    set_hook(Hook.CUSTOM_ACCESS_TOKEN, uri=block.splitlines()[1].partition("=")[2])
    assert plan_in_token(api) == "free"
    importlib.import_module("company.test_hooks").test_users_without_a_plan_have_the_free_one()


@pytest.mark.django_db
@pytest.mark.usefixtures("programs")
def test_the_sign_up_rule_of_the_example_package(api: Api, set_hook: SetHook) -> None:
    set_hook(Hook.BEFORE_USER_CREATED, uri="python:company.sign_ups:require_company_address")
    for email, status in (("ada@example.com", 200), ("ada@other.example", 403)):
        response = api.post("/signup", {"email": email, "password": PASSWORD})
        assert response.status_code == status, response.content


@pytest.mark.django_db
def test_the_function_in_the_database(
    api: Api, programs: dict[str, str], set_hook: SetHook, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"autoconfirm": True})
    with connection.cursor() as cursor:
        cursor.execute(programs["add_plan.sql"])
    block = pages.blocks(TUTORIAL, "ini")[1]
    set_hook(Hook.CUSTOM_ACCESS_TOKEN, uri=block.splitlines()[1].partition("=")[2])
    assert plan_in_token(api) == "free"


def test_the_tutorial_shows_the_example_package() -> None:
    shown = {name: text for name, text in pages.programs(TUTORIAL).items() if name.startswith("company/")}
    assert shown == {name: (EXAMPLES / name).read_text() for name in shown}


def test_the_verification_of_a_signature(programs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    verify = importlib.import_module("verify")
    secrets = [Secret("v1,whsec_" + SECRET[::-1]), Secret(f"v1,whsec_{SECRET}")]
    headers = signatures.signed_headers(secrets, message_id="m", timestamp=1_800_000_000, body=b"{}")
    monkeypatch.setattr("time.time", lambda: 1_800_000_010.0)
    assert verify.is_genuine(headers, b"{}", SECRET)
    assert not verify.is_genuine(headers, b"{} ", SECRET)
    monkeypatch.setattr("time.time", lambda: 1_800_001_000.0)
    assert not verify.is_genuine(headers, b"{}", SECRET)
