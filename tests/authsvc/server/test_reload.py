"""Reloading of the configuration directory: requests continue, and invalid settings are not applied."""

from __future__ import annotations

import json
import os
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
from django.conf import settings

from authsvc import conf
from authsvc.security import rate_limits
from authsvc.server import reload
from authsvc.server.reload import Reloader
from authsvc.server.request_slots import RequestSlots
from tests import ports
from tests.conftest import ChangeConfig
from tests.live import servers, sign_ups
from tests.live.processes import all_serving_processes, serving_processes
from tests.timeouts import TIMEOUT_SECONDS, wait_until

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

    def start(http_server: str = "granian", **env: str) -> servers.LiveServer:
        server = servers.LiveServer(
            folder=tmp_path,
            database_url=fresh_database_url,
            env={**QUICK, "AUTHSVC_CONFIG_DIR": str(folder), **env},
            command=servers.COMMANDS[http_server],
        )
        running.append(server)
        server.launch()
        server.wait()
        all_serving_processes(server)
        return server

    yield start
    for server in running:
        server.stop()


def put(path: Path, **variables: str) -> None:
    """Write a file atomically."""
    made = path.with_suffix(".tmp")
    made.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    made.rename(path)


def lines(server: servers.LiveServer, message: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in read if str(line["msg"]).startswith(message)]


def public_settings(server: servers.LiveServer) -> dict[str, Any]:
    """The response of /settings, requested on several connections so that every process answers."""
    responses = [requests.get(f"{server.url}/settings", timeout=60).json() for _ in range(12)]
    return responses[0] if all(response == responses[0] for response in responses) else {}


def is_enabled(server: servers.LiveServer, provider: str) -> bool:
    return bool(public_settings(server).get("external", {}).get(provider))


GITHUB = {
    "AUTH_EXTERNAL_GITHUB_ENABLED": "true",
    "AUTH_EXTERNAL_GITHUB_CLIENT_ID": "a",
    "AUTH_EXTERNAL_GITHUB_SECRET": "hunter2",
    "AUTH_EXTERNAL_GITHUB_REDIRECT_URI": "http://localhost/callback",
}


def test_settings_change_under_load_and_invalid_ones_change_nothing(
    folder: Path, reload_server: Callable[..., servers.LiveServer]
) -> None:
    metrics = {"AUTH_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": str(ports.free_port())}
    real_time = signal.SIGRTMIN + 1
    by_signal = {"AUTH_RELOADING_SIGNAL_ENABLED": "true", "AUTH_RELOADING_SIGNAL_NUMBER": str(real_time)}
    server = reload_server(AUTH_MAILER_AUTOCONFIRM="true", AUTH_METRICS_ENABLED="true", **metrics, **by_signal)
    before = serving_processes(server)
    has_ended = threading.Event()
    statuses: list[int] = []

    def send_requests() -> None:
        with requests.Session() as session:
            while not has_ended.is_set():
                statuses.append(session.get(f"{server.url}/.well-known/jwks.json", timeout=30).status_code)
                time.sleep(0.01)

    client_thread = threading.Thread(target=send_requests)
    client_thread.start()
    assert not is_enabled(server, "github")
    put(folder / "02.env", **GITHUB)
    wait_until(lambda: is_enabled(server, "github"), "the provider is enabled")
    os.kill(server.process.pid, real_time)
    wait_until(lambda: len(lines(server, RELOADED)) == 2, "the settings are read again")

    put(folder / "03.env", AUTH_DISABLE_SIGNUP="perhaps", AUTH_EXTERNAL_GITHUB_ENABLED="false")
    wait_until(lambda: lines(server, "reloader: error loading config"), "the error is logged")
    assert is_enabled(server, "github")

    running = sign_ups.HalfSent(server, "slow@example.com")
    put(folder / "03.env", AUTH_DISABLE_SIGNUP="true", AUTH_EXTERNAL_GITHUB_ENABLED="false")
    wait_until(lambda: public_settings(server).get("disable_signup") is True, "the corrected file is applied")
    assert not is_enabled(server, "github")
    assert running.finish() == 200  # it started while sign-ups were enabled
    rejected = requests.post(f"{server.url}/signup", json={"email": "a@b.co", "password": "long enough"}, timeout=60)
    assert rejected.json()["error_code"] == "signup_disabled"

    has_ended.set()
    client_thread.join()
    assert set(statuses) == {200}
    assert serving_processes(server) == before
    assert len(lines(server, RELOADED)) == 3  # only the leader logs it
    assert lines(server, "a changed setting takes effect after a restart") == []
    assert "hunter2" not in server.log.read_text()


