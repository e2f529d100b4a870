"""The examples of the README run against a server that is started as in the README."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogclient.documentation import blocks
from tests.catalogclient.integration import documents
from tests.catalogclient.servers import process, seaweedfs

ADDRESS = "http://127.0.0.1:8181"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(blocks.PACKAGE / "src"),
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server with the command of the README on free ports and return its base URL."""
    folder = tmp_path_factory.mktemp("readme")
    [block] = [text for text in blocks.blocks(blocks.README, "sh") if "weed mini" in text]
    words = shlex.split(block.replace("\\\n", " "))
    assert words[:3] == ["mkdir", "-p", "catalog-data"]
    (folder / "catalog-data").mkdir()
    start = words.index("weed")
    env = dict(word.split("=", 1) for word in words[3:start])
    free = process.free_ports(len(seaweedfs.PORTS), beside=seaweedfs.GRPC_OFFSET)
    ports = dict(zip(seaweedfs.PORTS, free, strict=True))
    command = [seaweedfs.program(), *words[start + 1 :], *(f"-{name}={port}" for name, port in ports.items())]
    result = f"http://127.0.0.1:{ports['s3.port.iceberg']}"

    ready = functools.partial(
        seaweedfs.is_ready,
        result,
        client_id=env["AWS_ACCESS_KEY_ID"],
        client_secret=env["AWS_SECRET_ACCESS_KEY"],
    )
    with process.running(command, folder=folder, is_ready=ready, env=env):
        yield result
    seaweedfs.remove_sockets(ports.values())


@pytest.fixture(scope="module")
def printed(address: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the Python examples as one program and return its output."""
    script = tmp_path_factory.mktemp("examples") / "examples.py"
    script.write_text("\n".join(blocks.blocks(blocks.README, "python")).replace(ADDRESS, address))
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_first_example_prints_the_documented_output(printed: str) -> None:
    first = printed.splitlines()[0]
    assert f"It prints `{first}`" in blocks.README.read_text()


def test_the_other_examples_work(printed: str) -> None:
    lines = printed.splitlines()
    assert "['orders'] None" in lines
    assert "404 NoSuchTableException" in lines
    assert not any(line.startswith(("concurrent change", "another failure")) for line in lines)


def test_the_command_line_examples_work(address: str, printed: str, tmp_path: Path) -> None:
    [block] = blocks.section(blocks.README, "Command line", "sh")
    (tmp_path / "schema.json").write_text(json.dumps(documents.SCHEMA))
    # The console script of a checkout that is not installed.
    script = tmp_path / "catalogclient"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m catalogclient "$@"\n')
    script.chmod(0o755)
    run = subprocess.run(
        ["bash", "-e", "-c", block.replace(ADDRESS, address)],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PATH": os.pathsep.join([str(tmp_path), ENVIRONMENT["PATH"]]), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    responses = _documents(run.stdout)
    assert responses[0]["tables"] == [{"namespace": ["sales"], "name": name} for name in ("bills", "orders")]
    assert responses[1]["metadata"]["location"] in printed
    assert responses[2]["owner"] == "shop"
    assert responses[-2] == {"dropped": ["sales", "refunds"]}
    assert "secretkey" not in run.stdout + run.stderr


def _documents(text: str) -> list[dict[str, Any]]:
    decoder, result, position = json.JSONDecoder(), [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        document, position = decoder.raw_decode(text, position)
        result.append(document)
    return result
