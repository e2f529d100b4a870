"""Classifies every endpoint of the API: an operator who impersonates a user may call it, or is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import FactorChallenge, User
from accounts.pages.page import HostedPage
from authsvc.api.views import Endpoint
from authsvc.models import AuditLogEntry
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tokens.models import TokenType

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]

ANY_ID = "11111111-2222-4333-8444-555555555555"


class Use(StrEnum):
    PERMITTED = "permitted"
    REFUSED = "refused"
    ADMIN = "refused like every user without an administrator's role"
    PUBLIC = "reads no access token, so the response is the same for an operator"


# An endpoint that changes a sign-in method, a credential or another session is REFUSED. A public endpoint that acts on
# the account of a bearer token (linking by `POST /token`) or redeems a code (`POST /verify`) is tested below as well.
USES = {
    "GET /user": Use.PERMITTED,
    "PUT /user": Use.PERMITTED,  # only `data`
    "POST /logout": Use.PERMITTED,  # only the impersonated session
    "GET /passkeys": Use.PERMITTED,
    "GET /factors/recovery_codes": Use.PERMITTED,
    "GET /reauthenticate": Use.REFUSED,
    "POST /factors": Use.REFUSED,
    "DELETE /factors/{factor_id}": Use.REFUSED,
    "POST /factors/{factor_id}/challenge": Use.REFUSED,
    "POST /factors/{factor_id}/verify": Use.REFUSED,
    "POST /factors/recovery_codes": Use.REFUSED,
    "POST /factors/recovery_codes/verify": Use.REFUSED,
    "POST /passkeys/registration/options": Use.REFUSED,
    "POST /passkeys/registration/verify": Use.REFUSED,
    "PATCH /passkeys/{passkey_id}": Use.REFUSED,
    "DELETE /passkeys/{passkey_id}": Use.REFUSED,
    "GET /user/identities/authorize": Use.REFUSED,
    "DELETE /user/identities/{identity_id}": Use.REFUSED,
    "GET /oauth/userinfo": Use.PERMITTED,
    "POST /oauth/userinfo": Use.PERMITTED,
    "GET /oauth/authorizations/{authorization_id}": Use.REFUSED,
    "POST /oauth/authorizations/{authorization_id}/consent": Use.REFUSED,
    "GET /user/oauth/grants": Use.REFUSED,
    "DELETE /user/oauth/grants": Use.REFUSED,
    "POST /invite": Use.ADMIN,
    "POST /admin/generate_link": Use.ADMIN,
    "GET /admin/users": Use.ADMIN,
    "POST /admin/users": Use.ADMIN,
    "GET /admin/users/{user_id}": Use.ADMIN,
    "POST /admin/users/{user_id}": Use.ADMIN,
    "PUT /admin/users/{user_id}": Use.ADMIN,
    "DELETE /admin/users/{user_id}": Use.ADMIN,
    "GET /admin/users/{user_id}/factors": Use.ADMIN,
    "PUT /admin/users/{user_id}/factors/{factor_id}": Use.ADMIN,
    "DELETE /admin/users/{user_id}/factors/{factor_id}": Use.ADMIN,
    "DELETE /admin/users/{user_id}/failed_attempts": Use.ADMIN,
    "GET /admin/users/{user_id}/passkeys": Use.ADMIN,
    "DELETE /admin/users/{user_id}/passkeys/{passkey_id}": Use.ADMIN,
    "GET /admin/audit": Use.ADMIN,
    "GET /admin/custom-providers": Use.ADMIN,
    "POST /admin/custom-providers": Use.ADMIN,
    "GET /admin/custom-providers/{identifier}": Use.ADMIN,
    "PUT /admin/custom-providers/{identifier}": Use.ADMIN,
    "DELETE /admin/custom-providers/{identifier}": Use.ADMIN,
    "GET /admin/oauth/clients": Use.ADMIN,
    "POST /admin/oauth/clients": Use.ADMIN,
    "GET /admin/oauth/clients/{client_id}": Use.ADMIN,
    "PUT /admin/oauth/clients/{client_id}": Use.ADMIN,
    "DELETE /admin/oauth/clients/{client_id}": Use.ADMIN,
    "POST /admin/oauth/clients/{client_id}/regenerate_secret": Use.ADMIN,
    "GET /admin/webhooks/event_types": Use.ADMIN,
    "GET /admin/webhooks/endpoints": Use.ADMIN,
    "POST /admin/webhooks/endpoints": Use.ADMIN,
    "GET /admin/webhooks/endpoints/{endpoint_id}": Use.ADMIN,
    "PUT /admin/webhooks/endpoints/{endpoint_id}": Use.ADMIN,
    "DELETE /admin/webhooks/endpoints/{endpoint_id}": Use.ADMIN,
    "POST /admin/webhooks/endpoints/{endpoint_id}/rotate_secret": Use.ADMIN,
    "POST /admin/webhooks/endpoints/{endpoint_id}/ping": Use.ADMIN,
    "POST /admin/webhooks/endpoints/{endpoint_id}/replay": Use.ADMIN,
    "GET /admin/webhooks/deliveries": Use.ADMIN,
    "GET /admin/webhooks/deliveries/{delivery_id}": Use.ADMIN,
    "POST /admin/webhooks/deliveries/{delivery_id}/retry": Use.ADMIN,
    "GET /admin/webhooks/events/{event_id}": Use.ADMIN,
    "POST /token": Use.PUBLIC,
    "POST /verify": Use.PUBLIC,
    "GET /verify": Use.PUBLIC,
    "POST /verify/confirm": Use.PUBLIC,
    "POST /signup": Use.PUBLIC,
    "POST /otp": Use.PUBLIC,
    "POST /magiclink": Use.PUBLIC,
    "POST /recover": Use.PUBLIC,
    "POST /resend": Use.PUBLIC,
    "POST /passkeys/authentication/options": Use.PUBLIC,
    "POST /passkeys/authentication/verify": Use.PUBLIC,
    "GET /authorize": Use.PUBLIC,
    "GET /callback": Use.PUBLIC,
    "POST /callback": Use.PUBLIC,
    "GET /health": Use.PUBLIC,
    "GET /settings": Use.PUBLIC,
    "GET /openapi.json": Use.PUBLIC,
    "GET /docs": Use.PUBLIC,
    "GET /.well-known/jwks.json": Use.PUBLIC,
    "GET /.well-known/openid-configuration": Use.PUBLIC,
    "GET /.well-known/oauth-authorization-server": Use.PUBLIC,
    "GET /.well-known/oauth-authorization-server/{issuer_path}": Use.PUBLIC,
    "GET /.well-known/openid-configuration/{issuer_path}": Use.PUBLIC,
    "GET /.well-known/oauth-protected-resource": Use.PUBLIC,
    "GET /.well-known/oauth-protected-resource/oauth/userinfo": Use.PUBLIC,
    "GET /.well-known/oauth-protected-resource/{resource_path}": Use.PUBLIC,
    "POST /sso": Use.PUBLIC,
    "GET /sso/saml/metadata": Use.PUBLIC,
    "POST /sso/saml/acs": Use.PUBLIC,
    "GET /oauth/authorize": Use.PUBLIC,
    "POST /oauth/authorize": Use.PUBLIC,
    "POST /oauth/clients/register": Use.PUBLIC,
    "POST /oauth/device_authorization": Use.PUBLIC,
    "POST /oauth/token": Use.PUBLIC,
    "POST /oauth/revoke": Use.PUBLIC,
    "POST /oauth/introspect": Use.PUBLIC,
    "POST /oauth/par": Use.PUBLIC,
}
PAGES = ("operator", "inbox", "docs/<", "account/static")
"""Path prefixes of HTML pages, which read cookies only."""


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif route and not route.startswith(PAGES):
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route), pattern


def endpoints() -> Iterator[tuple[str, type[Endpoint]]]:
    """The method with the path, and the view, of every endpoint."""
    for route, pattern in routes(get_resolver().url_patterns):
        view: type = pattern.callback.view_class  # type: ignore[attr-defined]  # each endpoint is a class
        if issubclass(view, HostedPage):  # its cookie is never bound to an impersonated session
            continue
        assert issubclass(view, Endpoint), route
        initial = pattern.callback.view_initkwargs  # type: ignore[attr-defined]
        for method in initial.get("http_method_names", view.http_method_names):
            if hasattr(view, method):
                yield f"{method.upper()} /{route}", view


VIEWS = dict(endpoints())


@pytest.fixture
def token(auth_config: ChangeConfig) -> str:
    """The access token of an operator who impersonates a user."""
    auth_config(
        console={"impersonation_enabled": True},
        passkeys={"enabled": True},
        mfa={"recovery_codes_enabled": True},
        oauth_server={"enabled": True},
    )
    return factories.make_impersonation().access_token


def call(api: Api, endpoint: str, token: str) -> ApiResponse:
    method, path = endpoint.split()
    return api.request(method, re.sub(r"{\w+}", ANY_ID, path), {}, bearer=token)


def test_every_endpoint_is_classified() -> None:
    assert VIEWS.keys() == USES.keys()


@pytest.mark.parametrize("endpoint", [name for name, use in USES.items() if use is Use.REFUSED])
def test_changes_are_refused_and_recorded(api: Api, token: str, endpoint: str) -> None:
    response = call(api, endpoint, token)
    assert (response.status_code, response.json()["error_code"]) == (403, "impersonation_not_allowed")
    [entry] = AuditLogEntry.objects.filter(payload__action="user_change_refused")
    assert entry.payload is not None
    method, path = endpoint.split()
    request = entry.payload["traits"]["request"]
    assert re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", request) == f"{method} {path.removeprefix('/')}"
    assert entry.payload["impersonator_username"]


@pytest.mark.parametrize("endpoint", [name for name, use in USES.items() if use is Use.ADMIN])
@pytest.mark.usefixtures("token")
def test_administration_is_refused(api: Api, endpoint: str) -> None:
    administrator = factories.make_user(role="svc_admin")  # no operator can impersonate one
    token = factories.make_impersonation(administrator).access_token
    response = call(api, endpoint, token)
    assert (response.status_code, response.json()["error_code"]) == (403, "not_admin")


@pytest.mark.parametrize("endpoint", [name for name, use in USES.items() if use is Use.PERMITTED])
def test_reading_and_signing_out_are_permitted(api: Api, token: str, endpoint: str) -> None:
    response = call(api, endpoint, token)
    assert response.status_code in (200, 204), response.content


def test_public_endpoints_read_no_access_token() -> None:
    readers = {name for name, view in VIEWS.items() if view.authentication_classes}
    assert readers == {name for name, use in USES.items() if use is not Use.PUBLIC}


@pytest.mark.parametrize(
    "changes",
    [
        {"password": "another long password"}, {"email": "new@example.com"}, {"phone": "+4915112345678"},
        {"nonce": "123456"}, {"current_password": factories.PASSWORD}, {"app_metadata": {"plan": "pro"}},
        {"data": {"a": 1}, "password": "another long password"},
    ],
)  # fmt: skip
def test_the_account_is_unchanged_except_its_metadata(api: Api, token: str, changes: dict[str, Any]) -> None:
    before = User.objects.get(sessions__impersonator_id__isnull=False)
    refused = api.put("/user", changes, bearer=token)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "impersonation_not_allowed")
    after = User.objects.get(pk=before.pk)
    assert (after.password, after.email, after.email_change, after.phone_change, after.raw_user_meta_data) == (
        before.password, before.email, before.email_change, before.phone_change, before.raw_user_meta_data,
    )  # fmt: skip
    assert api.put("/user", {"data": {"seen": True}}, bearer=token).json()["user_metadata"]["seen"] is True
    [entry] = AuditLogEntry.objects.filter(payload__action="user_modified")
    assert entry.payload is not None
    assert (entry.payload["actor_id"], entry.payload["impersonator_username"][-12:]) == (str(after.pk), "@example.com")


def test_an_identity_is_not_linked_by_an_id_token(api: Api, token: str) -> None:
    body = {"id_token": "x", "provider": "google", "link_identity": True}
    refused = api.post("/token?grant_type=id_token", body, bearer=token)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "impersonation_not_allowed")


def test_no_code_is_redeemed_with_the_token(api: Api, token: str) -> None:
    user = User.objects.get(sessions__impersonator_id__isnull=False)
    secret = factories.make_one_time_token(user, TokenType.RECOVERY)
    body = {"type": "recovery", "token_hash": secret.link_token}
    refused = api.post("/verify", body, bearer=token)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "impersonation_not_allowed")
    assert api.post("/verify", body).status_code == 200  # the owner of the mailbox


def test_services_refuse_what_an_endpoint_would_permit_by_mistake(
    token: str, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    owner = factor_requests.make_owner()
    token = factories.make_impersonation(owner.user).access_token
    for view in VIEWS.values():
        monkeypatch.setattr(view, "impersonated_methods", frozenset(view.http_method_names))
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    FactorChallenge.objects.update(session_id=None)  # a session answers only its own challenges
    code = {"code": factor_requests.code(), "challenge_id": challenge_id}
    passkey = "/passkeys/registration/options"
    for method, path, body in (
        ("POST", "/factors", {"factor_type": "totp", "friendly_name": "mine"}),
        ("DELETE", f"/factors/{owner.factor.id}", None),
        ("POST", f"/factors/{owner.factor.id}/verify", code),
        ("POST", "/factors/recovery_codes", None),
        ("POST", passkey, {}),
        ("DELETE", f"/passkeys/{ANY_ID}", None),
        ("GET", f"/oauth/authorizations/{ANY_ID}", None),
        ("POST", f"/oauth/authorizations/{ANY_ID}/consent", {"action": "approve"}),
        ("DELETE", f"/user/oauth/grants?client_id={ANY_ID}", None),
    ):
        refused = api.request(method, path, body, bearer=token)
        assert (refused.status_code, refused.json()["error_code"]) == (403, "impersonation_not_allowed"), path
