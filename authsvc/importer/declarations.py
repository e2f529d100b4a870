"""Every table that is taken, in the order of their references, and what the reference has that this server has not."""

from __future__ import annotations

from authsvc.importer import older_sources
from authsvc.importer.columns import (
    Columns,
    address,
    as_text,
    expression,
    filled,
    filled_number,
    made_id,
    metadata,
    moment,
    number,
    or_else,
    utc,
)
from authsvc.importer.source import Source
from authsvc.importer.tables import Origin, Owner, Table, itself, plain

_NIL = "00000000-0000-0000-0000-000000000000"
_USER = Owner(column="user_id", table="users", noun="user")
_FACTOR = Owner(column="factor_id", table="mfa_factors", noun="factor")
_SESSION = Owner(column="session_id", table="sessions", noun="session")
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

OTHER_INSTANCE = "belongs to another instance (--all-instances takes it)"


def _email(_name: str, there: Columns) -> str:
    # A deleted account has a digest in place of its address, in which case is all.
    digest = "x.deleted_at IS NOT NULL" if "deleted_at" in there else "false"
    return f"nullif(CASE WHEN {digest} THEN x.email ELSE lower(x.email) END, '')"


def _email_confirmed_at(name: str, there: Columns) -> str:
    # One column for both before accounts could have numbers, and under the other name.
    return f"x.{name}" if name in there else "x.confirmed_at"


def _instance(_name: str, there: Columns) -> str:
    return f"CASE WHEN x.instance_id <> '{_NIL}' THEN '{OTHER_INSTANCE}' END" if "instance_id" in there else "NULL"


def _owner_as_uuid(_name: str, there: Columns) -> str:
    if there.get("user_id") == "uuid":
        return "x.user_id"
    return f"CASE WHEN x.user_id ~ '{_UUID}' THEN x.user_id::uuid END"


def _link_hash(_name: str, _there: Columns) -> str:
    # A text message carries no link, and neither does what is too short for one: as a link it could be guessed.
    mailed = "x.relates_to LIKE '%@%' AND x.token_type <> 'reauthentication_token' AND length(x.token_hash) >= 20"
    return f"CASE WHEN {mailed} THEN encode(sha256(convert_to(x.token_hash, 'UTF8')), 'hex') END"


def _payload(name: str, there: Columns) -> str:
    # NUL, which the old column kept as an escape, is no character in ours.
    text = rf"regexp_replace(x.{name}::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')"
    return f"({text})::jsonb" if name in there else "NULL"


def _amr_claims(source: Source) -> list[Origin]:
    if source.has("mfa_amr_claims", "id") or not source.tables.get("mfa_amr_claims"):
        return itself("mfa_amr_claims")(source)
    there = source.tables["mfa_amr_claims"]
    row_id = made_id("'method'", "a.session_id::text", "a.authentication_method")
    query = f"(SELECT a.*, {row_id} AS id FROM {source.name('mfa_amr_claims')} a) x"  # noqa: S608  (own names)
    return [Origin(sql=query, columns={**there, "id": "uuid"})]


TABLES = (
    Table(
        name="users",
        columns={
            **dict.fromkeys(("aud", "role", "email_change"), filled),
            **plain("id", "encrypted_password", "invited_at", "confirmation_sent_at", "recovery_sent_at"),
            **plain("email_change_sent_at", "last_sign_in_at", "phone_confirmed_at", "phone_change_sent_at"),
            **plain("banned_until", "reauthentication_sent_at", "deleted_at"),
            **dict.fromkeys(("raw_app_meta_data", "raw_user_meta_data"), metadata),
            **dict.fromkeys(("is_sso_user", "is_anonymous"), or_else("false")),
            "email": _email,
            "email_confirmed_at": _email_confirmed_at,
            "phone": number,
            "phone_change": filled_number,
            "email_change_confirm_status": or_else("0"),
            "created_at": moment("updated_at"),
            "updated_at": moment("created_at"),
        },
        dropped=frozenset(
            "instance_id is_super_admin confirmed_at confirmation_token recovery_token email_change_token"
            " email_change_token_new email_change_token_current phone_change_token reauthentication_token".split()
        ),
        refused=_instance,
        released=("email", "phone"),
        sealed=("encrypted_password",),
    ),
    Table(
        name="sessions",
        columns={
            **plain("id", "user_id", "created_at", "updated_at", "factor_id", "not_after", "user_agent", "tag"),
            **plain("oauth_client_id", "refresh_token_hmac_key", "refresh_token_counter", "scopes"),
            "aal": as_text,
            "refreshed_at": utc,
            "ip": address,
        },
        owners=(_USER,),
        sealed=("refresh_token_hmac_key",),
        is_vital=True,
    ),
    Table(
        name="refresh_tokens",
        columns={
            **plain("id", "token", "created_at", "updated_at", "parent", "session_id"),
            "user_id": _owner_as_uuid,
            "revoked": or_else("false"),
        },
        dropped=frozenset({"instance_id"}),
        owners=(_USER, Owner(column="session_id", table="sessions", noun="session", is_optional=True)),
        is_vital=True,
    ),
    Table(
        name="mfa_amr_claims",
        columns=plain("id", "session_id", "authentication_method", "created_at", "updated_at"),
        owners=(_SESSION,),
        made_from=_amr_claims,
    ),
    Table(
        name="identities",
        columns=plain(
            *("id", "provider_id", "user_id", "identity_data", "provider"),
            *("last_sign_in_at", "created_at", "updated_at"),
        ),
        dropped=frozenset({"email"}),
        owners=(_USER,),
        made_from=older_sources.identities,
    ),
    Table(
        name="mfa_factors",
        columns={
            **plain("id", "user_id", "created_at", "updated_at", "phone", "last_challenged_at"),
            **plain("web_authn_credential", "web_authn_aaguid", "last_webauthn_challenge_data"),
            **dict.fromkeys(("friendly_name", "secret"), filled),
            **dict.fromkeys(("factor_type", "status"), as_text),
        },
        owners=(_USER,),
        released=("friendly_name", "phone"),
        sealed=("secret",),
    ),
    Table(
        name="mfa_challenges",
        columns={
            **plain("id", "factor_id", "created_at", "verified_at", "web_authn_session_data"),
            "ip_address": address,
            "otp_code": filled,
        },
        owners=(_FACTOR,),
        sealed=("otp_code",),
    ),
    Table(
        name="webauthn_credentials",
        columns={
            **plain("id", "user_id", "credential_id", "public_key", "aaguid", "created_at", "updated_at"),
            **plain("last_used_at"),
            **dict.fromkeys(("attestation_type", "friendly_name"), filled),
            **dict.fromkeys(("backup_eligible", "backed_up"), or_else("false")),
            "sign_count": or_else("0"),
            "transports": or_else("'[]'"),
        },
        owners=(_USER,),
        is_vital=True,
    ),
    Table(
        name="webauthn_challenges",
        columns=plain("id", "user_id", "challenge_type", "session_data", "created_at", "expires_at"),
        owners=(Owner(column="user_id", table="users", noun="user", is_optional=True),),
    ),
    Table(
        name="one_time_tokens",
        columns={
            **plain("id", "user_id", "token_type", "token_hash"),
            "link_hash": _link_hash,
            "relates_to": expression("lower(ltrim(x.relates_to, '+'))"),
            "created_at": expression("x.sent_at"),
            "updated_at": utc,
        },
        dropped=frozenset({"created_at"}),
        owners=(_USER,),
        refused=expression("CASE WHEN x.sent_at IS NULL THEN 'was never sent' END"),
        distinct=("link_hash",),
        made_from=older_sources.one_time_tokens,
    ),
    Table(
        name="flow_state",
        columns={
            **plain("id", "user_id", "auth_code", "code_challenge", "provider_type", "created_at", "updated_at"),
            **plain("auth_code_issued_at", "invite_token", "referrer", "oauth_client_state_id", "linking_target_id"),
            **dict.fromkeys(("provider_access_token", "provider_refresh_token"), filled),
            "code_challenge_method": as_text,
            # The only flows there were when the column was not.
            "authentication_method": or_else("'oauth'"),
            "email_optional": or_else("false"),
        },
    ),
    Table(
        name="oauth_client_states",
        columns=plain("id", "provider_type", "code_verifier", "created_at"),
    ),
    Table(
        name="custom_oauth_providers",
        columns={
            **plain("id", "provider_type", "identifier", "name", "client_id", "client_secret", "issuer"),
            **plain("discovery_url", "cached_discovery", "discovery_cached_at", "authorization_url", "token_url"),
            **plain("userinfo_url", "jwks_uri", "created_at", "updated_at"),
            **dict.fromkeys(("acceptable_client_ids", "scopes", "custom_claims_allowlist"), or_else("'{}'::text[]")),
            **dict.fromkeys(("attribute_mapping", "authorization_params"), or_else("'{}'::jsonb")),
            **dict.fromkeys(("pkce_enabled", "enabled"), or_else("true")),
            **dict.fromkeys(("email_optional", "skip_nonce_check"), or_else("false")),
        },
        sealed=("client_secret",),
    ),
    Table(
        name="audit_log_entries",
        columns={**plain("id", "created_at"), "payload": _payload, "ip_address": filled},
        dropped=frozenset({"instance_id"}),
        is_optional=True,
    ),
)

NOT_YET = {
    "oauth_clients": "an OAuth server",
    "oauth_authorizations": "an OAuth server",
    "oauth_consents": "an OAuth server",
    "sso_providers": "single sign-on",
    "sso_domains": "single sign-on",
    "saml_providers": "single sign-on",
    "saml_relay_states": "single sign-on",
}
"""Table of the reference → the capability that it belongs to and that this server does not have yet."""

NEVER = frozenset({"schema_migrations", "instances"})
"""Tables that only mean something to the reference itself."""
