"""Clients in the console: registration, new secret, deletion, access and audit."""

from __future__ import annotations

import html
import re

import orjson
import pytest

from oauthserver.clients import clients
from oauthserver.models import OAuthClient
from tests.authsvc.console.conftest import START, Console, fields_of, sign_in_as
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.oauthserver import client_application, client_keys
from tests.oauthserver.client_application import CALLBACK, ISSUER
from tests.observations import audit_payloads

pytestmark = pytest.mark.django_db

LIST = f"{START}oauthserver/oauthclient/"
REGISTER = f"{LIST}register/"
FORM = {
    "client_name": "<Shop>",
    "redirect_uris": f"{CALLBACK}\n\n myapp://cb ",
    "client_uri": "",
    "logo_uri": "",
    "signs_in_users": "on",
}


@pytest.fixture
def console() -> Console:
    return sign_in_as("svc_admin")


def run(console: Console, client_id: str, action: str, **fields: str) -> ApiResponse:
    form = {"action": action, "_selected_action": client_id, "source_row": client_id, **fields}
    return console.submit(START, to=LIST, **form)


def secret_in(response: ApiResponse) -> str:
    found = re.search(r'value="([A-Za-z0-9_-]{43})"', response.content.decode())
    assert found, response.content
    return found[1]


def test_registration_shows_the_secret_once(console: Console) -> None:
    assert "Register client" in console.text(LIST)
    response = console.submit(
        REGISTER, **FORM, token_endpoint_auth_method="client_secret_basic", typed_name="", reason="a partner"
    )

    client = OAuthClient.objects.get()
    secret = secret_in(response)
    assert client.client_secret_hash == clients.hash_secret(secret)
    assert client.redirect_uri_list == [CALLBACK, "myapp://cb"]
    addresses = [f'value="{ISSUER}{path}"' for path in ("", "/.well-known/openid-configuration", "/oauth/token")]
    for text in (response.content.decode(), console.text(f"{LIST}{client.id}/change/")):
        assert all(address in text for address in addresses)
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["reason"], entry["actor_role"]) == ("oauth_client_created", "a partner", "svc_admin")
    for page in (LIST, f"{LIST}{client.id}/change/", f"{LIST}?q=shop"):
        text = console.text(page)
        assert "&lt;Shop&gt;" in text
        assert secret not in text
        assert str(client.client_secret_hash) not in text
    assert console.get(f"{LIST}?client_secret_hash__startswith=a").status_code == 400


def test_wrong_values_are_reported(console: Console) -> None:
    response = console.submit(
        REGISTER, **{**FORM, "redirect_uris": "http://a.example/"}, token_endpoint_auth_method="none"
    )
    assert response.status_code == 400
    assert "HTTP scheme only allowed for localhost" in html.unescape(response.content.decode())
    assert not OAuthClient.objects.exists()


def test_registration_of_a_client_with_a_key(console: Console) -> None:
    key = client_keys.JWKS["keys"][0]
    form = {**FORM, "signs_in_users": "", "acts_for_itself": "on", "redirect_uris": "", "scope": "a b"}
    extra = {
        "jwks": orjson.dumps({"keys": [key]}).decode(),
        "resource": "https://api.example.com/",
        "require_pushed_authorization_requests": "on",
        "token_endpoint_auth_method": "private_key_jwt",
    }
    page = console.submit(REGISTER, **form, **extra)

    client = OAuthClient.objects.get()
    assert str(client.id) in page.content.decode()
    assert "Client secret" not in page.content.decode()
    assert (client.grant_types, client.scope, client.resource) == (
        "client_credentials",
        "a b",
        "https://api.example.com/",
    )
    assert client.require_pushed_authorization_requests
    details = console.text(f"{LIST}{client.id}/change/")
    assert "Replace secret" not in details
    assert "https://api.example.com/" in details
    response = client_keys.post(client_keys.assertion(str(client.id)), grant_type="client_credentials")
    assert response.json()["scope"] == "a b"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jwks": "{"}, "Enter valid JSON."),
        ({"jwks": "[]"}, "Enter a JSON Web Key Set."),
        ({"jwks": "[" * 5000}, "Enter valid JSON."),
        ({"jwks": '{"keys": [{"kty": "oct", "k": "AA"}]}'}, "jwks must not contain private or symmetric keys"),
        ({"jwks_uri": "https://10.0.0.1/"}, "jwks_uri must be an https URL of a public host"),
        ({"signs_in_users": ""}, "Select at least one way in which the client gets tokens."),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "requires jwks or jwks_uri"),
        ({"acts_for_itself": "on", "token_endpoint_auth_method": "none"}, "requires client_type 'confidential'"),
    ],
)
def test_other_wrong_values_are_reported(changes: dict[str, str], message: str, console: Console) -> None:
    form = {**FORM, "token_endpoint_auth_method": "client_secret_basic", **changes}
    response = console.submit(REGISTER, **form)
    assert response.status_code == 400
    assert message in html.unescape(response.content.decode())
    assert not OAuthClient.objects.exists()


def test_secret_is_replaced(console: Console, api: Api) -> None:
    application = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    question = run(console, application.client_id, "regenerate_secret")
    assert "invalid at once" in question.content.decode()
    assert client_application.request_token(application).json()["error"] == "invalid_request"

    new = secret_in(run(console, application.client_id, "regenerate_secret", confirmed="1"))

    assert client_application.request_token(application).json()["error"] == "invalid_client"
    renewed = client_application.Application(application.client_id, new, application.method)
    assert client_application.request_token(renewed).json()["error"] == "invalid_request"
    assert audit_payloads()[-1]["action"] == "oauth_client_secret_regenerated"


