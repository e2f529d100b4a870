"""Access of clients: userinfo, discovery, grants of users, restricted tokens, and ID tokens as bearer tokens."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from accounts.models import User
from authsvc import personal_data
from authsvc.personal_data import DataSubject
from oauthserver.models import OAuthAuthorization, OAuthConsent
from oauthserver.personal_data import OAuthServerPersonalData
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_session, make_user
from tests.oauthserver.client_application import (
    ISSUER,
    approve,
    exchange,
    post_form,
    refresh,
    register,
    show,
    sign_in,
    start,
)  # fmt: skip
from tests.observations import assert_error, audit_payloads

pytestmark = pytest.mark.django_db

UNKNOWN = "11111111-1111-4111-8111-111111111111"
CLIENT_TOKEN = (403, "no_authorization", "OAuth client tokens are not allowed to perform this action")
ID_TOKEN = (403, "bad_jwt", "invalid claim: an ID token is not an access token")


def userinfo(api: Api, user: User, scope: str) -> dict[str, Any]:
    tokens = sign_in(api, register(api), make_session(user), scope=scope)
    claims: dict[str, Any] = api.get("/oauth/userinfo", bearer=tokens["access_token"]).json()
    assert claims.pop("sub") == str(user.id)
    return claims


def test_userinfo_by_scope(api: Api) -> None:
    user = make_user(phone="15551234567", data={"name": "Ada", "picture": "", "avatar_url": "https://img.example/a"})
    assert userinfo(api, user, "openid") == {}
    email = userinfo(api, user, "openid email")
    assert (set(email), email["email_verified"]) == ({"email", "email_verified"}, True)
    profile = userinfo(api, user, "openid profile")
    assert (profile["name"], profile["picture"]) == ("Ada", "https://img.example/a")
    assert set(profile) == {"name", "picture", "updated_at", "user_metadata"}
    assert userinfo(api, user, "openid phone") == {"phone": "15551234567", "phone_number": "15551234567"}


def test_userinfo_of_other_tokens(api: Api) -> None:
    session = make_session()
    assert api.get("/oauth/userinfo", bearer=session.access_token).json() == {"sub": str(session.user.id)}
    assert api.get("/oauth/userinfo").status_code == 401
    tokens = sign_in(api, register(api))
    response = api.post("/oauth/userinfo", bearer=tokens["access_token"])
    assert response.json() == api.get("/oauth/userinfo", bearer=tokens["access_token"]).json()
    form = urlencode({"access_token": tokens["access_token"]})
    assert post_form(form, path="/oauth/userinfo").json() == response.json()
    # A request names its token in one place, and never in the query (RFC 6750 §2).
    assert post_form(form, path="/oauth/userinfo", headers={"Authorization": "Basic eDp5"}).status_code == 401
    assert post_form("access_token=", path="/oauth/userinfo").status_code == 401
    assert post_form("", path=f"/oauth/userinfo?{form}").status_code == 401
    assert post_form(form, path="/oauth/userinfo", content_type="text/plain").status_code == 401
    assert post_form("access_token=%00%C3%A4", path="/oauth/userinfo").status_code == 403


def test_discovery(api: Api, auth_config: ChangeConfig) -> None:
    response = api.get("/.well-known/openid-configuration")
    document = response.json()
    assert api.get("/.well-known/oauth-authorization-server").json() == document
    assert response.headers["Cache-Control"] == "public, max-age=600"
    assert document["issuer"] == ISSUER
    assert document["token_endpoint"] == f"{ISSUER}/oauth/token"
    assert document["registration_endpoint"] == f"{ISSUER}/oauth/clients/register"
    assert document["id_token_signing_alg_values_supported"] == ["ES256"]
    assert document["authorization_response_iss_parameter_supported"] is True

    auth_config(oauth_server={"allow_dynamic_registration": False}, jwt={"issuer": ""})
    document = api.get("/.well-known/openid-configuration").json()
    assert "registration_endpoint" not in document
    assert document["issuer"] == "http://127.0.0.1:8081"  # the URL of the API

    auth_config(oauth_server={"enabled": False})
    document = api.get("/.well-known/openid-configuration").json()
    assert (document["response_types_supported"], "token_endpoint" in document) == ([], False)


def test_tokens_of_clients_are_restricted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passkeys={"enabled": True})
    session = make_session()
    application = register(api)
    token = sign_in(api, application, session)["access_token"]
    pending = start(api, application, scope="phone")

    assert api.get("/user", bearer=token).status_code == 200
    for method, path, body in (
        ("PUT", "/user", {"data": {"a": 1}}),
        ("GET", "/reauthenticate", None),
        ("POST", "/factors", {"factor_type": "totp"}),
        ("DELETE", f"/factors/{UNKNOWN}", None),
        ("GET", "/passkeys", None),
        ("GET", "/user/identities/authorize?provider=github", None),
        ("GET", "/user/oauth/grants", None),
        ("GET", f"/oauth/authorizations/{pending}", None),
        ("POST", f"/oauth/authorizations/{pending}/consent", {"action": "approve"}),
        ("POST", "/logout", None),
        ("POST", "/logout?scope=others", None),
    ):
        assert_error(api.request(method, path, body, bearer=token), *CLIENT_TOKEN)
    linked = api.post(
        "/token?grant_type=id_token", {"provider": "google", "id_token": "x", "link_identity": True}, bearer=token
    )
    assert_error(linked, *CLIENT_TOKEN)
    assert api.get("/user", bearer=session.access_token).json()["user_metadata"].get("a") is None

    auth_config(oauth_server={"restrict_client_tokens": False})
    assert api.put("/user", {"data": {"a": 1}}, bearer=token).status_code == 200

    auth_config(oauth_server={"restrict_client_tokens": True})
    assert api.post("/logout?scope=local", bearer=token).status_code == 204
    assert api.get("/user", bearer=token).json()["error_code"] == "session_not_found"
    assert api.get("/user", bearer=session.access_token).status_code == 200


def test_client_tokens_of_administrators_do_not_administer(api: Api) -> None:
    session = make_session(make_user(role="service_role"))
    assert api.get("/admin/users", bearer=session.access_token).status_code == 200
    token = sign_in(api, register(api), session)["access_token"]
    assert_error(api.get("/admin/users", bearer=token), 403, "not_admin", "User not allowed")


@pytest.mark.parametrize("restricted", [True, False])
def test_id_tokens_are_no_access_tokens(restricted: bool, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"restrict_client_tokens": restricted})
    session, application = make_session(make_user(role="service_role")), register(api)
    id_token = sign_in(api, application, session, scope="openid email profile")["id_token"]
    pending = start(api, application, scope="phone")
    for method, path, body in (
        ("GET", "/user", None),
        ("PUT", "/user", {"data": {"a": 1}}),
        ("GET", "/oauth/userinfo", None),
        ("GET", f"/oauth/authorizations/{pending}", None),
        ("POST", f"/oauth/authorizations/{pending}/consent", {"action": "approve"}),
        ("POST", "/logout", None),
        ("GET", "/admin/users", None),
        ("GET", "/admin/oauth/clients", None),
    ):
        assert_error(api.request(method, path, body, bearer=id_token), *ID_TOKEN)
    assert api.get("/user", bearer=session.access_token).status_code == 200
    assert admin_requests.ask(api, "GET", "/admin/users").status_code == 200  # the token of a service


def test_grants_of_a_user(api: Api) -> None:
    session = make_session()
    assert api.get("/user/oauth/grants", bearer=session.access_token).json() == []
    first, second = register(api, client_name="First", logo_uri="https://a.example/l"), register(api)
    approve(api, first, session, scope="openid email")
    approve(api, second, session, scope="profile")
    approve(api, second, make_session())

    grants = api.get("/user/oauth/grants", bearer=session.access_token).json()

    assert [(grant["client"], grant["scopes"]) for grant in grants] == [
        ({"id": second.client_id}, ["profile"]),
        ({"id": first.client_id, "name": "First", "logo_uri": "https://a.example/l"}, ["openid", "email"]),
    ]
    admin_requests.ask(api, "DELETE", f"/admin/oauth/clients/{second.client_id}")
    (grant,) = api.get("/user/oauth/grants", bearer=session.access_token).json()
    assert grant["client"]["id"] == first.client_id


def test_revocation_of_a_grant(api: Api) -> None:
    session, other, application = make_session(), make_session(), register(api)
    tokens, others = sign_in(api, application, session), sign_in(api, application, other)
    code = approve(api, application, session)
    path = f"/user/oauth/grants?client_id={application.client_id}"

    assert api.delete(path, bearer=session.access_token).status_code == 204

    assert refresh(application, tokens["refresh_token"]).json()["error_code"] == "refresh_token_not_found"
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).status_code == 403
    assert exchange(application, code).json()["error"] == "invalid_grant"
    assert refresh(application, others["refresh_token"]).status_code == 200
    assert OAuthConsent.objects.get(user_id=session.user.id).revoked_at is not None
    assert audit_payloads()[-2]["traits"] == {
        "oauth_client_id": application.client_id,
        "action": "revoke_oauth_grant",
    }
    assert "redirect_url" not in show(api, start(api, application), session).json()
    not_found = (404, "oauth_consent_not_found", "No active grant found for this client")
    assert_error(api.delete(path, bearer=session.access_token), *not_found)


def test_refused_revocations(api: Api) -> None:
    session = make_session()
    for query, status, code, message in (
        ("", 400, "validation_failed", "client_id query parameter is required"),
        ("?client_id=x", 400, "validation_failed", "invalid client_id format"),
        (f"?client_id={UNKNOWN}", 404, "oauth_consent_not_found", "No active grant found for this client"),
    ):
        response = api.delete(f"/user/oauth/grants{query}", bearer=session.access_token)
        assert_error(response, status, code, message)


def test_restricted_token_does_not_verify_factors(api: Api) -> None:
    owner = factor_requests.make_owner()
    token = sign_in(api, register(api), make_session(owner.user))["access_token"]
    assert_error(factor_requests.challenge(api, token, owner.factor.id), *CLIENT_TOKEN)


def test_new_session_replaces_no_restriction(api: Api) -> None:
    """The tokens of a password sign-in of the same user are not restricted."""
    session = make_session()
    sign_in(api, register(api), session)
    signed_in = api.post("/token?grant_type=password", {"email": session.user.email, "password": PASSWORD}).json()
    assert api.put("/user", {"data": {"a": 1}}, bearer=signed_in["access_token"]).status_code == 200


def test_personal_data(api: Api) -> None:
    session, application = make_session(), register(api)
    approve(api, application, session)
    assert any(isinstance(source, OAuthServerPersonalData) for source in personal_data.sources)
    subject = DataSubject(id=session.user.id, addresses=frozenset({session.user.email or ""}))

    tables = {name: list(rows) for name, rows in OAuthServerPersonalData().export(subject)}

    (consent,), (request,) = tables["oauth_consents"], tables["oauth_authorizations"]
    assert (consent["scopes"], request["scope"]) == ("openid email", "openid email")
    assert not {"authorization_code", "authorization_id", "code_challenge"} & set(request)
    session.user.delete()
    assert (OAuthConsent.objects.count(), OAuthAuthorization.objects.count()) == (0, 0)
