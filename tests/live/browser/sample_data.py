"""Invented accounts, sessions, messages and audit entries, so that each console page shows rows of every kind.

Times are relative to the start of today (UTC), and IDs are fixed: images of the pages stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from authsvc.jobs import registry
from authsvc.messaging import Email, EmailType
from mailer.delivery import encryption, tasks

MARA = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4a01")
MARA_EMAIL = "mara.lindqvist@example.com"
TOMASZ = UUID(int=MARA.int + 1)
TOMASZ_EMAIL = "tomasz.wisniewski@example.com"
OTHER_OPERATOR = "ines.moreau@example.com"
"""An operator with the password of the other one, and with a second factor."""
SESSION = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4b01")
ATTEMPT = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4c01")
AUDIT_ENTRY = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4d01")
PROVIDER = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4e01")
CLIENT = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4f02")
ENDPOINT = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4a02")
DELIVERY = UUID("5f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4b02")
AUTHORIZATION = "mfzwizltoq2gk3tfonqw23lqnrsq4mzs"
"""The ID of an authorization request that waits for a user."""
FAILED_JOB = 9001
LONG_EMAIL = "maximilian.featherstonehaugh-cholmondeley@procurement.northern-division.example.com"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Safari/604.1"
_USERS: Sequence[tuple[str | None, str | None, str | None, Mapping[str, Any]]] = (
    (TOMASZ_EMAIL, None, "Tomasz Wiśniewski", {}),
    (LONG_EMAIL, None, "Maximilian Bartholomew Featherstonehaugh-Cholmondeley the Younger", {}),
    (None, "447700900123", "Priya Raman", {}),
    ("jonas.berg@example.com", None, "Jonas Berg", {"banned_until": timedelta(days=20)}),
    ("unconfirmed@example.org", None, None, {"email_confirmed_at": None}),
    (None, None, None, {"is_anonymous": True}),
    ("amelie.dubois@example.net", "33199001234", "Amélie Dubois", {}),
    ("spam@example.org", None, "Free prizes", {"banned_until": timedelta(days=40_000)}),
    (None, None, None, {"deleted_at": timedelta(days=-2)}),
    ("ayse.yilmaz@example.com", None, "Ayşe Yılmaz", {}),
    ("o.okafor@example.com", None, "Obinna Okafor", {}),
)


def insert(connection: psycopg.Connection[Any], *, operator: str) -> None:
    """Insert all rows. `operator` is the email address of an operator who has acted on Mara's account."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    connection.execute(
        "UPDATE users SET created_at = %(at)s, updated_at = %(at)s, confirmation_sent_at = %(at)s,"
        " email_confirmed_at = CASE WHEN email_confirmed_at IS NULL THEN NULL ELSE %(at)s END",
        {"at": today - timedelta(days=40)},
    )
    connection.execute("UPDATE audit_log_entries SET created_at = %s", [today - timedelta(days=40)])
    connection.execute("UPDATE message_attempts SET created_at = %s", [today - timedelta(days=40)])
    _insert_users(connection, today)
    _insert_mara(connection, today, operator)
    _insert_operator(connection, today, operator)
    _insert_messages(connection, today)
    _insert_audit_entries(connection, today, operator)
    _insert_providers(connection, today)
    _insert_daily_counts(connection, today)
    _insert_client(connection, today, operator)
    _insert_webhooks(connection, today)


def _insert_users(connection: psycopg.Connection[Any], today: datetime) -> None:
    for number, (email, phone, name, given) in enumerate(_USERS):
        at = today - timedelta(days=number, hours=number + 3, minutes=7 * number)
        columns = {"email_confirmed_at": at if email else None, "phone_confirmed_at": at if phone else None}
        columns |= {key: today + value if isinstance(value, timedelta) else value for key, value in given.items()}
        is_used = bool(email) and columns["email_confirmed_at"] is not None
        _insert(
            connection,
            "users",
            id=UUID(int=MARA.int + 1 + number),
            aud="authenticated",
            role="authenticated",
            email=email,
            phone=phone,
            raw_user_meta_data={"full_name": name} if name else {},
            raw_app_meta_data={"provider": "email" if email else "phone"},
            created_at=at,
            updated_at=at,
            last_sign_in_at=at + timedelta(hours=1) if is_used else None,
            **columns,
        )


