"""Generates a Python and a TypeScript client from the OpenAPI document, checks their types, and signs up with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from authsvc.api.openapi import views
from tests import openapi
from tests.live.clients import node
from tests.live.clients.conftest import Service

_PASSWORD = "correct horse 1"  # the value of the examples; it satisfies the requirements of the service
_PYTHON_PROGRAM = """
import sys
from authsvc_client import AuthenticatedClient, Client
from authsvc_client.api.accounts import post_signup
from authsvc_client.api.administration import get_admin_users
from authsvc_client.models import PostSignupBody, User, UserList

url, admin_token = sys.argv[1:]
body = PostSignupBody(email="generated@example.com", password="{password}")
made = post_signup.sync(client=Client(base_url=url), body=body)
assert isinstance(made, User), made
listed = get_admin_users.sync(client=AuthenticatedClient(base_url=url, token=admin_token), page=1, per_page=1000)
assert isinstance(listed, UserList), listed
assert made.email in [user.email for user in listed.users]
print(made.email)
"""
_TYPESCRIPT_PROGRAM = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.ts";

const [url, adminToken] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });
const made = await client.POST("/signup", { body: { email: "typed@example.com", password: "{password}" } });
if (made.error) throw new Error(JSON.stringify(made.error));
const listed = await client.GET("/admin/users", {
  params: { query: { page: 1, per_page: 1000 } },
  headers: { Authorization: `Bearer ${adminToken}` },
});
if (listed.error) throw new Error(JSON.stringify(listed.error));
const emails: string[] = listed.data.users.map((user) => user.email);
if (!emails.includes("typed@example.com")) throw new Error(emails.join());
console.log(made.response.status);
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory, service: Service) -> Path:
    """The document of the service; the clients are generated beside it."""
    file = tmp_path_factory.mktemp("generated") / "openapi.json"
    file.write_bytes(views.FILE.read_bytes())
    return file


def test_openapi_python_client_generates_every_operation(document: Path, service: Service) -> None:
    generated = document.parent / "python"
    paths = [f"--path={document}", f"--output-path={generated / 'authsvc_client'}"]
    report = _run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--meta=none", *paths], folder=document.parent
    )
    assert "warning" not in report.lower()
    modules = {file.stem for file in (generated / "authsvc_client" / "api").rglob("*.py")} - {"__init__"}
    assert modules == _operation_ids()
    program = generated / "program.py"
    program.write_text(_PYTHON_PROGRAM.replace("{password}", _PASSWORD))
    # client.py is the same for every document; a newer mypy than that of the generator finds faults in it.
    (generated / "mypy.ini").write_text("[mypy]\n[mypy-authsvc_client.client]\nignore_errors = true\n")
    sources = ["program.py", "authsvc_client"]
    _run([sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--cache-dir=cache", *sources], folder=generated)
    printed = _run([sys.executable, str(program), service.url, service.admin_token], folder=generated)
    assert printed.strip() == "generated@example.com"


def test_openapi_typescript_generates_every_operation(document: Path, service: Service) -> None:
    node.install()
    folder = document.parent
    (folder / "node_modules").symlink_to(node.FOLDER / "node_modules")
    modules = folder / "node_modules"
    _run(
        [str(node.NODE), str(modules / ".bin" / "openapi-typescript"), str(document), "-o", "schema.ts"],
        folder=folder,
    )
    generated = (folder / "schema.ts").read_text()
    assert [operation for operation in _operation_ids() if f" {operation}: {{" not in generated] == []
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    program = folder / "program.ts"
    program.write_text(_TYPESCRIPT_PROGRAM.replace("{password}", _PASSWORD))
    # The types of libraries are not checked, which takes 4 s; the generated ones are, because schema.ts is a program.
    checks = ["--noEmit", "--strict", "--skipLibCheck", "--types", "node"]
    options = ["--module", "nodenext", "--target", "es2022", "--allowImportingTsExtensions"]
    _run([str(node.NODE), str(modules / ".bin" / "tsc"), *checks, *options, str(program)], folder=folder)
    printed = _run([str(node.NODE), str(program), service.url, service.admin_token], folder=folder)
    assert printed.strip() == "200"


def _operation_ids() -> set[str]:
    paths = openapi.document()["paths"].values()
    return {item[method]["operationId"] for item in paths for method in openapi.METHODS if method in item}


def _run(command: list[str], *, folder: Path) -> str:
    """The output of a command that must succeed."""
    # The generators call programs of the virtual environment: ruff and node.
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node.NODE.parent), os.environ["PATH"]])
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr
