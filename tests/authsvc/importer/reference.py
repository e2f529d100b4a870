"""Schemas and rows of reference databases of several versions."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

CURRENT = """
CREATE SCHEMA auth;
CREATE TYPE auth.aal_level AS ENUM ('aal1', 'aal2', 'aal3');
CREATE TYPE auth.factor_type AS ENUM ('totp', 'webauthn', 'phone');
CREATE TYPE auth.factor_status AS ENUM ('unverified', 'verified');
CREATE TYPE auth.code_challenge_method AS ENUM ('s256', 'plain');
CREATE TYPE auth.one_time_token_type AS ENUM ('confirmation_token', 'reauthentication_token', 'recovery_token',
    'email_change_token_new', 'email_change_token_current', 'phone_change_token');
CREATE TABLE auth.schema_migrations (version varchar(255) PRIMARY KEY);
INSERT INTO auth.schema_migrations VALUES ('00'), ('20240427152123'), ('20260625000000');
CREATE TABLE auth.instances (id uuid PRIMARY KEY, uuid uuid, raw_base_config text);
CREATE TABLE auth.users (
    instance_id uuid, id uuid PRIMARY KEY, aud varchar(255), role varchar(255), email varchar(255),
    encrypted_password varchar(255), email_confirmed_at timestamptz, invited_at timestamptz,
    confirmation_token varchar(255), confirmation_sent_at timestamptz, recovery_token varchar(255),
    recovery_sent_at timestamptz, email_change_token_new varchar(255), email_change varchar(255),
    email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
    is_super_admin boolean, created_at timestamptz, updated_at timestamptz, phone text DEFAULT NULL,
    phone_confirmed_at timestamptz, phone_change text DEFAULT '', phone_change_token varchar(255) DEFAULT '',
    phone_change_sent_at timestamptz,
    confirmed_at timestamptz GENERATED ALWAYS AS (LEAST(email_confirmed_at, phone_confirmed_at)) STORED,
    email_change_token_current varchar(255) DEFAULT '', email_change_confirm_status smallint DEFAULT 0,
    banned_until timestamptz, reauthentication_token varchar(255) DEFAULT '', reauthentication_sent_at timestamptz,
    is_sso_user boolean NOT NULL DEFAULT false, deleted_at timestamptz, is_anonymous boolean NOT NULL DEFAULT false);
CREATE UNIQUE INDEX ON auth.users (email) WHERE is_sso_user = false;
CREATE UNIQUE INDEX ON auth.users (phone);
CREATE TABLE auth.identities (
    provider_id text NOT NULL, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
    identity_data jsonb NOT NULL, provider text NOT NULL, last_sign_in_at timestamptz, created_at timestamptz,
    updated_at timestamptz, email text GENERATED ALWAYS AS (lower(identity_data ->> 'email')) STORED,
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), UNIQUE (provider_id, provider));
CREATE TABLE auth.sessions (
    id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE, created_at timestamptz,
    updated_at timestamptz, factor_id uuid, aal auth.aal_level, not_after timestamptz, refreshed_at timestamp,
    user_agent text, ip inet, tag text, oauth_client_id uuid, refresh_token_hmac_key text,
    refresh_token_counter bigint, scopes text);
CREATE TABLE auth.refresh_tokens (
    instance_id uuid, id bigserial PRIMARY KEY, token varchar(255) UNIQUE, user_id varchar(255), revoked boolean,
    created_at timestamptz, updated_at timestamptz, parent varchar(255),
    session_id uuid REFERENCES auth.sessions ON DELETE CASCADE);
CREATE TABLE auth.mfa_amr_claims (
    session_id uuid NOT NULL REFERENCES auth.sessions ON DELETE CASCADE, created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL, authentication_method text NOT NULL, id uuid PRIMARY KEY,
    UNIQUE (session_id, authentication_method));
CREATE TABLE auth.mfa_factors (
    id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE, friendly_name text,
    factor_type auth.factor_type NOT NULL, status auth.factor_status NOT NULL, created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL, secret text, phone text, last_challenged_at timestamptz UNIQUE,
    web_authn_credential jsonb, web_authn_aaguid uuid, last_webauthn_challenge_data jsonb);
CREATE TABLE auth.mfa_challenges (
    id uuid PRIMARY KEY, factor_id uuid NOT NULL REFERENCES auth.mfa_factors ON DELETE CASCADE,
    created_at timestamptz NOT NULL, verified_at timestamptz, ip_address inet NOT NULL, otp_code text,
    web_authn_session_data jsonb);
CREATE TABLE auth.webauthn_credentials (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
    credential_id bytea NOT NULL UNIQUE, public_key bytea NOT NULL, attestation_type text NOT NULL DEFAULT '',
    aaguid uuid, sign_count bigint NOT NULL DEFAULT 0, transports jsonb NOT NULL DEFAULT '[]',
    backup_eligible boolean NOT NULL DEFAULT false, backed_up boolean NOT NULL DEFAULT false,
    friendly_name text NOT NULL DEFAULT '', created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(), last_used_at timestamptz);
