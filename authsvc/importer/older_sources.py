"""Rows that older versions of the reference kept elsewhere or not at all."""

from __future__ import annotations

from authsvc.importer.columns import made_id
from authsvc.importer.source import Source
from authsvc.importer.tables import Origin, itself

# The days on which the reference gave identities to the accounts that had none; they stand in the rows it made.
_IDENTITIES_FOR_PASSWORDS = ("20221125", "2022-11-25 00:00:00+00")
_IDENTITIES_FOR_INVITED = ("20230131", "2023-01-25 00:00:00+00")
_IDENTITY_COLUMNS = "id provider_id user_id identity_data provider last_sign_in_at created_at updated_at".split()
_HAS_PASSWORD = "coalesce(u.encrypted_password, '') <> '' AND coalesce(u.email, '') <> ''"


def identities(source: Source) -> list[Origin]:
    """The identities, and one for each account from before every account had one."""
    found = _identity_rows(source)
    taken = f"SELECT FROM {source.name('identities')} i WHERE i.user_id = u.id" if found else "SELECT WHERE false"
    for_passwords = source.is_older_than(_IDENTITIES_FOR_PASSWORDS[0], marker=("identities", "email"))
    if for_passwords:
        found.append(
            _made_identity(
                source,
                condition=f"{_HAS_PASSWORD} AND NOT EXISTS ({taken})",
                at=_IDENTITIES_FOR_PASSWORDS[1],
                last_sign_in=f"timestamptz '{_IDENTITIES_FOR_PASSWORDS[1]}'",
            )
        )
    if source.has("users", "invited_at") and source.is_older_than(
        _IDENTITIES_FOR_INVITED[0], marker=("flow_state", "id")
    ):
        without = f"u.invited_at IS NOT NULL AND coalesce(u.email, '') <> '' AND NOT EXISTS ({taken}{_of_email(found)})"
        if for_passwords:
            without += f" AND NOT ({_HAS_PASSWORD} AND NOT EXISTS ({taken}))"
        found.append(
            _made_identity(source, condition=without, at=_IDENTITIES_FOR_INVITED[1], last_sign_in="NULL::timestamptz")
        )
    return found


def _of_email(found: list[Origin]) -> str:
    # Behind `SELECT WHERE false`, for want of a table, there is nothing to compare.
    return " AND i.provider = 'email'" if any(not origin.is_made for origin in found) else ""


def _identity_rows(source: Source) -> list[Origin]:
    there = source.tables.get("identities")
    if not there:
        return []
    if "provider_id" in there and "email" in there:
        return itself("identities")(source)
    # Once `id` was the subject at the provider, and an email identity did not always carry its address.
    renamed = "provider_id" not in there
    columns = {name: f"i.{name}" for name in _IDENTITY_COLUMNS if name in there}
    if renamed:
        columns |= {"provider_id": "i.id::text", "id": made_id("'identity'", "i.provider", "i.id::text")}
    if "email" not in there:
        columns["identity_data"] = (
            "CASE WHEN i.provider = 'email' AND i.identity_data ->> 'email' IS NULL AND u.email IS NOT NULL"
            " THEN i.identity_data || jsonb_build_object('email', u.email) ELSE i.identity_data END"
        )
    origin = f"{source.name('identities')} i LEFT JOIN {source.name('users')} u ON u.id = i.user_id"
    return [_derived(columns, origin)]


def _made_identity(source: Source, *, condition: str, at: str, last_sign_in: str) -> Origin:
    columns = {
        "id": made_id("'identity'", "'email'", "u.id::text"),
        "provider_id": "u.id::text",
        "user_id": "u.id",
        "identity_data": "jsonb_build_object('sub', u.id::text, 'email', u.email)",
        "provider": "'email'::text",
        "last_sign_in_at": last_sign_in,
        "created_at": f"timestamptz '{at}'",
        "updated_at": f"timestamptz '{at}'",
    }
    return _derived(columns, f"{source.name('users')} u WHERE {condition}", is_made=True)


def one_time_tokens(source: Source) -> list[Origin]:
    """The outstanding secrets with the time they were sent; from the accounts' columns where there is no table yet.

    Where there is one it alone counts: a secret that it has dropped was spent or withdrawn, whatever the column says.
    """
    users = source.name("users")
    if source.tables.get("one_time_tokens"):
        sent = " ".join(
            f"WHEN '{kind}' THEN u.{sent_at}"
            for kind, (_, sent_at, _) in _kinds(source).items()
            if source.has("users", sent_at)
        )
        columns = {name: f"o.{name}" for name in ("id", "user_id", "token_hash", "relates_to", "updated_at")}
        columns |= {"token_type": "o.token_type::text", "sent_at": f"CASE o.token_type::text {sent} END"}
        origin = f"{source.name('one_time_tokens')} o LEFT JOIN {users} u ON u.id = o.user_id"
        return [_derived(columns, origin, types={"updated_at": source.tables["one_time_tokens"].get("updated_at", "")})]
    filled = [
        f"('{kind}', u.{column}, {address}, u.{sent_at})"
        for kind, (column, sent_at, address) in _kinds(source).items()
        if source.has("users", column) and source.has("users", sent_at)
    ]
    if not filled:
        return []
    columns = {
        **{name: f"t.{name}" for name in ("token_type", "token_hash", "relates_to", "sent_at")},
        "id": made_id("'token'", "u.id::text", "t.token_type", "t.token_hash"),
        "user_id": "u.id",
        "updated_at": "t.sent_at",
    }
    origin = (
        f"{users} u CROSS JOIN LATERAL (VALUES {', '.join(filled)}) AS t (token_type, token_hash, relates_to, sent_at)"
        " WHERE t.token_hash <> '' AND t.relates_to <> ''"
    )
    return [_derived(columns, origin, is_made=True)]


def _kinds(source: Source) -> dict[str, tuple[str, str, str]]:
    """Type of a one-time token → its columns on the account: the secret, the time it was sent, where to."""
    email, phone = "nullif(u.email, '')", "nullif(u.phone, '')" if source.has("users", "phone") else "NULL"
    either = f"coalesce({email}, {phone})"
    # Before both addresses had to confirm a change there was one secret, of the new one.
    is_one = source.has("users", "email_change_token")
    return {
        "confirmation_token": ("confirmation_token", "confirmation_sent_at", either),
        "recovery_token": ("recovery_token", "recovery_sent_at", either),
        "reauthentication_token": ("reauthentication_token", "reauthentication_sent_at", either),
        "email_change_token_current": ("email_change_token_current", "email_change_sent_at", either),
        "email_change_token_new": (
            "email_change_token" if is_one else "email_change_token_new",
            "email_change_sent_at",
            "u.email_change",
        ),
        "phone_change_token": ("phone_change_token", "phone_change_sent_at", "u.phone_change"),
    }


def _derived(
    columns: dict[str, str], origin: str, *, is_made: bool = False, types: dict[str, str] | None = None
) -> Origin:
    """The rows of `origin` under the names of today."""
    listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    query = f"(SELECT {listed} FROM {origin}) x"  # noqa: S608  (expressions of our own)
    return Origin(sql=query, columns={**dict.fromkeys(columns, ""), **(types or {})}, is_made=is_made)
