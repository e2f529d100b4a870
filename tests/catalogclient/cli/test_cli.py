"""The command line with a real and a fake server; as a process where the process is the subject."""

from __future__ import annotations

import io
import json
import os
import pty
import secrets
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from catalogclient._cli.run import main
from tests.catalogclient.conftest import empty
from tests.catalogclient.integration import documents
from tests.catalogclient.servers import process
from tests.catalogclient.servers.running import CatalogServer
from tests.fakes.http_peer import HttpPeer, Response, in_json

SOURCES = Path(__file__).parents[3] / "catalogclient" / "src"
COMMAND = [sys.executable, "-W", "error", "-m", "catalogclient"]
METADATA = {
    "format-version": 2,
    "table-uuid": "0b1c7c2e-52d4-4f0e-9a51-0d7c1d1c9b11",
    "location": "s3://b/t",
    "properties": {},
}


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {
        "HOME": "/nonexistent",
        **{
            key: value for key, value in os.environ.items() if not key.startswith(("CATALOG", "PYTHON", "AWS_", "HOME"))
        },
    }
    return {**kept, "PYTHONPATH": str(SOURCES), "COLUMNS": "100", "TERM": "dumb", **more}


def run(*arguments: str, env: Mapping[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, with these environment variables and standard input."""
    given, output, errors = (io.TextIOWrapper(io.BytesIO(content), "utf-8") for content in (text.encode(), b"", b""))
    with (
        mock.patch.dict(os.environ, _environment(env), clear=True),
        mock.patch.multiple(sys, stdin=given, stdout=output, stderr=errors),
        warnings.catch_warnings(),
    ):
        try:
            status: Any = main(arguments)
        except SystemExit as ended:
            status = ended.code
    texts = []
    for file in (output, errors):
        file.seek(0)
        texts.append(file.read())
    return subprocess.CompletedProcess(arguments, status, *texts)


@pytest.fixture(scope="module")
def env(seaweedfs: CatalogServer) -> dict[str, str]:
    """Environment variables for the real server."""
    return {
        "CATALOG_URI": seaweedfs.base_url,
        "CATALOG_WAREHOUSE": str(seaweedfs.warehouse),
        "CATALOG_CREDENTIAL": f"{seaweedfs.client_id}:{seaweedfs.client_secret}",
    }


@pytest.fixture(scope="module")
def shop(seaweedfs: CatalogServer) -> Iterator[str]:
    """A namespace with the table `orders` and the view `towns`."""
    name = f"shop_{secrets.token_hex(3)}"
    with seaweedfs.connect() as catalog:
        catalog.create_namespace(name, {"owner": "sales"})
        catalog.create_table(name, documents.table("orders", owner="sales"))
        catalog.create_view(name, documents.view("towns", namespace=name))
        yield name
        empty(catalog, (name,))


def _document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_lists_namespaces_tables_and_views(env: dict[str, str], shop: str) -> None:
    assert [shop] in _document(run("list", env=env))["namespaces"]
    assert _document(run("list", shop, env=env))["tables"] == [{"namespace": [shop], "name": "orders"}]
    assert _document(run("list", shop, "--views", env=env))["views"] == [{"namespace": [shop], "name": "towns"}]


def test_shows_a_table_and_a_view(env: dict[str, str], shop: str) -> None:
    table = _document(run("show", f"{shop}.orders", env=env))
    assert table["metadata"]["properties"]["owner"] == "sales"
    assert table["metadata-location"].startswith(table["metadata"]["location"])
    view = _document(run("show", "--view", json.dumps([shop, "towns"]), env=env))
    assert view["metadata"]["versions"][0]["representations"][0]["dialect"] == "spark"


def test_creates_updates_renames_and_drops_a_table(env: dict[str, str], shop: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(documents.SCHEMA))
    created = _document(run("create", f"{shop}.bills", str(file), "--property", "a=1=2", env=env))
    assert created["metadata"]["properties"]["a"] == "1=2"
    request = json.dumps({"schema": documents.SCHEMA, "properties": {"b": "3"}})
    assert _document(run("create", f"{shop}.piped", "-", env=env, text=request))["metadata"]["properties"]["b"] == "3"

    changed = run("properties", "--table", f"{shop}.bills", "--set", "c=4", "--remove", "a", env=env)
    assert "a" not in _document(changed)
    assert _document(changed)["c"] == "4"
    assert _document(run("rename", f"{shop}.bills", f"{shop}.invoices", env=env)) == {"renamed": [shop, "invoices"]}
    for name in ("invoices", "piped"):
        assert _document(run("drop", f"{shop}.{name}", env=env)) == {"dropped": [shop, name]}
    assert run("show", f"{shop}.invoices", env=env).returncode == 3


def test_the_properties_of_a_request_may_be_null_but_not_a_list(peer: HttpPeer) -> None:
    peer.respond(in_json({"metadata": METADATA}))
    command = ("create", "a.t", "-", "--property", "k=v", "--config-mode", "never", "--uri", peer.url)
    assert run(*command, env={}, text='{"schema": {}, "properties": null}').returncode == 0
    assert peer.received[0].json()["properties"] == {"k": "v"}
    wrong = run(*command, env={}, text='{"schema": {}, "properties": [1]}')
    assert (wrong.returncode, len(peer.received)) == (2, 1)
    assert "properties" in wrong.stderr


def test_creates_updates_and_drops_a_namespace(env: dict[str, str], shop: str) -> None:
    inner = f"{shop}.inner"
    assert _document(run("create-namespace", inner, "--property", "a=1", env=env))["namespace"] == [shop, "inner"]
    assert _document(run("properties", inner, "--set", "b=2", "--remove", "a", env=env))["b"] == "2"
    assert _document(run("drop-namespace", inner, env=env)) == {"dropped": [shop, "inner"]}


def test_credentials_are_masked(env: dict[str, str], shop: str) -> None:
    [credential] = _document(run("credentials", f"{shop}.orders", env=env))
    assert credential["prefix"].startswith("s3://")
    assert credential["config"]["s3.endpoint"].startswith("http://")
    for key in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token"):
        assert set(credential["config"][key]) == {"*"}


def test_output_to_a_terminal_is_a_table(env: dict[str, str], shop: str) -> None:
    master, terminal = pty.openpty()
    done = subprocess.run(
        [*COMMAND, "show", f"{shop}.orders"],
        env=_environment(env),
        stdout=terminal,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(terminal)
    shown = b""
    while chunk := _read(master):
        shown += chunk
    os.close(master)
    assert done.returncode == 0, done.stderr
    text = shown.decode()
    assert not text.lstrip().startswith("{")
    for expected in (f"{shop}.orders", "number of the order", "town", "string", "owner", "s3://"):
        assert expected in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (("show", "{shop}.nothing"), 3, "NoSuchTable"),
        (("list", "nothing"), 3, "nothing"),
        (("create-namespace", "{shop}"), 5, "AlreadyExists"),
        (("drop-namespace", "{shop}"), 5, "NamespaceNotEmpty"),
        (("create-namespace", "Not Allowed"), 1, "400"),
        (("create", "{shop}.x", "no-such-file"), 2, "no-such-file"),
        (("create", "{shop}.x", "/dev/null"), 2, "not JSON"),
        (("show", "orders"), 2, "namespace is missing"),
        (("show", "[1]"), 2, "not a JSON list"),
        (("show", "a..b"), 2, "error"),
        (("properties", "a", "--set", "b"), 2, "KEY=VALUE"),
        (("drop", "a.b", "--view", "--purge"), 2, "not allowed with"),
        ((), 2, "COMMAND"),
    ],
)
def test_errors_set_the_exit_status_and_print_a_message(
    env: dict[str, str], shop: str, arguments: tuple[str, ...], status: int, output: str
) -> None:
    done = run(*(argument.format(shop=shop) for argument in arguments), env=env)
    assert (done.returncode, done.stdout) == (status, "")
    assert output in done.stderr
    assert "Traceback" not in done.stderr


def test_a_rejected_token_fails_and_is_not_printed(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("wrong-token-in-a-file\n")
    from_file = run("--token-file", str(file), "list", env=env)
    from_environment = run("list", env={**env, "CATALOG_TOKEN": "wrong-token-in-the-environment"})
    wrong_secret = run("list", env={**env, "CATALOG_CREDENTIAL": "admin:wrong-secret"})
    for done in (from_file, from_environment, wrong_secret):
        assert done.returncode == 4, done.stderr
        assert "wrong-" not in done.stderr


def test_an_invalid_token_is_a_usage_error_and_not_printed(env: dict[str, str]) -> None:
    done = run("list", env={**env, "CATALOG_TOKEN": "two words\nand lines"})
    assert done.returncode == 2
    assert "words" not in done.stderr


def test_a_client_secret_needs_no_client_id(peer: HttpPeer) -> None:
    peer.respond(in_json({"access_token": "given", "token_type": "bearer"}), path="/v1/oauth/tokens")
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(in_json({"namespaces": []}), path="/v1/namespaces")
    _document(run("list", env={"CATALOG_URI": peer.url, "CATALOG_CREDENTIAL": "alone"}))
    token_request, _, listed = peer.received
    assert token_request.form == {"grant_type": "client_credentials", "client_secret": "alone", "scope": "catalog"}
    assert listed.headers["Authorization"] == "Bearer given"


def test_credentials_are_read_from_a_file(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "credential"
    file.write_text(env["CATALOG_CREDENTIAL"])
    without = {key: value for key, value in env.items() if key != "CATALOG_CREDENTIAL"}
    assert run("list", env=without).returncode == 4
    assert "namespaces" in _document(run("--credential-file", str(file), "list", env=without))


@pytest.mark.parametrize("option", ["--token", "--credential"])
def test_a_secret_in_an_argument_is_rejected_and_not_printed(env: dict[str, str], option: str) -> None:
    for arguments in ((option, "a-secret"), (f"{option}=a-secret",)):
        done = run(*arguments, "list", env=env)
        assert done.returncode == 2
        assert "other users" in done.stderr
        assert "a-secret" not in done.stderr


def test_a_missing_catalog_option_is_a_usage_error() -> None:
    done = run("list", env={})
    assert done.returncode == 2
    assert "CATALOG_URI" in done.stderr


def test_a_missing_response_has_its_own_exit_status() -> None:
    [port] = process.free_ports(1)
    done = run("--uri", f"http://127.0.0.1:{port}", "list", env={})
    assert done.returncode == 6
    assert "Network request failed" in done.stderr


def test_an_unknown_outcome_has_its_own_exit_status(peer: HttpPeer) -> None:
    path = "/v1/namespaces/a/tables/t"
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(in_json({"metadata": METADATA}), Response(status=504), path=path)
    done = run("properties", "--table", "a.t", "--set", "b=1", env={"CATALOG_URI": peer.url})
    assert done.returncode == 7, done.stderr
    assert [request.method for request in peer.received if request.path == path] == ["GET", "POST"]


def test_control_characters_in_names_are_escaped(peer: HttpPeer) -> None:
    peer.respond(in_json({"namespaces": [["\x1b]0;owned\x07[red]x"]]}))
    done = run("--output", "table", "list", env={"CATALOG_URI": peer.url})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\\x1b]0;owned\\x07[red]x" in done.stdout


def test_a_closed_pipe_is_not_an_error(peer: HttpPeer) -> None:
    peer.respond(in_json({"namespaces": [[f"namespace-{number}"] for number in range(20_000)]}))
    piped = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {' '.join(COMMAND)} list | head -2"],
        env=_environment({"CATALOG_URI": peer.url}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (0, "")


def test_an_interrupt_ends_the_command_at_once(peer: HttpPeer) -> None:
    peer.respond(Response(hang=True))
    with subprocess.Popen(
        [*COMMAND, "list"], env=_environment({"CATALOG_URI": peer.url}), stderr=subprocess.PIPE
    ) as waiting:
        try:
            give_up = time.monotonic() + 60
            while not peer.received and time.monotonic() < give_up:
                time.sleep(0.05)
            waiting.send_signal(signal.SIGINT)
            _, output = waiting.communicate(timeout=60)
        finally:
            waiting.kill()
    assert (waiting.returncode, output) == (130, b"")
