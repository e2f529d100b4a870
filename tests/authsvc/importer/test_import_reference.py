"""`manage.py import_reference` imports every row exactly once, can be repeated, and reports correct counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection

from accounts.models import Factor, FactorChallenge, Identity, Passkey, PasskeyChallenge, User
from accounts.passwords import hashing
from authsvc.importer import queries
from authsvc.importer.table_mapping import Table
from authsvc.models import AuditLogEntry
from authsvc.security import crypto
from oauthproviders.models import ClientState, CustomProvider
from oauthserver.models import OAuthAuthorization, OAuthClient, OAuthConsent
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.authsvc.importer.conftest import run
from tests.authsvc.importer.filled_reference import digest, fill
from tests.authsvc.importer.reference import Reference
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import PASSWORD
from tests.live import servers
from tests.tokens.token_requests import read_claims, rotate, session_exists
from tokens.models import AmrClaim, FlowState, LegacyRefreshToken, OneTimeToken, Session

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (
    User, Session, LegacyRefreshToken, AmrClaim, Identity, Factor, FactorChallenge, Passkey, PasskeyChallenge,
    OneTimeToken, FlowState, ClientState, CustomProvider, OAuthClient, OAuthAuthorization, OAuthConsent, AuditLogEntry,
)  # fmt: skip


def everything() -> dict[str, list[dict[str, Any]]]:
    return {model.__name__: [dict(row) for row in model._default_manager.order_by("pk").values()] for model in MODELS}


def test_every_table_is_imported_and_counted(reference: Reference) -> None:
    user_id = fill(reference)

    ran = run(reference.url, "--with-audit-log")

    assert (ran.error, ran.output.splitlines()[-1]) == ("", "done")
    for table in ("users", "sessions", "refresh_tokens", "mfa_amr_claims", "identities", "mfa_factors"):
        assert ran.counts(table) == {"read": 1, "new": 1}, table
    for table in (
        "one_time_tokens",
        "flow_state",
        "audit_log_entries",
        "oauth_client_states",
        "custom_oauth_providers",
        "oauth_clients",
        "oauth_authorizations",
        "oauth_consents",
        "mfa_challenges",
        "webauthn_credentials",
    ):
        assert ran.counts(table) == {"read": 1, "new": 1}, table
    assert ran.counts("webauthn_challenges") == {"read": 2, "new": 2}
    user = User.objects.get()
    assert (user.id, user.email, user.phone, user.phone_change) == (user_id, "ada@example.com", "15551234567", "")
    client, authorization = OAuthClient.objects.get(), OAuthAuthorization.objects.get()
    assert (client.client_type, client.token_endpoint_auth_method) == ("confidential", "client_secret_post")
    assert client.redirect_uri_list == ["https://client.example.com/cb", "myapp://callback"]
    assert authorization.authorization_code == crypto.hash_auth_code("fc56ab41-2010-4870-a9b9-767c1dc573fb")
    assert (authorization.status, authorization.user_id, authorization.client_id) == ("approved", user_id, client.id)
    assert OAuthConsent.objects.get().scopes == "openid email"
    assert (user.created_at, user.updated_at) == (reference.at, reference.at)
    assert Identity.objects.get().email == "ada@example.com"
    assert (Factor.objects.get().secret, Factor.objects.get().factor_type) == ("JBSWY3DPEHPK3PXP", "totp")
    challenge, passkey = FactorChallenge.objects.get(), Passkey.objects.get()
    assert (challenge.ip_address, challenge.otp_code, challenge.attempts) == ("192.0.2.1", "", 0)
    assert (bytes(passkey.credential_id), bytes(passkey.public_key)) == (bytes(range(32)), b"\x00COSE")
    assert (passkey.sign_count, passkey.transports, passkey.backup_eligible) == (7, ["internal", "hybrid"], True)
    assert AuditLogEntry.objects.get().payload == {"action": "login", "actor_username": "ab\\u0000"}
    assert AuditLogEntry.objects.get().ip_address == "192.0.2.1"
    assert ClientState.objects.get().code_verifier == "v" * 43
    acme = CustomProvider.objects.get()
    assert (acme.identifier, acme.client_secret, acme.scopes) == ("custom:acme", "s", ["openid", "profile"])
    assert (acme.authorization_params, acme.custom_claims_allowlist) == ({"prompt": "login"}, [])


def test_an_import_whose_tables_cannot_be_vacuumed_is_done(reference: Reference) -> None:
    reference.user("ada@example.com")
    target = servers.server_url().replace("/postgres?", f"/{connection.settings_dict['NAME']}?")
    with psycopg.connect(target) as other, connection.cursor() as cursor:
        other.execute("LOCK TABLE users IN SHARE UPDATE EXCLUSIVE MODE")
        cursor.execute("SET lock_timeout = '200ms'")
        ran = run(reference.url)
        cursor.execute("RESET lock_timeout")

    assert (ran.error, ran.output.splitlines()[-1]) == ("", "done")
    assert ran.warnings == (
        "warning: requests may be slow until VACUUM (ANALYZE) users is run, which has failed: LockNotAvailable\n"
    )
    assert User.objects.count() == 1


def test_an_import_changes_no_session_of_a_pooler(reference: Reference, auth_config: ChangeConfig) -> None:
    auth_config(database={"transaction_pooling_enabled": True})
    reference.user("ada@example.com")
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '1h'")
        assert run(reference.url).error == ""
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("1h",)
        cursor.execute("RESET statement_timeout")


def test_an_interruption_after_the_commit_is_not_taken_for_one_before(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_table: Table) -> None:
        raise KeyboardInterrupt

    reference.user("ada@example.com")
    monkeypatch.setattr(queries, "vacuum", interrupt)
    ran = run(reference.url)
    assert (ran.error, ran.output.splitlines()[-1]) == ("", "done")
    assert "VACUUM (ANALYZE) users is run, which has failed: KeyboardInterrupt" in ran.warnings


def test_a_second_run_changes_nothing(reference: Reference) -> None:
    fill(reference)
    run(reference.url, "--with-audit-log")
    before = everything()

    ran = run(reference.url, "--with-audit-log")

    assert ran.error == ""
    assert {table: ran.counts(table) for table in ("users", "identities", "refresh_tokens", "audit_log_entries")} == {
        table: {"read": 1, "unchanged": 1} for table in ("users", "identities", "refresh_tokens", "audit_log_entries")
    }
    assert everything() == before


def test_a_dry_run_reports_the_same_and_changes_nothing(reference: Reference) -> None:
    fill(reference)
    before = everything()
    dry = run(reference.url, "--dry-run")
    assert (dry.error, dry.output.splitlines()[-1]) == ("", "dry run: nothing was written")
    assert everything() == before
    assert dry.output.splitlines()[:-1] == run(reference.url).output.splitlines()[:-1]


def test_the_audit_trail_is_imported_on_request_only(reference: Reference) -> None:
    fill(reference)
    ran = run(reference.url)
    assert not AuditLogEntry.objects.exists()
    assert "not imported: audit_log_entries: 1 rows: use --with-audit-log to import them" in ran.output


def test_new_refresh_tokens_would_be_numbered_after_the_imported_ones(reference: Reference) -> None:
    user_id = reference.user()
    reference.refresh_token(user_id, "ab2c3def4ghi", id=4711, session_id=reference.session(user_id))
    run(reference.url)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence('refresh_tokens', 'id'))")
        assert cursor.fetchone() == (4712,)


# Repeated runs


def test_rows_deleted_at_the_source_are_deleted_here(reference: Reference) -> None:
    user_id = fill(reference)
    kept = reference.session(user_id, method="otp")
    run(reference.url)
    reference.execute("DELETE FROM auth.sessions WHERE id <> %s", [kept])
    for table in ("identities", "mfa_factors", "one_time_tokens", "flow_state"):
        reference.execute(f"DELETE FROM auth.{table}")

    ran = run(reference.url)

    assert ran.counts("sessions") == {"read": 1, "unchanged": 1, "deleted": 1}
    assert ran.counts("one_time_tokens") == {"deleted": 1}
    assert [session.id for session in Session.objects.all()] == [kept]
    for model in (LegacyRefreshToken, Identity, Factor, OneTimeToken, FlowState):
        assert not model._default_manager.exists(), model


def test_a_refresh_at_the_source_between_two_runs_is_imported(api: Api, reference: Reference) -> None:
    user_id = reference.user()
    session_id = reference.session(user_id)
    reference.refresh_token(user_id, "first2345678", session_id=session_id)
    run(reference.url)
    reference.execute("UPDATE auth.refresh_tokens SET revoked = true, updated_at = now()")
    reference.refresh_token(user_id, "second345678", parent="first2345678", session_id=session_id)
    ran = run(reference.url)
    assert ran.counts("refresh_tokens") == {"read": 2, "new": 1, "changed": 1}
    assert rotate(api, "second345678")


def test_addresses_exchanged_between_two_runs_are_imported(reference: Reference) -> None:
    ada, grace = reference.user("ada@example.com", phone="1555"), reference.user("grace@example.com", phone="1666")
    run(reference.url)
    reference.execute("UPDATE auth.users SET email = 'x', phone = NULL WHERE id = %s", [ada])
    reference.execute("UPDATE auth.users SET email = 'ada@example.com', phone = '1555' WHERE id = %s", [grace])
    reference.execute("UPDATE auth.users SET email = 'grace@example.com', phone = '1666' WHERE id = %s", [ada])
    ran = run(reference.url)
    assert (ran.error, ran.counts("users")) == ("", {"read": 2, "changed": 2})
    assert dict(User.objects.values_list("id", "email")) == {ada: "grace@example.com", grace: "ada@example.com"}


def test_existing_users_remain_unchanged(reference: Reference) -> None:
    ours = factories.make_session()
    reference.user()
    ran = run(reference.url)
    assert ran.error == ""
    assert "1 users here are not at the source" in ran.warnings
    assert session_exists(ours.session)


def test_users_missing_at_the_source_are_deleted_on_request(reference: Reference) -> None:
    kept, gone = reference.user(), fill(reference)
    run(reference.url)
    reference.execute("DELETE FROM auth.users WHERE id = %s", [gone])
    assert run(reference.url).error == ""
    assert User.objects.filter(id=gone).exists()
    ran = run(reference.url, "--delete-missing-users")
    assert ran.counts("users") == {"read": 1, "unchanged": 1, "deleted": 1}
    assert [user.id for user in User.objects.all()] == [kept]


def test_a_run_after_the_switch_needs_force(api: Api, reference: Reference) -> None:
    user_id = reference.user()
    session_id = reference.session(user_id)
    reference.refresh_token(user_id, "ab2c3def4ghi", session_id=session_id)
    run(reference.url)
    rotate(api, "ab2c3def4ghi")
    before = everything()

    ran = run(reference.url)

    assert ran.error.startswith("this database is already in use: 1 sessions of imported users here after")
    assert everything() == before
    assert run(reference.url, "--overwrite").error == ""
    assert Session.objects.get().refresh_token_hmac_key is None


@pytest.mark.parametrize(
    ("token_type", "stored", "relates_to", "link_hash"),
    [
        ("recovery_token", "a" * 56, "ada@example.com", digest("a" * 56)),
        ("recovery_token", "pkce_" + "a" * 56, "ada@example.com", digest("pkce_" + "a" * 56)),
        ("email_change_token_new", "a" * 56, "New@example.com", digest("a" * 56)),
        ("confirmation_token", "a" * 56, "15551234567", None),
        ("reauthentication_token", "a" * 56, "ada@example.com", None),
        ("confirmation_token", "123456", "ada@example.com", None),
    ],
    ids=["link", "link of a flow", "new address", "texted", "nonce", "a code where a digest should be"],
)
def test_only_emailed_links_can_be_used_as_links(
    token_type: str, stored: str, relates_to: str, link_hash: str | None, reference: Reference
) -> None:
    at = reference.at
    user_id = reference.user(
        confirmation_sent_at=at, recovery_sent_at=at, email_change_sent_at=at, reauthentication_sent_at=at
    )
    reference.one_time_token(user_id, token_type, stored, relates_to)
    assert run(reference.url).error == ""
    token = OneTimeToken.objects.get()
    prefix = "pkce_" if stored.startswith("pkce_") else ""
    keyed = prefix + crypto.key_digest(stored.removeprefix(prefix))
    keyed_link = None if link_hash is None else crypto.key_digest(link_hash)
    assert (token.token_type, token.token_hash, token.link_hash) == (token_type, keyed, keyed_link)
    assert (token.relates_to, token.created_at, token.attempts) == (relates_to.lower(), reference.at, 0)


def test_secrets_without_a_sent_time_and_duplicates_are_skipped(reference: Reference) -> None:
    never = reference.user()
    reference.one_time_token(never, "recovery_token", "a" * 56, "a@example.com")
    older = reference.user(recovery_sent_at=reference.at - timedelta(hours=1))
    newer = reference.user(recovery_sent_at=reference.at)
    for user_id in (older, newer):
        reference.one_time_token(user_id, "recovery_token", "b" * 56, "b@example.com")
    ran = run(reference.url)
    assert ran.error == ""
    assert OneTimeToken.objects.get().user_id == newer
    assert "skipped: one_time_tokens: 1 rows: was never sent" in ran.output
    assert "skipped: one_time_tokens: 1 rows: the same link_hash as a newer row" in ran.output


def test_a_deleted_secret_is_not_restored_from_the_user_column(reference: Reference) -> None:
    reference.user(recovery_token="a" * 56, recovery_sent_at=reference.at)
    assert run(reference.url).error == ""
    assert not OneTimeToken.objects.exists()


def test_the_address_digest_of_a_deleted_user_is_kept(reference: Reference) -> None:
    digested = "FD6LHANpunFAGyt1iuJpfFhrrIQRF1KUVZwNzjSlzX4"
    reference.user(digested, deleted_at=reference.at)
    reference.user("")
    run(reference.url)
    assert User.objects.filter(email=digested).exists()


def test_more_rows_than_one_batch_are_all_imported(reference: Reference) -> None:
    # Four rows fill a page, and a batch is 2,000 pages.
    reference.execute("""
        INSERT INTO auth.users (id, email, aud, created_at, raw_user_meta_data)
        SELECT gen_random_uuid(), n || '@example.com', 'authenticated', now(),
               jsonb_build_object('text', repeat(md5(n::text), 50))
          FROM generate_series(1, 9000) n
    """)
    ran = run(reference.url)
    assert ran.counts("users") == {"read": 9000, "new": 9000}
    with psycopg.connect(reference.url) as source:
        ids = {row[0] for row in source.execute("SELECT id FROM auth.users")}
    assert set(User.objects.values_list("id", flat=True)) == ids


def test_an_imported_authenticator_app_works(reference: Reference, api: Api) -> None:
    user_id = reference.user("ada@example.com", encrypted_password=hashing.hash_password(PASSWORD))
    reference.insert(
        "mfa_factors",
        id=uuid4(),
        user_id=user_id,
        friendly_name="phone",
        factor_type="totp",
        status="verified",
        secret=factor_requests.SECRET,
        created_at=reference.at,
        updated_at=reference.at,
    )
    run(reference.url)
    User.objects.update(email_confirmed_at=reference.at, aud="authenticated")
    body = {"email": "ada@example.com", "password": PASSWORD}
    signed_in = read_success(api.post("/token?grant_type=password", body))
    (factor,) = signed_in["user"]["factors"]
    challenge_id = factor_requests.challenged(api, signed_in["access_token"], factor["id"])
    raised = factor_requests.verify(api, signed_in["access_token"], factor["id"], challenge_id, factor_requests.code())
    assert read_claims(read_success(raised)["access_token"])["aal"] == "aal2"