def test_a_signal_reloads_and_a_later_process_starts_with_the_new_settings(
    folder: Path, reload_server: Callable[..., servers.LiveServer]
) -> None:
    server = reload_server("gunicorn", AUTH_RELOADING_SIGNAL_ENABLED="true", AUTH_RELOADING_NOTIFY_ENABLED="false")
    # A process reads the directory once more when its watcher starts: all of them run after this reload.
    put(folder / "02.env", **GITHUB)
    server.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: is_enabled(server, "github"), "the provider is enabled")

    put(folder / "01.env", AUTH_DISABLE_SIGNUP="true")
    time.sleep(0.5)
    assert public_settings(server)["disable_signup"] is False

    server.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: public_settings(server).get("disable_signup") is True, "sign-ups are disabled")

    before = serving_processes(server)
    before[0].kill()
    wait_until(lambda: len(set(serving_processes(server)) - set(before)) == 1, "a replacement process")
    wait_until(lambda: public_settings(server).get("disable_signup") is True, "sign-ups are still disabled")


@pytest.fixture
def reloader(folder: Path) -> Iterator[Reloader]:
    """Reload the settings of this process from `folder`; the previous ones are restored afterwards."""
    before = settings.AUTH
    yield Reloader(folder, RequestSlots(4))
    settings.AUTH = before


def test_a_setting_that_needs_a_restart_keeps_its_value_and_is_logged(
    folder: Path, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "authsvc.config")
    before = settings.AUTH
    fixed = {"AUTH_API_PORT": "1", "AUTH_LOG_LEVEL": "panic", "AUTH_DB_NAMESPACE": "x"}
    put(folder / "01.env", **fixed, AUTH_MAILER_DEV_INBOX_FOLDER="/x", AUTH_JWT_EXP="77")
    assert reloader.reload()

    assert settings.AUTH.jwt.exp.total_seconds() == 77
    assert (settings.AUTH.api.port, settings.AUTH.logging) == (before.api.port, before.logging)
    logged = {vars(record)["setting"] for record in caplog.records if "after a restart" in record.message}
    assert logged == {"AUTH_API_PORT", "AUTH_DB_NAMESPACE", "AUTH_LOG_LEVEL", "AUTH_MAILER_DEV_INBOX_FOLDER"}


OTHER_SETTINGS = {
    "AUTH_JWT_SECRET": "another secret of more than 32 characters",
    "AUTH_API_EXTERNAL_URL": "https://a.b",
}


def test_derived_django_settings_are_reloaded(folder: Path, reloader: Reloader) -> None:
    before = str(settings.SECRET_KEY)
    put(folder / "01.env", **OTHER_SETTINGS)
    assert reloader.reload()

    assert before != settings.SECRET_KEY
    assert list(settings.CSRF_TRUSTED_ORIGINS) == ["https://a.b"]
    assert bool(settings.SESSION_COOKIE_SECURE)


def test_a_removed_variable_keeps_its_value(folder: Path, reloader: Reloader) -> None:
    put(folder / "01.env", AUTH_DISABLE_SIGNUP="true")
    assert reloader.reload()
    (folder / "01.env").unlink()
    put(folder / "02.env", AUTH_JWT_EXP="77")
    assert reloader.reload()
    assert (settings.AUTH.signup.disabled, settings.AUTH.jwt.exp.total_seconds()) == (True, 77)


