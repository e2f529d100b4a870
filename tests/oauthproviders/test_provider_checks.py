"""The steps of a provider's test, with correct, broken, slow and hostile servers."""

from __future__ import annotations

import dataclasses
import socket
import time
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import responses
from django.utils import timezone

from authsvc.diagnostics.registry import CheckOutcome, DiagnosticContext
from oauthproviders import provider_checks, registry
from oauthproviders.base import deadline
from oauthproviders.custom import custom_providers
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.diagnostics import ProviderDiagnostic
from oauthproviders.models import CustomProvider
from oauthproviders.provider_checks import Step
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, MockedServer, Response, in_json, redirect
from tests.fakes.issuer import Issuer, SigningKey
from tests.fakes.smtp import server_tls
from tests.oauthproviders.browser import provider_settings

RSA, EC = SigningKey(), SigningKey("ES256", kid="second")
CLIENT = "Token endpoint and client"
ALL_STEPS = [
    "URL", "DNS", "Outgoing rules", "Connection and TLS", "HTTP response", "Discovery document", "Issuer", "Endpoints",
    "Signing algorithms", "Keys", "Client features", CLIENT,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _private_networks(auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"private_networks_enabled": True})


@pytest.fixture
def issuer(mocked_requests: responses.RequestsMock) -> Issuer:
    """An issuer that answers without a network, and accepts the client."""
    issuer = Issuer(MockedServer(mocked_requests, url="https://127.0.0.1:9443"), key=RSA)
    issuer.server.respond(in_json({"error": "invalid_grant"}, status=400), path="/token")
    return issuer


