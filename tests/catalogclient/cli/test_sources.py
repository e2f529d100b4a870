"""Sources of the command line's catalog: options, environment, and configuration files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catalogclient import InvalidArgumentError, __version__
from catalogclient._cli import settings
from tests.catalogclient.cli.test_cli import run
from tests.fakes.http_peer import HttpPeer, Response, in_json

TOML = """
default = "prod"
[catalogs.prod]
uri = "{url}"
warehouse = "toml"
token = "from-toml"
[catalogs.plain]
uri = "{url}/plain"
"""
YAML = """
catalog:
  prod:
    uri: http://unused.example
    warehouse: yaml
    scope: from-yaml
  old:
    uri: {url}/old
    token: from-yaml
"""


@pytest.fixture
def home(peer: HttpPeer, tmp_path: Path) -> Path:
    """A home folder with both configuration files."""
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "catalogclient.toml").write_text(TOML.format(url=peer.url))
    (tmp_path / ".pyiceberg.yaml").write_text(YAML.format(url=peer.url))
    peer.respond(in_json({}))
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_CONFIG_HOME": "", "PYICEBERG_HOME": "", **more}


def test_the_default_catalog_of_the_file(peer: HttpPeer, home: Path) -> None:
    assert run("list", env=environment(home)).returncode == 0
    assert peer.received[0].target == "/v1/config?warehouse=toml"
    assert peer.received[0].headers["Authorization"] == "Bearer from-toml"


@pytest.mark.parametrize(("name", "path"), [("plain", "/plain/v1/config"), ("old", "/old/v1/config")])
def test_a_named_catalog(peer: HttpPeer, home: Path, name: str, path: str) -> None:
    assert run("--catalog", name, "list", env=environment(home)).returncode == 0
    assert run("list", env=environment(home, CATALOGCLIENT_CATALOG=name)).returncode == 0
    assert [request.path for request in peer.received[::2]] == [path, path]


def test_the_environment_overrides_the_files(peer: HttpPeer, home: Path) -> None:
    result = settings.properties(
        "prod",
        environment(
            home, CATALOGCLIENT_CATALOG__PROD__WAREHOUSE="env", CATALOGCLIENT_CATALOG__PROD__REST__SIGV4_ENABLED="x"
        ),
    )
    assert result == {
        "uri": peer.url,
        "warehouse": "env",
        "token": "from-toml",
        "scope": "from-yaml",
        "rest.sigv4-enabled": "x",
    }


def test_options_override_other_sources_at_any_position(peer: HttpPeer, home: Path) -> None:
    done = run("list", "--warehouse", "w", "--prefix", "p", "--config-mode", "never", env=environment(home))
    assert done.returncode == 0, done.stderr
    assert [request.target for request in peer.received] == ["/v1/p/namespaces"]


def test_unknown_catalogs_and_invalid_files_are_usage_errors(tmp_path: Path) -> None:
    assert "nowhere" in run("--catalog", "nowhere", "list", env=environment(tmp_path)).stderr
    for name, content in (("a.toml", "x ="), ("b.toml", "catalogs = 5"), ("c.toml", "[catalogs]\ndefault = 5")):
        (tmp_path / name).write_text(content)
        done = run("list", env=environment(tmp_path, CATALOGCLIENT_CONFIG=str(tmp_path / name)))
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    (tmp_path / ".pyiceberg.yaml").write_text("a: [")
    with pytest.raises(InvalidArgumentError):
        settings.properties(None, environment(tmp_path))


def test_the_version() -> None:
    assert run("--version", env={}).stdout == f"catalogclient {__version__}\n"


def test_a_header_field_from_a_file(peer: HttpPeer, tmp_path: Path) -> None:
    peer.respond(in_json({}))
    file = tmp_path / "header"
    file.write_text("X-Api-Key: s3cr3t\n")
    assert run("list", "--uri", peer.url, "--header-file", str(file), env={}).returncode == 0
    assert {request.headers["X-Api-Key"] for request in peer.received} == {"s3cr3t"}


def test_sigv4_with_keys_of_the_environment(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}
    done = run("--uri", peer.url, "list", "--sigv4-region", "eu-1", "--sigv4-service", "glue", env=keys)
    assert done.returncode == 0, done.stderr
    assert "Credential=AKID/" in peer.received[0].headers["Authorization"]
    assert "/eu-1/glue/" in peer.received[0].headers["Authorization"]


ODD = [
    {"metadata": {}},
    {"metadata": {"last-updated-ms": 10**30, "snapshots": [{"snapshot-id": 1, "timestamp-ms": 10**300}]}},
    {"metadata": {"schemas": 5, "current-schema-id": 1, "refs": 7, "properties": []}},
    {"metadata": {"location": "\ud800", "properties": {"\udfff": "\ud800"}, "table-uuid": 10**4000}},
]


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("document", ODD, ids=range(len(ODD)))
def test_invalid_metadata_prints_no_traceback(peer: HttpPeer, document: object, output: str) -> None:
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(Response(headers={"Content-Type": "application/json"}, body=json.dumps(document).encode()))
    done = run("show", "a.t", "--output", output, "--uri", peer.url, env={})
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["a.\udcff", '["a", "\\ud800"]', "[" * 5000])
def test_invalid_names_print_no_traceback(peer: HttpPeer, name: str) -> None:
    done = run("show", name, "--uri", peer.url, env={})
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert peer.received == []
