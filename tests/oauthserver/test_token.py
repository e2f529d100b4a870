"""POST /oauth/token: client authentication, codes, refresh tokens and ID tokens."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import jwt
import orjson
import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.users import failed_attempts
from authsvc.caller import Caller
from oauthserver.models import OAuthAuthorization
from tests.conftest import Api, ChangeConfig
from tests.factories import VERIFIER, backdate, make_factor, make_session, make_user
from tests.oauthserver.client_application import (
    CALLBACK,
    ISSUER,
    Application,
    approve,
    exchange,
    post_form,
    refresh,
    register,
    request_token,
    sign_in,
)  # fmt: skip
from tests.observations import assert_error, audit_payloads
from tests.tokens.token_requests import read_claims
from tokens.jwt import signing_keys
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

UNKNOWN = "11111111-1111-4111-8111-111111111111"
AUTH_METHODS = ("client_secret_basic", "client_secret_post", "none")


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def assert_oauth_error(response: Any, error: str, description: str) -> None:
    assert (response.status_code, response.json()) == (400, {"error": error, "error_description": description})


def assert_client_refused(response: Any, message: str) -> None:
    further = {"error": "invalid_client", "error_description": message}
    assert_error(response, 400, "invalid_credentials", message, **further)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"Authorization": "Basic §".encode().decode("latin-1")},
            "Invalid client credentials: invalid basic auth encoding",
        ),
        ({"Authorization": "Basic !!!"}, "Invalid client credentials: invalid basic auth encoding"),
        (basic("no-colon"), "Invalid client credentials: invalid basic auth format"),
        (basic("abc:x"), "Invalid client_id format"),
        (basic(f"{UNKNOWN}:x"), "Invalid client credentials"),
    ],
)
def test_refused_basic_credentials(headers: dict[str, str], message: str) -> None:
    response = post_form("grant_type=refresh_token", headers=headers)
    assert_client_refused(response, message)
    assert response.headers["WWW-Authenticate"] == 'Basic realm="oauth"'
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("{", "application/json", "Invalid client credentials: failed to parse JSON body"),
        ('{"client_id": 1}', "application/json", "Invalid client credentials: failed to parse JSON body"),
        ("null", "application/json", "Invalid client credentials: client_id is required"),
        ("", "application/x-www-form-urlencoded", "Invalid client credentials: client_id is required"),
        ("client_id=%ff", "application/x-www-form-urlencoded", "Invalid client credentials: client_id is required"),
        (f"client_id={UNKNOWN}", "text/plain", "Invalid client credentials: client_id is required"),
        (f"client_id={UNKNOWN}", "multipart/form-data", "Invalid client credentials: client_id is required"),
        ("client_id=abc", "application/x-www-form-urlencoded", "Invalid client_id format"),
        (f"client_id={UNKNOWN}", "application/x-www-form-urlencoded", "Invalid client credentials"),
    ],
)
def test_refused_credentials_in_the_body(body: str, content_type: str, message: str) -> None:
    response = post_form(body, content_type=content_type)
    assert_client_refused(response, message)
    assert "WWW-Authenticate" not in response.headers


@pytest.mark.parametrize("registered", AUTH_METHODS)
def test_only_the_registered_method_is_accepted(registered: str, api: Api) -> None:
    client = register(api, token_endpoint_auth_method=registered)
    for used in AUTH_METHODS:
        secret = "" if used == "none" else client.secret or "x"
        response = request_token(Application(client.client_id, secret, used))
        if used == registered:
            assert_oauth_error(response, "invalid_request", "grant_type is required")
        else:
            message = f"client is registered for '{registered}' but '{used}' was used"
            assert_client_refused(response, f"invalid authentication method: {message}")


def test_secrets_are_verified(api: Api) -> None:
    client = register(api, token_endpoint_auth_method="client_secret_basic")
    wrong = request_token(Application(client.client_id, "x" * 43, client.method))
    assert_client_refused(wrong, "invalid client credentials")
    empty = request_token(Application(client.client_id, "", client.method))
    assert_client_refused(empty, "confidential clients must provide client_secret")
    encoded = basic(f"{quote(client.client_id)}:{quote(client.secret)}")
    assert_oauth_error(post_form("", headers=encoded), "invalid_request", "grant_type is required")


def test_basic_credentials_without_client(api: Api) -> None:
    assert_oauth_error(post_form("", headers=basic(":")), "invalid_request", "grant_type is required")
    response = post_form("grant_type=refresh_token", headers=basic(":"))
    assert_oauth_error(response, "invalid_client", "Client authentication required")


def test_unreadable_json_of_an_authenticated_client(api: Api) -> None:
    client = register(api, token_endpoint_auth_method="client_secret_basic")
    response = post_form("{", headers=client.basic, content_type="application/json")
    assert_oauth_error(response, "invalid_request", "Invalid JSON body")


def test_repeated_parameters_are_refused(api: Api) -> None:
    client = register(api)
    code = approve(api, client, make_session())
    repeated = request_token(client, grant_type="authorization_code", code=[code, code], code_verifier=VERIFIER)
    assert_oauth_error(repeated, "invalid_request", "a parameter is included more than once")
    assert exchange(client, code).status_code == 200


def test_grant_types(api: Api) -> None:
    client = register(api)
    assert_oauth_error(request_token(client), "invalid_request", "grant_type is required")
    assert_oauth_error(
        request_token(client, grant_type="password"),
        "unsupported_grant_type",
        "Client is not allowed to use grant type: password",
    )
    once = register(api, grant_types=["authorization_code"])
    assert_oauth_error(
        refresh(once, "x"), "unsupported_grant_type", "Client is not allowed to use grant type: refresh_token"
    )


@pytest.mark.parametrize("is_json", [False, True])
def test_exchange(is_json: bool, api: Api) -> None:
    client = register(api, token_endpoint_auth_method="client_secret_basic")
    user = make_session().user
    code = approve(api, client, make_session(user), scope="email  phone email")

    if is_json:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
        response = post_form(orjson.dumps(form), headers=client.basic, content_type="application/json; charset=utf-8")
    else:
        response = exchange(client, code)

    content = response.json()
    assert set(content) == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    assert (content["token_type"], content["expires_in"], content["scope"]) == ("bearer", 3600, "email phone")
    claims = read_claims(content["access_token"])
    assert (claims["client_id"], claims["scope"]) == (client.client_id, "email  phone email")
    assert claims["amr"][0]["method"] == "oauth_provider/authorization_code"
    session = Session.objects.get(id=claims["session_id"])
    assert (str(session.oauth_client_id), session.scopes) == (client.client_id, "email  phone email")
    assert AmrClaim.objects.get(session=session).authentication_method == "oauth_provider/authorization_code"
    entry = audit_payloads(with_ids=True)[-1]
    assert (entry["action"], entry["session_id"]) == ("login", str(session.id))
    assert entry["traits"] == {"provider_type": "oauth_provider_authorization_code", "client_id": client.client_id}
    assert OAuthAuthorization.objects.get().status == "exchanged"
    assert User.objects.get(id=user.id).last_sign_in_at is not None
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")


def test_replayed_code_ends_the_session_it_gave(api: Api) -> None:
    client, other = register(api), register(api)
    code = approve(api, client, make_session())
    tokens = exchange(client, code).json()

    # The attempt of another client ends nothing.
    assert_oauth_error(exchange(other, code), "invalid_grant", "Invalid authorization code")
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).status_code == 200

    assert_oauth_error(exchange(client, code), "invalid_grant", "Invalid authorization code")
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).status_code == 403
    assert refresh(client, tokens["refresh_token"]).json()["error"] == "invalid_grant"


REFUSED_EXCHANGES: list[tuple[dict[str, Any], str, str]] = [
    ({"code": None}, "invalid_request", "code is required for authorization_code grant"),
    ({"code": UNKNOWN}, "invalid_grant", "Invalid authorization code"),
    (
        {"resource": "https://other.example.com"},
        "invalid_grant",
        "Authorization code resource does not match the resource parameter",
    ),
    ({"redirect_uri": CALLBACK + "/"}, "invalid_grant", "Invalid redirect_uri"),
    (
        {"code_verifier": None},
        "invalid_grant",
        "PKCE verification failed: code_verifier is required when PKCE challenge is present",
    ),
    (
        {"code_verifier": "x" * 43},
        "invalid_grant",
        "PKCE verification failed: code challenge does not match previously saved code verifier",
    ),
]


def test_refused_exchange_leaves_the_code(api: Api) -> None:
    client = register(api)
    code = approve(api, client, make_session(), resource="https://api.example.com")
    sessions = Session.objects.count()

    for changes, error, description in REFUSED_EXCHANGES:
        assert_oauth_error(exchange(client, **{"code": code, **changes}), error, description)

    assert Session.objects.count() == sessions
    assert exchange(client, code, redirect_uri=None, resource="https://api.example.com").status_code == 200


def test_code_of_another_client(api: Api) -> None:
    client, other = register(api), register(api)
    code = approve(api, client, make_session())
    assert_oauth_error(exchange(other, code), "invalid_grant", "Authorization code was not issued for this client")
    assert exchange(client, code).status_code == 200


def test_expired_code(api: Api) -> None:
    client = register(api)
    code = approve(api, client, make_session())
    backdate(OAuthAuthorization.objects.get(), by=timedelta(minutes=11))
    assert_oauth_error(exchange(client, code), "invalid_grant", "Authorization code has expired")


def test_users_who_cannot_sign_in(api: Api) -> None:
    client, session = register(api), make_session()
    code = approve(api, client, session)
    rows = User.objects.filter(id=session.user.id)
    rows.update(banned_until=timezone.now() + timedelta(hours=1))
    assert_oauth_error(exchange(client, code), "access_denied", "User is banned")
    rows.update(banned_until=None, deleted_at=timezone.now())
    assert_oauth_error(exchange(client, code), "invalid_grant", "User not found for authorization code")
    rows._raw_delete("default")
    assert_oauth_error(exchange(client, code), "invalid_grant", "Invalid authorization code")


def test_a_user_is_banned_during_an_exchange(api: Api) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)

    with connection.cursor() as cursor:
        # The entry is stored after the user was read.
        cursor.execute(
            "CREATE FUNCTION ban() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN UPDATE users SET banned_until = now() + interval '1 hour'; RETURN NULL; END $$"
        )
        cursor.execute("CREATE TRIGGER ban AFTER INSERT ON audit_log_entries EXECUTE FUNCTION ban()")

    response = exchange(application, code)

    assert_oauth_error(response, "access_denied", "User is banned")


def test_plain_challenge(api: Api) -> None:
    client = register(api)
    verifier = "p" * 43
    changes = {"code_challenge": verifier, "code_challenge_method": "plain"}
    code = approve(api, client, make_session(), **changes)
    assert exchange(client, code).json()["error"] == "invalid_grant"
    assert exchange(client, code, code_verifier=verifier).status_code == 200


def test_refresh(api: Api) -> None:
    client = register(api)
    tokens = sign_in(api, client)

    response = refresh(client, tokens["refresh_token"], scope="phone")

    content = response.json()
    assert set(content) == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    assert content["scope"] == "openid email"
    before, after = read_claims(tokens["access_token"]), read_claims(content["access_token"])
    assert [before[name] for name in ("session_id", "client_id", "scope")] == [
        after[name] for name in ("session_id", "client_id", "scope")
    ]
    assert refresh(client, content["refresh_token"]).status_code == 200


def test_refresh_tokens_belong_to_their_client(api: Api) -> None:
    client, other = register(api), register(api)
    tokens, own = sign_in(api, client), make_session()
    assert_oauth_error(
        refresh(other, tokens["refresh_token"]), "invalid_client", "Client does not match the session's OAuth client"
    )
    at_token = api.post("/token?grant_type=refresh_token", {"refresh_token": tokens["refresh_token"]})
    assert_oauth_error(at_token, "invalid_client", "Client authentication required for OAuth session")
    assert_oauth_error(
        refresh(client, own.refresh_token),
        "invalid_client",
        "Client authentication not allowed for non-OAuth session",
    )
    assert_oauth_error(refresh(client, ""), "invalid_request", "refresh_token is required for refresh_token grant")
    assert refresh(client, tokens["refresh_token"]).status_code == 200


def test_unknown_refresh_tokens(api: Api) -> None:
    client, message = register(api), "Invalid Refresh Token: Refresh Token Not Found"
    further = {"error": "invalid_grant", "error_description": message}
    for token in ("x", "a" * 12, "§", "a" * 60):
        assert_error(refresh(client, token), 400, "refresh_token_not_found", message, **further)


def test_reused_refresh_token(api: Api) -> None:
    client = register(api)
    tokens = sign_in(api, client)
    newest = refresh(client, tokens["refresh_token"]).json()["refresh_token"]
    newest = refresh(client, newest).json()["refresh_token"]
    message = "Invalid Refresh Token: Already Used"
    further = {"error": "invalid_grant", "error_description": message}
    reused = refresh(client, tokens["refresh_token"])
    assert_error(reused, 400, "refresh_token_already_used", message, **further)
    assert refresh(client, newest).status_code == 400


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_id_token(algorithm: str, api: Api, auth_config: ChangeConfig) -> None:
    key = signing_keys.generate(algorithm=algorithm)
    auth_config(jwt={"keys": (key,), "valid_methods": (algorithm, "HS256")})
    user = make_user(data={"name": "Ada", "avatar_url": "https://img.example/a.png", "username": 7})
    signed_in_at = timezone.now() - timedelta(minutes=5)
    session = make_session(user, at=signed_in_at)
    client = register(api)

    tokens = sign_in(api, client, session, scope="openid email profile", nonce="n-1")

    header = jwt.get_unverified_header(tokens["id_token"])
    assert header == {"alg": algorithm, "typ": "JWT", "kid": key["kid"]}
    (published,) = api.get("/.well-known/jwks.json").json()["keys"]
    claims = jwt.decode(
        tokens["id_token"], jwt.PyJWK(published), algorithms=[algorithm], audience=client.client_id, issuer=ISSUER
    )
    assert claims["exp"] - claims["iat"] == 3600
    # The time of the user's sign-in, not of the exchange.
    assert claims["auth_time"] == int(signed_in_at.timestamp())
    user.refresh_from_db()
    assert {name: claims[name] for name in claims if name not in ("exp", "iat", "auth_time", "updated_at")} == {
        "iss": ISSUER,
        "sub": str(user.id),
        "aud": client.client_id,
        "client_id": client.client_id,
        "nonce": "n-1",
        "email": user.email,
        "email_verified": True,
        "phone_number_verified": False,
        "name": "Ada",
        "picture": "https://img.example/a.png",
    }


def test_profile_alone_does_not_contain_the_address(api: Api) -> None:
    client, session = register(api), make_session()
    alone = sign_in(api, client, session, scope="openid profile")
    both = sign_in(api, client, session, scope="openid profile email")
    claims = jwt.decode(alone["id_token"], options={"verify_signature": False})
    assert str(session.user.email) not in str(claims)
    assert jwt.decode(both["id_token"], options={"verify_signature": False})["name"] == session.user.email


def test_requested_level_is_stated(api: Api) -> None:
    user = make_user()
    make_factor(user)
    tokens = sign_in(api, register(api), make_session(user, aal="aal2"), acr_values="aal2")
    assert jwt.decode(tokens["id_token"], options={"verify_signature": False})["acr"] == "aal2"


def test_changed_signing_key(api: Api, auth_config: ChangeConfig) -> None:
    client = register(api)
    code = approve(api, client, make_session())
    config = auth_config()
    auth_config(jwt={"keys": (), "valid_methods": ()})
    refused = exchange(client, code)
    assert (refused.status_code, refused.json()["error"]) == (500, "server_error")
    auth_config(jwt={"keys": config.jwt.keys, "valid_methods": config.jwt.valid_methods})
    assert exchange(client, code).status_code == 200


def test_resource_is_an_audience(api: Api) -> None:
    client = register(api)
    tokens = sign_in(api, client, resource="https://api.example.com/v1")
    refreshed = refresh(client, tokens["refresh_token"]).json()
    for token in (tokens["access_token"], refreshed["access_token"]):
        assert read_claims(token)["aud"] == ["authenticated", "https://api.example.com/v1"]
        assert api.get("/user", bearer=token).status_code == 200


@pytest.mark.parametrize("ended_by", ["password", "logout", "local logout"])
def test_a_code_ends_with_the_session_that_approved_it(api: Api, ended_by: str) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)
    other = make_session(session.user)
    silent = approve(api, application, other)  # by the consent
    match ended_by:
        case "password":
            kept = make_session(session.user)
            assert api.put("/user", {"password": "another horse battery"}, bearer=kept.access_token).status_code == 200
        case "logout":
            assert api.post("/logout", bearer=other.access_token).status_code == 204
        case _:
            assert api.post("/logout?scope=local", bearer=session.access_token).status_code == 204

    assert_oauth_error(exchange(application, code), "invalid_grant", "Invalid authorization code")
    assert exchange(application, silent).status_code == (200 if ended_by == "local logout" else 400)
    assert Session.objects.filter(oauth_client_id=application.client_id).count() == (ended_by == "local logout")


def test_the_network_of_a_client_is_not_one_of_the_user(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_failed_attempts": 1})
    application, session = register(api), make_session(ip="198.51.100.7")
    tokens = sign_in(api, application, session)
    assert refresh(application, tokens["refresh_token"]).status_code == 200
    failed_attempts.record([session.user.pk], at=timezone.now())
    own = Session.objects.get(oauth_client_id=application.client_id)
    assert failed_attempts.is_refused(session.user.pk, caller=Caller(address=own.ip or ""))
    assert not failed_attempts.is_refused(session.user.pk, caller=Caller(address="198.51.100.7"))
