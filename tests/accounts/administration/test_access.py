"""Authentication and authorisation of the admin API."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings
from django.utils import timezone

from accounts.models import User
from tests.accounts.administration import admin_requests
from tests.accounts.administration.admin_requests import NOT_ADMIN
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import SignIn, make_factor, make_session, make_user
from tests.observations import assert_error, table_contents
from tokens.models import Session

pytestmark = pytest.mark.django_db

USER_ID = "11111111-1111-4111-8111-111111111111"
ENDPOINTS = [
    ("GET", "/admin/users"),
    ("POST", "/admin/users"),
    ("POST", f"/admin/users/{USER_ID}"),
    ("GET", f"/admin/users/{USER_ID}"),
    ("PUT", f"/admin/users/{USER_ID}"),
    ("DELETE", f"/admin/users/{USER_ID}"),
    ("GET", f"/admin/users/{USER_ID}/factors"),
    ("PUT", f"/admin/users/{USER_ID}/factors/{USER_ID}"),
    ("DELETE", f"/admin/users/{USER_ID}/factors/{USER_ID}"),
    ("GET", "/admin/audit"),
    ("POST", "/invite"),
    ("POST", "/admin/generate_link"),
]
BANNED = (403, "user_banned", "User is banned")


def operator(role: str = "svc_admin", **columns: Any) -> SignIn:
    """A session of a user with this role."""
    return make_session(make_user(role=role), **columns)


def users(api: Api, bearer: str) -> ApiResponse:
    return api.get("/admin/users", bearer=bearer)


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_missing_token_is_rejected(api: Api, method: str, path: str) -> None:
    response = api.request(method, path, "not even looked at")
    assert_error(response, 401, "no_authorization", "This endpoint requires a valid Bearer token")


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_other_roles_are_rejected(api: Api, method: str, path: str) -> None:
    before = table_contents()
    assert_error(api.request(method, path, {}, bearer=admin_requests.token("authenticated")), *NOT_ADMIN)
    assert table_contents() == before


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_banned_operator_is_rejected_everywhere(api: Api, method: str, path: str) -> None:
    made = operator()
    assert users(api, made.access_token).status_code == 200
    User.objects.filter(id=made.user.id).update(banned_until=timezone.now() + timedelta(hours=1))
    assert_error(api.request(method, path, {}, bearer=made.access_token), *BANNED)


@pytest.mark.parametrize("role", ["service_role", "svc_admin"])
def test_both_administrator_roles_are_accepted(api: Api, role: str) -> None:
    assert users(api, admin_requests.token(role)).status_code == 200


@pytest.mark.parametrize(
    "role",
    ["supabase_admin", "authenticated", "Service_Role", "service_role ", " svc_admin", "service_role,svc_admin", ""],
)
def test_role_is_compared_exactly(api: Api, role: str) -> None:
    assert_error(users(api, admin_requests.token(role)), *NOT_ADMIN)


def test_token_without_role_is_rejected(api: Api) -> None:
    bare = jwt.encode({"sub": USER_ID}, settings.AUTH.jwt.secret.reveal(), algorithm="HS256")
    assert_error(users(api, bare), *NOT_ADMIN)


@pytest.mark.parametrize(
    "claims",
    [
        {"app_metadata": {"role": "service_role", "roles": ["service_role"]}},
        {"user_metadata": {"role": "service_role"}},
        {"roles": ["service_role"]},
        {"is_admin": True, "is_staff": True},
    ],
)
def test_role_in_other_claims_is_ignored(api: Api, claims: dict[str, Any]) -> None:
    assert_error(users(api, admin_requests.token("authenticated", **claims)), *NOT_ADMIN)


def test_metadata_do_not_grant_the_admin_role(api: Api) -> None:
    user = make_user(
        data={"role": "svc_admin", "app_metadata": {"role": "svc_admin"}},
        raw_app_meta_data={"role": "svc_admin", "roles": ["svc_admin"]},
    )
    assert_error(users(api, make_session(user).access_token), *NOT_ADMIN)


def test_administrator_roles_are_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"admin_roles": ("ops",)})
    assert users(api, admin_requests.token("ops")).status_code == 200
    assert_error(users(api, admin_requests.token("service_role")), *NOT_ADMIN)
    assert b"ops" not in users(api, admin_requests.token("service_role")).content


@pytest.mark.parametrize(
    ("presented", "reason"),
    [
        ("not.a.jwt.token", "token is malformed: token contains an invalid number of segments"),
        (lambda: admin_requests.token(exp=1), "token has invalid claims: token is expired"),
        (
            lambda: admin_requests.token(nbf=timezone.now().timestamp() + 60),
            "token has invalid claims: token is not valid yet",
        ),
        (
            lambda: admin_requests.token(secret="another secret of 32 characters!!"),
            "token signature is invalid: signature is invalid",
        ),
    ],
)
def test_invalid_token_is_rejected_with_reason(api: Api, presented: Any, reason: str) -> None:
    text = presented if isinstance(presented, str) else presented()
    assert_error(users(api, text), 403, "bad_jwt", f"invalid JWT: unable to parse or verify signature, {reason}")


def test_with_signing_keys_tokens_of_shared_secret_are_rejected(api: Api, auth_config: ChangeConfig) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    jwk = {
        **jwt.algorithms.RSAAlgorithm.to_jwk(key, as_dict=True),
        "kid": "k1",
        "alg": "RS256",
        "key_ops": ["sign", "verify"],
    }
    by_secret = admin_requests.token()
    auth_config(jwt={"keys": (jwk,), "valid_methods": ()})
    by_key = jwt.encode({"role": "service_role"}, key, algorithm="RS256", headers={"kid": "k1"})
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert users(api, by_key).status_code == 200
    assert users(api, by_secret).json()["error_code"] == "bad_jwt"
    confused = jwt.api_jws.PyJWS()
    confused.unregister_algorithm("HS256")
    confused.register_algorithm("HS256", _AnyKey(jwt.algorithms.HMACAlgorithm.SHA256))
    forged = confused.encode(b'{"role":"service_role"}', public, algorithm="HS256", headers={"kid": "k1"})
    assert users(api, forged).json()["error_code"] == "bad_jwt"


class _AnyKey(jwt.algorithms.HMACAlgorithm):
    """HMAC that accepts a public key as its secret, as an attacker would use it."""

    def prepare_key(self, key: str | bytes) -> bytes:
        return key if isinstance(key, bytes) else key.encode()


def test_signed_in_operator_is_accepted(api: Api) -> None:
    assert users(api, operator().access_token).status_code == 200


def test_token_of_ended_session_is_rejected(api: Api) -> None:
    made = operator()
    Session.objects.filter(id=made.session.id).delete()
    assert_error(
        users(api, made.access_token), 403, "session_not_found", "Session from session_id claim in JWT does not exist"
    )


def test_demoted_operator_is_rejected_immediately(api: Api) -> None:
    made = operator()
    User.objects.filter(id=made.user.id).update(role="authenticated")
    assert_error(users(api, made.access_token), *NOT_ADMIN)


def test_promoted_user_needs_new_token(api: Api) -> None:
    made = operator("authenticated")
    User.objects.filter(id=made.user.id).update(role="svc_admin")
    assert_error(users(api, made.access_token), *NOT_ADMIN)


def test_deleted_operator_is_rejected_immediately(api: Api) -> None:
    made = operator()
    User.objects.filter(id=made.user.id).delete()
    assert_error(users(api, made.access_token), 403, "user_not_found", "User from sub claim in JWT does not exist")


def test_session_limits_apply_to_operators(api: Api, auth_config: ChangeConfig) -> None:
    made = operator()
    Session.objects.filter(id=made.session.id).update(created_at=timezone.now() - timedelta(hours=2))
    assert users(api, made.access_token).status_code == 200
    auth_config(sessions={"timebox": timedelta(hours=1)})
    assert_error(users(api, made.access_token), 403, "session_expired", "Session is no longer valid")


def test_an_expired_session_is_reported_before_a_ban(api: Api, auth_config: ChangeConfig) -> None:
    made = operator()
    Session.objects.filter(id=made.session.id).update(created_at=timezone.now() - timedelta(hours=2))
    User.objects.filter(id=made.user.id).update(banned_until=timezone.now() + timedelta(hours=1))
    auth_config(sessions={"timebox": timedelta(hours=1)})
    assert_error(users(api, made.access_token), 403, "session_expired", "Session is no longer valid")


def test_a_session_of_an_oauth_client_is_no_administrator(api: Api) -> None:
    assert_error(users(api, operator(oauth_client_id=uuid4()).access_token), *NOT_ADMIN)


@pytest.mark.parametrize(
    ("claims", "status", "code", "text"),
    [
        ({"session_id": USER_ID}, 403, "bad_jwt", "invalid claim: missing sub claim"),
        ({"session_id": USER_ID, "sub": "me"}, 400, "bad_jwt", "invalid claim: sub claim must be a UUID"),
        (
            {"session_id": USER_ID, "sub": USER_ID},
            403,
            "user_not_found",
            "User from sub claim in JWT does not exist",
        ),
    ],
)
def test_a_token_with_a_session_needs_its_user(
    api: Api, claims: dict[str, str], status: int, code: str, text: str
) -> None:
    assert_error(users(api, admin_requests.token(**claims)), status, code, text)


def test_malformed_session_id_is_rejected(api: Api) -> None:
    user = make_user(role="svc_admin")
    assert_error(
        users(api, admin_requests.token("svc_admin", sub=str(user.id), session_id="mine")),
        403,
        "bad_jwt",
        "invalid claim: session_id claim must be a UUID",
    )


@pytest.mark.parametrize("session_id", ["", str(UUID(int=0)), None])
def test_empty_session_id_counts_as_absent(api: Api, session_id: str | None) -> None:
    assert users(api, admin_requests.token(sub="unknown", session_id=session_id)).status_code == 200


def test_session_of_other_user_is_rejected(api: Api) -> None:
    made, other = operator(), make_user(role="svc_admin")
    stolen = admin_requests.token("svc_admin", sub=str(other.id), session_id=str(made.session.id))
    assert_error(users(api, stolen), 403, "session_not_found", "Session from session_id claim in JWT does not exist")


def test_errors_follow_requested_api_version(api: Api) -> None:
    response = api.get(
        "/admin/users", bearer=admin_requests.token("authenticated"), headers={"X-Supabase-Api-Version": "2024-01-01"}
    )
    assert (response.status_code, response.json()) == (403, {"code": "not_admin", "message": "User not allowed"})
    assert response.headers["X-Supabase-Api-Version"] == "2024-01-01"


def test_administrators_have_no_rate_limit(api: Api, auth_config: ChangeConfig) -> None:
    limits = settings.AUTH.limits
    auth_config(
        limits={field.name: 0 for field in dataclasses.fields(limits) if isinstance(getattr(limits, field.name), float)}
    )
    assert {users(api, admin_requests.token()).status_code for _ in range(40)} == {200}


def test_admin_api_sets_no_console_cookie(api: Api) -> None:
    assert "Set-Cookie" not in users(api, operator().access_token).headers


def test_operator_with_verified_factor_needs_aal2(api: Api) -> None:
    signed_in = operator()
    make_factor(signed_in.user)
    assert_error(
        users(api, signed_in.access_token),
        403,
        "insufficient_aal",
        "AAL2 session is required to administer when MFA is enabled",
    )
    Session.objects.filter(id=signed_in.session.id).update(aal="aal2")
    assert users(api, signed_in.access_token).status_code == 200