def _insert_mara(connection: psycopg.Connection[Any], today: datetime, operator: str) -> None:
    since = today - timedelta(days=12, hours=4)
    _insert(
        connection,
        "users",
        id=MARA,
        aud="authenticated",
        role="authenticated",
        email=MARA_EMAIL,
        phone="46701740605",
        raw_user_meta_data={"full_name": "Mara Lindqvist", "locale": "sv-SE", "company": {"name": "Lindqvist & Co"}},
        raw_app_meta_data={"provider": "email", "providers": ["email", "google"], "plan": "team"},
        created_at=since,
        updated_at=today - timedelta(hours=9),
        email_confirmed_at=since + timedelta(minutes=4),
        confirmation_sent_at=since,
        recovery_sent_at=today - timedelta(days=3),
        last_sign_in_at=today - timedelta(hours=9),
        email_change="mara@lindqvist.example",
    )
    for provider, subject in (("email", str(MARA)), ("google", "114029384756102938475")):
        _insert(
            connection,
            "identities",
            id=UUID(int=MARA.int + (100 if provider == "email" else 101)),
            user_id=MARA,
            provider=provider,
            provider_id=subject,
            identity_data={"sub": subject, "email": MARA_EMAIL},
            created_at=since,
            updated_at=since,
            last_sign_in_at=today - timedelta(hours=9),
        )
    for number, (kind, name, status) in enumerate(
        (("totp", "Phone", "verified"), ("webauthn", "Key on the key ring, bought in Gothenburg", "unverified"))
    ):
        _insert(
            connection,
            "mfa_factors",
            id=UUID(int=MARA.int + 200 + number),
            user_id=MARA,
            factor_type=kind,
            friendly_name=name,
            status=status,
            created_at=since + timedelta(days=number + 1),
            updated_at=since + timedelta(days=number + 1),
            last_challenged_at=today - timedelta(hours=9) if status == "verified" else None,
        )
    for number, (agent, ip, aal) in enumerate(
        ((FIREFOX, "192.0.2.17", "aal2"), (IPHONE, "2001:db8:85a3:8d3:1319:8a2e:370:7348", "aal1"), ("", None, "aal1"))
    ):
        session = UUID(int=SESSION.int + number)
        at = today - timedelta(days=2 * number, hours=9)
        _insert(
            connection,
            "sessions",
            id=session,
            user_id=MARA,
            created_at=at,
            updated_at=at,
            refreshed_at=(at + timedelta(minutes=50)).replace(tzinfo=None),
            user_agent=agent,
            ip=ip,
            aal=aal,
        )
        for method in ("password", "totp")[: 2 if aal == "aal2" else 1]:
            _insert(
                connection,
                "mfa_amr_claims",
                id=UUID(int=SESSION.int + 100 + 10 * number + len(method)),
                session_id=session,
                authentication_method=method,
                created_at=at,
                updated_at=at,
            )
    for number, text in enumerate(("Called on the phone: has lost her old mailbox.", "Invoice 4711 is paid.")):
        _insert(
            connection,
            "operator_notes",
            id=UUID(int=MARA.int + 300 + number),
            user_id=MARA,
            author=operator,
            text=text,
            created_at=today - timedelta(days=number, hours=10),
        )