RSA = {"kty": "RSA", "alg": "RS256", "key_ops": ["sign", "verify"], "n": "AQAB", "e": "AQAB", "d": "hunter2"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("1.env", "AUTH_DISABLE_SIGNUP=perhaps", id="an invalid value"),
        pytest.param("1.env", "AUTH_SITE_URL=", id="a missing value"),
        pytest.param("1.env", "AUTH_X='hunter2", id="an invalid file"),
        pytest.param("1.json", '{"AUTH_JWT_EXP": 1}', id="a number"),
        pytest.param("1.json", json.dumps({"AUTH_JWT_KEYS": json.dumps([RSA])}), id="an invalid key"),
        pytest.param("1.env", "AUTH_SMS_PROVIDER=vonage\nAUTH_SMS_TEMPLATE={{ .Code", id="a broken template"),
    ],
)
def test_settings_that_prevent_a_start_are_not_reloaded(
    name: str, text: str, folder: Path, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    before = settings.AUTH
    (folder / name).write_text(text)

    assert not reloader.reload()
    assert settings.AUTH is before
    [record] = [record for record in caplog.records if record.message == "reloader: error loading config"]
    assert "hunter2" not in str(vars(record))


@pytest.mark.django_db(transaction=True)
def test_only_the_counters_of_changed_limits_are_reset(
    folder: Path, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "authsvc.config")
    hour = timedelta(hours=1)
    buckets = (
        "Verify", "Token", "email_sent", "email_sent:client", "sms_sent:client", "sms_sent:operators"
    )  # fmt: skip
    for bucket in buckets:
        rate_limits.consume(bucket=bucket, key="k", burst=1, per_second=0, life=hour)
    put(
        folder / "01.env",
        AUTH_RATE_LIMIT_VERIFY="60",
        AUTH_RATE_LIMIT_EMAIL_SENT="100/1h",
        AUTH_RATE_LIMIT_OPERATOR_MESSAGES="50",
    )
    assert reloader.reload()

    reset = {
        bucket
        for bucket in buckets
        if rate_limits.consume(bucket=bucket, key="k", burst=1, per_second=0, life=hour) is None
    }
    assert reset == {"Verify", "email_sent", "email_sent:client", "sms_sent:operators"}
    logged = [record for record in caplog.records if record.message.startswith("env ")]
    assert {record.message for record in logged} == {
        "env AUTH_RATE_LIMIT_VERIFY changed, updating Verify limiter from 30 to 60",
        "env AUTH_RATE_LIMIT_VERIFY changed, updating DeviceCode limiter from 30 to 60",
        "env AUTH_RATE_LIMIT_EMAIL_SENT changed, updating email_sent limiter from 300 to 100/1h0m0s",
        "env AUTH_RATE_LIMIT_OPERATOR_MESSAGES changed, updating operator_messages limiter from 1000 to 50",
    }
    assert {(vars(record)["rate_limit_field"], vars(record)["rate_limit_old"]) for record in logged} == {
        ("verify", "30"),
        ("email_sent", "300"),
        ("operator_messages", "1000"),
    }


DERIVED: dict[str, Callable[[], object]] = {
    "AUTH": conf.current,
    "SECRET_KEY": lambda: str(settings.SECRET_KEY),
    "SESSION_COOKIE_SECURE": lambda: bool(settings.SESSION_COOKIE_SECURE),
    "CSRF_COOKIE_SECURE": lambda: bool(settings.CSRF_COOKIE_SECURE),
    "CSRF_TRUSTED_ORIGINS": lambda: list(settings.CSRF_TRUSTED_ORIGINS),
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_request_keeps_the_settings_it_started_with(folder: Path, reloader: Reloader, name: str) -> None:
    value = DERIVED[name]
    before = value()
    with conf.keep():
        put(folder / "01.env", **OTHER_SETTINGS)
        assert reloader.reload()
        assert value() == before
        with ThreadPoolExecutor(1) as other_thread:
            after = other_thread.submit(value).result()
        assert after != before
        assert value() == before
    assert value() == after


class CountingReloader(Reloader):
    """Keeps the settings of each reload that was applied; `has_run` is set after the first attempt.

    That attempt starts the watch.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, RequestSlots(4))
        self.applied: list[conf.AuthConfig] = []
        self.has_run = threading.Event()

    @property
    def count(self) -> int:
        return len(self.applied)

    def reload(self, *, force: bool = False) -> bool:
        is_applied = super().reload(force=force)
        if is_applied:
            self.applied.append(settings.AUTH)
        self.has_run.set()
        return is_applied


@pytest.fixture(params=["notifications", "polling"])
def reloads(request: pytest.FixtureRequest, folder: Path) -> Iterator[CountingReloader]:
    """The reloads of a watcher of `folder`, which is notified or polls."""
    before = settings.AUTH
    counted = CountingReloader(folder)
    config = conf.Reloading(
        notify_enabled=request.param == "notifications",
        poller_enabled=request.param == "polling",
        poller_interval=timedelta(milliseconds=50),
        grace_period=timedelta(milliseconds=300),
    )
    watcher = reload.Watcher(folder, counted, config)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    assert counted.has_run.wait(TIMEOUT_SECONDS)
    yield counted
    watcher.stop()
    thread.join()
    settings.AUTH = before


def test_rapid_changes_are_combined_and_other_files_are_ignored(folder: Path, reloads: CountingReloader) -> None:
    for number in range(1, 6):
        put(folder / "01.env", AUTH_JWT_EXP=str(number))
    wait_until(lambda: reloads.count and reloads.applied[-1].jwt.exp.total_seconds() == 5, "a reload")
    count = reloads.count
    assert count < 5
    (folder / "notes.txt").write_text("no setting")
    (folder / "sub.env").mkdir()
    (folder / "01.env").touch()
    time.sleep(0.8)
    assert reloads.count == count


def test_a_missing_directory_is_logged_once_and_watched_when_it_returns(
    folder: Path, reloads: CountingReloader, caplog: pytest.LogCaptureFixture
) -> None:
    away = folder.rename(folder.with_name("away"))
    wait_until(lambda: caplog.records, "the absence is logged")
    time.sleep(0.6)
    assert [record.message for record in caplog.records] == ["reloader: error watching config directory"]

    put(away / "01.env", AUTH_JWT_EXP="1")
    away.rename(folder)
    wait_until(lambda: reloads.count == 1, "a reload")
    put(folder / "01.env", AUTH_JWT_EXP="2")
    wait_until(lambda: reloads.count == 2, "another reload")


def test_changes_are_applied_where_notifications_fail(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: object, **__: object) -> Iterator[set[object]]:
        raise RuntimeError("Error creating recommended watcher: Too many open files (os error 24)")
        yield set()

    monkeypatch.setattr("watchfiles.watch", watch)
    before = settings.AUTH
    reloads = CountingReloader(folder)
    watcher = reload.Watcher(folder, reloads, conf.Reloading(grace_period=timedelta(milliseconds=50)))
    thread = threading.Thread(target=watcher.run)
    thread.start()
    put(folder / "01.env", AUTH_JWT_EXP="1")
    wait_until(lambda: reloads.count == 1, "a reload")
    watcher.stop()
    thread.join()
    settings.AUTH = before
    assert caplog.records[0].message == "reloader: error watching config directory"


def test_a_replaced_directory_is_watched(folder: Path, reloads: CountingReloader) -> None:
    new = folder.with_name("new")
    new.mkdir()
    put(new / "01.env", AUTH_JWT_EXP="1")
    folder.rename(folder.with_name("away"))
    new.rename(folder)
    wait_until(lambda: reloads.count == 1, "a reload")
    put(folder / "01.env", AUTH_JWT_EXP="2")
    wait_until(lambda: reloads.count == 2, "another reload")


def test_symbolic_links_are_followed_as_kubernetes_replaces_them(folder: Path, reloads: CountingReloader) -> None:
    for number, version in enumerate(("..first", "..second"), start=1):
        (folder / version).mkdir()
        put(folder / version / "a.env", AUTH_JWT_EXP=str(number))
    (folder / "..data").symlink_to("..first")
    (folder / "a.env").symlink_to(Path("..data") / "a.env")
    wait_until(lambda: reloads.count == 1, "a reload")

    (folder / "..new").symlink_to("..second")
    (folder / "..new").rename(folder / "..data")
    wait_until(lambda: reloads.count == 2, "another reload")
    assert settings.AUTH.jwt.exp.total_seconds() == 2


def test_a_requested_reload_applies_to_an_unchanged_directory(folder: Path) -> None:
    reloads = CountingReloader(folder)
    watcher = reload.Watcher(folder, reloads, conf.Reloading(notify_enabled=False))
    thread = threading.Thread(target=watcher.run)
    thread.start()
    watcher.request_reload()
    wait_until(lambda: reloads.count == 1, "a reload")
    watcher.stop()
    thread.join()


def test_a_directory_with_too_many_entries_is_not_applied(
    folder: Path, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(reload.MAX_ENTRIES + 1):
        (folder / f"{number}.env").touch()
    assert not reloader.reload()
    [record] = caplog.records
    assert vars(record)["error"] == "more than 1000 entries"


def test_a_request_keeps_the_settings_that_its_server_read(auth_config: ChangeConfig) -> None:
    seen = []

    def application(_environ: object, _start: object) -> list[bytes]:
        seen.append(conf.current())
        return []

    arrived = conf.newest()
    auth_config(jwt={"exp": timedelta(seconds=77)})
    serve = reload.keep_settings(application)
    list(serve({reload.SETTINGS: arrived}, print))
    list(serve({}, print))
    assert [config.jwt.exp.total_seconds() for config in seen] == [arrived.jwt.exp.total_seconds(), 77]


@pytest.mark.parametrize(
    ("limit", "worker", "size"), [(0, True, 4), (100, True, 4), (14, True, 2), (12, True, 1), (8, False, 3)]
)
def test_the_request_slots_follow_the_pool_limit(
    limit: int, worker: bool, size: int, folder: Path, auth_config: ChangeConfig
) -> None:
    auth_config(api={"processes": 2}, mailer={"worker_enabled": worker})
    slots = RequestSlots(4)
    reloader = Reloader(folder, slots)
    put(folder / "01.env", AUTH_DB_MAX_POOL_SIZE=str(limit), AUTH_MAILER_WORKER_ENABLED=str(worker).lower())
    assert reloader.reload()
    assert slots.size == size


def test_a_pool_limit_too_small_for_the_running_processes_is_not_applied(
    folder: Path, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    before = auth_config(api={"processes": 2})
    reloader = Reloader(folder, RequestSlots(4))
    put(folder / "01.env", AUTH_DB_MAX_POOL_SIZE="11")
    assert not reloader.reload()
    assert settings.AUTH is before
    assert "at least 12 while 2 processes run" in vars(caplog.records[-1])["error"]
