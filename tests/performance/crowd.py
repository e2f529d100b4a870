"""Creates many users in SQL, with addresses and names from a few given names, family names and a number."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

GIVEN = "anna ben clara david emma finn greta hans ida jonas kira leon mia nils olga paul rosa sven tina uwe".split()
FAMILY = (
    "ahrens berger czerny dietrich engel fischer grimm hoffmann iversen jansen keller lorenz maurer neumann".split()
)
_USERS = f"""
    INSERT INTO users (id, aud, role, email, phone, encrypted_password, email_confirmed_at, last_sign_in_at,
        raw_app_meta_data, raw_user_meta_data, created_at, updated_at)
    SELECT gen_random_uuid(), 'authenticated', 'authenticated',
        given || '.' || family || '.' || n || '@mail' || n % 40 || '.example.com',
        CASE WHEN n % 5 = 0 THEN (49150000000 + n)::text END,
        '$argon2id$v=19$m=19456,t=2,p=1$' || left(md5(n::text), 22) || '$' || md5('a' || n) || left(md5('b' || n), 11),
        at, at, '{{"provider": "email", "providers": ["email"]}}',
        jsonb_build_object('full_name', initcap(given) || ' ' || initcap(family), 'city', md5(n::text)), at, at
    FROM generate_series(%s, %s) n, LATERAL (SELECT
        ('{{{",".join(GIVEN)}}}'::text[])[1 + n % {len(GIVEN)}] AS given,
        ('{{{",".join(FAMILY)}}}'::text[])[1 + n / {len(GIVEN)} % {len(FAMILY)}] AS family,
        now() - interval '1 day' - n * interval '1 minute' AS at) made
"""
_IDENTITIES = """
    INSERT INTO identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
    SELECT gen_random_uuid(), id::text, id, jsonb_build_object('sub', id::text, 'email', email, 'email_verified', true,
        'phone_verified', false), 'email', created_at, created_at, created_at
    FROM users u WHERE NOT EXISTS (SELECT FROM identities i WHERE i.user_id = u.id)
"""


def fill(connection: Connection, first: int, last: int) -> None:
    """Create the users numbered `first` to `last`, each with an email identity."""
    for statement in (_USERS.replace("%s, %s", f"{first}, {last}"), _IDENTITIES):
        connection.execute(statement.encode())
    connection.execute("VACUUM ANALYZE users, identities")
