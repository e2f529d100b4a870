"""Public names, structure of the package, hooks and logging."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import pkgutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import catalogclient
from catalogclient import RequestInfo, ResponseInfo, RestCatalogOptions, RetryInfo
from catalogclient._options import MutationOptions, OptionFields
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

FOLDER = Path(catalogclient.__file__).parent
ENVIRONMENT = {"PYTHONPATH": str(FOLDER.parent)}


def modules() -> list[str]:
    result = pkgutil.walk_packages([str(FOLDER)], "catalogclient.")
    return [module.name for module in result if not module.name.endswith("__main__") and "._cli" not in module.name]


def test_every_public_name_is_listed() -> None:
    # Type checkers take `name as name` for a public name.
    listed = {
        alias.asname or alias.name
        for node in ast.parse((FOLDER / "__init__.py").read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } | {"ICEBERG_REST_SPEC_TAG", "ICEBERG_REST_SPEC_URL"}
    assert {name for name in dir(catalogclient) if not name.startswith("_")} | {"__version__"} <= listed
    for name in listed:
        assert getattr(catalogclient, name) is not None


def test_every_module_docstring_begins_with_one_sentence() -> None:
    for name in modules():
        text = importlib.import_module(name).__doc__ or ""
        assert text.partition("\n\n")[0].rstrip().endswith((".", '."')), name


def test_every_public_method_has_a_docstring() -> None:
    for name in dir(catalogclient.RestCatalog):
        if not name.startswith("_") and callable(getattr(catalogclient.RestCatalog, name)):
            assert getattr(catalogclient.RestCatalog, name).__doc__, name


@pytest.mark.parametrize("module", ["", ".changes", ".credentials", ".expressions", ".requirements", ".updates"])
def test_every_public_function_has_a_docstring(module: str) -> None:
    names = vars(importlib.import_module(f"catalogclient{module}")).items()
    functions = {name: value for name, value in names if inspect.isfunction(value) and not name.startswith("_")}
    assert functions
    assert not [name for name, function in functions.items() if not function.__doc__]


def test_keywords_of_the_catalog_are_the_fields_of_the_options() -> None:
    fields = set(RestCatalogOptions.__dataclass_fields__)
    assert set(OptionFields.__annotations__) | {"base_url"} == fields


def test_no_module_of_the_server_or_of_an_extra_is_imported() -> None:
    allowed = {"catalogclient", "requests", "urllib3", "__future__"}
    for path in FOLDER.rglob("*.py"):
        if "_cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                extra = path.name == "_async_transport.py" and top in ("httpx", "certifi")
                assert extra or top in allowed or top in sys.stdlib_module_names, (path, name)


@pytest.mark.parametrize(
    "program", ["import catalogclient", "from catalogclient import *", "import catalogclient._cli.run"]
)
def test_requests_is_imported_with_the_first_request(program: str) -> None:
    program = f"""
import sys
{program}
from catalogclient import RestCatalog
print(sorted({{"requests", "urllib3", "ssl", "http.client"}} & set(sys.modules)))
with RestCatalog("http://127.0.0.1:9", retry=None) as catalog:
    print("requests" in sys.modules)
    try:
        catalog.list_namespaces()
    except Exception:
        print("requests" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.stdout.split("\n")[:3] == ["[]", "False", "True"], run.stdout + run.stderr


def test_call_options_are_the_same_for_all() -> None:
    assert set(typing.get_type_hints(MutationOptions)) == {"timeout", "headers", "idempotency_key"}


class Spectator:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_request(self, info: RequestInfo) -> None:
        self.seen.append(info)

    def on_response(self, info: ResponseInfo) -> None:
        self.seen.append(info)

    def on_retry(self, info: RetryInfo) -> None:
        self.seen.append(info)


class Heckler(Spectator):
    def on_request(self, info: RequestInfo) -> None:
        raise ValueError("boo")

    def on_response(self, info: ResponseInfo) -> None:
        raise ValueError("boo")

    def on_retry(self, info: RetryInfo) -> None:
        raise ValueError("boo")


def test_hooks_receive_every_attempt_and_cannot_fail_it(
    peer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "catalogclient")
    peer.respond(Response(status=503), Response(raw=b"", close=True), in_json({}))
    spectator = Spectator()
    connect(hooks=[Heckler(), spectator]).list_tables("private.names")
    logged = [type(info).__name__ for info in spectator.seen]
    once = ["RequestInfo", "ResponseInfo"]
    assert logged == [*once, "RetryInfo", *once, "RetryInfo", *once]
    first, answered, pausing, _, lost = spectator.seen[:5]
    assert (first.operation, first.method, first.attempt) == ("list_tables", "GET", 1)
    assert first.path_template == "/v1/{prefix}/namespaces/{namespace}/tables"
    assert (answered.status, answered.error) == (503, None)
    assert answered.elapsed > 0
    assert (pausing.status, pausing.attempt) == (503, 1)
    assert (lost.status, lost.error, lost.attempt) == (0, "NetworkError", 2)
    assert "private" not in repr(spectator.seen)
    assert "a request hook raised ValueError" in caplog.text


def test_the_log_has_a_line_for_every_attempt(
    peer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "catalogclient")
    kind = {"Content-Type": "application/json", "X-Request-Id": "r-1"}
    peer.respond(Response(status=503), Response(headers=kind, body=b"{}"))
    connect().list_namespaces(page_token="hidden")
    lines = [f"{record.levelname} {record.name} {record.getMessage()}" for record in caplog.records]
    assert len(lines) == 3
    assert "list_namespaces" in lines[0]
    assert "status 503" in lines[0]
    assert lines[1].startswith("WARNING catalogclient.http")
    assert "attempt 2" in lines[2]
    assert "r-1" in lines[2]
    assert "hidden" not in caplog.text
