"""Checks the files in `deploy/`, the image and the settings in the guides."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
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
SECRET = "a-secret-of-more-than-32-characters"
BINARIES = Path(sys.executable).parent


def test_unit_lets_requests_finish_and_processes_be_measured() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read(UNIT)
    assert unit.getint("Service", "TimeoutStopSec") > serving.DRAIN_SECONDS
    # prometheus_client exports nothing about processes without /proc/stat.
    assert unit.get("Service", "ProcSubset", fallback="all") == "all"


def test_systemd_accepts_unit_and_rates_it_as_confined(tmp_path: Path) -> None:
    program = programs.find("systemd-analyze")
    # systemd-analyze checks that the program exists, which is not installed here.
    document = programs.replace_texts(UNIT.read_text(), {"/opt/authsvc/.venv/bin/python": "/bin/sh"})
    copy = tmp_path / "authsvc.service"
    copy.write_text(document)
    for question in (["verify"], ["security", "--offline=true", "--threshold=15"]):
        ran = subprocess.run([program, *question, copy], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "authsvc.service:" not in ran.stderr, ran.stderr


COMPOSE_FILES = ["compose.yaml", "compose.ha.yaml"]
_VARIABLE = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")


def _services(name: str) -> dict[str, dict[str, Any]]:
    document = yaml.safe_load((pages.PROJECT / name).read_text())
    services = document["services"]
    assert isinstance(services, dict)
    return services


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_file_has_the_schema_of_compose(name: str) -> None:
    command = [str(BINARIES / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(pages.PROJECT / name)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(("name", "number"), [("compose.yaml", 1), ("compose.ha.yaml", 3)])
def test_compose_settings_are_accepted(name: str, number: int) -> None:
    services = [service for service in _services(name).values() if "AUTH_DB_DRIVER" in service.get("environment", {})]
    assert len(services) == number
    for service in services:
        accepted = conf.load({key: _VARIABLE.sub(SECRET, text) for key, text in service["environment"].items()})

        assert accepted.mailer.dev_inbox_enabled
        assert [notice.message for notice in accepted.notices if "is not a setting" in notice.message] == []
        assert service["read_only"]
        assert int(service["stop_grace_period"].removesuffix("s")) > serving.DRAIN_SECONDS


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_images_of_compose_have_versions(name: str) -> None:
    images = [service["image"] for service in _services(name).values() if "build" not in service]
    assert images
    assert [image for image in images if not re.search(r":v?[0-9]+(\.[0-9]+)*$", image)] == []


def test_compose_with_standby_contains_no_secret_and_checks_each_service() -> None:
    services = _services("compose.ha.yaml")
    values = {value for service in services.values() for value in service.get("environment", {}).items()}
    secrets = [value for key, value in values if key.endswith(("PASSWORD", "SECRET"))]
    secrets += [value.partition("//authsvc:")[2].partition("@")[0] for key, value in values if key == "DATABASE_URL"]
    assert len(secrets) == 6
    assert [value for value in secrets if not _VARIABLE.fullmatch(value)] == []
    # The image of the service has a check.
    unchecked = [name for name, service in services.items() if "healthcheck" not in service]
    assert unchecked == ["server-1", "server-2"]


@pytest.mark.parametrize(("name", "number"), [("compose.yaml", 3), ("compose.ha.yaml", 5)])
def test_files_mounted_by_compose_exist(name: str, number: int) -> None:
    mounts = [mount for service in _services(name).values() for mount in service.get("volumes", [])]
    files = {mount.partition(":")[0] for mount in mounts if mount.startswith("./")}
    assert len(files) == number
    assert [file for file in files if not (pages.PROJECT / file).exists()] == []


def test_grafana_uses_prometheus_of_same_compose_file() -> None:
    file = programs.DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    [source] = yaml.safe_load(file.read_text())["datasources"]
    assert source["url"].partition("://")[2].partition(":")[0] in _services("compose.yaml")


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


@pytest.mark.parametrize("name", ["Caddyfile", "compose/Caddyfile"])
def test_caddy_accepts_unchanged_file(tmp_path: Path, name: str) -> None:
    command: list[str | Path] = [
        programs.find("caddy"),
        "validate",
        "--adapter",
        "caddyfile",
        "--config",
        programs.DEPLOY / name,
    ]
    ran = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
