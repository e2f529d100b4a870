"""New settings from the configuration directory while a server runs: nobody is refused, and nothing wrong gets in."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.conf import LazySettings, settings

from authsvc import conf
from authsvc.reloading import active_settings, watcher
from authsvc.reloading import folder as folder_module
from authsvc.reloading import reload as swap_module
from authsvc.reloading.connection_limit import Room
from authsvc.security import rate_limits
from tests.conftest import ChangeConfig
from tests.live import servers
from tests.live.robustness import conftest as robust

QUICK = {"AUTH_RELOADING_GRACE_PERIOD_INTERVAL": "100ms"}
RELOADED = "reloading api with new configuration"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "settings"
    made.mkdir()
    return made


@pytest.fixture
def reload_server(tmp_path: Path, fresh_database_url: str, folder: Path) -> Iterator[Callable[..., servers.LiveServer]]:
    """`reload_server(AUTH_X="1")` starts a server that watches `folder`."""
    running: list[servers.LiveServer] = []

    def start(**env: str) -> servers.LiveServer:
        command = (*servers.SERVE, "--config-dir", str(folder))
        server = servers.LiveServer(
            folder=tmp_path, database_url=fresh_database_url, env={**QUICK, **env}, command=command
        )
        running.append(server)
        server.launch()
        server.wait()
        robust.all_serving_processes(server)
        return server

    yield start
    for server in running:
        server.stop()


def put(path: Path, **variables: str) -> None:
    """Write a file in one go, as careful tools do."""
    made = path.with_suffix(".tmp")
    made.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    made.rename(path)


def lines(server: servers.LiveServer, message: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in read if str(line["msg"]).startswith(message)]


def told(server: servers.LiveServer) -> dict[str, Any]:
    """What /settings says, asked on new connections so that every process has its turn."""
    answers = [requests.get(f"{server.url}/settings", timeout=30).json() for _ in range(12)]
    return answers[0] if all(answer == answers[0] for answer in answers) else {}


def is_enabled(server: servers.LiveServer, provider: str) -> bool:
    return bool(told(server).get("external", {}).get(provider))


GITHUB = {
    "AUTH_EXTERNAL_GITHUB_ENABLED": "true",
    "AUTH_EXTERNAL_GITHUB_CLIENT_ID": "a",
    "AUTH_EXTERNAL_GITHUB_SECRET": "hunter2",
    "AUTH_EXTERNAL_GITHUB_REDIRECT_URI": "http://localhost/callback",
}


def test_settings_come_and_go_under_load_and_wrong_ones_change_nothing(
    folder: Path, reload_server: Callable[..., servers.LiveServer]
) -> None:
    server = reload_server(AUTH_MAILER_AUTOCONFIRM="true")
    before = robust.serving_processes(server)
    has_ended = threading.Event()
    statuses: list[int] = []

    def ask() -> None:
        with requests.Session() as session:
            while not has_ended.is_set():
                statuses.append(session.get(f"{server.url}/.well-known/jwks.json", timeout=30).status_code)
                time.sleep(0.01)

    asker = threading.Thread(target=ask)
    asker.start()
    assert not is_enabled(server, "github")
    put(folder / "02.env", **GITHUB)
    robust.wait_until(lambda: is_enabled(server, "github"), "the provider is there")

    put(folder / "03.env", AUTH_DISABLE_SIGNUP="perhaps", AUTH_EXTERNAL_GITHUB_ENABLED="false")
    robust.wait_until(lambda: lines(server, "reloader: error loading config"), "the refusal is told")
    assert is_enabled(server, "github")

    running = robust.HalfSent(server, "slow@example.com")
    time.sleep(0.5)
    put(folder / "03.env", AUTH_DISABLE_SIGNUP="true", AUTH_EXTERNAL_GITHUB_ENABLED="false")
    robust.wait_until(lambda: told(server).get("disable_signup") is True, "the mended file counts")
    assert not is_enabled(server, "github")
    assert running.finish() == 200  # it began when sign-ups were open
    refused = requests.post(f"{server.url}/signup", json={"email": "a@b.co", "password": "long enough"}, timeout=30)
    assert refused.json()["error_code"] == "signup_disabled"

    has_ended.set()
    asker.join()
    assert set(statuses) == {200}
    assert robust.serving_processes(server) == before
    assert len(lines(server, RELOADED)) == 2  # one line, however many processes
    assert "hunter2" not in server.log.read_text()


def test_a_signal_asks_for_a_reload_and_a_later_process_begins_with_it(
    folder: Path, reload_server: Callable[..., servers.LiveServer]
) -> None:
    server = reload_server(AUTH_RELOADING_SIGNAL_ENABLED="true", AUTH_RELOADING_NOTIFY_ENABLED="false")
    put(folder / "01.env", AUTH_DISABLE_SIGNUP="true")
    time.sleep(0.5)
    assert told(server)["disable_signup"] is False

    server.process.send_signal(signal.SIGUSR1)
    robust.wait_until(lambda: told(server).get("disable_signup") is True, "sign-ups are closed")

    before = robust.serving_processes(server)
    before[0].kill()
    robust.wait_until(lambda: len(set(robust.serving_processes(server)) - set(before)) == 1, "another in its place")
    robust.wait_until(lambda: told(server).get("disable_signup") is True, "sign-ups are still closed")


@pytest.fixture
def swap(folder: Path) -> Iterator[swap_module.Swap]:
    """What reloads this process from `folder`; everything is as before afterwards."""
    before = settings.AUTH
    active_settings.allow_change()
    yield swap_module.Swap(folder)
    active_settings.change(before)
    for name in conf.for_django(before):
        delattr(LazySettings, name)


def test_what_needs_a_restart_stays_and_is_named(
    folder: Path, swap: swap_module.Swap, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "authsvc.config")
    before = settings.AUTH
    fixed = {"AUTH_API_PORT": "1", "AUTH_LOG_LEVEL": "panic", "AUTH_DB_NAMESPACE": "x"}
    put(folder / "01.env", **fixed, AUTH_MAILER_DEV_INBOX_FOLDER="/x", AUTH_JWT_EXP="77")
    assert swap.make()

    assert settings.AUTH.jwt.exp.total_seconds() == 77
    assert (settings.AUTH.api.port, settings.AUTH.logging) == (before.api.port, before.logging)
    named = {vars(record)["setting"] for record in caplog.records if "after a restart" in record.message}
    assert named == {"AUTH_API_PORT", "AUTH_DB_NAMESPACE", "AUTH_LOG_LEVEL", "AUTH_MAILER_DEV_INBOX_FOLDER"}


OTHER_SETTINGS = {
    "AUTH_JWT_SECRET": "another secret of more than 32 characters",
    "AUTH_API_EXTERNAL_URL": "https://a.b",
}


def test_what_django_derives_follows(folder: Path, swap: swap_module.Swap) -> None:
    before = settings.SECRET_KEY
    put(folder / "01.env", **OTHER_SETTINGS)
    assert swap.make()

    assert before != settings.SECRET_KEY
    assert settings.CSRF_TRUSTED_ORIGINS == ["https://a.b"]
    assert settings.SESSION_COOKIE_SECURE is True


def test_a_variable_that_is_gone_keeps_its_value(folder: Path, swap: swap_module.Swap) -> None:
    put(folder / "01.env", AUTH_DISABLE_SIGNUP="true")
    assert swap.make()
    (folder / "01.env").unlink()
    put(folder / "02.env", AUTH_JWT_EXP="77")
    assert swap.make()
    assert (settings.AUTH.signup.disabled, settings.AUTH.jwt.exp.total_seconds()) == (True, 77)


RSA = {"kty": "RSA", "alg": "RS256", "key_ops": ["sign", "verify"], "n": "AQAB", "e": "AQAB", "d": "hunter2"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("1.env", "AUTH_DISABLE_SIGNUP=perhaps", id="a wrong value"),
        pytest.param("1.env", "AUTH_SITE_URL=", id="a missing value"),
        pytest.param("1.env", "AUTH_X='hunter2", id="a file that cannot be read"),
        pytest.param("1.json", '{"AUTH_JWT_EXP": 1}', id="a number"),
        pytest.param("1.json", json.dumps({"AUTH_JWT_KEYS": json.dumps([RSA])}), id="a key that is none"),
        pytest.param("1.env", "AUTH_SMS_PROVIDER=vonage\nAUTH_SMS_TEMPLATE={{ .Code", id="a broken template"),
    ],
)
def test_what_would_stop_a_start_stops_a_reload(
    name: str, text: str, folder: Path, swap: swap_module.Swap, caplog: pytest.LogCaptureFixture
) -> None:
    before = settings.AUTH
    (folder / name).write_text(text)

    assert not swap.make()
    assert settings.AUTH is before
    [record] = [record for record in caplog.records if record.message == "reloader: error loading config"]
    assert "hunter2" not in str(vars(record))


@pytest.mark.django_db(transaction=True)
def test_only_the_counters_of_limits_that_changed_begin_anew(
    folder: Path, swap: swap_module.Swap, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "authsvc.config")
    hour = timedelta(hours=1)
    for bucket in ("Verify", "Token", "email_sent"):
        rate_limits.consume(bucket=bucket, key="k", burst=1, per_second=0, life=hour)
    put(folder / "01.env", AUTH_RATE_LIMIT_VERIFY="60", AUTH_RATE_LIMIT_EMAIL_SENT="100/1h")
    assert swap.make()

    begun_anew = {
        bucket
        for bucket in ("Verify", "Token", "email_sent")
        if rate_limits.consume(bucket=bucket, key="k", burst=1, per_second=0, life=hour) is None
    }
    assert begun_anew == {"Verify", "email_sent"}
    told = [record for record in caplog.records if record.message.startswith("env ")]
    assert {record.message for record in told} == {
        "env AUTH_RATE_LIMIT_VERIFY changed, updating Verify limiter from 30 to 60",
        "env AUTH_RATE_LIMIT_EMAIL_SENT changed, updating email_sent limiter from 30 to 100/1h0m0s",
    }
    assert {(vars(record)["rate_limit_field"], vars(record)["rate_limit_old"]) for record in told} == {
        ("verify", "30"),
        ("email_sent", "30"),
    }


@pytest.mark.parametrize("name", ["AUTH", *conf.for_django(settings.AUTH)])
def test_what_has_begun_sees_the_same_settings_to_its_end(folder: Path, swap: swap_module.Swap, name: str) -> None:
    def now() -> Any:
        return conf.current() if name == "AUTH" else getattr(settings, name)

    before = now()
    with conf.keep():
        put(folder / "01.env", **OTHER_SETTINGS)
        assert swap.make()
        assert now() == before
        with ThreadPoolExecutor(1) as elsewhere:
            after = elsewhere.submit(now).result()
        assert after != before
        assert now() == before
    assert now() == after


class Reloads:
    """Counts, in place of taking anything over."""

    def __init__(self) -> None:
        self.count = 0

    def make(self) -> bool:
        self.count += 1
        return True


@pytest.fixture(params=["notices", "polling"])
def reloads(request: pytest.FixtureRequest, folder: Path) -> Iterator[Reloads]:
    """Reloads asked for by a watcher of `folder` that is told or looks by itself."""
    counted = Reloads()
    configured = conf.Reloading(
        notify_enabled=request.param == "notices",
        poller_enabled=request.param == "polling",
        poller_interval=timedelta(milliseconds=50),
        grace_period=timedelta(milliseconds=300),
    )
    running = watcher.Watcher(folder, counted, configured, folder_module.looks(folder))
    thread = threading.Thread(target=running.go_on)
    thread.start()
    assert running.has_begun.wait(robust.PATIENCE_SECONDS)
    yield counted
    running.stop()
    thread.join()


def test_changes_that_follow_one_another_are_one_reload(folder: Path, reloads: Reloads) -> None:
    for number in range(5):
        put(folder / "01.env", AUTH_JWT_EXP=str(number))
    robust.wait_until(lambda: reloads.count == 1, "a reload")
    (folder / "notes.txt").write_text("no setting")
    (folder / "sub.env").mkdir()
    time.sleep(0.8)
    assert reloads.count == 1


def test_a_directory_that_goes_is_told_once_and_taken_up_when_it_is_back(
    folder: Path, reloads: Reloads, caplog: pytest.LogCaptureFixture
) -> None:
    folder.rename(folder.with_name("away"))
    robust.wait_until(lambda: caplog.records, "the absence is told")
    time.sleep(0.4)
    assert [record.message for record in caplog.records] == ["reloader: error watching config directory"]

    folder.with_name("away").rename(folder)
    robust.wait_until(lambda: reloads.count == 1, "a reload")
    put(folder / "01.env", AUTH_JWT_EXP="1")
    robust.wait_until(lambda: reloads.count == 2, "another reload")


def test_links_are_followed_as_kubernetes_changes_them(folder: Path, reloads: Reloads) -> None:
    for version in ("..first", "..second"):
        (folder / version).mkdir()
        put(folder / version / "a.env", AUTH_JWT_EXP="1")
    (folder / "..data").symlink_to("..first")
    (folder / "a.env").symlink_to(Path("..data") / "a.env")
    robust.wait_until(lambda: reloads.count == 1, "a reload")

    (folder / "..new").symlink_to("..second")
    (folder / "..new").rename(folder / "..data")
    robust.wait_until(lambda: reloads.count == 2, "another reload")


def test_a_directory_too_large_to_look_at_is_an_error(folder: Path) -> None:
    for number in range(folder_module.MOST_ENTRIES + 1):
        (folder / f"{number}.env").touch()
    with pytest.raises(OSError, match="more than 1000 entries"):
        folder_module.looks(folder)


def test_without_a_directory_settings_are_what_they_are() -> None:
    def application(_environ: object, _start: object) -> list[bytes]:
        return []

    assert watcher.around(application) is application


@pytest.mark.parametrize(
    ("limit", "worker", "size"), [(0, True, 4), (100, True, 4), (12, True, 2), (8, True, 1), (6, False, 3)]
)
def test_the_live_pool_follows_its_limit(limit: int, worker: bool, size: int, auth_config: ChangeConfig) -> None:
    room = Room(processes=2, threads=4)
    room.fit(auth_config(database={"max_pool_size": limit}, mailer={"worker_enabled": worker}))
    assert room.size == size


def test_no_more_requests_than_places_are_inside_at_once(auth_config: ChangeConfig) -> None:
    room = Room(processes=1, threads=4)
    room.fit(auth_config(database={"max_pool_size": 2}, mailer={"worker_enabled": False}))
    inside: list[int] = []
    most: list[int] = []
    all_asked = threading.Barrier(8)

    def ask() -> None:
        all_asked.wait()
        with room.place():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(most) == 8
    assert max(most) <= 2

    room.fit(auth_config(database={"max_pool_size": 0}))
    assert room.size == 4