def _insert_operator(connection: psycopg.Connection[Any], today: datetime, operator: str) -> None:
    """The other operator, who views the application as a user."""
    at = today - timedelta(days=60)
    operator_id = UUID(int=MARA.int + 400)
    found = connection.execute("SELECT encrypted_password FROM users WHERE email = %s", [operator]).fetchone()
    assert found is not None
    _insert(
        connection,
        "users",
        id=operator_id,
        aud="authenticated",
        role="svc_admin",
        email=OTHER_OPERATOR,
        encrypted_password=found[0],
        raw_user_meta_data={"full_name": "Inès Moreau"},
        raw_app_meta_data={"provider": "email"},
        created_at=at,
        updated_at=at,
        email_confirmed_at=at,
    )
    _insert(
        connection,
        "mfa_factors",
        id=UUID(int=MARA.int + 401),
        user_id=operator_id,
        factor_type="totp",
        friendly_name="Phone",
        status="verified",
        secret="JBSWY3DPEHPK3PXP",
        created_at=at,
        updated_at=at,
    )
    # The worker ends views of an operator who is not signed in.
    signed_in = {"user_agent": FIREFOX, "ip": "192.0.2.17", "aal": "aal2"}
    started = today - timedelta(minutes=5)
    times = {"created_at": started, "updated_at": started}
    own_session = UUID(int=SESSION.int + 50)
    _insert(connection, "sessions", id=own_session, user_id=operator_id, **signed_in, **times)
    _insert(
        connection,
        "sessions",
        id=UUID(int=SESSION.int + 51),
        user_id=TOMASZ,
        impersonator_id=operator_id,
        impersonator_session_id=own_session,
        not_after=(today + timedelta(days=2)).replace(tzinfo=None),
        **signed_in,
        **times,
    )


def _insert_messages(connection: psycopg.Connection[Any], today: datetime) -> None:
    outcomes = (
        ("recovery", "email", "delivered", "250 2.0.0 Ok: queued as 4D1F2A", ""),
        ("confirmation", "email", "retry", "", "450 4.2.2 The mailbox is full"),
        ("magic_link", "email", "failed", "", "550 5.1.1 The recipient's address does not exist at mx.example.com"),
        ("mfa", "sms", "delivered", "SM5f0c2a1e7d344c0b9a561b6c8e2f4a01", ""),
        ("password_changed_notification", "email", "delivered", "250 2.0.0 Ok: queued as 7C9B1E", ""),
    )
    for number, (kind, channel, outcome, gateway_id, error) in enumerate(outcomes):
        _insert(
            connection,
            "message_attempts",
            id=UUID(int=ATTEMPT.int + number),
            message_id=UUID(int=ATTEMPT.int + 100 + number),
            channel=channel,
            kind=kind,
            user_id=MARA,
            attempt=1 + number % 3,
            created_at=today - timedelta(days=number, hours=8),
            outcome=outcome,
            gateway_id=gateway_id,
            error=error,
        )
    for number, (recipient, status) in enumerate(
        ((LONG_EMAIL, "failed"), (MARA_EMAIL, "failed"), (TOMASZ_EMAIL, "todo"))
    ):
        message = Email(
            id=UUID(int=ATTEMPT.int + 200 + number),
            type=EmailType.RECOVERY,
            to=recipient,
            variables={},
            user_id=MARA,
            expires_at=today + timedelta(days=1),
        )
        args = {
            "message_id": str(message.id),
            "kind": str(message.type),
            "channel": "email",
            "sealed": encryption.encrypt(message),
        }
        _insert(
            connection,
            "procrastinate_jobs",
            id=FAILED_JOB + number,
            queue_name=registry.queue(),
            task_name=tasks.deliver.name,
            args=args,
            status=status,
            attempts=8 if status == "failed" else 2,
            scheduled_at=today + timedelta(days=1) if status == "todo" else None,
        )
        connection.execute(
            "UPDATE procrastinate_events SET at = %s WHERE job_id = %s",
            [today - timedelta(hours=9 + number), FAILED_JOB + number],
        )
        _insert(
            connection,
            "message_attempts",
            id=UUID(int=ATTEMPT.int + 300 + number),
            message_id=message.id,
            channel="email",
            kind="recovery",
            user_id=UUID(int=MARA.int + 2),
            attempt=8,
            created_at=today - timedelta(hours=8 + number),
            outcome="failed" if status == "failed" else "retry",
            error="550 5.1.1 The recipient's address does not exist at mx.example.com, see https://mx.example.com/help",
        )


