"""Sign-in at real OpenID providers: Keycloak from settings, and custom providers added by the API and the console."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import requests

from tests import ports
from tests.accounts.administration import admin_requests
from tests.fakes.smtp import server_tls
from tests.live import servers
from tests.live.browser.chromium import Chromium
from tests.live.browser.conftest import PAGE, Site
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in
from tests.live.browser.test_console_work import heading, wait_for_message
from tests.live.clients import node
from tests.live.clients.node import OpenIdProvider

ADA = "ada@example.com"
LOGIN = "document.querySelector('input[name=login]')"


CUSTOM_PROVIDERS = "/operator/oauthproviders/customprovider/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """A service, an OpenID provider that it trusts, and the site to which sign-ins lead."""

    url: str
    database_url: str
    provider_url: str
    site: Site


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    node.install()
    folder = tmp_path_factory.mktemp("providers")
    _context, authority = server_tls(folder, host="127.0.0.1")
    port, provider_port = ports.free_port(), ports.free_port()
    clients = [client("keycloak", port), client("custom", port)]
    with (
        Site() as site,
        OpenIdProvider(
            folder=folder, port=provider_port, clients=clients, certificate=folder / "127.0.0.1.pem"
        ) as provider,
        servers.fresh_database() as database_url,
    ):
        threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        env = {
            "AUTH_SITE_URL": site.url,
            "AUTH_MAILER_DEV_INBOX_ENABLED": "true",
            "AUTH_MAILER_DEV_INBOX_FOLDER": str(folder / "inbox"),
            "REQUESTS_CA_BUNDLE": str(authority),
            "AUTH_EXTERNAL_KEYCLOAK_ENABLED": "true",
            "AUTH_EXTERNAL_KEYCLOAK_URL": provider.url,
            "AUTH_EXTERNAL_KEYCLOAK_CLIENT_ID": "keycloak",
            "AUTH_EXTERNAL_KEYCLOAK_SECRET": "secret",
            "AUTH_EXTERNAL_KEYCLOAK_REDIRECT_URI": f"http://127.0.0.1:{port}/callback",
            "AUTH_EXTERNAL_FLOW_BINDING_ENABLED": "true",
            "AUTH_SECURITY_MANUAL_LINKING_ENABLED": "true",
            "AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED": "true",
        }
        with servers.LiveServer(folder=folder, database_url=database_url, env=env, port=port) as server:
            site.page = PAGE.replace("AUTH_URL", server.url).encode()
            yield Federation(url=server.url, database_url=database_url, provider_url=provider.url, site=site)
        site.shutdown()


def client(name: str, port: int) -> dict[str, Any]:
    return {"client_id": name, "client_secret": "secret", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}


def submit(browser: Chromium) -> None:
    """Accept the consent page of the provider."""
    browser.wait_for("document.readyState === 'complete' && document.querySelector('form input[name=prompt]') !== null")
    browser.evaluate("void document.querySelector('form').requestSubmit()")


def sign_in_there(browser: Chromium, name: str) -> None:
    browser.wait_for(f"{LOGIN} !== null")
    browser.evaluate(f"{LOGIN}.value = '{name}'; document.querySelector('input[name=password]').value = 'any'")
    submit(browser)
    browser.wait_for(f"!{LOGIN} && document.querySelector('input[name=prompt][value=consent]') !== null")


def wait_for_session(browser: Chromium, site: Site) -> dict[str, Any]:
    """The session that the site has received with the redirect."""
    seen: dict[str, Any] = browser.wait_for("window.seen")
    assert browser.evaluate("location.origin") == site.url
    assert seen["status"] == 200, seen
    return seen


def test_a_provider_sign_in_starts_a_session(browser: Chromium, federation: Federation) -> None:
    service, site = federation.url, federation.site
    browser.trust_any_certificate()

    browser.open(f"{service}/authorize?provider=keycloak&scopes=openid")
    sign_in_there(browser, "ada")
    submit(browser)
    first = wait_for_session(browser, site)
    assert (first["body"]["email"], first["given"]["provider"]) == (ADA, "keycloak")
    assert first["body"]["email_confirmed_at"]

    token = first["given"]["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert requests.post(f"{service}/logout", headers=bearer, timeout=60).status_code == 204
    assert requests.get(f"{service}/user", headers=bearer, timeout=60).status_code == 403

    # The provider still knows them, and that they agreed.
    browser.open(f"{service}/authorize?provider=keycloak&scopes=openid")
    second = wait_for_session(browser, site)
    assert second["body"]["id"] == first["body"]["id"]

    definition = {
        "provider_type": "oidc",
        "identifier": "custom:corp",
        "name": "Corp",
        "client_id": "custom",
        "client_secret": "secret",
        "scopes": ["email", "profile"],
        "issuer": federation.provider_url,
    }
    admin = {"Authorization": f"Bearer {admin_requests.token()}"}
    made = requests.post(f"{service}/admin/custom-providers", json=definition, headers=admin, timeout=20)
    assert made.status_code == 201, made.text

    # A linking that began elsewhere is finished in no other browser.
    bearer = {"Authorization": f"Bearer {second['given']['access_token']}"}
    link = f"{service}/user/identities/authorize?provider=custom:corp&skip_http_redirect=true&redirect_to={site.url}"
    browser.open(requests.get(link, headers=bearer, timeout=60).json()["url"])
    submit(browser)
    browser.wait_for("location.search.includes('error_code=bad_oauth_state')")

    request = f"fetch('{link}', {{headers: {{Authorization: '{bearer['Authorization']}'}}, credentials: 'include'}})"
    browser.open(f"{service}/health")
    browser.wait_for("location.pathname === '/health'")
    browser.open(browser.evaluate(f"{request}.then(answer => answer.json()).then(answer => answer.url)"))
    linked = wait_for_session(browser, site)
    assert linked["body"]["id"] == first["body"]["id"]
    assert [identity["provider"] for identity in linked["body"]["identities"]] == ["keycloak", "custom:corp"]

    browser.open(f"{service}/authorize?provider=custom:corp")
    assert wait_for_session(browser, site)["body"]["id"] == first["body"]["id"]


def sign_in_to_the_console(browser: Chromium, federation: Federation) -> None:
    body = {"email": EMAIL, "password": PASSWORD}
    assert requests.post(f"{federation.url}/signup", json=body, timeout=60).status_code == 200
    with psycopg.connect(federation.database_url) as connection:
        connection.execute("UPDATE users SET role = 'svc_admin', email_confirmed_at = now() WHERE email = %s", [EMAIL])
    browser.open(f"{federation.url}/operator/")
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", PASSWORD)
    browser.click("button.default")
    browser.wait_for("location.pathname === '/operator/' && !!document.querySelector('.stats')")


def shown_steps(browser: Chromium) -> dict[str, str]:
    """The result of each step that the page shows."""
    results: dict[str, str] = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.panel tbody tr')].map((row) => [...row.cells].slice(0, 2)"
        ".map((cell) => cell.innerText)))"
    )
    return results


def test_a_custom_provider_is_managed_in_the_console(browser: Chromium, federation: Federation) -> None:
    service = federation.url
    browser.trust_any_certificate()
    browser.watch_policy_violations()
    sign_in_to_the_console(browser, federation)

    # Test before saving: the page stays, and with it the typed secret.
    browser.open(f"{service}{CUSTOM_PROVIDERS}")
    browser.click(".list-actions a")
    heading(browser, "Add OpenID Connect provider")
    values = {
        "identifier": "custom:console", "name": "Console", "issuer": federation.provider_url, "client_id": "custom",
        "client_secret": "wrong", "scopes": "email profile",
    }  # fmt: skip
    for name, text in values.items():
        fill_in(browser, f"#id_{name}", text)
    browser.click("button[name=test]")
    browser.wait_for("document.querySelector('#test-result h2')?.innerText === 'Test failed: 1 step'")
    steps = shown_steps(browser)
    assert steps.pop("Token endpoint and client") == "failed"
    assert len(steps) == 11
    assert set(steps.values()) == {"passed"}
    assert browser.evaluate("document.activeElement.id") == "test-result"
    assert browser.evaluate("document.querySelector('#id_client_secret').value") == "wrong"
    fill_in(browser, "#id_client_secret", "secret")
    browser.click("button[name=test]")
    browser.wait_for("document.querySelector('#test-result h2')?.innerText === 'Test passed'")
    browser.click("#confirm-action button.default")
    wait_for_message(browser, "Created: custom:console")

    # The callback URL is copied; the stored provider passes the same test.
    browser.click("[data-copies=callback_url]")
    browser.wait_for("['Copied', 'Selected'].includes(document.querySelector('[data-copies=callback_url]').innerText)")
    assert browser.evaluate("document.querySelector('#callback_url').value") == f"{service}/callback"
    sign_in_url = browser.evaluate("document.querySelector('#sign_in_url').value")
    page = browser.evaluate("location.pathname")
    browser.click("button[formaction]")
    heading(browser, "Test of custom:console")
    assert set(shown_steps(browser).values()) == {"passed"}

    browser.open(sign_in_url)
    sign_in_there(browser, "eve")
    submit(browser)
    user = wait_for_session(browser, federation.site)["body"]
    assert [identity["provider"] for identity in user["identities"]] == ["custom:console"]

    browser.open(f"{service}{page}")
    browser.click(".row-actions a")
    heading(browser, "Edit custom:console")
    assert browser.evaluate("document.querySelector('#id_client_secret').value") == ""
    fill_in(browser, "#id_name", "Console 2")
    browser.click("#confirm-action button.default")
    wait_for_message(browser, "Changed: custom:console")

    browser.click("button[value=disable]")
    heading(browser, "Disable")
    browser.click("#confirm-action button.default")
    wait_for_message(browser, "Disabled: custom:console")
    assert requests.get(sign_in_url, timeout=60).json()["msg"].endswith("custom provider custom:console is disabled")

    browser.click("button[value=delete]")
    heading(browser, "Delete")
    browser.wait_for("document.body.innerText.includes('Users with an identity of custom:console: 1.')")
    fill_in(browser, "#id_typed_name", "custom:console")
    browser.click("#confirm-action button.dangerous")
    wait_for_message(browser, "Deleted: custom:console")
    assert browser.policy_violations() == []
