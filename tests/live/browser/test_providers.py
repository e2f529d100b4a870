"""Sign-in at real OpenID providers: Keycloak from settings, and a custom provider added at run time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from tests import ports
from tests.accounts.administration import admin_requests
from tests.fakes.smtp import server_tls
from tests.live.browser.chromium import Chromium
from tests.live.browser.conftest import Site
from tests.live.clients import node
from tests.live.clients.node import OpenIdProvider

ADA = "ada@example.com"
LOGIN = "document.querySelector('input[name=login]')"


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


def landed(browser: Chromium, site: Site) -> dict[str, Any]:
    """What the site has seen of the user after the way back."""
    seen: dict[str, Any] = browser.wait_for("window.seen")
    assert browser.evaluate("location.origin") == site.url
    assert seen["status"] == 200, seen
    return seen


def test_a_provider_sign_in_starts_a_session(
    browser: Chromium, start_service: Callable[..., str], site: Site, tmp_path: Path
) -> None:
    node.install()
    _context, authority = server_tls(tmp_path, host="127.0.0.1")
    port, provider_port = ports.free_port(), ports.free_port()
    clients = [client("keycloak", port), client("custom", port)]
    with OpenIdProvider(
        folder=tmp_path, port=provider_port, clients=clients, certificate=tmp_path / "127.0.0.1.pem"
    ) as provider:
        service = start_service(
            port=port,
            REQUESTS_CA_BUNDLE=str(authority),
            AUTH_EXTERNAL_KEYCLOAK_ENABLED="true",
            AUTH_EXTERNAL_KEYCLOAK_URL=provider.url,
            AUTH_EXTERNAL_KEYCLOAK_CLIENT_ID="keycloak",
            AUTH_EXTERNAL_KEYCLOAK_SECRET="secret",
            AUTH_EXTERNAL_KEYCLOAK_REDIRECT_URI=f"http://127.0.0.1:{port}/callback",
            AUTH_EXTERNAL_FLOW_BINDING_ENABLED="true",
            AUTH_SECURITY_MANUAL_LINKING_ENABLED="true",
            AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED="true",
        )
        browser.trust_any_certificate()

        browser.open(f"{service}/authorize?provider=keycloak&scopes=openid")
        sign_in_there(browser, "ada")
        submit(browser)
        first = landed(browser, site)
        assert (first["body"]["email"], first["given"]["provider"]) == (ADA, "keycloak")
        assert first["body"]["email_confirmed_at"]

        token = first["given"]["access_token"]
        bearer = {"Authorization": f"Bearer {token}"}
        assert requests.post(f"{service}/logout", headers=bearer, timeout=60).status_code == 204
        assert requests.get(f"{service}/user", headers=bearer, timeout=60).status_code == 403

        # The provider still knows them, and that they agreed.
        browser.open(f"{service}/authorize?provider=keycloak&scopes=openid")
        second = landed(browser, site)
        assert second["body"]["id"] == first["body"]["id"]

        definition = {
            "provider_type": "oidc",
            "identifier": "custom:corp",
            "name": "Corp",
            "client_id": "custom",
            "client_secret": "secret",
            "scopes": ["email", "profile"],
            "issuer": provider.url,
        }
        admin = {"Authorization": f"Bearer {admin_requests.token()}"}
        made = requests.post(f"{service}/admin/custom-providers", json=definition, headers=admin, timeout=20)
        assert made.status_code == 201, made.text

        # A linking that began elsewhere is finished in no other browser.
        bearer = {"Authorization": f"Bearer {second['given']['access_token']}"}
        link = (
            f"{service}/user/identities/authorize?provider=custom:corp&skip_http_redirect=true&redirect_to={site.url}"
        )
        browser.open(requests.get(link, headers=bearer, timeout=60).json()["url"])
        submit(browser)
        browser.wait_for("location.search.includes('error_code=bad_oauth_state')")

        request = (
            f"fetch('{link}', {{headers: {{Authorization: '{bearer['Authorization']}'}}, credentials: 'include'}})"
        )
        browser.open(f"{service}/health")
        browser.wait_for("location.pathname === '/health'")
        browser.open(browser.evaluate(f"{request}.then(answer => answer.json()).then(answer => answer.url)"))
        linked = landed(browser, site)
        assert linked["body"]["id"] == first["body"]["id"]
        assert [each["provider"] for each in linked["body"]["identities"]] == ["keycloak", "custom:corp"]

        browser.open(f"{service}/authorize?provider=custom:corp")
        assert landed(browser, site)["body"]["id"] == first["body"]["id"]
