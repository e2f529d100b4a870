"""Checks the files in `deploy/`, the image and the settings in the guides."""

from __future__ import annotations

import configparser
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from authsvc import conf
from authsvc.conf import dotenv
from authsvc.server import serving
from tests.live.deployment import programs
from tests.live.documentation import pages

UNIT = programs.DEPLOY / "authsvc.service"
SECRET = "a secret of more than 32 characters"


def test_unit_stop_timeout_covers_running_requests() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read(UNIT)
    assert unit.getint("Service", "TimeoutStopSec") > serving.DRAIN_SECONDS


def test_systemd_accepts_unit_and_rates_it_as_confined(tmp_path: Path) -> None:
    program = programs.find("systemd-analyze")
    # systemd-analyze checks that the program exists, which is not installed here.
    document = programs.changed(UNIT.read_text(), {"/opt/authsvc/.venv/bin/python": "/bin/sh"})
    copy = tmp_path / "authsvc.service"
    copy.write_text(document)
    for question in (["verify"], ["security", "--offline=true", "--threshold=15"]):
        ran = subprocess.run([program, *question, copy], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "authsvc.service:" not in ran.stderr, ran.stderr


def _compose() -> dict[str, Any]:
    document = yaml.safe_load((pages.PROJECT / "compose.yaml").read_text())
    assert isinstance(document, dict)
    return document


def test_compose_settings_are_accepted() -> None:
    service = _compose()["services"]["authsvc"]
    variables = {name: re.sub(r"\$\{JWT_SECRET:.*\}", SECRET, text) for name, text in service["environment"].items()}
    accepted = conf.load(variables)

    assert accepted.mailer.dev_inbox_enabled
    assert service["read_only"]
    assert int(service["stop_grace_period"].removesuffix("s")) > serving.DRAIN_SECONDS


def test_files_mounted_by_compose_exist() -> None:
    mounts = [mount for service in _compose()["services"].values() for mount in service.get("volumes", [])]
    files = [mount.partition(":")[0] for mount in mounts if mount.startswith("./")]
    assert len(files) == 3
    assert [file for file in files if not (pages.PROJECT / file).exists()] == []


def test_grafana_uses_prometheus_of_same_compose_file() -> None:
    file = programs.DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    [source] = yaml.safe_load(file.read_text())["datasources"]
    assert source["url"].partition("://")[2].partition(":")[0] in _compose()["services"]


@pytest.mark.parametrize("name", ["deploy.md", "pgbouncer.md"])
def test_settings_in_guides_are_accepted(name: str) -> None:
    merged = dict.fromkeys(("AUTH_SITE_URL", "AUTH_API_EXTERNAL_URL"), "https://auth.example.com")
    merged |= {"AUTH_DB_DRIVER": "postgres", "AUTH_JWT_SECRET": SECRET}
    written = [
        block for block in pages.blocks(pages.DOCS / "how-to" / name, "ini") if block.startswith(("AUTH_", "DATA"))
    ]
    assert written
    for block in written:
        merged |= dotenv.parse(block)
    assert isinstance(conf.load(merged), conf.AuthConfig)


def test_image_contains_every_package() -> None:
    project = tomllib.loads((pages.PROJECT / "pyproject.toml").read_text())
    packages = {*project["tool"]["deptry"]["known_first_party"]} - {"tests"}
    copied = set(re.findall(r"^COPY (\w+) \1$", (pages.PROJECT / "Dockerfile").read_text(), re.MULTILINE))
    sent = {line.removeprefix("!") for line in (pages.PROJECT / ".dockerignore").read_text().splitlines()}

    assert copied == {*packages, "locale", "templates"}
    assert copied <= sent


def test_caddy_accepts_unchanged_file(tmp_path: Path) -> None:
    command = [
        programs.find("caddy"),
        "validate",
        "--adapter",
        "caddyfile",
        "--config",
        str(programs.DEPLOY / "Caddyfile"),
    ]
    ran = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