@pytest.fixture
def tls_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """A server on loopback with a certificate of an authority that the environment names."""
    context, authority = server_tls(tmp_path, host="127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    with HttpPeer(tls=context) as running:
        yield running


def openid_row(issuer: str, **values: Any) -> CustomProvider:
    """An unsaved provider."""
    given = {"identifier": "custom:corp", "name": "Corp", "client_id": "i d", "client_secret": "s&c", "issuer": issuer}
    definition = ProviderDefinition(provider_type="oidc", **{**given, **values})
    return custom_providers.preview(definition, row=None, at=timezone.now())


def oauth2_row(url: str, **values: Any) -> CustomProvider:
    paths = {"authorization_url": "/a", "token_url": "/token", "userinfo_url": "/u"}
    given: dict[str, Any] = {"identifier": "custom:acme", "name": "Acme", "client_id": "i d", "client_secret": "s&c"}
    given |= {name: f"{url}{path}" for name, path in paths.items()}
    definition = ProviderDefinition(provider_type="oauth2", **{**given, **values})
    return custom_providers.preview(definition, row=None, at=timezone.now())


def check(row: CustomProvider, *, sends_secret: bool = True) -> dict[str, Step]:
    return {step.result.subject: step for step in provider_checks.custom_provider_steps(row, sends_secret=sends_secret)}


def outcomes(steps: dict[str, Step], outcome: CheckOutcome) -> list[str]:
    return [name for name, step in steps.items() if step.result.outcome == outcome]


def assert_failed(steps: dict[str, Step], subject: str, *texts: str) -> None:
    """Assert that a step failed with these texts and a remedy."""
    result = steps[subject].result
    assert (result.outcome, bool(result.remedy)) == (CheckOutcome.FAILURE, True)
    for text in texts:
        assert text in result.message


# OpenID Connect


def test_each_step_of_a_correct_provider_passes(issuer: Issuer) -> None:
    issuer.publish_discovery(id_token_signing_alg_values_supported=["RS256", "ES256", "HS256"])
    issuer.publish_keys(RSA, EC)
    steps = check(openid_row(issuer.name))
    assert list(steps) == ALL_STEPS
    assert outcomes(steps, CheckOutcome.OK) == ALL_STEPS
    assert all(step.seconds is not None and step.seconds >= 0 for step in steps.values())
    assert "127.0.0.1" in steps["DNS"].result.message
    assert "AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED" in steps["Outgoing rules"].result.message
    assert steps["Signing algorithms"].result.message == "RS256, ES256; never accepted: HS256"
    assert "“second” (EC) for ES256" in steps["Keys"].result.message
    assert steps[CLIENT].result.message.endswith("(by HTTP Basic)")
    sent = issuer.server.received[-1]
    assert (sent.method, sent.path, sent.headers["Authorization"]) == ("POST", "/token", "Basic aStkOnMlMjZj")
    assert sent.form["grant_type"] == "authorization_code"
    assert len(sent.form["code_verifier"]) == 43


@pytest.mark.parametrize(
    ("document", "failing", "text"),
    [
        (Response(body=b"<html>"), "Discovery document", "the response is not JSON"),
        (in_json([]), "Discovery document", "wrong type"),
        (in_json({"issuer": 5}), "Discovery document", "Expected `str`, got `int` - at `$.issuer`"),
        (in_json({"issuer": "a\0b"}), "Discovery document", "U+0000"),
        (Response(status=404), "HTTP response", "status 404"),
        (Response(status=500), "HTTP response", "status 500"),
        (redirect("https://other.example/x"), "HTTP response", "redirect to “https://other.example/x”"),
    ],
)
def test_later_steps_are_not_run_without_a_document(
    issuer: Issuer, document: Response, failing: str, text: str
) -> None:
    issuer.server.respond(document, path=issuer.discovery_path)
    steps = check(openid_row(issuer.name))
    assert_failed(steps, failing, text)
    assert set(steps) == set(ALL_STEPS)
    assert outcomes(steps, CheckOutcome.UNUSED) == ALL_STEPS[ALL_STEPS.index(failing) + 1 :]
    assert len(issuer.server.received) == 1


@pytest.mark.parametrize(
    ("changes", "failing", "texts"),
    [
        ({"issuer": "https://127.0.0.1:9443/"}, "Issuer", ["names “https://127.0.0.1:9443/”, but"]),
        ({"issuer": None}, "Issuer", ["no issuer"]),
        ({"token_endpoint": None, "jwks_uri": None}, "Endpoints", ["token_endpoint is missing; jwks_uri is missing"]),
        ({"userinfo_endpoint": "http://127.0.0.1/u"}, "Endpoints", ["userinfo_endpoint: URL must use HTTPS"]),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "Signing algorithms", ["HS256, none only"]),
        (
            {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
            "Client features",
            ["supports only private_key_jwt"],
        ),
        ({"response_types_supported": ["id_token"]}, "Client features", ["supports only id_token"]),
    ],
)
def test_a_wrong_value_fails_its_step_and_the_others_run(
    issuer: Issuer, changes: dict[str, Any], failing: str, texts: list[str]
) -> None:
    issuer.publish_discovery(**changes)
    steps = check(openid_row("https://127.0.0.1:9443"))
    assert_failed(steps, failing, *texts)
    assert steps["Client features"].seconds is not None
    for name in ("Discovery document", "DNS"):
        assert steps[name].result.outcome == CheckOutcome.OK


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scopes_supported": ["openid", "email"]}, "does not list the scopes groups, only openid, email"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not list PKCE by S256"),
    ],
)
def test_unlisted_scopes_and_pkce_are_warnings(issuer: Issuer, changes: dict[str, Any], text: str) -> None:
    issuer.publish_discovery(**changes)
    steps = check(openid_row(issuer.name, scopes=["openid", "groups"]))
    assert outcomes(steps, CheckOutcome.WARNING) == ["Client features"]
    assert text in steps["Client features"].result.message


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (Response(status=503), "status 503"),
        (Response(body=b"x"), "not JSON"),
        (in_json({"keys": {}}), "no list of keys"),
        (in_json({"keys": []}), "no key verifies a signature by RS256; 0 keys"),
        (in_json({"keys": [EC.jwk]}), "“second” (EC) not usable"),
        (in_json({"keys": [{"kty": "RSA", "kid": "k", "n": "!", "e": "AQAB"}]}), "“k” (RSA) not usable"),
        (in_json({"keys": [{**RSA.jwk, "use": "enc"}]}), "not usable"),
    ],
)
def test_unusable_keys_fail(issuer: Issuer, keys: Response, text: str) -> None:
    issuer.server.respond(keys, path=issuer.keys_path)
    steps = check(openid_row(issuer.name))
    assert_failed(steps, "Keys", text)
    assert steps[CLIENT].result.outcome == CheckOutcome.OK


def test_another_url_of_the_document_is_used(issuer: Issuer) -> None:
    elsewhere = Issuer(issuer.server, path="/elsewhere", key=RSA)
    elsewhere.name = "https://127.0.0.1:9443/realm"
    elsewhere.publish_discovery()
    steps = check(openid_row(elsewhere.name, discovery_url=f"https://127.0.0.1:9443{elsewhere.discovery_path}"))
    assert outcomes(steps, CheckOutcome.FAILURE) == [CLIENT]  # its token endpoint answers 404
    assert "status 404" in steps[CLIENT].result.message


