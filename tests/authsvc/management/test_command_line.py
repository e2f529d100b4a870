"""Flags for the configuration, and help without settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands

from authsvc.management import command_line
from tests import preloaded_python
from tests.live import servers


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(servers.PROJECT / "manage.py"), *arguments]
    return preloaded_python.run(command, folder=folder, env={"PATH": os.environ["PATH"], **variables})


@pytest.mark.parametrize(
    ("arguments", "kept", "variables"),
    [
        (["serve", "-c", "/a.env"], ["serve"], {"AUTHSVC_CONFIG_FILE": "/a.env"}),
        (["--config=/a.env", "serve"], ["serve"], {"AUTHSVC_CONFIG_FILE": "/a.env"}),
        (
            ["--config", "/a.env", "serve", "-d", "/a"],
            ["serve"],
            {"AUTHSVC_CONFIG_FILE": "/a.env", "AUTHSVC_CONFIG_DIR": "/a"},
        ),
        (["check", "-d", "/a", "--deploy"], ["check", "--deploy"], {"AUTHSVC_CONFIG_DIR": "/a"}),
        (["shell", "-c", "print(1)"], ["shell", "-c", "print(1)"], {}),
        (["shell", "--config-dir", "/a"], ["shell"], {"AUTHSVC_CONFIG_DIR": "/a"}),
        (["test", "-d"], ["test", "-d"], {}),
        (["createuser", "--", "-c"], ["createuser", "--", "-c"], {}),
    ],
)
def test_flags_of_the_configuration_become_variables(
    arguments: list[str], kept: list[str], variables: dict[str, str]
) -> None:
    assert command_line.take_flags(arguments) == (kept, variables)


def test_a_flag_without_its_path_is_refused() -> None:
    with pytest.raises(ValueError, match="--config needs a path"):
        command_line.take_flags(["serve", "--config"])


@pytest.mark.parametrize("name", sorted(get_commands()))
def test_the_flags_fit_the_options_of_every_command(name: str) -> None:
    command_line.CommandLine(["manage.py"]).fetch_command(name).create_parser("manage.py", name)


def test_a_command_whose_output_is_closed_ends_with_one_line(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, str(servers.PROJECT / "manage.py"), "--help"]
    with os.fdopen(writer, "wb") as closed:
        ran = subprocess.run(command, cwd=tmp_path, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "manage.py: Broken pipe\n")


def test_help_needs_no_settings_and_lists_useful_commands(tmp_path: Path) -> None:
    ran = run("--help", folder=tmp_path)
    assert ran.returncode == 0
    listed = {line.split()[0] for line in ran.stdout.splitlines() if line.startswith("  ")}
    assert {"serve", "worker", "doctor", "migrate", "check", "createsuperuser", "preview_mail"} <= listed
    assert not {"startproject", "startapp", "testserver", "procrastinate", "generateschema", "flush"} & listed
    assert "-c, --config FILE" in ran.stdout


def test_the_help_of_a_command_needs_no_valid_settings_and_describes_the_flags(tmp_path: Path) -> None:
    broken = tmp_path / "broken.env"
    broken.write_text("AUTH_JWT_EXP=never\n")
    ran = run("serve", "--help", "-c", str(broken), folder=tmp_path, AUTH_SMTP_PORT="-1")
    assert ran.returncode == 0, ran.stderr
    assert "-c FILE" in ran.stdout
    assert "-d DIR" in ran.stdout
