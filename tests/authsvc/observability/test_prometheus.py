"""Prometheus reads the metrics of all serving processes, with every series that dashboard and alert rules use."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

import authsvc
from authsvc import conf
from authsvc.observability import prometheus as listener
from tests import ports
from tests.live import servers
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Serve = Callable[..., servers.LiveServer]

DEPLOY = servers.PROJECT / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "authsvc.json"
PASSWORD = "correct horse 1"
# Names in an expression that are neither functions, keywords, labels nor durations.
_SERIES = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b(?!\s*\()")
_NO_SERIES = frozenset({"histogram_quantile"})


class Page:
    """The metrics of a listener, read again for each value."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels; 0 while the listener does not answer."""
        try:
            text = requests.get(self.url, timeout=10).text
        except requests.RequestException:
            return 0
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def wait(self) -> None:
        wait_until(lambda: ports.is_listening(int(self.url.rpartition(":")[2].rstrip("/"))), "a listener of metrics")


def settings(port: int, **more: str) -> dict[str, str]:
    return {
        "AUTH_METRICS_ENABLED": "true",
        "AUTH_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        **more,
    }


def named_series() -> set[str]:
    """Series that the dashboard and the rules query."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    expressions += re.findall(r"expr:(.*?)(?=\n {8}\w+:)", RULES.read_text(), re.DOTALL)
    bare = [re.sub(r"\{[^}]*\}|\"[^\"]*\"|\bby \([^)]*\)|\[[^\]]*\]", "", expression) for expression in expressions]
    return {name for expression in bare for name in _SERIES.findall(expression)} - _NO_SERIES | {"up"}


def needs(program: str) -> str:
    """The path of a program; if it is missing, skips the test, or fails it in CI."""
    path = shutil.which(program)
    if path is None:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing(f"{program} of Debian's package prometheus is not installed")
    return str(path)


def test_promtool_accepts_rules_and_configuration() -> None:
    promtool = needs("promtool")
    for arguments in (["check", "rules", RULES], ["check", "config", DEPLOY / "prometheus" / "prometheus.yml"]):
        done = subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_message_that_is_retried_is_no_alert_but_several_are(tmp_path: Path) -> None:
    def test_of(attempts: str, samples: list[dict[str, Any]]) -> dict[str, Any]:
        series = 'auth_message_deliveries_total{channel="email",outcome="%s"}'
        inputs = [
            {"series": series % outcome, "values": values}
            for outcome, values in (("delivered", "0x40"), ("failed", "0x40"), ("retry", attempts))
        ]
        query = {"expr": 'count(ALERTS{alertname="AuthsvcMailFailing",alertstate="firing"})', "eval_time": "16m"}
        return {"interval": "1m", "input_series": inputs, "promql_expr_test": [query | {"exp_samples": samples}]}

    # The pauses are 5 s, 30 s, 2 min and 10 min.
    tests = [test_of("0 3 3 4x9 5x30", []), test_of("0 6 6 8x9 10x30", [{"labels": "{}", "value": 1}])]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([needs("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_severity_summary_and_runbook() -> None:
    alerts = re.split(r"\n {6}- alert: ", RULES.read_text())[1:]
    assert len(alerts) > 8
    for alert in alerts:
        assert re.search(r"severity: (critical|warning|info)", alert)
        assert "summary: " in alert
        assert "runbook: " in alert


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """`prometheus(port)` starts a Prometheus that reads this port every second, and returns its URL."""
    program = needs("prometheus")
    started: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> str:
        own = ports.free_port()
        text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        text = text.replace("15s", "1s").replace("authsvc:9100", f"127.0.0.1:{port}").replace("rules.yml", str(RULES))
        (tmp_path / "prometheus.yml").write_text(text)
        command = [program, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        with (tmp_path / "prometheus.log").open("wb") as log:
            started.append(
                subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
            )
        return f"http://127.0.0.1:{own}"

    yield start
    for process in started:
        process.kill()
        process.wait()


def series(address: str) -> set[str]:
    try:
        response = requests.get(f"{address}/api/v1/label/__name__/values", timeout=TIMEOUT_SECONDS).json()
    except requests.RequestException:
        return set()
    return set(response.get("data", []))


def test_every_series_of_dashboard_and_rules_exists(serve: Serve, prometheus: Callable[[int], str]) -> None:
    port = ports.free_port()
    unreachable_smtp = {"AUTH_SMTP_HOST": "127.0.0.1", "AUTH_SMTP_PORT": str(ports.free_port())}
    more = {"AUTH_SMTP_ADMIN_EMAIL": "auth@example.com", "AUTH_RATE_LIMIT_EMAIL_SENT": "1"}
    server = serve(**settings(port, **unreachable_smtp, **more))
    address = prometheus(port)
    account = {"email": "ann@example.com", "password": PASSWORD}
    assert requests.post(f"{server.url}/signup", json=account, timeout=TIMEOUT_SECONDS).ok
    rejected = requests.post(
        f"{server.url}/signup", json=account | {"email": "bob@example.com"}, timeout=TIMEOUT_SECONDS
    )
    assert rejected.status_code == 429
    assert (
        requests.post(f"{server.url}/token?grant_type=password", json=account, timeout=TIMEOUT_SECONDS).status_code
        == 400
    )

    wait_until(lambda: named_series() <= series(address), "all series in Prometheus")
    wait_until(lambda: {rule["health"] for rule in rules(address)} == {"ok"}, "healthy rules")
    assert len(named_series()) > 40


def rules(address: str) -> list[dict[str, Any]]:
    (group,) = requests.get(f"{address}/api/v1/rules", timeout=TIMEOUT_SECONDS).json()["data"]["groups"]
    group_rules: list[dict[str, Any]] = group["rules"]
    return group_rules


@pytest.mark.parametrize("program", ["granian", "gunicorn"])
def test_metrics_of_all_processes_are_summed_and_survive_them(program: str, serve: Serve) -> None:
    port = ports.free_port()
    page = Page(port)
    server = serve(program, **settings(port, OTEL_RESOURCE_ATTRIBUTES="team=accounts"))
    page.wait()
    for _ in range(30):
        assert requests.get(f"{server.url}/settings", timeout=TIMEOUT_SECONDS).ok
    latency = "django_http_requests_latency_seconds_by_view_method"
    wait_until(lambda: responses(page, view="/settings", status="200") == 30, "30 counted responses")
    assert page.value(f"{latency}_count", view="/settings", method="GET") == 30
    assert page.value(f"{latency}_bucket", view="/settings", le="+Inf") == 30
    assert 0 < page.value(f"{latency}_sum", view="/settings") < 300
    assert page.value("auth_running") == 1
    assert page.value("process_open_fds") > 0
    assert page.value("target_info", auth_version=authsvc.__version__, team="accounts") == 1
    wait_until(lambda: page.value("django_migrations_applied_total") > 0, "counted migrations")
    assert page.value("django_migrations_unapplied_total") == 0
    assert requests.get(f"{page.url}metrics", timeout=TIMEOUT_SECONDS).status_code == 404
    with socket.create_connection(("127.0.0.1", port)) as one, socket.create_connection(("127.0.0.1", port)) as other:
        one.sendall(b"GET / HT")
        other.sendall(b"GET / HTTP/1.0\r\nHost: ")
        wait_until(lambda: has_closed(one) and has_closed(other), "two closed connections")

    for serving in psutil.Process(server.process.pid).children():
        serving.kill()
    wait_until(lambda: responses(page, view="/settings", status="200") == 30, "30 counted responses")
    wait_until(lambda: page.value("auth_running") == 1, "one running server")
    assert server.stop() == 0
    assert not ports.is_listening(port)
    assert "unable to start metrics listener" not in server.log.read_text()


def has_closed(slow: socket.socket) -> bool:
    """Return True if the server has closed the connection; otherwise send one more byte."""
    try:
        slow.sendall(b"x")
        return slow.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def responses(page: Page, **labels: str) -> float:
    return page.value("django_http_responses_total_by_status_view_method_total", **labels)


def test_an_error_of_the_listener_names_its_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            listener.listen(conf.Telemetry(prometheus_host="127.0.0.1", prometheus_port=port))
