"""`manage.py`: its flags, and its output for invalid settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from authsvc import conf
from tests.authsvc.conf.variables import REQUIRED, ROOT


def manage(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "probe_settings.py").write_text(
        "from authsvc import conf\n"
        "AUTH = conf.load()\n"
        "INSTALLED_APPS = []\n"
        "print('loaded', AUTH.jwt.aud, AUTH.jwt.key_id)\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{folder}:{ROOT}",
        "DJANGO_SETTINGS_MODULE": "probe_settings",
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=folder, env=environment | variables, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip


def test_manage_reports_problems_as_one_line_of_json(tmp_path: Path) -> None:
    variables = REQUIRED | {"AUTH_DISABLE_SIGNUP": "yes", "AUTH_JWT_KEYS": "hunter2", "AUTH_SITE_URL": ""}
    done = manage(tmp_path, "check", **variables)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    line = json.loads(done.stderr)
    assert (line["level"], line["msg"]) == ("fatal", "unable to load config")
    assert line["error"].splitlines() == [
        f"required key AUTH_SITE_URL missing value: {line['error'].splitlines()[0].partition(': ')[2]}",
        'AUTH_JWT_KEYS: invalid key set "***": not JSON',
        'AUTH_DISABLE_SIGNUP: invalid bool "yes": must be true or false',
    ]
    assert line["time"].endswith("Z")
    assert "hunter2" not in done.stderr + done.stdout


def test_manage_takes_the_files_from_its_flags(tmp_path: Path) -> None:
    (tmp_path / "f.env").write_text("AUTH_JWT_AUD=from-file")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "1.env").write_text("AUTH_JWT_KEY_ID=from-dir")
    done = manage(tmp_path, "check", "-c", "f.env", "--config-dir=conf", **REQUIRED)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "loaded from-file from-dir")


def test_manage_leaves_other_commands_their_short_flags(tmp_path: Path) -> None:
    done = manage(tmp_path, "shell", "-c", "print(6 * 7)", **REQUIRED)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "42")


def test_manage_requires_a_path_after_its_flags(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "-c", **REQUIRED)
    assert (done.returncode, done.stderr) == (1, "manage.py: -c needs a path\n")


def test_problems_are_a_list_on_a_terminal() -> None:
    text = conf.describe_error(ImproperlyConfigured("one\ntwo"), is_terminal=True)
    assert text == "The settings cannot be used:\n  - one\n  - two"
