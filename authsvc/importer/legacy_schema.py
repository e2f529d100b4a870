"""Derives rows that older versions of the reference stored in other tables or not at all."""

from __future__ import annotations

from authsvc.importer.column_rules import derived_id
from authsvc.importer.source_database import SourceDatabase
from authsvc.importer.table_mapping import RowSource, same_table

# Migrations in which the reference added missing identities, and the times in the rows they created.
_IDENTITIES_FOR_PASSWORDS = ("20221125", "2022-11-25 00:00:00+00")
_IDENTITIES_FOR_INVITED = ("20230131", "2023-01-25 00:00:00+00")
_IDENTITY_COLUMNS = "id provider_id user_id identity_data provider last_sign_in_at created_at updated_at".split()
_HAS_PASSWORD = "coalesce(u.encrypted_password, '') <> '' AND coalesce(u.email, '') <> ''"


def identities(source: SourceDatabase) -> list[RowSource]:
    """The stored identities, and derived ones for accounts without an identity."""
    row_sources = _identity_rows(source)
    has_identity = (
        f"SELECT FROM {source.name('identities')} i WHERE i.user_id = u.id" if row_sources else "SELECT WHERE false"
    )
    for_passwords = source.is_older_than(_IDENTITIES_FOR_PASSWORDS[0], marker=("identities", "email"))
    if for_passwords:
        row_sources.append(
            _derived_identity(
                source,
                condition=f"{_HAS_PASSWORD} AND NOT EXISTS ({has_identity})",
                at=_IDENTITIES_FOR_PASSWORDS[1],
                last_sign_in=f"timestamptz '{_IDENTITIES_FOR_PASSWORDS[1]}'",
            )
        )
    if source.has("users", "invited_at") and source.is_older_than(
        _IDENTITIES_FOR_INVITED[0], marker=("flow_state", "id")
    ):
        has_email_identity = f"{has_identity}{_email_only(row_sources)}"
        without = f"u.invited_at IS NOT NULL AND coalesce(u.email, '') <> '' AND NOT EXISTS ({has_email_identity})"
        if for_passwords:
            without += f" AND NOT ({_HAS_PASSWORD} AND NOT EXISTS ({has_identity}))"
        row_sources.append(
            _derived_identity(
                source, condition=without, at=_IDENTITIES_FOR_INVITED[1], last_sign_in="NULL::timestamptz"
            )
        )
    return row_sources


def _email_only(row_sources: list[RowSource]) -> str:
    # Without an identities table, the subquery has no columns to compare.
    return " AND i.provider = 'email'" if any(not origin.is_derived for origin in row_sources) else ""


def _identity_rows(source: SourceDatabase) -> list[RowSource]:
    source_columns = source.tables.get("identities")
    if not source_columns:
        return []
    if "provider_id" in source_columns and "email" in source_columns:
        return same_table("identities")(source)
    # Formerly `id` was the subject at the provider, and email identities could lack their address.
    renamed = "provider_id" not in source_columns
    columns = {name: f"i.{name}" for name in _IDENTITY_COLUMNS if name in source_columns}
    if renamed:
        columns |= {"provider_id": "i.id::text", "id": derived_id("'identity'", "i.provider", "i.id::text")}
    if "email" not in source_columns:
        columns["identity_data"] = (
            "CASE WHEN i.provider = 'email' AND i.identity_data ->> 'email' IS NULL AND u.email IS NOT NULL"
            " THEN i.identity_data || jsonb_build_object('email', u.email) ELSE i.identity_data END"
        )
    origin = f"{source.name('identities')} i LEFT JOIN {source.name('users')} u ON u.id = i.user_id"
    return [_derived_rows(columns, origin)]


def _derived_identity(source: SourceDatabase, *, condition: str, at: str, last_sign_in: str) -> RowSource:
    columns = {
        "id": derived_id("'identity'", "'email'", "u.id::text"),
        "provider_id": "u.id::text",
        "user_id": "u.id",
        "identity_data": "jsonb_build_object('sub', u.id::text, 'email', u.email)",
        "provider": "'email'::text",
        "last_sign_in_at": last_sign_in,
        "created_at": f"timestamptz '{at}'",
        "updated_at": f"timestamptz '{at}'",
    }
    return _derived_rows(columns, f"{source.name('users')} u WHERE {condition}", is_derived=True)


def one_time_tokens(source: SourceDatabase) -> list[RowSource]:
    """Outstanding one-time tokens with their sent time, from the table or, in older sources, from user columns.

    If the table exists, only its rows count: a token that it lacks was used or revoked.
    """
    users = source.name("users")
    if source.tables.get("one_time_tokens"):
        sent = " ".join(
            f"WHEN '{kind}' THEN u.{sent_at}"
            for kind, (_, sent_at, _) in _token_columns(source).items()
            if source.has("users", sent_at)
        )
        columns = {name: f"o.{name}" for name in ("id", "user_id", "token_hash", "relates_to", "updated_at")}
        columns |= {"token_type": "o.token_type::text", "sent_at": f"CASE o.token_type::text {sent} END"}
        origin = f"{source.name('one_time_tokens')} o LEFT JOIN {users} u ON u.id = o.user_id"
        return [
            _derived_rows(columns, origin, types={"updated_at": source.tables["one_time_tokens"].get("updated_at", "")})
        ]
    filled = [
        f"('{kind}', u.{column}, {address}, u.{sent_at})"
        for kind, (column, sent_at, address) in _token_columns(source).items()
        if source.has("users", column) and source.has("users", sent_at)
    ]
    if not filled:
        return []
    columns = {
        **{name: f"t.{name}" for name in ("token_type", "token_hash", "relates_to", "sent_at")},
        "id": derived_id("'token'", "u.id::text", "t.token_type", "t.token_hash"),
        "user_id": "u.id",
        "updated_at": "t.sent_at",
    }
    origin = (
        f"{users} u CROSS JOIN LATERAL (VALUES {', '.join(filled)}) AS t (token_type, token_hash, relates_to, sent_at)"
        " WHERE t.token_hash <> '' AND t.relates_to <> ''"
    )
    return [_derived_rows(columns, origin, is_derived=True)]


def _token_columns(source: SourceDatabase) -> dict[str, tuple[str, str, str]]:
    """Type of a one-time token → its user columns: token, sent time, recipient."""
    email, phone = "nullif(u.email, '')", "nullif(u.phone, '')" if source.has("users", "phone") else "NULL"
    either = f"coalesce({email}, {phone})"
    # Formerly an email change had a single token, for the new address.
    has_single_token = source.has("users", "email_change_token")
    return {
        "confirmation_token": ("confirmation_token", "confirmation_sent_at", either),
        "recovery_token": ("recovery_token", "recovery_sent_at", either),
        "reauthentication_token": ("reauthentication_token", "reauthentication_sent_at", either),
        "email_change_token_current": ("email_change_token_current", "email_change_sent_at", either),
        "email_change_token_new": (
            "email_change_token" if has_single_token else "email_change_token_new",
            "email_change_sent_at",
            "u.email_change",
        ),
        "phone_change_token": ("phone_change_token", "phone_change_sent_at", "u.phone_change"),
    }


def _derived_rows(
    columns: dict[str, str], origin: str, *, is_derived: bool = False, types: dict[str, str] | None = None
) -> RowSource:
    """Rows of `origin` with the current column names."""
    selected = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    query = f"(SELECT {selected} FROM {origin}) x"  # noqa: S608  (expressions of our own)
    return RowSource(sql=query, columns={**dict.fromkeys(columns, ""), **(types or {})}, is_derived=is_derived)