def test_texts_of_the_server_are_short_and_harmless(issuer: Issuer) -> None:
    hostile = "https://x/\u202e\x1b[2J" + "a" * 5000
    issuer.publish_discovery(issuer=hostile, scopes_supported=[hostile] * 50)
    steps = check(openid_row("https://127.0.0.1:9443"))
    for step in steps.values():
        text = step.result.message + step.result.remedy
        assert len(text) < 4000
        assert "\u202e" not in text
        assert "\x1b" not in text


# The client at the token endpoint


@pytest.mark.parametrize(
    ("returned", "outcome", "text"),
    [
        ([in_json({"error": "invalid_client"}, status=401)] * 2, CheckOutcome.FAILURE, "refuses the client"),
        ([Response(status=401)] * 2, CheckOutcome.FAILURE, "refuses the client"),
        ([in_json({"error": "unauthorized_client"}, status=400)] * 2, CheckOutcome.FAILURE, "must not use"),
        ([in_json({"error": "invalid_client"}, status=401), in_json({"error": "invalid_grant"}, status=400)],
         CheckOutcome.OK, "(in the body)"),
        ([in_json({"error": "invalid_client"}, status=401), in_json({"error": "redirect_uri_mismatch"}, status=400)],
         CheckOutcome.WARNING, "“redirect_uri_mismatch”"),
        ([in_json({"error": "bad_verification_code"})], CheckOutcome.OK, "(by HTTP Basic)"),
        ([Response(headers={"Content-Type": "text/plain"}, body=b"error=invalid_grant")],
         CheckOutcome.OK, "by HTTP Basic"),
        ([in_json({"error": "invalid_request"}, status=400)] * 2, CheckOutcome.WARNING, "“invalid_request”"),
        ([in_json({"error": ["x"]}, status=400)] * 2, CheckOutcome.WARNING, "“none”"),
        ([in_json([], status=400)] * 2, CheckOutcome.WARNING, "“none”"),
        ([Response(status=503)] * 2, CheckOutcome.FAILURE, "status 503"),
        ([redirect("/x")] * 2, CheckOutcome.FAILURE, "status 302"),
    ],
)  # fmt: skip
def test_the_error_of_the_token_endpoint_tells_whether_it_accepts_the_client(
    issuer: Issuer, returned: list[Response], outcome: CheckOutcome, text: str
) -> None:
    issuer.server.respond(*returned, path="/token")
    result = check(openid_row(issuer.name))[CLIENT].result
    assert (result.outcome, bool(result.remedy)) == (outcome, outcome != CheckOutcome.OK)
    assert text in result.message
    assert "s&c" not in result.message


def test_the_secret_is_not_sent_if_it_must_not_be(issuer: Issuer) -> None:
    steps = check(openid_row(issuer.name), sends_secret=False)
    assert steps[CLIENT].result.outcome == CheckOutcome.UNUSED
    assert {received.method for received in issuer.server.received} == {"GET"}


# OAuth 2.0


def test_endpoints_of_an_oauth2_provider(issuer: Issuer) -> None:
    issuer.server.respond(Response(status=200), path="/a")
    issuer.server.respond(Response(status=401), path="/u")
    steps = check(oauth2_row(issuer.url))
    assert list(steps) == ["Authorization endpoint", "User info endpoint", CLIENT]
    assert outcomes(steps, CheckOutcome.OK) == list(steps)
    assert "Authorization" not in issuer.server.received[1].headers


@pytest.mark.parametrize("status", [302, 404, 502])
def test_suspicious_statuses_of_endpoints_are_warnings(issuer: Issuer, status: int) -> None:
    issuer.server.respond(Response(status=200), path="/a")
    issuer.server.respond(Response(status=status), path="/u")
    assert outcomes(check(oauth2_row(issuer.url)), CheckOutcome.WARNING) == ["User info endpoint"]


# Rules for addresses


@pytest.mark.parametrize(
    ("url", "failing", "text"),
    [
        ("http://8.8.8.8", "URL", "URL must use HTTPS"),
        ("https://user@8.8.8.8", "URL", "URL must have a valid hostname"),
        ("https://127.0.0.1:9443", "Outgoing rules", "URL cannot point to localhost or loopback addresses"),
        ("https://169.254.169.254", "Outgoing rules", "URL cannot resolve to cloud metadata endpoints"),
        ("https://10.0.0.1", "Outgoing rules", "URL cannot resolve to private network addresses"),
        ("https://unknown.invalid", "DNS", "has no address"),
    ],
)
def test_no_request_leaves_for_a_forbidden_address(
    issuer: Issuer, auth_config: ChangeConfig, url: str, failing: str, text: str
) -> None:
    auth_config(custom_providers={"private_networks_enabled": False})
    assert_failed(check(openid_row(url)), failing, text)
    steps = check(oauth2_row(url))
    for subject in ("User info endpoint", CLIENT):
        assert steps[subject].result.outcome == CheckOutcome.FAILURE
    assert issuer.server.received == []