def _insert_audit_entries(connection: psycopg.Connection[Any], today: datetime, operator: str) -> None:
    mara = {"actor_id": str(MARA), "actor_username": MARA_EMAIL, "actor_via_sso": False}
    by_operator = {"actor_id": str(UUID(int=MARA.int + 500)), "actor_username": operator, "actor_role": "svc_admin"}
    about_mara = {"user_id": str(MARA), "user_email": MARA_EMAIL, "user_phone": ""}
    payloads: Sequence[Mapping[str, Any]] = (
        {
            **by_operator,
            "action": "user_modified",
            "log_type": "user",
            "reason": "Asked on the phone, verified by customer number",
            "traits": {
                **about_mara,
                "changes": {"email": {"old": "mara@old-mailbox.example", "new": MARA_EMAIL}},
            },
        },
        {**mara, "action": "login", "log_type": "account", "traits": {"provider": "email"}},
        {
            "action": "sign_in_refused",
            "actor_id": str(UUID(int=0)),
            "actor_username": MARA_EMAIL,
            "log_type": "account",
            "traits": {"user_id": str(MARA), "user_email": MARA_EMAIL, "reason": "invalid_credentials"},
        },
        {**mara, "action": "verification_attempted", "log_type": "factor", "traits": {"factor_type": "totp"}},
        {**by_operator, "action": "token_revoked", "log_type": "token", "traits": about_mara},
        {**mara, "action": "user_recovery_requested", "log_type": "user"},
        {**mara, "action": "user_signedup", "log_type": "team", "traits": {"provider": "email"}},
    )
    for number, payload in enumerate(payloads):
        _insert(
            connection,
            "audit_log_entries",
            id=UUID(int=AUDIT_ENTRY.int + number),
            payload=payload,
            created_at=today - timedelta(days=number, hours=9, minutes=3 * number),
            ip_address=("192.0.2.17", "2001:db8:85a3:8d3:1319:8a2e:370:7348")[number % 2],
        )


def _insert_providers(connection: psycopg.Connection[Any], today: datetime) -> None:
    for number, (name, title) in enumerate((("acme", "Acme Single Sign-On"), ("city-library", "City library"))):
        issuer = f"https://{name}.identity-provider.example.com/realms/employees-and-contractors"
        _insert(
            connection,
            "custom_oauth_providers",
            id=UUID(int=PROVIDER.int + number),
            provider_type="oidc",
            identifier=f"custom:{name}",
            name=title,
            client_id="authsvc-production",
            client_secret="invented",
            scopes=["openid", "email", "profile"],
            enabled=number == 0,
            issuer=issuer,
            attribute_mapping={"email": "mail"},
            created_at=today - timedelta(days=30),
            updated_at=today - timedelta(days=30 - number),
        )


def _insert_daily_counts(connection: psycopg.Connection[Any], today: datetime) -> None:
    for days_ago in range(1, 30):
        weekday = (days_ago * 5) % 7
        counts = (
            ("sign_ups", "", 4 + weekday),
            ("sign_ins", "", 60 + 9 * weekday),
            ("refused_sign_ins", "invalid_credentials", 3 + weekday % 4),
            ("refused_sign_ins", "user_banned", weekday % 2),
            ("messages_sent", "", 12 + 2 * weekday),
            ("messages_failed", "", weekday // 5),
        )
        for series, label, count in counts:
            _insert(
                connection,
                "daily_counts",
                day=(today - timedelta(days=days_ago)).date(),
                series=series,
                label=label,
                count=count,
            )


def _insert(connection: psycopg.Connection[Any], table: str, **columns: Any) -> None:
    values = [Jsonb(value) if isinstance(value, dict) else value for value in columns.values()]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
    )
    connection.execute(statement, values)


