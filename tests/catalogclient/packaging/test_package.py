"""The built package: installed into a clean environment, imported and type-checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import catalogclient
from tests.catalogclient import type_checkers
from tests.catalogclient.documentation import blocks

PACKAGE = Path(__file__).parents[3] / "catalogclient"
UV = Path(sys.executable).with_name("uv")
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
"""File times of the archives."""

USER_SCRIPT = """\
from collections.abc import Iterator

from catalogclient import (
    AsyncRestCatalog,
    BearerAuth,
    CatalogError,
    LoadTableResult,
    RawResponse,
    RestCatalog,
    TableIdentifier,
    changes,
    requirements,
    updates,
)
from catalogclient.types import Schema, TableMetadata


def names(catalog: RestCatalog) -> Iterator[TableIdentifier]:
    for namespace in catalog.iter_namespaces(recursive=True):
        yield from catalog.iter_tables(namespace)


def changed(catalog: RestCatalog, tag: str) -> TableMetadata | None:
    return catalog.load_table("a.t", if_none_match=tag)


def loaded(catalog: RestCatalog) -> LoadTableResult:
    return catalog.load_table_result(("a", "t"), snapshots="refs")


def touch(catalog: RestCatalog, metadata: TableMetadata) -> str:
    sent = updates.combine(updates.set_properties({"a": "b"}), updates.remove_properties(["c"]))
    conditions = requirements.for_update(metadata, sent)
    conditions = requirements.combine(*conditions, requirements.assert_ref_snapshot_id("main", None))
    return catalog.update_table("a.t", requirements=conditions, updates=sent).metadata_location


def prefixes(catalog: RestCatalog, raw: bool) -> list[str]:
    result = catalog.load_table_result("a.t")
    unread = catalog.load_table_result("a.t", raw=raw)
    assert isinstance(unread, LoadTableResult | RawResponse)
    return [credential["prefix"] for credential in result["storage-credentials"]]


def location(catalog: RestCatalog) -> str:
    metadata = catalog.load_table("a.t", snapshots="refs", referenced_by=["a.v"], timeout=5)
    result = catalog.load_table_result("a.t", access_delegation=None)
    unread = catalog.load_table_result("a.t", raw=True)
    return metadata["table-uuid"] + result.metadata["table-uuid"] + (unread.text if unread is not None else "")


async def changed_by_name(catalog: AsyncRestCatalog) -> str:
    result = await catalog.commit("a.t", changes.add_column("note", "string"), updates.set_properties({"a": "b"}))
    names = [table.name async for table in catalog.iter_tables("a")]
    return result.metadata_location + "".join(names)


schema: Schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": True}]}
try:
    RestCatalog("http://127.0.0.1:9", auth=BearerAuth("token")).create_table("a", {"name": "t", "schema": schema})
except CatalogError as error:
    status: int = error.status
"""
WRONG_SCRIPT = """\
from catalogclient import OAuth2ClientCredentials, RestCatalog

