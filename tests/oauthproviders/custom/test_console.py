"""Custom providers in the operator console."""

from __future__ import annotations

import pytest

from oauthproviders.models import CustomProvider
from tests import factories
from tests.accounts.administration.admin_requests import ask
from tests.authsvc.console.conftest import START, Console
from tests.conftest import Api

pytestmark = pytest.mark.django_db

SECRET = "the secret of the client"


@pytest.fixture
def console(api: Api) -> Console:
    """The console of a signed-in operator, with one custom provider."""
    definition = {
        "provider_type": "oauth2",
        "identifier": "custom:acme",
        "name": "Acme",
        "client_id": "i",
        "client_secret": SECRET,
        **dict.fromkeys(("authorization_url", "token_url", "userinfo_url"), "https://8.8.8.8/x"),
    }
    assert ask(api, "POST", "/admin/custom-providers", definition).status_code == 201
    factories.make_user(email="op@example.com", role="svc_admin")
    console = Console()
    console.sign_in("op@example.com")
    return console


def test_the_pages_show_providers_without_secrets(console: Console) -> None:
    path = f"{START}oauthproviders/customprovider/"
    row = CustomProvider.objects.get()
    for page in (path, f"{path}{row.pk}/change/", f"{path}?q=acme", f"{path}?provider_type__exact=oauth2"):
        response = console.get(page)
        assert response.status_code == 200
        assert b"custom:acme" in response.content
        assert SECRET.encode() not in response.content
    assert console.get(f"{path}?client_secret__startswith=the").status_code == 400