def test_the_rules_apply_to_the_issuer_too(issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"private_networks_enabled": False})
    steps = check(openid_row("https://10.0.0.1", discovery_url="https://8.8.8.8/x"))
    assert_failed(steps, "Outgoing rules", "URL cannot resolve to private network addresses: “https://10.0.0.1”")


def test_forbidden_addresses_in_the_document_get_no_request(
    issuer: Issuer, auth_config: ChangeConfig, mocked_requests: responses.RequestsMock
) -> None:
    auth_config(custom_providers={"private_networks_enabled": False})
    public = Issuer(MockedServer(mocked_requests, url="https://8.8.8.8"), key=RSA)
    public.publish_discovery(jwks_uri=f"{issuer.url}/keys", token_endpoint=f"{issuer.url}/token")
    steps = check(openid_row(public.name))
    loopback = "URL cannot point to localhost or loopback addresses"
    assert_failed(steps, "Endpoints", f"token_endpoint: {loopback}", f"jwks_uri: {loopback}")
    assert_failed(steps, "Keys", loopback)
    assert_failed(steps, CLIENT, loopback)
    assert issuer.server.received == []


# Real connections


def test_a_server_with_tls(tls_peer: HttpPeer) -> None:
    issuer = Issuer(tls_peer, key=RSA)
    tls_peer.respond(in_json({"error": "invalid_grant"}, status=400), path="/token")
    steps = check(openid_row(issuer.name))
    assert outcomes(steps, CheckOutcome.OK) == ALL_STEPS
    assert steps["Connection and TLS"].result.message == "the certificate is valid"


def test_an_unknown_authority_fails_at_tls(tls_peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    steps = check(openid_row(tls_peer.url))
    assert_failed(steps, "Connection and TLS", "TLS: ")
    assert "REQUESTS_CA_BUNDLE" in steps["Connection and TLS"].result.remedy
    assert all("REQUESTS_CA_BUNDLE" in step.result.remedy for step in check(oauth2_row(tls_peer.url)).values())
    assert tls_peer.received == []


def test_a_closed_port_is_a_failed_connection() -> None:
    assert_failed(check(openid_row("https://127.0.0.1:9")), "Connection and TLS", "Connection refused")


def test_a_server_that_does_not_answer_is_left_after_the_timeout(tls_peer: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.3)})
    tls_peer.respond(Response(hang=True))
    steps = check(openid_row(tls_peer.url))
    [failed] = outcomes(steps, CheckOutcome.FAILURE)
    assert_failed(steps, failed, "timed out")
    assert "AUTH_INTERNAL_HTTP_TIMEOUT" in steps[failed].result.remedy


