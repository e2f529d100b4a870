"""Custom providers in the console: creation, editing, actions, access, audit, and secrets that no page shows."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.db import connection

from accounts.models import Identity
from authsvc.models import AuditLogEntry
from oauthproviders.custom import custom_providers
from oauthproviders.models import CustomProvider
from tests import factories
from tests.accounts.administration.admin_requests import ask
from tests.authsvc.console.conftest import START, Console
from tests.conftest import Answer, Api, ChangeConfig
from tests.fakes.http_peer import MockedServer
from tests.fakes.issuer import Issuer, SigningKey

pytestmark = pytest.mark.django_db

LIST = f"{START}oauthproviders/customprovider/"
CREATE_OIDC, CREATE_OAUTH2 = f"{LIST}create/oidc/", f"{LIST}create/oauth2/"
SECRET = "the secret of the client"
PUBLIC = "https://8.8.8.8"
ADDRESSES = {"authorization_url": f"{PUBLIC}/a", "token_url": f"{PUBLIC}/t", "userinfo_url": f"{PUBLIC}/u"}
ACME = {"identifier": "custom:acme", "name": "Acme", "client_id": "i", "client_secret": SECRET, **ADDRESSES}
ROLES = {"helpdesk": "support", "auditor": "viewer"}
KEY = SigningKey()


@pytest.fixture
def console() -> Console:
    """The console of a signed-in administrator."""
    return signed_in("svc_admin")


@pytest.fixture
def acme(api: Api) -> CustomProvider:
    definition = {"provider_type": "oauth2", "scopes": ["profile"], "attribute_mapping": {"name": "nick"}, **ACME}
    assert ask(api, "POST", "/admin/custom-providers", definition).status_code == 201
    return CustomProvider.objects.get()


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:
    auth_config(custom_providers={"private_networks_enabled": True})
    return Issuer(server, key=KEY)


def signed_in(role: str) -> Console:
    factories.make_user(email=f"{role}@staff.example", role=role)
    console = Console()
    assert console.sign_in(f"{role}@staff.example").status_code == 302
    return console


def page_of(row: CustomProvider) -> str:
    return f"{LIST}{row.pk}/change/"


def edit_page(row: CustomProvider) -> str:
    return f"{LIST}{row.pk}/edit/"


def text_of(answer: Answer) -> str:
    return html.unescape(answer.content.decode())


def text_after(console: Console, answer: Answer) -> str:
    assert answer.status_code == 302, answer.content
    return text_of(console.get(answer.headers["Location"]))


def fields_of(page: str) -> dict[str, str]:
    """The fields of a form, as a browser would send them."""
    form = {}
    for tag in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and ("checkbox" not in tag or " checked" in tag):
            form[name[1]] = html.unescape(value[1]) if value else "on" if "checkbox" in tag else ""
    for name, text in re.findall(r'<textarea name="([^"]+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL):
        form[name] = html.unescape(text)
    del form["csrfmiddlewaretoken"]
    return form


def edit(console: Console, row: CustomProvider, *, without: str = "", **fields: str) -> Answer:
    """Change fields of the form; the others are sent as the page contains them."""
    form = fields_of(console.text(edit_page(row))) | fields
    form.pop(without, None)
    return console.submit(edit_page(row), **form)


def run(console: Console, row: CustomProvider, action: str, **fields: str) -> Answer:
    form = {"action": action, "_selected_action": str(row.pk), "source_row": str(row.pk), **fields}
    return console.submit(START, to=LIST, **form)


def last_entry() -> dict[str, Any]:
    entry = AuditLogEntry.objects.order_by("created_at").last()
    assert entry is not None
    assert entry.payload is not None
    return dict(entry.payload)


# Reading


def test_the_pages_show_providers_without_secrets(console: Console, acme: CustomProvider) -> None:
    for page in (LIST, page_of(acme), edit_page(acme), f"{LIST}?q=acme", f"{LIST}?provider_type__exact=oauth2"):
        text = console.text(page)
        assert "custom:acme" in text
        assert SECRET not in text
    assert console.get(f"{LIST}?client_secret__startswith=the").status_code == 400


def test_a_page_has_the_urls_to_copy(console: Console, acme: CustomProvider, auth_config: ChangeConfig) -> None:
    auth_config(api={"external_url": "https://auth.example.com"})
    page = console.text(page_of(acme))
    assert 'value="https://auth.example.com/callback"' in page
    assert 'value="https://auth.example.com/authorize?provider=custom:acme"' in page
    assert "operator/copy.js" in page
    auth_config(custom_providers={"external_url": "https://id.example.com/"})
    assert 'value="https://id.example.com/callback"' in console.text(page_of(acme))


@pytest.mark.parametrize("role", ROLES)
def test_support_and_viewers_only_read(acme: CustomProvider, auth_config: ChangeConfig, role: str) -> None:
    auth_config(console={"roles": ROLES})
    console = signed_in(role)
    pages = console.text(LIST) + console.text(page_of(acme))
    assert "custom:acme" in pages
    assert not re.search(r"create/|/edit/|value=\"(enable|disable|delete)\"", pages)
    for page in (CREATE_OIDC, CREATE_OAUTH2, edit_page(acme)):
        assert console.get(page).status_code == 403
        assert console.submit(START, to=page, **ACME).status_code == 403
    for action in ("enable", "disable", "delete"):
        assert run(console, acme, action, confirmed="1", typed_name="custom:acme").status_code == 403
    assert CustomProvider.objects.get().enabled


def test_disabled_custom_providers_are_only_read(
    console: Console, acme: CustomProvider, auth_config: ChangeConfig
) -> None:
    auth_config(custom_providers={"enabled": False})
    assert "custom providers are disabled" in console.text(page_of(acme))
    assert "create/" not in console.text(LIST)
    for page in (CREATE_OIDC, edit_page(acme)):
        assert (console.get(page).status_code, console.submit(START, to=page, **ACME).status_code) == (404, 404)
    done = run(console, acme, "delete", confirmed="1", typed_name="custom:acme")
    assert "Custom OAuth providers are disabled" in text_after(console, done)
    assert CustomProvider.objects.exists()


# Creation


def test_create_an_oauth2_provider(console: Console) -> None:
    assert CREATE_OAUTH2 in console.text(LIST)
    further = {
        "scopes": " profile  email ",
        "authorization_params": '{"prompt": "login"}',
        "custom_claims_allowlist": "groups\r\nhttps://acme.example/a claim\r\n",
        "enabled": "on",
    }
    done = console.submit(CREATE_OAUTH2, **ACME, **further, reason="a new partner")
    assert "Created: custom:acme" in text_after(console, done)
    row = CustomProvider.objects.get()
    assert (row.scopes, row.authorization_params) == (["profile", "email"], {"prompt": "login"})
    assert row.custom_claims_allowlist == ["groups", "https://acme.example/a claim"]
    assert (row.pkce_enabled, row.enabled, row.client_secret) == (False, True, SECRET)
    entry = last_entry()
    assert entry["action"] == "custom_provider_created"
    assert (entry["actor_username"], entry["reason"]) == ("svc_admin@staff.example", "a new partner")
    assert entry["traits"]["changes"]["token_url"] == {"old": None, "new": f"{PUBLIC}/t"}
    assert SECRET not in str(entry)


def test_create_an_openid_connect_provider(console: Console, issuer: Issuer) -> None:
    fields = {"identifier": "custom:corp", "name": "Corp", "client_id": "i", "client_secret": "s"}
    done = console.submit(CREATE_OIDC, **fields, issuer=issuer.name, acceptable_client_ids="app 1\r\napp 2")
    assert "Created: custom:corp" in text_after(console, done)
    row = CustomProvider.objects.get()
    assert (row.provider_type, row.scopes, row.acceptable_client_ids) == ("oidc", ["openid"], ["app 1", "app 2"])
    assert row.cached_discovery is not None
    assert not row.enabled


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"identifier": ""}, "identifier is required"),
        ({"identifier": "acme"}, "identifier must start with 'custom:' prefix, e.g. 'custom:acme'"),
        ({"name": " "}, "name is required"),
        ({"client_secret": ""}, "client_secret is required"),
        ({"userinfo_url": ""}, "userinfo_url is required for OAuth2 providers"),
        ({"token_url": "http://8.8.8.8/t"}, "URL must use HTTPS"),
        ({"token_url": "https://10.0.0.1/t"}, "URL cannot resolve to private network addresses"),
        ({"authorization_params": '{"state": "x"}'}, "Cannot override reserved OAuth parameter: state"),
        ({"authorization_params": '{"max_age": 5}'}, 'Authorization parameter "max_age" must be a string'),
        ({"authorization_params": "[]"}, "Enter a JSON object"),
        ({"attribute_mapping": '{"role": "x"}'}, "Cannot map to protected system field: role"),
        ({"scopes": "a\0b"}, "Null characters are not allowed."),
    ],
)
def test_an_invalid_provider_is_reported_with_the_texts_of_the_api(
    console: Console, changes: dict[str, str], problem: str
) -> None:
    page = console.submit(CREATE_OAUTH2, **{**ACME, **changes})
    assert page.status_code == 400
    assert problem in text_of(page)
    assert SECRET not in text_of(page)
    assert not CustomProvider.objects.exists()


def test_an_existing_identifier_and_an_unknown_type_are_errors(console: Console, acme: CustomProvider) -> None:
    page = console.submit(CREATE_OAUTH2, **ACME)
    assert "A custom OAuth provider with this identifier already exists" in text_of(page)
    assert console.get(f"{LIST}create/saml/").status_code == 404


def test_an_unreadable_discovery_document_is_reported(console: Console, issuer: Issuer) -> None:
    issuer.publish_discovery(token_endpoint=None)
    fields = {"identifier": "custom:corp", "name": "Corp", "client_id": "i", "client_secret": "s"}
    page = console.submit(CREATE_OIDC, **fields, issuer=issuer.name)
    assert "OIDC discovery document is missing required fields: token_endpoint" in text_of(page)


# Editing


def test_edit_a_provider(console: Console, acme: CustomProvider) -> None:
    done = edit(console, acme, token_url=f"{PUBLIC}/t2", pkce_enabled="on", reason="moved")
    assert "Changed: custom:acme" in text_after(console, done)
    entry = last_entry()
    assert entry["action"] == "custom_provider_updated"
    assert entry["traits"]["changes"] == {"token_url": {"old": f"{PUBLIC}/t", "new": f"{PUBLIC}/t2"}}
    assert entry["reason"] == "moved"
    acme.refresh_from_db()
    assert (acme.client_secret, acme.scopes, acme.enabled) == (SECRET, ["profile"], True)


def test_a_box_without_a_tick_is_a_change(console: Console, acme: CustomProvider) -> None:
    edit(console, acme, without="pkce_enabled", attribute_mapping="{}")
    acme.refresh_from_db()
    assert (acme.pkce_enabled, acme.attribute_mapping) == (False, {})


def test_a_typed_secret_replaces_the_stored_one(console: Console, acme: CustomProvider) -> None:
    assert "Changed" in text_after(console, edit(console, acme, client_secret=" a new secret "))
    acme.refresh_from_db()
    assert acme.client_secret == " a new secret "
    assert last_entry()["traits"]["changes"] == {"client_secret": {"old": "[hidden]", "new": "[hidden]"}}


def test_editing_keeps_what_others_changed_meanwhile(console: Console, acme: CustomProvider) -> None:
    form = fields_of(console.text(edit_page(acme)))
    CustomProvider.objects.update(client_id="other", scopes=["other"], attribute_mapping={"name": "other"})
    assert "Changed" in text_after(console, console.submit(edit_page(acme), **{**form, "name": "Acme Inc."}))
    acme.refresh_from_db()
    assert (acme.name, acme.client_id, acme.scopes) == ("Acme Inc.", "other", ["other"])
    assert acme.attribute_mapping == {"name": "other"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "No value has changed."),
        ({"name": ""}, "name is required"),
        ({"token_url": ""}, "token_url is required"),
        ({"token_url": "https://localhost/"}, "URL cannot point to localhost or loopback addresses"),
        ({"attribute_mapping": '{"aud": "x"}'}, "Cannot map to protected system field: aud"),
    ],
)
def test_invalid_changes_are_reported(
    console: Console, acme: CustomProvider, fields: dict[str, str], problem: str
) -> None:
    page = edit(console, acme, **fields)
    assert page.status_code == 400
    assert problem in text_of(page)
    assert acme.updated_at == CustomProvider.objects.get().updated_at


def test_removing_the_discovery_url_restores_that_of_the_issuer(console: Console, issuer: Issuer) -> None:
    elsewhere = Issuer(issuer.server, path="/elsewhere", key=KEY)
    elsewhere.name = issuer.name
    elsewhere.publish_discovery()
    fields = {"identifier": "custom:corp", "name": "Corp", "client_id": "i", "client_secret": "s"}
    console.submit(CREATE_OIDC, **fields, issuer=issuer.name, discovery_url=f"{issuer.url}{elsewhere.discovery_path}")
    row = CustomProvider.objects.get()
    assert "Changed" in text_after(console, edit(console, row, discovery_url=""))
    row.refresh_from_db()
    assert row.discovery_url is None
    assert issuer.server.received[-1].path == issuer.discovery_path
    assert last_entry()["traits"]["changes"]["discovery_url"] == {
        "old": f"{issuer.url}{elsewhere.discovery_path}",
        "new": None,
    }


# Actions


def test_disable_and_enable(console: Console, acme: CustomProvider) -> None:
    assert "Users cannot sign in through a disabled provider" in text_of(run(console, acme, "disable"))
    page = text_after(console, run(console, acme, "disable", confirmed="1", reason="an incident"))
    assert "Disabled: custom:acme" in page
    assert 'value="enable"' in page
    entry = last_entry()
    assert (entry["reason"], entry["traits"]["changes"]) == ("an incident", {"enabled": {"old": True, "new": False}})
    assert "Enabled: custom:acme" in text_after(console, run(console, acme, "enable"))
    acme.refresh_from_db()
    assert acme.enabled


def test_deletion_shows_the_linked_users_and_needs_the_typed_name(console: Console, acme: CustomProvider) -> None:
    for email in ("ada@example.com", "bob@example.com"):
        user = factories.make_user(email=email)
        for provider, provider_id in (("custom:acme", "1"), ("custom:acme", "2"), ("custom:acme2", "1")):
            Identity.objects.create(
                user=user, provider=provider, provider_id=f"{email} {provider_id}", identity_data={"sub": email}
            )
    question = text_of(run(console, acme, "delete"))
    assert "Users with an identity of custom:acme: 2." in question
    assert "Type <strong>custom:acme</strong>" in question
    refused = run(console, acme, "delete", confirmed="1", typed_name="acme")
    assert "The typed text differs" in text_of(refused)
    assert CustomProvider.objects.exists()
    done = run(console, acme, "delete", confirmed="1", typed_name="custom:acme", reason="left")
    assert "Deleted: custom:acme" in text_after(console, done)
    assert not CustomProvider.objects.exists()
    entry = last_entry()
    assert (entry["action"], entry["reason"]) == ("custom_provider_deleted", "left")
    assert SECRET not in str(entry)


def test_linked_users_are_counted_by_an_index(acme: CustomProvider) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT DISTINCT user_id FROM identities"
            " WHERE provider = 'custom:x' AND provider LIKE 'custom:%' LIMIT 9"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "identities_custom_provider_idx" in plan
    assert custom_providers.count_linked_users("custom:acme") == 0
