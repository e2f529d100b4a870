"""A reference database that has a row in every table."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from tests.authsvc.importer.reference import NIL, Reference


def fill(reference: Reference) -> UUID:
    """One user with a row in every table."""
    user_id = reference.user("ada@example.com", phone="+15551234567", recovery_sent_at=reference.at)
    reference.identity(user_id, "Ada@Example.com")
    session_id = reference.session(user_id)
    reference.refresh_token(user_id, "ab2c3def4ghi", session_id=session_id)
    factor_id = uuid4()
    reference.insert(
        "mfa_factors",
        id=factor_id,
        user_id=user_id,
        friendly_name="phone",
        factor_type="totp",
        status="verified",
        secret="JBSWY3DPEHPK3PXP",
        created_at=reference.at,
        updated_at=reference.at,
    )
    reference.insert(
        "mfa_challenges", id=uuid4(), factor_id=factor_id, created_at=reference.at, ip_address="192.0.2.1/32"
    )
    reference.insert(
        "webauthn_credentials",
        user_id=user_id,
        credential_id=bytes(range(32)),
        public_key=b"\x00COSE",
        sign_count=7,
        transports=Jsonb(["internal", "hybrid"]),
        backup_eligible=True,
        friendly_name="laptop",
    )
    for owner in (user_id, None):
        reference.insert(
            "webauthn_challenges",
            user_id=owner,
            challenge_type="registration" if owner else "authentication",
            session_data={"challenge": "c"},
            expires_at=reference.at,
        )
    reference.one_time_token(user_id, "recovery_token", digest("ada@example.com1")[:56], "ada@example.com")
    reference.insert(
        "flow_state",
        id=uuid4(),
        user_id=user_id,
        auth_code=str(uuid4()),
        code_challenge_method="s256",
        code_challenge="c" * 43,
        provider_type="email",
        authentication_method="email/signup",
        created_at=reference.at,
    )
    reference.insert(
        "oauth_client_states", id=uuid4(), provider_type="x", code_verifier="v" * 43, created_at=reference.at
    )
    reference.insert(
        "custom_oauth_providers",
        provider_type="oidc",
        identifier="custom:acme",
        name="Acme",
        client_id="i",
        client_secret="s",
        scopes=["openid", "profile"],
        authorization_params={"prompt": "login"},
        issuer="https://id.acme.example",
        created_at=reference.at,
        updated_at=reference.at,
    )
    client_id = uuid4()
    reference.insert(
        "oauth_clients",
        id=client_id,
        client_secret_hash="h" * 43,
        registration_type="manual",
        redirect_uris="https://client.example.com/cb,myapp://callback",
        grant_types="authorization_code,refresh_token",
        client_type="confidential",
        token_endpoint_auth_method="client_secret_post",
        created_at=reference.at,
        updated_at=reference.at,
    )
    reference.insert(
        "oauth_authorizations",
        id=uuid4(),
        authorization_id="a" * 32,
        client_id=client_id,
        user_id=user_id,
        redirect_uri="myapp://callback",
        scope="openid email",
        code_challenge="c" * 43,
        code_challenge_method="s256",
        status="approved",
        authorization_code="fc56ab41-2010-4870-a9b9-767c1dc573fb",
        created_at=reference.at,
        expires_at=reference.at + timedelta(minutes=10),
    )
    reference.insert(
        "oauth_consents",
        id=uuid4(),
        user_id=user_id,
        client_id=client_id,
        scopes="openid email",
        granted_at=reference.at,
    )
    reference.execute(
        "INSERT INTO auth.audit_log_entries VALUES (%s, %s, %s, %s, '192.0.2.1')",
        [NIL, uuid4(), '{"action": "login", "actor_username": "a\\u0000b\\\\u0000"}', reference.at],
    )
    return user_id


# One-time tokens


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
