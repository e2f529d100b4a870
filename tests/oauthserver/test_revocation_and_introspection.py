"""POST /oauth/revoke and POST /oauth/introspect."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from oauthserver.models import OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_session
from tests.oauthserver.client_application import (
    ISSUER,
    Application,
    introspect,
    post_form,
    refresh,
    register,
    request_token,
    revoke,
    sign_in,
)  # fmt: skip
from tests.observations import audit_payloads, table_contents
from tests.tokens.token_requests import read_claims
from tokens.models import Session

pytestmark = pytest.mark.django_db

INACTIVE = (200, {"active": False})
API = "https://api.example.com/"
HOSTILE = ("x", ".", "a.b.c", "\0", "é" * 22, "a" * 12, "A" * 22, "x" * 100_000, "%00.%00.%00")


def confidential(api: Api, **metadata: Any) -> Application:
    return register(api, **{"token_endpoint_auth_method": "client_secret_basic", **metadata})


def outcome(response: Any) -> tuple[int, Any]:
    return response.status_code, response.json()


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", [None, "access_token", "refresh_token", "other"])
def test_a_revoked_token_ends_its_session(kind: str, hint: str | None, api: Api) -> None:
    application, session = register(api), make_session()
    tokens, others = sign_in(api, application, session), sign_in(api, application, session)

    response = revoke(application, tokens[kind], token_type_hint=hint)

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Cache-Control"] == "no-store"
    assert refresh(application, tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).status_code == 403
    assert api.get("/oauth/userinfo", bearer=others["access_token"]).status_code == 200
    assert api.get("/user", bearer=session.access_token).status_code == 200
    entry = next(entry for entry in audit_payloads(with_ids=True) if entry["action"] == "token_revoked")
    assert entry["traits"] == {"oauth_client_id": application.client_id, "action": "revoke_oauth_token"}
    assert (entry["actor_id"], entry["session_id"]) == (
        str(session.user.id),
        read_claims(tokens["access_token"])["session_id"],
    )


def test_an_earlier_refresh_token_ends_the_session_too(api: Api) -> None:
    application = confidential(api)
    first = sign_in(api, application)["refresh_token"]
    second = refresh(application, first).json()["refresh_token"]
    assert revoke(application, first).status_code == 200
    assert refresh(application, second).json()["error"] == "invalid_grant"


def test_tokens_of_others_are_not_revoked(api: Api) -> None:
    application, other, session = register(api), confidential(api), make_session()
    tokens = sign_in(api, application, session)
    own = api.post("/token?grant_type=password", {"email": session.user.email, "password": PASSWORD}).json()
    before = table_contents()
    id_token = tokens["id_token"]
    forged = tokens["refresh_token"][:-8] + "AAAAAAAA"
    tokens_of_others = (tokens["access_token"], tokens["refresh_token"], session.access_token, id_token, forged)
    for token in (*tokens_of_others, *own.values(), *HOSTILE):
        response = revoke(other, str(token))
        assert (response.status_code, response.content) == (200, b"")
    assert table_contents() == before


def test_refused_requests(api: Api) -> None:
    application = confidential(api)
    for path in ("/oauth/revoke", "/oauth/introspect"):
        missing = request_token(application, path=path)
        assert outcome(missing) == (400, {"error": "invalid_request", "error_description": "token is required"})
        wrong = request_token(Application(application.client_id, "x" * 43, application.method), path=path, token="x")
        assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_client")
        assert wrong.headers["WWW-Authenticate"] == 'Basic realm="oauth"'
        unknown = post_form("token=x", path=path)
        assert (unknown.json()["error"], unknown.json()["error_code"]) == ("invalid_client", "invalid_credentials")
        repeated = post_form("token=x&token=y", headers=application.basic, path=path)
        assert repeated.json()["error_description"] == "a parameter is included more than once"
        unreadable = post_form("{", headers=application.basic, content_type="application/json", path=path)
        assert unreadable.json() == {"error": "invalid_request", "error_description": "Invalid JSON body"}
        too_long = post_form("token=" + "x" * 1_048_576, headers=application.basic, path=path)
        assert (too_long.status_code, too_long.json()["error"]) == (413, "invalid_request")
        as_json = post_form('{"token": "x"}', headers=application.basic, content_type="application/json", path=path)
        assert as_json.status_code == 200


def test_disabled(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"enabled": False})
    for path in ("/oauth/revoke", "/oauth/introspect"):
        assert outcome(post_form("", path=path))[1]["error_code"] == "feature_disabled"


def test_introspection_of_an_access_token(api: Api) -> None:
    application, session = confidential(api), make_session()
    tokens = sign_in(api, application, session, scope="openid  email", resource=API)
    claims = read_claims(tokens["access_token"])

    response = introspect(application, tokens["access_token"])

    assert outcome(response) == (
        200,
        {
            "active": True,
            "token_type": "bearer",
            "scope": "openid email",
            "client_id": application.client_id,
            "sub": str(session.user.id),
            "aud": ["authenticated", API],
            "iss": ISSUER,
            "exp": claims["exp"],
            "iat": claims["iat"],
        },
    )
    assert response.headers["Cache-Control"] == "no-store"


def test_introspection_of_a_refresh_token(api: Api) -> None:
    application, session = confidential(api), make_session()
    first = sign_in(api, application, session)["refresh_token"]
    expected = {
        "active": True,
        "scope": "openid email",
        "client_id": application.client_id,
        "sub": str(session.user.id),
    }
    assert outcome(introspect(application, first)) == (200, expected)
    second = refresh(application, first).json()["refresh_token"]
    assert outcome(introspect(application, first)) == INACTIVE
    assert outcome(introspect(application, second)) == (200, expected)
    assert outcome(introspect(application, second[:-8] + "AAAAAAAA")) == INACTIVE


def test_only_own_tokens_are_shown(api: Api) -> None:
    application, other, session = confidential(api), confidential(api), make_session()
    tokens = sign_in(api, application, session)
    for token in (tokens["access_token"], tokens["refresh_token"], *HOSTILE):
        assert outcome(introspect(other, token)) == INACTIVE, token
    for token in (tokens["id_token"], session.access_token, admin_requests.token()):
        assert outcome(introspect(application, token)) == INACTIVE
    public = register(api)
    refused = introspect(public, tokens["access_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client")


def test_an_api_introspects_the_access_tokens_that_are_issued_for_it(api: Api) -> None:
    application, resource_server = register(api), confidential(api, resource=API)
    tokens = sign_in(api, application, resource=API)
    shown = introspect(resource_server, tokens["access_token"]).json()
    assert (shown["active"], shown["client_id"]) == (True, application.client_id)
    assert outcome(introspect(resource_server, tokens["refresh_token"])) == INACTIVE
    elsewhere = sign_in(api, application, resource=API + "other")
    assert outcome(introspect(resource_server, elsewhere["access_token"])) == INACTIVE
    self_registered = api.post(
        "/oauth/clients/register", {"redirect_uris": ["https://a.example/cb"], "resource": API}
    ).json()
    assert "resource" not in self_registered
    OAuthClient.objects.filter(id=application.client_id).update(deleted_at=timezone.now())
    assert outcome(introspect(resource_server, tokens["access_token"])) == INACTIVE


def test_the_state_of_user_and_session_counts(api: Api, auth_config: ChangeConfig) -> None:
    application = confidential(api)

    def ended(change: Any, kinds: tuple[str, ...] = ("access_token", "refresh_token")) -> list[str]:
        session = make_session()
        tokens = sign_in(api, application, session)
        change(session, read_claims(tokens["access_token"])["session_id"])
        return [kind for kind in kinds if outcome(introspect(application, tokens[kind])) == INACTIVE]

    both = ["access_token", "refresh_token"]
    users = User.objects.filter
    later = timezone.now() + timedelta(hours=1)
    assert ended(lambda _session, id_: Session.objects.filter(id=id_).delete()) == both
    assert ended(lambda session, _id: users(id=session.user.id).update(banned_until=later)) == both
    assert ended(lambda session, _id: users(id=session.user.id).update(deleted_at=timezone.now())) == both
    assert ended(lambda session, _id: session.user.delete()) == both
    past = timezone.now() - timedelta(seconds=1)
    assert ended(lambda _session, id_: Session.objects.filter(id=id_).update(not_after=past)) == ["refresh_token"]
    assert ended(lambda _session, _id: None) == []
    tokens = sign_in(api, application)
    OAuthClient.objects.update(deleted_at=timezone.now())
    assert introspect(application, tokens["access_token"]).json()["error"] == "invalid_client"


def test_discovery_names_both_endpoints(api: Api) -> None:
    document = api.get("/.well-known/openid-configuration").json()
    assert document["revocation_endpoint"] == f"{ISSUER}/oauth/revoke"
    assert document["introspection_endpoint"] == f"{ISSUER}/oauth/introspect"
    assert "none" in document["revocation_endpoint_auth_methods_supported"]
    assert "none" not in document["introspection_endpoint_auth_methods_supported"]
