"""Definitions of all imported tables, each after the tables it refers to."""

from __future__ import annotations

from authsvc.importer import legacy_schema
from authsvc.importer.column_rules import (
    Columns,
    default_to,
    derived_id,
    enum_as_text,
    expression,
    ip_address,
    json_object,
    phone,
    phone_or_empty,
    text_or_empty,
    time_or,
    utc,
)
from authsvc.importer.source_database import SourceDatabase
from authsvc.importer.table_mapping import Owner, RowSource, Table, copied, same_table
from tokens.one_time import one_time_tokens
from tokens.sessions import legacy_refresh

_NIL = "00000000-0000-0000-0000-000000000000"
_USER = Owner(column="user_id", table="users", noun="user")
_FACTOR = Owner(column="factor_id", table="mfa_factors", noun="factor")
_SESSION = Owner(column="session_id", table="sessions", noun="session")
_CLIENT = Owner(column="client_id", table="oauth_clients", noun="client")
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

OTHER_INSTANCE = "belongs to another instance (--all-instances takes it)"


def _email(_name: str, source_columns: Columns) -> str:
    # A deleted account has a case-sensitive digest in place of its address.
    digest = "x.deleted_at IS NOT NULL" if "deleted_at" in source_columns else "false"
    return f"nullif(CASE WHEN {digest} THEN x.email ELSE lower(x.email) END, '')"


def _email_confirmed_at(name: str, source_columns: Columns) -> str:
    # Before accounts had phone numbers, the column was called confirmed_at.
    return f"x.{name}" if name in source_columns else "x.confirmed_at"


def _instance(_name: str, source_columns: Columns) -> str:
    return (
        f"CASE WHEN x.instance_id <> '{_NIL}' THEN '{OTHER_INSTANCE}' END"
        if "instance_id" in source_columns
        else "NULL"
    )


def _owner_as_uuid(_name: str, source_columns: Columns) -> str:
    if source_columns.get("user_id") == "uuid":
        return "x.user_id"
    return f"CASE WHEN x.user_id ~ '{_UUID}' THEN x.user_id::uuid END"


def _sha256(text: str) -> str:
    return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"


def _link_hash(_name: str, _source_columns: Columns) -> str:
    # An SMS contains no link. A short token is not accepted as a link, because it could be guessed.
    is_email_link = (
        "x.relates_to LIKE '%@%' AND x.token_type <> 'reauthentication_token' AND length(x.token_hash) >= 20"
    )
    return f"CASE WHEN {is_email_link} THEN {_sha256('x.token_hash')} END"


def _payload(name: str, source_columns: Columns) -> str:
    # The source stores NUL as an escape sequence, which jsonb does not accept.
    text = rf"regexp_replace(x.{name}::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')"
    return f"({text})::jsonb" if name in source_columns else "NULL"


def _entry_time(name: str, source_columns: Columns) -> str:
    return f"coalesce(x.{name}, to_timestamp(0))" if name in source_columns else "to_timestamp(0)"


def _client_type(name: str, source_columns: Columns) -> str:
    return f"x.{name}::text" if name in source_columns else "'confidential'"


def _auth_method(name: str, source_columns: Columns) -> str:
    # Older sources know no methods: public clients have no secret, and other ones use HTTP Basic authentication.
    if name in source_columns:
        return f"x.{name}"
    if "client_type" not in source_columns:
        return "'client_secret_basic'"
    return "CASE x.client_type::text WHEN 'public' THEN 'none' ELSE 'client_secret_basic' END"


def _amr_claims(source: SourceDatabase) -> list[RowSource]:
    if source.has("mfa_amr_claims", "id") or not source.tables.get("mfa_amr_claims"):
        return same_table("mfa_amr_claims")(source)
    source_columns = source.tables["mfa_amr_claims"]
    row_id = derived_id("'method'", "a.session_id::text", "a.authentication_method")
    query = f"(SELECT a.*, {row_id} AS id FROM {source.name('mfa_amr_claims')} a) x"  # noqa: S608  (own names)
    return [RowSource(sql=query, columns={**source_columns, "id": "uuid"})]