def test_all_steps_share_one_deadline(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(deadline, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

    def wait() -> None:
        now[0] += 8.0

    keys = in_json({"keys": [RSA.jwk]})
    issuer.server.respond(dataclasses.replace(keys, before=wait), path=issuer.keys_path)
    steps = check(openid_row(issuer.name))
    assert steps["Keys"].result.outcome == CheckOutcome.OK
    assert_failed(steps, CLIENT, "timed out")
    assert {received.path for received in issuer.server.received} == {issuer.discovery_path, issuer.keys_path}


@pytest.mark.parametrize(
    "response",
    [
        Response(raw=b"SSH-2.0-OpenSSH\r\n"),
        Response(raw=b"", close=True),
        Response(headers={"Content-Length": "2000000"}, body=b" " * 2_000_000),
    ],
)
def test_responses_that_cannot_be_read_are_failures(tls_peer: HttpPeer, response: Response) -> None:
    tls_peer.respond(response)
    steps = check(openid_row(tls_peer.url))
    assert len(outcomes(steps, CheckOutcome.FAILURE)) == 1
    assert outcomes(steps, CheckOutcome.UNUSED)


# Built-in providers


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_the_discovery_document_of_keycloak(
    mocked_requests: responses.RequestsMock, auth_config: ChangeConfig, scheme: str
) -> None:
    server = MockedServer(mocked_requests, url=f"{scheme}://127.0.0.1:9444")
    realm = Issuer(server, path="/realms/a", key=RSA)
    server.respond(in_json({"error": "invalid_grant"}, status=400), path="/realms/a/token")
    auth_config(
        custom_providers={"private_networks_enabled": False},  # which is about custom providers only
        api={"external_url": "https://auth.example.com"},
        providers={"keycloak": provider_settings(url=realm.url)},
    )
    steps = provider_checks.built_in_provider_steps("keycloak")
    assert {step.result.subject: step.result.message for step in steps if step.result.outcome != CheckOutcome.OK} == {}
    assert [step.result.subject for step in steps] == ["Settings", *ALL_STEPS]


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://a:99999/", "http://", "ftp://a/", "file:///etc/passwd", "x", "//a"]
)
def test_invalid_urls_in_a_document_over_http_are_failures(
    mocked_requests: responses.RequestsMock, auth_config: ChangeConfig, url: str
) -> None:
    realm = Issuer(MockedServer(mocked_requests, url="http://127.0.0.1:9444"), key=RSA)
    realm.publish_discovery(jwks_uri=url, token_endpoint=url)
    auth_config(providers={"keycloak": provider_settings(url=realm.url)})
    steps = {step.result.subject: step for step in provider_checks.built_in_provider_steps("keycloak")}
    for subject in ("Endpoints", "Keys", CLIENT):
        assert_failed(steps, subject, f"“{url}” is not an http(s) URL")


def test_a_dns_that_does_not_answer_is_told_apart(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, auth_config: ChangeConfig
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: time.sleep(0.3))
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.02)})
    assert_failed(check(openid_row(issuer.name)), "DNS", "the DNS did not answer in time")
    assert issuer.server.received == []


def test_a_built_in_provider_without_discovery(
    mocked_requests: responses.RequestsMock, auth_config: ChangeConfig
) -> None:
    server = MockedServer(mocked_requests, url="https://127.0.0.1:9444")
    server.respond(Response(status=200))
    auth_config(
        api={"external_url": "https://other.example.com"},
        providers={"github": provider_settings(url=server.url)},
    )
    steps = provider_checks.built_in_provider_steps("github")
    assert [(step.result.subject, step.result.outcome) for step in steps] == [
        ("Settings", CheckOutcome.WARNING),
        ("Authorization endpoint", CheckOutcome.OK),
        ("Token endpoint", CheckOutcome.OK),
    ]  # fmt: skip
    assert "AUTH_EXTERNAL_GITHUB_REDIRECT_URI" in steps[0].result.remedy


def test_incomplete_settings_end_the_test(auth_config: ChangeConfig) -> None:
    auth_config(providers={"keycloak": provider_settings()})
    [step] = provider_checks.built_in_provider_steps("keycloak")
    assert step.result.message == "unable to find URL for the Keycloak provider"


@pytest.mark.parametrize(
    ("name", "url", "issuer"),
    [
        ("google", "", "https://accounts.google.com"),
        ("apple", "", "https://appleid.apple.com"),
        ("azure", "https://login.microsoftonline.com/t", "https://login.microsoftonline.com/t/v2.0"),
        ("azure", "", ""),
        ("github", "", ""),
        ("twitter", "", ""),
    ],
)
def test_issuers_of_built_in_providers(name: str, url: str, issuer: str) -> None:
    backend: Any = registry.PROVIDERS[name].make(provider_settings(url=url), data={})
    assert backend.openid_issuer == issuer


# manage.py doctor


@pytest.mark.django_db
def test_the_doctor_reports_failing_steps_of_custom_providers(issuer: Issuer) -> None:
    openid_row(issuer.name).save(force_insert=True)
    oauth2_row(issuer.url, enabled=False).save(force_insert=True)
    context = DiagnosticContext(public_url="")

    def results() -> list[tuple[str, CheckOutcome, str]]:
        found = [(finding.subject, finding.outcome, finding.message) for finding in ProviderDiagnostic().run(context)]
        return [finding for finding in found if finding[0] != "providers"]

    [(subject, outcome, message)] = results()
    assert (subject, outcome) == ("provider custom:corp", CheckOutcome.OK)
    assert message.startswith("11 steps pass: URL, DNS")
    issuer.server.respond(Response(status=503), path=issuer.keys_path)
    issuer.publish_discovery(scopes_supported=["email"])
    keys, features = results()
    assert keys == ("provider custom:corp", CheckOutcome.FAILURE, "Keys: status 503, no media type")
    assert features[1] == CheckOutcome.WARNING
    assert {received.method for received in issuer.server.received} == {"GET"}
