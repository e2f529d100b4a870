"""Custom providers in the console: creation, editing, actions, access, audit, and secrets that no page shows."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from accounts.models import Identity
from oauthproviders.custom import custom_providers
from oauthproviders.models import CustomProvider
from tests import factories
from tests.authsvc.console.conftest import START, Console, fields_of, sign_in_as
from tests.conftest import ChangeConfig
from tests.fakes.issuer import Issuer
from tests.oauthproviders.admin.console_pages import (
    ACME,
    CREATE_OAUTH2,
    CREATE_OIDC,
    LIST,
    PUBLIC,
    ROLES,
    SECRET,
    edit,
    edit_page,
    last_entry,
    page_of,
    run,
    text_after,
)
from tests.page_browser import read_text

pytestmark = pytest.mark.django_db


# Reading


def test_the_pages_show_providers_without_secrets(console: Console, acme: CustomProvider) -> None:
    for page in (LIST, page_of(acme), edit_page(acme), f"{LIST}?q=acme", f"{LIST}?provider_type=oauth2"):
        text = console.text(page)
        assert "custom:acme" in text
        assert SECRET not in text
    assert "custom:acme" not in console.text(f"{LIST}?provider_type=oidc")
    assert console.get(f"{LIST}?client_secret__startswith=the").status_code == 400


def test_a_page_shows_the_values_of_its_type(console: Console, acme: CustomProvider) -> None:
    page = read_text(console.get(page_of(acme)))
    for text in ("OAuth 2.0", "Yes, S256", "Are refused", '"name": "nick"', f"{PUBLIC}/t", "Token endpoint"):
        assert text in page
    for text in ("Issuer", "Pkce", "Client id", "Nonce"):
        assert text not in page
    CustomProvider.objects.update(
        provider_type="oidc", issuer=PUBLIC, pkce_enabled=False, email_optional=True, skip_nonce_check=True
    )
    page = read_text(console.get(page_of(acme)))
    for text in ("OpenID Connect", "May sign in", "Not compared", "Issuer", "Further client IDs"):
        assert text in page
    assert "Token endpoint" not in page


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
    console = sign_in_as(role)
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
    assert problem in read_text(page)
    assert SECRET not in read_text(page)
    assert not CustomProvider.objects.exists()


def test_an_existing_identifier_and_an_unknown_type_are_errors(console: Console, acme: CustomProvider) -> None:
    page = console.submit(CREATE_OAUTH2, **ACME)
    assert "A custom OAuth provider with this identifier already exists" in read_text(page)
    assert console.get(f"{LIST}create/saml/").status_code == 404


def test_an_unreadable_discovery_document_is_reported(console: Console, issuer: Issuer) -> None:
    issuer.publish_discovery(token_endpoint=None)
    fields = {"identifier": "custom:corp", "name": "Corp", "client_id": "i", "client_secret": "s"}
    page = console.submit(CREATE_OIDC, **fields, issuer=issuer.name)
    assert "OIDC discovery document is missing required fields: token_endpoint" in read_text(page)


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
    assert problem in read_text(page)
    assert acme.updated_at == CustomProvider.objects.get().updated_at


def test_removing_the_discovery_url_restores_that_of_the_issuer(console: Console, issuer: Issuer) -> None:
    elsewhere = Issuer(issuer.server, path="/elsewhere", key=issuer.key)
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
    assert "Users cannot sign in through a disabled provider" in read_text(run(console, acme, "disable"))
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
    question = read_text(run(console, acme, "delete"))
    assert "Users with an identity of custom:acme: 2." in question
    assert "Type <strong>custom:acme</strong>" in question
    refused = run(console, acme, "delete", confirmed="1", typed_name="acme")
    assert "The typed text differs" in read_text(refused)
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
