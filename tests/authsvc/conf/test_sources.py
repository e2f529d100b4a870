"""The sources of settings and their precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from authsvc import conf
from authsvc.conf import Notice
from tests.authsvc.conf.variables import load, only_problem, seconds


def test_the_django_secret_key_is_derived_from_the_jwt_secret() -> None:
    one, other = conf.secret_key(load()), conf.secret_key(load(AUTH_JWT_SECRET="other"))
    assert len(one) == 64
    assert one == conf.secret_key(load())
    assert one != other
    assert "hunter2" not in one


def test_the_environment_overrides_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AUTH_JWT_EXP=100\nAUTH_JWT_AUD=file\n")
    jwt = load(AUTH_JWT_EXP="200").jwt
    assert (jwt.exp, jwt.aud, jwt.issuer) == (seconds(200), "file", "")


def test_a_selected_file_replaces_the_default_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AUTH_JWT_AUD=usual\nAUTH_JWT_ISSUER=usual\n")
    (tmp_path / "f.env").write_text("AUTH_JWT_AUD=a\nAUTH_JWT_KEY_ID=a\n")
    jwt = load(AUTHSVC_CONFIG_FILE=str(tmp_path / "f.env"), AUTH_JWT_AUD="b").jwt
    assert (jwt.aud, jwt.issuer, jwt.key_id) == ("b", "", "a")


def test_a_selected_file_must_exist(tmp_path: Path) -> None:
    assert only_problem(AUTHSVC_CONFIG_FILE=str(tmp_path / "missing.env")).endswith("No such file or directory")


@pytest.mark.parametrize("content", [b"AUTH_JWT_SECRET='hunter2", b"hunter2", b"hunter2=\xff"])
def test_an_unreadable_file_prevents_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".env").write_bytes(content)
    problem = only_problem()
    assert problem.startswith(".env: ")
    assert "hunter2" not in problem


def test_a_directory_instead_of_the_file_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert only_problem() == ".env: Is a directory"


def _fill(folder: Path, files: dict[str, str]) -> dict[str, str]:
    for name, content in files.items():
        (folder / name).write_text(content)
    return {"AUTHSVC_CONFIG_DIR": str(folder)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "10_base.json": '{"AUTH_JWT_AUD": "1", "AUTH_JWT_ISSUER": "1"}',
                "50.env": "AUTH_JWT_ISSUER=2\nAUTH_JWT_KEY_ID=2",
                "80.json": '{"AUTH_JWT_KEY_ID": "3"}',
            },
            ("1", "2", "3"),
        ),
        ({"50.env": "AUTH_JWT_AUD=env", "50.json": '{"AUTH_JWT_KEY_ID": "json"}'}, ("environment", "", "json")),
        ({"50.env.bak": "AUTH_JWT_AUD=x", "a.json.tmp": "x", "a.toml": "x", "b.yaml": "x"}, ("environment", "", "")),
        ({"B.env": "AUTH_JWT_AUD=upper", "a.env": "AUTH_JWT_AUD=lower"}, ("lower", "", "")),
    ],
)
def test_the_directory_overrides_the_environment(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str, str]
) -> None:
    (tmp_path / "folder.env").mkdir()
    settings = load(**_fill(tmp_path, files), AUTH_JWT_AUD="environment")
    assert (settings.jwt.aud, settings.jwt.issuer, settings.jwt.key_id) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", '{"AUTH_JWT_AUD": 1}'), ("a.json", '{"AUTH_JWT_AUD": "x"} x'), ("a.json", "[]"), ("a.env", "nonsense")],
)
def test_an_unusable_directory_is_reported(tmp_path: Path, name: str, content: str) -> None:
    settings = load(**_fill(tmp_path, {name: content, "z.env": "AUTH_JWT_AUD=z"}))
    assert settings.jwt.aud == ""
    assert settings.notices[0].message == "unable to load config from watch dir"
    assert settings.notices[0].level == "error"
    assert name in settings.notices[0].fields["error"]


def test_a_missing_directory_is_reported() -> None:
    (notice, *_) = load(AUTHSVC_CONFIG_DIR="missing").notices
    assert notice == Notice(
        level="error", message="unable to load config from watch dir", fields={"error": "No such file or directory"}
    )