def test_editing_changes_what_the_operator_changed(console: Console, api: Api) -> None:
    application = client_application.register(
        api,
        redirect_uris=[CALLBACK, "myapp://cb"],
        client_name="Shop",
        token_endpoint_auth_method="client_secret_basic",
    )
    page = f"{LIST}{application.client_id}/edit/"
    assert f'href="{page}"' in console.text(f"{LIST}{application.client_id}/change/")
    # Browsers change the ends of lines.
    form = {name: text.replace("\n", "\r\n") for name, text in fields_of(console.text(page)).items()}
    unchanged = console.submit(page, **form)
    assert (unchanged.status_code, "No value has changed." in unchanged.content.decode()) == (400, True)

    OAuthClient.objects.update(client_name="Store", grant_types="authorization_code")
    changes = {"redirect_uris": f"{CALLBACK}\r\nhttps://shop.example/cb", "client_uri": "https://shop.example/"}
    response = console.submit(page, **form | changes | {"reason": "moved"})
    assert response.headers["Location"] == f"{LIST}{application.client_id}/change/"
    client = OAuthClient.objects.get()
    assert client.redirect_uri_list == [CALLBACK, "https://shop.example/cb"]
    assert (client.client_name, client.client_uri, client.grant_types) == (
        "Store", "https://shop.example/", "authorization_code",
    )  # fmt: skip
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["reason"]) == ("oauth_client_updated", "moved")

    console.submit(page, **form | {"acts_for_itself": "on"})
    assert OAuthClient.objects.get().grant_types == "authorization_code,client_credentials"


def test_editing_removes_keys_and_refuses_another_type(console: Console, api: Api) -> None:
    keys = {"jwks": client_keys.JWKS, "token_endpoint_auth_method": "private_key_jwt"}
    page = f"{LIST}{client_application.register(api, **keys).client_id}/edit/"
    form = fields_of(console.text(page))
    refused = console.submit(page, **form | {"jwks": ""})
    assert (refused.status_code, "requires jwks or jwks_uri" in html.unescape(refused.content.decode())) == (400, True)
    assert console.submit(page, **form | {"token_endpoint_auth_method": "none"}).status_code == 400
    changes = {"jwks": "", "token_endpoint_auth_method": "client_secret_basic"}
    assert console.submit(page, **form | changes).status_code == 302
    client = OAuthClient.objects.get()
    assert (client.jwks, client.token_endpoint_auth_method) == (None, "client_secret_basic")


def test_public_client_has_no_secret_to_replace(console: Console, api: Api) -> None:
    application = client_application.register(api)
    assert "Replace secret" not in console.text(f"{LIST}{application.client_id}/change/")


def test_deletion(console: Console, api: Api) -> None:
    application = client_application.register(api, client_name="Shop")
    assert run(console, application.client_id, "delete", confirmed="1", typed_name="Other").status_code == 200
    assert not OAuthClient.objects.filter(deleted_at__isnull=False).exists()
    run(console, application.client_id, "delete", confirmed="1", typed_name="Shop")
    assert OAuthClient.objects.get().deleted_at is not None
    page = console.text(f"{LIST}{application.client_id}/change/")
    assert "deleted" in page
    assert 'value="delete"' not in page


@pytest.mark.parametrize("role", ["helpdesk", "auditor"])
def test_other_operators_only_read(role: str, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(console={"roles": {"helpdesk": "support", "auditor": "viewer"}})
    application = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    console = sign_in_as(role)
    page = console.text(LIST) + console.text(f"{LIST}{application.client_id}/change/")
    assert not re.search(r"(register|edit)/|value=\"(regenerate_secret|delete)\"", page)
    for form in (REGISTER, f"{LIST}{application.client_id}/edit/"):
        assert console.get(form).status_code == 403
    for action in ("regenerate_secret", "delete"):
        assert run(console, application.client_id, action, confirmed="1").status_code == 403
    assert OAuthClient.objects.get().deleted_at is None


def test_disabled_server(console: Console, api: Api, auth_config: ChangeConfig) -> None:
    application = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    auth_config(oauth_server={"enabled": False})
    assert "the OAuth server is disabled" in console.text(LIST)
    assert "register/" not in console.text(LIST)
    for form in (REGISTER, f"{LIST}{application.client_id}/edit/"):
        assert console.get(form).status_code == 404
    run(console, application.client_id, "regenerate_secret", confirmed="1")
    assert OAuthClient.objects.get().client_secret_hash == clients.hash_secret(application.secret)


def test_the_name_that_a_client_has_chosen_cannot_disguise_it(console: Console, api: Api) -> None:
    name = "\u202eknaB"  # which is displayed as Bank
    client = client_application.register(api, client_name=name + "W" * 500)
    for page in (LIST, f"{LIST}{client.client_id}/change/", f"{LIST}?deleted_at__isempty=1"):
        text = console.text(page)
        shown = re.sub(r'aria-label="[^"]*"', "", text)
        assert "\u202e" not in shown
        assert "\ufffdknaBWWW" in shown
        assert "W" * 200 not in shown


def test_the_list_is_filtered_by_state(console: Console, api: Api) -> None:
    client_application.register(api, client_name="Shop")
    text = console.text(LIST)
    for label, value in (("Active", 1), ("Deleted", 0)):
        assert f'<a href="?deleted_at__isempty={value}">{label}</a>' in text
    assert "Shop" in console.text(f"{LIST}?deleted_at__isempty=1")
    assert "Shop" not in console.text(f"{LIST}?deleted_at__isempty=0")