RestCatalog("http://127.0.0.1:9").list_tables("a", no_such_option=1)
location: str = RestCatalog("http://127.0.0.1:9").load_table("a.t", if_none_match="x")["location"]
RestCatalog("http://127.0.0.1:9").load_table("a.t", snapshots="none")
OAuth2ClientCredentials("id", "secret", client_auth="none")
"""
WRONG_LINES = {f"wrong.py:{number}" for number in (4, 5, 6, 7)}
BEFORE_HANDOVER = "from catalogclient import RestCatalog\n\ncatalog = RestCatalog('http://127.0.0.1')\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    sdist: Path
    wheel: Path
    python: Path
    """Interpreter of an environment with the wheel and its dependencies."""


def _run(*command: str | Path, folder: Path | None = None, variables: dict[str, str] | None = None) -> str:
    # Without variables that refer to this checkout.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "MYPY"))}
    env |= variables or {}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("package")
    _run(UV, "build", "-q", "--python", sys.executable, "--out-dir", folder / "dist", PACKAGE, variables=EPOCH)
    [sdist] = (folder / "dist").glob("*.tar.gz")
    [wheel] = (folder / "dist").glob("*.whl")
    _run(UV, "venv", "-q", "--python", sys.executable, folder / "clean")
    python = folder / "clean" / "bin" / "python"
    _run(UV, "pip", "install", "-q", "--python", python, wheel)
    return Built(sdist=sdist, wheel=wheel, python=python)


def test_the_wheel_is_universal_and_contains_only_the_package(built: Built) -> None:
    assert built.wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(built.wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"catalogclient"}
    assert "catalogclient/py.typed" in names


def test_the_wheel_is_reproducible(built: Built, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    command: list[str | Path] = [
        UV,
        "build",
        "-q",
        "--wheel",
        "--python",
        sys.executable,
        "--out-dir",
        tmp_path,
        tmp_path / "source",
    ]
    _run(*command, variables=EPOCH)
    [wheel] = tmp_path.glob("*.whl")
    # The other wheel was built from the source distribution.
    assert wheel.read_bytes() == built.wheel.read_bytes()


def test_the_metadata_has_urls_and_a_console_script(built: Built) -> None:
    archive = zipfile.ZipFile(built.wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
    text = archive.read(metadata).decode()
    assert "Project-URL: Specification, https://" in text
    assert not re.findall(r"\]\((?!https?://|#)[^)]*\)", text), "a relative link leads nowhere outside the sources"
    script = built.python.with_name("catalogclient")
    run = subprocess.run([script, "list"], capture_output=True, text=True, check=False)
    assert "catalogclient[cli]" in run.stderr


def test_the_sdist_contains_the_documents(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    documents = {"README.md", "CHANGELOG.md", "docs/handover.md", "docs/reference.md"}
    assert {*documents, "pyproject.toml", "src/catalogclient/py.typed"} <= names
    assert not any(name.startswith("tests") or "__pycache__" in name for name in names)


def test_requests_is_the_only_dependency(built: Built) -> None:
    listed = _run(UV, "pip", "list", "--python", built.python, "--format", "freeze")
    names = {line.partition("==")[0].partition(" @")[0] for line in listed.splitlines()}
    assert names == {"catalogclient", "requests", "certifi", "charset-normalizer", "idna", "urllib3"}


def test_the_installed_package_has_its_version(built: Built, tmp_path: Path) -> None:
    program = (
        "import catalogclient, importlib.metadata as m; "
        "print(catalogclient.__file__, catalogclient.__version__ == m.version('catalogclient'))"
    )
    path, same = _run(built.python, "-W", "error", "-c", program, folder=tmp_path).split()
    assert Path(path).is_relative_to(built.python.parents[1])
    assert same == "True"


def test_every_public_name_is_there(built: Built, tmp_path: Path) -> None:
    names = sorted(name for name in dir(catalogclient) if not name.startswith("_"))
    program = "import catalogclient as c; print(sorted(name for name in dir(c) if not name.startswith('_')))"
    assert len(names) > 50
    assert _run(built.python, "-c", program, folder=tmp_path).strip() == str(names)


def test_the_command_line_reports_a_missing_extra(built: Built, tmp_path: Path) -> None:
    run = subprocess.run(
        [built.python, "-m", "catalogclient", "list"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "catalogclient[cli]" in run.stderr


def test_the_extra_cli_installs_the_command_line(built: Built, tmp_path: Path) -> None:
    _run(UV, "venv", "-q", "--python", sys.executable, tmp_path / "extra")
    python = tmp_path / "extra" / "bin" / "python"
    _run(UV, "pip", "install", "-q", "--python", python, f"catalogclient[cli] @ {built.wheel.as_uri()}")
    assert "exit status" in _run(python, "-m", "catalogclient", "--help", folder=tmp_path)


@pytest.fixture
def user_code(tmp_path: Path) -> Path:
    """Folder with two programs and the examples of both documents."""
    (tmp_path / "right.py").write_text(f"# pyright: strict\n{USER_SCRIPT}")
    (tmp_path / "wrong.py").write_text(f"# pyright: strict\n{WRONG_SCRIPT}")
    (tmp_path / "readme.py").write_text("\n".join(["# pyright: strict", *blocks.blocks(blocks.README, "python")]))
    (tmp_path / "handover.py").write_text(BEFORE_HANDOVER + "\n".join(blocks.blocks(blocks.HANDOVER, "python")))
    return tmp_path


def test_mypy_infers_types_in_user_code(built: Built, user_code: Path) -> None:
    # Other packages without types are ignored.
    settings = "[mypy-pyarrow.*,duckdb.*,pyiceberg.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    files = ["right.py", "wrong.py", "readme.py", "handover.py"]
    assert type_checkers.mypy(user_code, files, python=built.python, settings=settings) == WRONG_LINES


def test_pyright_infers_types_in_user_code(built: Built, user_code: Path) -> None:
    # The other document uses libraries without types.
    files = ["right.py", "wrong.py", "readme.py"]
    assert type_checkers.pyright(user_code, files, python=built.python) == WRONG_LINES


def test_pyright_reports_no_error_in_the_library(tmp_path: Path) -> None:
    files = [os.path.relpath(PACKAGE / "src" / "catalogclient", tmp_path)]
    assert not type_checkers.pyright(tmp_path, files, python=sys.executable, source=PACKAGE / "src")
