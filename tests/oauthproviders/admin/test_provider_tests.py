"""Tests of providers in the console, before and after saving, and the pages of built-in providers."""

from __future__ import annotations

import re
from contextlib import ExitStack
from uuid import uuid4

import pytest

from authsvc.conf import Provider, Secret
from authsvc.outgoing import bulkhead
from authsvc.security import encryption
from oauthproviders import registry
from oauthproviders.models import CustomProvider
from tests.authsvc.console.conftest import START, Console, fields_of, sign_in_as
from tests.conftest import ApiResponse, ChangeConfig
from tests.fakes.issuer import Issuer
from tests.oauthproviders.admin.console_pages import (
    ACME,
    BUILT_IN,
    CREATE_OAUTH2,
    CREATE_OIDC,
    LIST,
    ROLES,
    SECRET,
    edit_page,
    last_entry,
    page_of,
    text_after,
)
from tests.oauthproviders.browser import provider_settings
from tests.page_browser import read_text

pytestmark = pytest.mark.django_db

CORP = {"identifier": "custom:corp", "name": "Corp", "client_id": "i", "client_secret": "s&c"}
CLIENT = "Token endpoint and client"


@pytest.fixture
def corp(console: Console, issuer: Issuer) -> CustomProvider:
    """A stored OpenID Connect provider."""
    console.submit(CREATE_OIDC, **CORP, issuer=issuer.name, enabled="on", pkce_enabled="on")
    return CustomProvider.objects.get()


def run_test(console: Console, row: CustomProvider) -> ApiResponse:
    path = f"{LIST}{row.pk}/test/"
    assert path in console.text(page_of(row))
    return console.submit(page_of(row), to=path)


def results(response: ApiResponse) -> dict[str, str]:
    """The result of each step on a page."""
    rows = re.findall(r"<tr><td>([^<]+)</td><td><span[^>]*>([^<]+)</span>", read_text(response))
    return dict(rows)


# Custom providers


def test_a_test_shows_each_step_and_is_recorded(console: Console, corp: CustomProvider) -> None:
    page = run_test(console, corp)
    assert page.status_code == 200
    assert "Test passed" in read_text(page)
    assert len(results(page)) == 12
    assert set(results(page).values()) == {"passed"}
    assert re.search(r"<td>[\d,]+ ms</td>", read_text(page))
    assert "s&c" not in read_text(page)
    entry = last_entry()
    assert entry["action"] == "provider_tested"
    assert entry["actor_username"] == "svc_admin@staff.example"
    assert entry["traits"] == {
        "identifier": "custom:corp", "result": "passed", "failed_steps": [], "host": "127.0.0.1"
    }  # fmt: skip
    assert "Provider tested" in console.text("/operator/core/auditlogentry/")


def test_a_failing_step_has_a_remedy(console: Console, corp: CustomProvider, issuer: Issuer) -> None:
    issuer.publish_discovery(issuer="https://<b>evil</b>.example/\u202e")
    page = run_test(console, corp)
    assert "Test failed: 1 step" in read_text(page)
    assert results(page)["Issuer"] == "failed"
    assert "set the issuer to the exact text of the document" in read_text(page)
    assert b"<b>evil</b>" not in page.content
    assert "\u202e" not in read_text(page)
    assert last_entry()["traits"]["failed_steps"] == ["Issuer"]