CREATE TABLE auth.webauthn_challenges (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), user_id uuid REFERENCES auth.users ON DELETE CASCADE,
    challenge_type text NOT NULL, session_data jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL);
CREATE TABLE auth.one_time_tokens (
    id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
    token_type auth.one_time_token_type NOT NULL, token_hash text NOT NULL, relates_to text NOT NULL,
    created_at timestamp NOT NULL DEFAULT now(), updated_at timestamp NOT NULL DEFAULT now(),
    UNIQUE (user_id, token_type));
CREATE TABLE auth.flow_state (
    id uuid PRIMARY KEY, user_id uuid, auth_code text, code_challenge_method auth.code_challenge_method,
    code_challenge text, provider_type text NOT NULL, provider_access_token text, provider_refresh_token text,
    created_at timestamptz, updated_at timestamptz, authentication_method text NOT NULL,
    auth_code_issued_at timestamptz, invite_token text, referrer text, oauth_client_state_id uuid,
    linking_target_id uuid, email_optional boolean NOT NULL DEFAULT false);
CREATE TABLE auth.oauth_client_states (
    id uuid PRIMARY KEY, provider_type text NOT NULL, code_verifier text, created_at timestamptz NOT NULL);
CREATE TABLE auth.custom_oauth_providers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), provider_type text NOT NULL, identifier text NOT NULL UNIQUE,
    name text NOT NULL, client_id text NOT NULL, client_secret text NOT NULL,
    acceptable_client_ids text[] NOT NULL DEFAULT '{}', scopes text[] NOT NULL DEFAULT '{}',
    pkce_enabled boolean NOT NULL DEFAULT true, attribute_mapping jsonb NOT NULL DEFAULT '{}',
    authorization_params jsonb NOT NULL DEFAULT '{}', enabled boolean NOT NULL DEFAULT true,
    email_optional boolean NOT NULL DEFAULT false, issuer text, discovery_url text,
    skip_nonce_check boolean NOT NULL DEFAULT false, cached_discovery jsonb, discovery_cached_at timestamptz,
    authorization_url text, token_url text, userinfo_url text, jwks_uri text,
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE TYPE auth.oauth_registration_type AS ENUM ('dynamic', 'manual');
CREATE TYPE auth.oauth_client_type AS ENUM ('public', 'confidential');
CREATE TYPE auth.oauth_authorization_status AS ENUM ('pending', 'approved', 'denied', 'expired');
CREATE TYPE auth.oauth_response_type AS ENUM ('code');
CREATE TABLE auth.oauth_clients (
    id uuid PRIMARY KEY, client_secret_hash text, registration_type auth.oauth_registration_type NOT NULL,
    redirect_uris text NOT NULL, grant_types text NOT NULL, client_name text, client_uri text, logo_uri text,
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz, client_type auth.oauth_client_type NOT NULL DEFAULT 'confidential',
    token_endpoint_auth_method text NOT NULL);
CREATE TABLE auth.oauth_authorizations (
    id uuid PRIMARY KEY, authorization_id text NOT NULL UNIQUE,
    client_id uuid NOT NULL REFERENCES auth.oauth_clients ON DELETE CASCADE,
    user_id uuid REFERENCES auth.users ON DELETE CASCADE, redirect_uri text NOT NULL, scope text NOT NULL, state text,
    resource text, code_challenge text, code_challenge_method auth.code_challenge_method,
    response_type auth.oauth_response_type NOT NULL DEFAULT 'code',
    status auth.oauth_authorization_status NOT NULL DEFAULT 'pending', authorization_code text UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL, approved_at timestamptz,
    nonce text);
CREATE TABLE auth.oauth_consents (
    id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
    client_id uuid NOT NULL REFERENCES auth.oauth_clients ON DELETE CASCADE, scopes text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(), revoked_at timestamptz, UNIQUE (user_id, client_id));
CREATE TABLE auth.sso_providers (id uuid PRIMARY KEY, resource_id text);
CREATE TABLE auth.audit_log_entries (
    instance_id uuid, id uuid PRIMARY KEY, payload json, created_at timestamptz,
    ip_address varchar(64) NOT NULL DEFAULT '');
"""

# Before sessions, factors, one-time tokens and flows; an identity's key is the subject at its provider.
OF_2022 = """
CREATE SCHEMA auth;
CREATE TABLE auth.schema_migrations (version varchar(255) PRIMARY KEY);
INSERT INTO auth.schema_migrations VALUES ('20220323170000');
CREATE TABLE auth.users (
    instance_id uuid, id uuid PRIMARY KEY, aud varchar(255), role varchar(255), email varchar(255) UNIQUE,
    encrypted_password varchar(255), email_confirmed_at timestamptz, invited_at timestamptz,
    confirmation_token varchar(255), confirmation_sent_at timestamptz, recovery_token varchar(255),
    recovery_sent_at timestamptz, email_change_token_new varchar(255), email_change varchar(255),
    email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
    is_super_admin boolean, created_at timestamptz, updated_at timestamptz, phone varchar(15) UNIQUE,
    phone_confirmed_at timestamptz, phone_change varchar(15) DEFAULT '', phone_change_token varchar(255) DEFAULT '',
    phone_change_sent_at timestamptz,
    confirmed_at timestamptz GENERATED ALWAYS AS (LEAST(email_confirmed_at, phone_confirmed_at)) STORED,
    email_change_token_current varchar(255) DEFAULT '', email_change_confirm_status smallint DEFAULT 0,
    banned_until timestamptz, reauthentication_token varchar(255) DEFAULT '', reauthentication_sent_at timestamptz);
