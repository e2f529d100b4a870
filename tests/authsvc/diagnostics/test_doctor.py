"""`manage.py doctor` distinguishes working and failing checks, prints remedies and shows no secrets."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from authsvc.conf import Provider, Secret
from authsvc.diagnostics import proxy_echo
from authsvc.diagnostics.database import DatabaseDiagnostic
from authsvc.diagnostics.proxy import ProxyDiagnostic
from authsvc.diagnostics.registry import CheckOutcome, CheckResult, Diagnostic, DiagnosticContext, diagnostics, ok
from mailer.diagnostics import EmailDiagnostic, TemplateDiagnostic
from oauthproviders.diagnostics import ProviderDiagnostic
from tests import ports, preloaded_python
from tests.conftest import Api, ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response, in_json
from tests.fakes.smtp import FakeSmtp
from tests.live import servers
from tests.settings import ENVIRONMENT
from tokens.diagnostics import SigningKeyDiagnostic
from tokens.jwt import signing_keys


def outcomes(diagnostic: Diagnostic, *, url: str = "") -> dict[str, CheckOutcome]:
    """Subject → its worst outcome."""
    order = list(CheckOutcome)
    outcome_by_subject: dict[str, CheckOutcome] = {}
    for result in run_diagnostic(diagnostic, url=url):
        worst = max(outcome_by_subject.get(result.subject, CheckOutcome.OK), result.outcome, key=order.index)
        outcome_by_subject[result.subject] = worst
        assert bool(result.remedy) or result.outcome in (CheckOutcome.OK, CheckOutcome.UNUSED)
    return outcome_by_subject


def run_diagnostic(diagnostic: Diagnostic, *, url: str = "") -> list[CheckResult]:
    return list(diagnostic.run(DiagnosticContext(public_url=url)))


@pytest.mark.django_db
def test_a_ready_database_has_no_findings() -> None:
    result = outcomes(DatabaseDiagnostic())
    assert set(result.values()) == {CheckOutcome.OK}
    assert {"database version", "database rights", "migrations", "queue", "connections", "clock"} <= result.keys()


@pytest.mark.django_db(transaction=True)
def test_missing_migrations_and_missing_workers_are_reported() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE procrastinate_workers CASCADE")
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, scheduled_at)"
            " VALUES ('default', 'x', now() - interval '1 hour')"
        )
        cursor.execute("UPDATE django_migrations SET name = 'x' || name WHERE app = 'tokens' AND name LIKE '0001%'")
    try:
        result = outcomes(DatabaseDiagnostic())
    finally:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_migrations SET name = substr(name, 2) WHERE name LIKE 'x0001%'")
    assert (result["migrations"], result["queue"]) == (CheckOutcome.WARNING, CheckOutcome.FAILURE)


def test_an_unreachable_database_exits_with_1(tmp_path: Path) -> None:
    url = f"postgres://u:hunter2@127.0.0.1:{ports.free_port()}/auth"
    done = preloaded_python.run(
        [str(servers.PROJECT / "manage.py"), "doctor", "--json"],
        env={"PATH": os.environ["PATH"], **ENVIRONMENT, "DATABASE_URL": url},
        folder=tmp_path,
    )
    assert done.returncode == 1
    results = json.loads(done.stdout)
    assert results["works"] is False
    assert [finding["outcome"] for finding in results["findings"] if finding["subject"] == "database"] == ["failure"]
    assert "hunter2" not in done.stdout + done.stderr
    assert ENVIRONMENT["AUTH_JWT_SECRET"] not in done.stdout + done.stderr


@pytest.mark.django_db
def test_success_exits_with_0_and_prints_a_line_per_check() -> None:
    printed = io.StringIO()
    call_command("doctor", stdout=printed)
    lines = printed.getvalue().splitlines()
    assert any(line.startswith("ok       database version: PostgreSQL ") for line in lines)
    assert any(line.startswith("unused   email: no mail server is configured") for line in lines)
    assert lines[-1] == "0 failures, 0 warnings"


class FaultyDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        yield ok("first", "works")
        raise RuntimeError("token=hunter2 is\nnot expected")


@pytest.mark.django_db
def test_a_diagnostic_that_raises_is_a_failure_and_the_others_run() -> None:
    diagnostics.insert(0, FaultyDiagnostic())
    try:
        printed = io.StringIO()
        with pytest.raises(SystemExit) as caught:
            call_command("doctor", stdout=printed)
    finally:
        del diagnostics[0]
    first, failed, *others = printed.getvalue().splitlines()
    assert caught.value.code == 1
    assert first == "ok       first: works"
    assert failed == f"FAILURE  {__name__}: RuntimeError: token=*** is"
    assert any(line.startswith("ok       database version: PostgreSQL ") for line in others)


def test_the_mail_server_is_contacted_without_sending_an_email(auth_config: ChangeConfig) -> None:
    with FakeSmtp(mechanisms=["PLAIN"]) as server:
        auth_config(smtp={"host": server.host, "port": server.port, "admin_email": "a@example.com"})
        [result] = run_diagnostic(EmailDiagnostic())
        assert result.outcome is CheckOutcome.OK
        assert server.received == []
        auth_config(smtp={"user": "me", "password": Secret("wrong hunter2")})
        [result] = run_diagnostic(EmailDiagnostic())
        assert result.outcome is CheckOutcome.FAILURE
        assert "hunter2" not in result.message + result.remedy
    [result] = run_diagnostic(EmailDiagnostic())
    assert result.outcome is CheckOutcome.FAILURE
    assert "refused" in result.message.lower()


@pytest.mark.parametrize(
    ("backend", "expected"),
    [("django.core.mail.backends.locmem.EmailBackend", CheckOutcome.OK), ("no.such.Backend", CheckOutcome.FAILURE)],
)
def test_an_email_backend_is_created_and_not_used(
    backend: str, expected: CheckOutcome, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"backend": backend}, smtp={"admin_email": "a@example.com"})
    assert outcomes(EmailDiagnostic()) == {"email": expected}


def test_templates_are_fetched_and_read(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"templates": {"recovery": f"{peer.url}/good", "invite": f"{peer.url}/broken"}})
    peer.respond(Response(body=b"<p>{{ .Token }}</p>"), path="/good")
    peer.respond(Response(body=b"<p>{{ .Token </p>"), path="/broken")
    outcomes = {
        result.message.partition(" ")[0].rstrip(":"): result.outcome for result in run_diagnostic(TemplateDiagnostic())
    }
    assert (outcomes["recovery"], outcomes["invite"]) == (CheckOutcome.OK, CheckOutcome.FAILURE)


def provider(url: str, **changed: Any) -> Provider:
    section: dict[str, Any] = {"enabled": True, "client_ids": ("a",), "secret": Secret("hunter2"), "url": url}
    return Provider(**{**section, "redirect_uri": "http://127.0.0.1:8081/callback", **changed})


@pytest.mark.parametrize(
    ("changed", "status", "expected"),
    [
        pytest.param({}, 302, CheckOutcome.OK, id="it answers"),
        pytest.param({}, 503, CheckOutcome.WARNING, id="it is in trouble"),
        pytest.param({"secret": Secret("")}, 200, CheckOutcome.FAILURE, id="no secret"),
        pytest.param({"redirect_uri": "http://elsewhere/callback"}, 200, CheckOutcome.WARNING, id="another callback"),
        pytest.param({"url": "http://127.0.0.1:9"}, 200, CheckOutcome.FAILURE, id="unreachable"),
    ],
)
@pytest.mark.django_db
def test_a_provider_is_reached_with_complete_settings(
    changed: dict[str, Any], status: int, expected: CheckOutcome, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(providers={"github": provider(**{"url": peer.url, **changed})})
    peer.respond(Response(status=status))
    assert outcomes(ProviderDiagnostic()) == {"provider github": expected}


def test_a_weak_key_and_a_key_without_an_id_are_reported(auth_config: ChangeConfig) -> None:
    strong = signing_keys.generate(algorithm="RS256")
    auth_config(jwt={"keys": (strong,), "secret": Secret("s" * 32)})
    assert outcomes(SigningKeyDiagnostic()) == {"keys": CheckOutcome.OK}
    auth_config(jwt={"keys": ({name: value for name, value in strong.items() if name != "kid"},)})
    assert outcomes(SigningKeyDiagnostic()) == {"keys": CheckOutcome.WARNING}
    auth_config(jwt={"keys": (strong, {**WEAK, "kid": "w"})})
    assert outcomes(SigningKeyDiagnostic()) == {"keys": CheckOutcome.FAILURE}
    auth_config(jwt={"keys": ({**strong, "n": "?"},)})
    assert outcomes(SigningKeyDiagnostic()) == {"keys": CheckOutcome.FAILURE}


# The modulus of a 1024-bit key.
WEAK = {
    "kty": "RSA",
    "alg": "RS256",
    "key_ops": ["verify"],
    "e": "AQAB",
    "n": "v_____________________________________________________________________________________________________"
    "_____________________________________________________________________w",
}


def image(address: str = "10.0.0.9", forwarded_for: str = "10.0.0.9", peer: str = "10.0.0.1") -> Response:
    document = {"request": {"peer": peer, "address": address, "forwarded_for": forwarded_for, "host": "a"}}
    return in_json(document)


FORGED, TWIN = "192.0.2.77", "198.51.100.77"


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        pytest.param([image()] * 4, CheckOutcome.OK, id="a proxy that replaces"),
        pytest.param(
            [image(), image(FORGED, FORGED), image(), image()],
            CheckOutcome.FAILURE,
            id="a proxy that passes the header on",
        ),
        pytest.param(
            [image(), image(), image(TWIN, f"10.0.0.9, {TWIN}"), image()],
            CheckOutcome.FAILURE,
            id="the twin with underscores",
        ),
        pytest.param(
            [image(), image(FORGED, f"{FORGED}, 10.0.0.9"), image(), image()],
            CheckOutcome.WARNING,
            id="request from a trusted host",
        ),
        pytest.param([image("10.0.0.1", "10.0.0.9")] * 4, CheckOutcome.WARNING, id="a proxy that is not trusted"),
        pytest.param([image("10.0.0.1", "")] * 4, CheckOutcome.WARNING, id="a proxy that says nothing"),
        pytest.param([image(), image(), image(), image(FORGED)], CheckOutcome.FAILURE, id="forged addresses accepted"),
    ],
)
def test_the_proxys_client_addresses_are_checked(
    images: list[Response], expected: CheckOutcome, peer: HttpPeer
) -> None:
    peer.respond(in_json({}), *images)
    assert outcomes(ProxyDiagnostic(), url=peer.url)["client address"] is expected


def test_a_request_from_the_proxy_host_causes_no_warning(peer: HttpPeer) -> None:
    peer.respond(in_json({}), *[image("10.0.0.1", "10.0.0.1")] * 4)
    [warned] = [
        result
        for result in run_diagnostic(ProxyDiagnostic(), url=peer.url)
        if result.outcome is CheckOutcome.WARNING and result.subject == "client address"
    ]
    assert warned.remedy == "Run this command on another host."


def test_another_server_at_the_public_address_is_reported(peer: HttpPeer) -> None:
    peer.respond(in_json({"name": "another"}))
    assert outcomes(ProxyDiagnostic(), url=peer.url) == {"proxy": CheckOutcome.FAILURE}


def test_the_proxy_echo_requires_a_signed_token(serve: Callable[..., servers.LiveServer], api: Api) -> None:
    running = serve()
    result = outcomes(ProxyDiagnostic(), url=running.url)
    assert result["client address"] is CheckOutcome.WARNING  # this host is a trusted proxy
    assert result["clock"] is CheckOutcome.OK

    assert (
        api.get("/health", headers={proxy_echo.HEADER: proxy_echo.signed_token()}).json()["request"]["address"]
        == "127.0.0.1"
    )
    for forged in ("", "show", "show:1:x", proxy_echo.signed_token() + "x"):
        assert "request" not in api.get("/health", headers={proxy_echo.HEADER: forged}).json()