TABLES = (
    Table(
        name="users",
        columns={
            **dict.fromkeys(("aud", "role", "email_change"), text_or_empty),
            **copied("id", "encrypted_password", "invited_at", "confirmation_sent_at", "recovery_sent_at"),
            **copied("email_change_sent_at", "last_sign_in_at", "phone_confirmed_at", "phone_change_sent_at"),
            **copied("banned_until", "reauthentication_sent_at", "deleted_at"),
            **dict.fromkeys(("raw_app_meta_data", "raw_user_meta_data"), json_object),
            **dict.fromkeys(("is_sso_user", "is_anonymous"), default_to("false")),
            "email": _email,
            "email_confirmed_at": _email_confirmed_at,
            "phone": phone,
            "phone_change": phone_or_empty,
            "email_change_confirm_status": default_to("0"),
            "created_at": time_or("updated_at"),
            "updated_at": time_or("created_at"),
        },
        ignored=frozenset(
            "instance_id is_super_admin confirmed_at confirmation_token recovery_token email_change_token"
            " email_change_token_new email_change_token_current phone_change_token reauthentication_token".split()
        ),
        skip_reason=_instance,
        reassignable=("email", "phone"),
        encrypted=("encrypted_password",),
    ),
    Table(
        name="oauth_clients",
        columns={
            **copied("id", "redirect_uris", "grant_types", "client_name", "client_uri", "logo_uri", "deleted_at"),
            "client_secret_hash": text_or_empty,
            "registration_type": enum_as_text,
            "client_type": _client_type,
            "token_endpoint_auth_method": _auth_method,
            "created_at": time_or("updated_at"),
            "updated_at": time_or("created_at"),
        },
        ignored=frozenset({"client_id"}),
        app="oauthserver",
    ),
    Table(
        name="sessions",
        columns={
            **copied("id", "user_id", "created_at", "updated_at", "factor_id", "not_after", "user_agent", "tag"),
            **copied("oauth_client_id", "refresh_token_hmac_key", "refresh_token_counter", "scopes"),
            "aal": enum_as_text,
            "refreshed_at": utc,
            "ip": ip_address,
        },
        owners=(_USER,),
        encrypted=("refresh_token_hmac_key",),
        is_essential=True,
    ),
    Table(
        name="refresh_tokens",
        columns={
            **copied("id", "token", "created_at", "updated_at", "parent", "session_id"),
            "user_id": _owner_as_uuid,
            "revoked": default_to("false"),
        },
        ignored=frozenset({"instance_id"}),
        owners=(_USER, Owner(column="session_id", table="sessions", noun="session", is_optional=True)),
        key_digests=legacy_refresh.hash_stored_tokens,
        is_essential=True,
    ),
    Table(
        name="mfa_amr_claims",
        columns=copied("id", "session_id", "authentication_method", "created_at", "updated_at"),
        owners=(_SESSION,),
        row_sources=_amr_claims,
    ),
    Table(
        name="identities",
        columns=copied(
            *("id", "provider_id", "user_id", "identity_data", "provider"),
            *("last_sign_in_at", "created_at", "updated_at"),
        ),
        ignored=frozenset({"email"}),
        owners=(_USER,),
        row_sources=legacy_schema.identities,
    ),
    Table(
        name="mfa_factors",
        columns={
            **copied("id", "user_id", "created_at", "updated_at", "phone", "last_challenged_at"),
            **copied("web_authn_credential", "web_authn_aaguid", "last_webauthn_challenge_data"),
            **dict.fromkeys(("friendly_name", "secret"), text_or_empty),
            **dict.fromkeys(("factor_type", "status"), enum_as_text),
        },
        owners=(_USER,),
        reassignable=("friendly_name", "phone"),
        encrypted=("secret",),
    ),
    Table(
        name="mfa_challenges",
        columns={
            **copied("id", "factor_id", "created_at", "verified_at", "web_authn_session_data"),
            "ip_address": ip_address,
            "otp_code": text_or_empty,
        },
        owners=(_FACTOR,),
        encrypted=("otp_code",),
    ),
    Table(
        name="webauthn_credentials",
        columns={
            **copied("id", "user_id", "credential_id", "public_key", "aaguid", "created_at", "updated_at"),
            **copied("last_used_at"),
            **dict.fromkeys(("attestation_type", "friendly_name"), text_or_empty),
            **dict.fromkeys(("backup_eligible", "backed_up"), default_to("false")),
            "sign_count": default_to("0"),
            "transports": default_to("'[]'"),
        },
        owners=(_USER,),
        is_essential=True,
    ),
    Table(
        name="webauthn_challenges",
        columns=copied("id", "user_id", "challenge_type", "session_data", "created_at", "expires_at"),
        owners=(Owner(column="user_id", table="users", noun="user", is_optional=True),),
    ),
    Table(
        name="one_time_tokens",
        columns={
            **copied("id", "user_id", "token_type", "token_hash"),
            "link_hash": _link_hash,
            "relates_to": expression("lower(ltrim(x.relates_to, '+'))"),
            "created_at": expression("x.sent_at"),
            "updated_at": utc,
        },
        ignored=frozenset({"created_at"}),
        owners=(_USER,),
        skip_reason=expression("CASE WHEN x.sent_at IS NULL THEN 'was never sent' END"),
        distinct=("link_hash",),
        key_digests=one_time_tokens.key_stored_digests,
        row_sources=legacy_schema.one_time_tokens,
    ),
    Table(
        name="flow_state",
        columns={
            **copied("user_id", "code_challenge", "provider_type", "created_at", "updated_at"),
            # The id of a flow was its state, and the code was stored as it is.
            "id": expression(derived_id("x.id::text")),
            "auth_code": expression(_sha256("x.auth_code")),
            **copied("auth_code_issued_at", "invite_token", "referrer", "oauth_client_state_id", "linking_target_id"),
            **dict.fromkeys(("provider_access_token", "provider_refresh_token"), text_or_empty),
            "code_challenge_method": enum_as_text,
            # Older sources have OAuth flows only.
            "authentication_method": default_to("'oauth'"),
            "email_optional": default_to("false"),
        },
    ),
    Table(
        name="oauth_client_states",
        columns=copied("id", "provider_type", "code_verifier", "created_at"),
    ),
    Table(
        name="oauth_authorizations",
        columns={
            **copied("id", "authorization_id", "client_id", "user_id", "redirect_uri", "scope", "state", "resource"),
            **copied("code_challenge", "nonce", "created_at", "expires_at", "approved_at"),
            **dict.fromkeys(("code_challenge_method", "response_type", "status"), enum_as_text),
            # The code was stored as it is.
            "authorization_code": expression(_sha256("x.authorization_code")),
        },
        owners=(Owner(column="user_id", table="users", noun="user", is_optional=True), _CLIENT),
        app="oauthserver",
    ),
    Table(
        name="oauth_consents",
        columns=copied("id", "user_id", "client_id", "scopes", "granted_at", "revoked_at"),
        owners=(_USER, _CLIENT),
        app="oauthserver",
    ),
    Table(
        name="custom_oauth_providers",
        columns={
            **copied("id", "provider_type", "identifier", "name", "client_id", "client_secret", "issuer"),
            **copied("discovery_url", "cached_discovery", "discovery_cached_at", "authorization_url", "token_url"),
            **copied("userinfo_url", "jwks_uri", "created_at", "updated_at"),
            **dict.fromkeys(("acceptable_client_ids", "scopes", "custom_claims_allowlist"), default_to("'{}'::text[]")),
            **dict.fromkeys(("attribute_mapping", "authorization_params"), default_to("'{}'::jsonb")),
            **dict.fromkeys(("pkce_enabled", "enabled"), default_to("true")),
            **dict.fromkeys(("email_optional", "skip_nonce_check"), default_to("false")),
        },
        encrypted=("client_secret",),
    ),
    Table(
        name="audit_log_entries",
        columns={**copied("id"), "created_at": _entry_time, "payload": _payload, "ip_address": text_or_empty},
        key="id, created_at",
        ignored=frozenset({"instance_id"}),
        is_optional=True,
    ),
)

UNSUPPORTED_TABLES = {
    "sso_providers": "single sign-on",
    "sso_domains": "single sign-on",
    "saml_providers": "single sign-on",
    "saml_relay_states": "single sign-on",
}
"""Table of the reference → its capability, which this server does not have yet."""

INTERNAL_TABLES = frozenset({"schema_migrations", "instances"})
"""Tables that only the reference itself uses."""