CREATE TABLE auth.identities (
    id text NOT NULL, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE, identity_data jsonb NOT NULL,
    provider text NOT NULL, last_sign_in_at timestamptz, created_at timestamptz, updated_at timestamptz,
    PRIMARY KEY (provider, id));
CREATE TABLE auth.refresh_tokens (
    instance_id uuid, id bigserial PRIMARY KEY, token varchar(255) UNIQUE, user_id varchar(255), revoked boolean,
    created_at timestamptz, updated_at timestamptz, parent varchar(255) REFERENCES auth.refresh_tokens (token));
CREATE TABLE auth.audit_log_entries (instance_id uuid, id uuid PRIMARY KEY, payload json, created_at timestamptz);
"""

# Email only: one confirmation column, one token per change, no refresh token families.
OF_2020 = """
CREATE SCHEMA auth;
CREATE TABLE auth.schema_migrations (version varchar(255) PRIMARY KEY);
INSERT INTO auth.schema_migrations VALUES ('20200101000000');
CREATE TABLE auth.users (
    instance_id uuid, id uuid PRIMARY KEY, aud varchar(255), role varchar(255), email varchar(255) UNIQUE,
    encrypted_password varchar(255), confirmed_at timestamptz, invited_at timestamptz,
    confirmation_token varchar(255), confirmation_sent_at timestamptz, recovery_token varchar(255),
    recovery_sent_at timestamptz, email_change_token varchar(255), email_change varchar(255),
    email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
    is_super_admin boolean, created_at timestamptz, updated_at timestamptz);
CREATE TABLE auth.refresh_tokens (
    instance_id uuid, id bigserial PRIMARY KEY, token varchar(255), user_id varchar(255), revoked boolean,
    created_at timestamptz, updated_at timestamptz);
CREATE TABLE auth.audit_log_entries (instance_id uuid, id uuid PRIMARY KEY, payload json, created_at timestamptz);
"""

NIL = UUID(int=0)


class Reference:
    """A reference database, filled row by row."""

    def __init__(self, url: str, ddl: str = CURRENT) -> None:
        self.url = url
        self.at = datetime.now(UTC) - timedelta(minutes=5)
        """The time of all its rows."""
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(ddl.encode())

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []

    def insert(self, table: str, **values: Any) -> None:
        statement = sql.SQL("INSERT INTO auth.{} ({}) VALUES ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join([sql.Placeholder()] * len(values)),
        )
        self._connection.execute(
            statement, [Jsonb(value) if isinstance(value, dict) else value for value in values.values()]
        )

    def user(self, email: str | None = "", **values: Any) -> UUID:
        """A confirmed user, by default with a unique address."""
        user_id = values.pop("id", uuid4())
        columns = {
            "id": user_id,
            "instance_id": NIL,
            "aud": "authenticated",
            "role": "authenticated",
            "email": f"{secrets.token_hex(6)}@example.com" if email == "" else email,
            "raw_app_meta_data": {"provider": "email", "providers": ["email"]},
            "raw_user_meta_data": {"name": "Ada"},
            "created_at": self.at,
            "updated_at": self.at,
        }
        self.insert("users", **{**columns, **values})
        return UUID(str(user_id))

    def identity(self, user_id: UUID, email: str, **values: Any) -> UUID:
        identity_id = uuid4()
        columns = {
            "id": identity_id,
            "provider_id": str(user_id),
            "user_id": user_id,
            "identity_data": {"sub": str(user_id), "email": email},
            "provider": "email",
            "created_at": self.at,
            "updated_at": self.at,
        }
        self.insert("identities", **{**columns, **values})
        return identity_id

    def session(self, user_id: UUID, method: str = "password", **values: Any) -> UUID:
        session_id = uuid4()
        columns = {"id": session_id, "user_id": user_id, "created_at": self.at, "updated_at": self.at, "aal": "aal1"}
        self.insert("sessions", **{**columns, **values})
        self.insert(
            "mfa_amr_claims",
            id=uuid4(),
            session_id=session_id,
            authentication_method=method,
            created_at=self.at,
            updated_at=self.at,
        )
        return session_id

    def refresh_token(self, user_id: UUID | str, token: str, **values: Any) -> None:
        columns = {
            "instance_id": NIL,
            "token": token,
            "user_id": str(user_id),
            "revoked": False,
            "created_at": self.at,
            "updated_at": self.at,
        }
        self.insert("refresh_tokens", **{**columns, **values})

    def one_time_token(self, user_id: UUID, token_type: str, token_hash: str, relates_to: str) -> None:
        self.insert(
            "one_time_tokens",
            id=uuid4(),
            user_id=user_id,
            token_type=token_type,
            token_hash=token_hash,
            relates_to=relates_to,
        )