def test_a_test_uses_the_encrypted_secret(
    console: Console, corp: CustomProvider, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    key = Secret("A" * 43)
    auth_config(
        database={"encrypt": True, "encryption_key_id": "k", "encryption_key": key, "decryption_keys": {"k": key}}
    )
    sealed = encryption.encrypt("s&c", bound_to=corp.id)
    CustomProvider.objects.update(client_secret=sealed)
    assert results(run_test(console, corp))[CLIENT] == "passed"
    assert issuer.server.received[-1].headers["Authorization"] == "Basic aTpzJTI2Yw=="
    CustomProvider.objects.update(client_secret=encryption.encrypt("s&c", bound_to=uuid4()))
    assert results(run_test(console, corp))[CLIENT] == "failed"


def test_a_busy_service_is_a_failed_step(console: Console, corp: CustomProvider) -> None:
    class Slots:
        size = 1
        max_waiting_threads = 1

        def reacquire(self) -> None: ...
        def release(self) -> None: ...

    with ExitStack() as waiting:
        waiting.callback(bulkhead.set_slots, None)
        for number in range(bulkhead.MAX_WAITING):
            bulkhead.set_slots(Slots())
            waiting.enter_context(bulkhead.wait_for(f"server{number}.example.com"))
        bulkhead.set_slots(Slots())
        page = run_test(console, corp)
    assert "too many requests wait for other servers" in read_text(page)
    assert results(page)["DNS"] == "failed"


@pytest.mark.parametrize("role", ROLES)
def test_support_and_viewers_run_no_test(
    corp: CustomProvider, issuer: Issuer, auth_config: ChangeConfig, role: str
) -> None:
    auth_config(console={"roles": ROLES}, providers={"github": provider_settings()})
    requests = len(issuer.server.received)
    other = sign_in_as(role)
    assert "/test/" not in other.text(page_of(corp)) + other.text(f"{BUILT_IN}github/")
    for path in (f"{LIST}{corp.pk}/test/", f"{BUILT_IN}github/test/"):
        assert other.submit(START, to=path).status_code == 403
    assert len(issuer.server.received) == requests


def test_a_test_needs_a_form_of_this_site(console: Console, corp: CustomProvider) -> None:
    assert console.get(f"{LIST}{corp.pk}/test/").status_code == 405
    assert console.client.post(f"{LIST}{corp.pk}/test/").status_code == 403


# Before saving


def test_unsaved_values_are_tested_and_not_stored(console: Console, issuer: Issuer) -> None:
    page = console.submit(CREATE_OIDC, **CORP, issuer=issuer.name, test="1")
    assert "Test passed" in read_text(page)
    assert results(page)[CLIENT] == "passed"
    assert "s&c" not in read_text(page)
    assert fields_of(page.content.decode())["issuer"] == issuer.name
    assert not CustomProvider.objects.exists()
    assert last_entry()["action"] == "provider_tested"


def test_invalid_values_are_reported_instead_of_a_test(console: Console, issuer: Issuer) -> None:
    page = console.submit(CREATE_OIDC, **{**CORP, "identifier": "corp"}, issuer=issuer.name, test="1")
    assert page.status_code == 400
    assert "identifier must start with 'custom:' prefix" in read_text(page)
    page = console.submit(CREATE_OAUTH2, **ACME, authorization_params="{", test="1")
    assert "JSON): Enter a valid JSON." in read_text(page)
    assert issuer.server.received == []


def test_changes_are_tested_with_the_stored_secret(console: Console, corp: CustomProvider, issuer: Issuer) -> None:
    form = fields_of(console.text(edit_page(corp)))
    page = console.submit(edit_page(corp), **{**form, "scopes": "openid email"}, test="1")
    assert results(page)[CLIENT] == "passed"
    assert "email" in fields_of(page.content.decode())["scopes"]
    corp.refresh_from_db()
    assert corp.scopes == ["openid"]


@pytest.mark.parametrize("typed", ["", "typed"])
def test_the_stored_secret_is_not_sent_to_changed_addresses(
    console: Console, corp: CustomProvider, issuer: Issuer, typed: str
) -> None:
    other = Issuer(issuer.server, path="/other", key=issuer.key)
    form = fields_of(console.text(edit_page(corp)))
    before = len(issuer.server.received)
    page = console.submit(edit_page(corp), **{**form, "issuer": other.name, "client_secret": typed}, test="1")
    sent = [received.headers["Authorization"] for received in issuer.server.received[before:]]
    if typed:
        assert "Basic aTp0eXBlZA==" in sent
    else:
        assert results(page)[CLIENT] == "not run"
        assert set(sent) == {None}


# Built-in providers


def test_the_list_of_built_in_providers(console: Console, auth_config: ChangeConfig) -> None:
    auth_config(
        api={"external_url": "https://auth.example.com"},
        providers={
            **dict.fromkeys(registry.PROVIDERS, Provider()),
            "github": provider_settings(),
            "keycloak": provider_settings(enabled=False),
            "google": provider_settings(secret=Secret("")),
        },
    )
    assert BUILT_IN in console.text(LIST)
    page = console.text(BUILT_IN)
    assert page.count(f'href="{BUILT_IN}') >= 25
    assert 'value="https://auth.example.com/callback"' in page
    rows = dict(re.findall(r"<tr><td><a [^>]*>(\w+)</a></td>(.*?)</tr>", page, re.DOTALL))
    assert "enabled" in rows["github"]
    assert "user:email" in rows["github"]
    assert "disabled" in rows["keycloak"]
    assert "AUTH_EXTERNAL_KEYCLOAK_URL" in rows["keycloak"]
    assert "incomplete" in rows["google"]
    assert "AUTH_EXTERNAL_GOOGLE_SECRET" in rows["google"]
    assert "AUTH_EXTERNAL_" not in rows["apple"]
    assert list(rows)[:2] == ["github", "google"]


def test_a_built_in_provider(console: Console, auth_config: ChangeConfig) -> None:
    auth_config(
        api={"external_url": "https://new.example.com"},
        providers={"github": provider_settings(secret=Secret(SECRET), email_optional=True)},
    )
    page = console.text(f"{BUILT_IN}github/")
    assert SECRET not in page
    assert "set, hidden" in page
    assert 'value="https://auth.example.com/callback"' in page
    assert "https://new.example.com/callback. The setting has another URL." in page
    assert 'value="https://new.example.com/authorize?provider=github"' in page
    for name in ("ENABLED", "CLIENT_ID", "SECRET", "REDIRECT_URI", "URL", "EMAIL_OPTIONAL", "SKIP_NONCE_CHECK"):
        assert f"AUTH_EXTERNAL_GITHUB_{name}<" in page
    assert "docs/how-to/providers.md" in page


def test_a_disabled_provider_has_no_test(console: Console) -> None:
    page = console.text(f"{BUILT_IN}github/")
    assert "/test/" not in page
    assert page.count(">missing<") == 3
    assert console.submit(START, to=f"{BUILT_IN}github/test/").status_code == 404
    assert console.get(f"{BUILT_IN}unknown/").status_code == 404


def test_a_built_in_provider_is_tested(console: Console, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(providers={"keycloak": provider_settings(url=issuer.name)})
    page = console.submit(f"{BUILT_IN}keycloak/", to=f"{BUILT_IN}keycloak/test/")
    assert results(page)["Settings"] == "warning"
    assert results(page)[CLIENT] == "passed"
    assert last_entry()["traits"]["identifier"] == "keycloak"
    assert "provider:" not in text_after(console, console.submit(START, to="/operator/logout/"))