def _insert_client(connection: psycopg.Connection[Any], today: datetime, user: str) -> None:
    """An OAuth client with the consent of a user, and a request of it for more access."""
    _insert(
        connection,
        "oauth_clients",
        id=CLIENT,
        client_secret_hash="",
        registration_type="dynamic",
        redirect_uris="https://shop.example.com/callback",
        grant_types="authorization_code,refresh_token",
        client_name="Shop of the northern division",
        client_uri="https://shop.example.com/",
        client_type="public",
        token_endpoint_auth_method="none",
        created_at=today - timedelta(days=9),
        updated_at=today - timedelta(days=2),
    )
    _insert(
        connection,
        "oauth_authorizations",
        id=UUID(int=CLIENT.int + 1),
        authorization_id=AUTHORIZATION,
        client_id=CLIENT,
        redirect_uri="https://shop.example.com/callback",
        scope="openid profile email phone offline_access",
        created_at=today,
        expires_at=today + timedelta(days=2),
    )
    connection.execute(
        "INSERT INTO oauth_consents (id, user_id, client_id, scopes, granted_at)"
        " SELECT %s, id, %s, 'openid email', %s FROM users WHERE email = %s",
        [UUID(int=CLIENT.int + 2), CLIENT, today - timedelta(days=5), user],
    )


def _insert_webhooks(connection: psycopg.Connection[Any], today: datetime) -> None:
    """Endpoints that receive no event of the tests, and deliveries of every state."""
    for number, (host, types, description) in enumerate(
        (("crm", ["identity.*", "factor.*"], "Customer records"), ("archive", ["passkey.*"], "Archive, switched off"))
    ):
        is_disabled = number == 1
        _insert(
            connection,
            "webhook_endpoints",
            id=UUID(int=ENDPOINT.int + number),
            url=f"https://{host}.example.com/hooks/path-with-a-key",
            description=description,
            event_types=types,
            secret="invented",
            failing_since=today - timedelta(days=6),
            disabled_at=today - timedelta(days=1) if is_disabled else None,
            disabled_reason="failing" if is_disabled else None,
            created_at=today - timedelta(days=20 - number),
            updated_at=today - timedelta(days=2 - number),
        )
    deliveries = (
        ("factor.enrolled", "pending", 2, 503, "status 503"),
        ("identity.linked", "succeeded", 1, 204, None),
        ("factor.unenrolled", "failed", 12, None, "the connection timed out"),
        ("factor.enrolled", "cancelled", 0, None, None),
    )
    for number, (event_type, status, attempts, last_status, error) in enumerate(deliveries):
        at = today - timedelta(days=number, hours=9)
        event_id, delivery_id = UUID(int=DELIVERY.int + 100 + number), UUID(int=DELIVERY.int + number)
        user_id = UUID(int=MARA.int + number)
        _insert(
            connection,
            "webhook_events",
            id=event_id,
            sequence=1_000_000 + number,
            type=event_type,
            user_id=user_id,
            body=json.dumps({"type": event_type, "data": {"user": {"id": str(user_id)}}}).encode(),
            is_fanned_out=True,
            created_at=at,
        )
        _insert(
            connection,
            "webhook_deliveries",
            id=delivery_id,
            event_id=event_id,
            endpoint_id=ENDPOINT,
            type=event_type,
            user_id=user_id,
            sequence=1_000_000 + number,
            status=status,
            attempts=attempts,
            next_attempt_at=today + timedelta(days=2) if status == "pending" else None,
            last_status=last_status,
            last_error=error,
            last_attempt_at=at + timedelta(minutes=3) if attempts else None,
            succeeded_at=at if status == "succeeded" else None,
            created_at=at,
        )
        for attempt in range(1, min(attempts, 3) + 1):
            _insert(
                connection,
                "webhook_attempts",
                delivery_id=delivery_id,
                attempt=attempt,
                started_at=at + timedelta(minutes=attempt),
                duration_ms=40 * attempt,
                status=last_status,
                error=error,
            )
