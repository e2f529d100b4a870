"""Imports from databases of older reference versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from accounts.models import Identity, User
from authsvc.security import crypto
from tests.authsvc.importer.conftest import run
from tests.authsvc.importer.reference import OF_2020, OF_2022, Reference
from tests.conftest import Api
from tests.tokens.token_requests import refresh, rotate
from tokens.models import AmrClaim, LegacyRefreshToken, OneTimeToken, Session

pytestmark = pytest.mark.django_db(transaction=True)

HASH = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"


@pytest.fixture
def of_2022(make_reference: Callable[..., Reference]) -> Reference:
    return make_reference(OF_2022)


def identity(reference: Reference, user_id: UUID, provider: str, subject: str, data: dict[str, Any]) -> None:
    reference.insert(
        "identities", id=subject, user_id=user_id, identity_data=data, provider=provider, created_at=reference.at
    )


# Identities


def test_identities_get_stable_primary_keys(of_2022: Reference) -> None:
    user_id = of_2022.user()
    identity(of_2022, user_id, "google", "1234567890", {"sub": "1234567890", "email": "A@B.c"})
    assert run(of_2022.url).counts("identities") == {"read": 1, "new": 1}
    first = Identity.objects.get()
    assert (first.provider, first.provider_id, first.email) == ("google", "1234567890", "a@b.c")
    assert run(of_2022.url).counts("identities") == {"read": 1, "unchanged": 1}
    assert Identity.objects.get().id == first.id


def test_an_email_identity_without_an_address_gets_that_of_the_user(of_2022: Reference) -> None:
    user_id = of_2022.user("ada@example.com")
    identity(of_2022, user_id, "email", str(user_id), {"sub": str(user_id)})
    run(of_2022.url)
    assert Identity.objects.get().identity_data == {"sub": str(user_id), "email": "ada@example.com"}


def test_a_user_with_a_password_and_without_identities_gets_one(api: Api, of_2022: Reference) -> None:
    user_id = of_2022.user("ada@example.com", encrypted_password=HASH, email_confirmed_at=of_2022.at)
    of_2022.user(None, encrypted_password=HASH, phone="1555")
    other = of_2022.user(encrypted_password=HASH)
    identity(of_2022, other, "google", "1", {"sub": "1"})
    assert run(of_2022.url).counts("identities") == {"read": 1, "derived": 1, "new": 2}
    made = Identity.objects.get(user_id=user_id)
    assert (made.provider, made.provider_id) == ("email", str(user_id))
    assert made.identity_data == {"sub": str(user_id), "email": "ada@example.com"}
    at = datetime(2022, 11, 25, tzinfo=UTC)
    assert (made.last_sign_in_at, made.created_at, made.updated_at) == (at, at, at)
    response = api.post("/token?grant_type=password", {"email": "ada@example.com", "password": "test"})
    assert [identity["provider"] for identity in response.json()["user"]["identities"]] == ["email"]


def test_an_invited_user_without_an_email_identity_gets_one(of_2022: Reference) -> None:
    invited = of_2022.user(invited_at=of_2022.at)
    identity(of_2022, invited, "google", "1", {"sub": "1"})
    both = of_2022.user(invited_at=of_2022.at, encrypted_password=HASH)
    assert run(of_2022.url).counts("identities") == {"read": 1, "derived": 2, "new": 3}
    made = Identity.objects.get(user_id=invited, provider="email")
    assert (made.created_at, made.last_sign_in_at) == (datetime(2023, 1, 25, tzinfo=UTC), None)
    assert Identity.objects.get(user_id=both).created_at == datetime(2022, 11, 25, tzinfo=UTC)


def test_no_identity_is_derived_from_a_current_source(reference: Reference) -> None:
    reference.user(encrypted_password=HASH, invited_at=reference.at)
    assert run(reference.url).counts("identities") == {}


# Sessions


def chain(reference: Reference, user_id: UUID, *tokens: str, active: bool = True) -> None:
    for number, token in enumerate(tokens):
        reference.refresh_token(
            user_id,
            token,
            parent=tokens[number - 1] if number else None,
            revoked=number < len(tokens) - 1 or not active,
            created_at=reference.at + timedelta(minutes=number),
        )


def test_each_active_refresh_token_family_becomes_a_session(api: Api, of_2022: Reference) -> None:
    ada, grace = of_2022.user("ada@example.com"), of_2022.user("grace@example.com")
    chain(of_2022, ada, "ada000000001", "ada000000002", "ada000000003")
    chain(of_2022, ada, "other0000001")
    chain(of_2022, ada, "dead00000001", "dead00000002", active=False)
    chain(of_2022, grace, "grace0000001")

    ran = run(of_2022.url)

    assert (ran.error, ran.counts("sessions")) == ("", {"derived": 3, "new": 3})
    assert ran.counts("mfa_amr_claims") == {"derived": 3, "new": 3}
    assert ran.counts("refresh_tokens") == {"read": 7, "new": 7}
    session = Session.objects.get(legacy_tokens__token=crypto.key_digest("ada000000001"))
    assert set(session.legacy_tokens.values_list("token", flat=True)) == {
        crypto.key_digest(token) for token in ("ada000000001", "ada000000002", "ada000000003")
    }
    assert (session.user_id, session.created_at, session.aal) == (ada, of_2022.at, "aal1")
    assert AmrClaim.objects.get(session=session).authentication_method == "password"
    assert set(LegacyRefreshToken.objects.filter(session=None).values_list("token", flat=True)) == {
        crypto.key_digest(token) for token in ("dead00000001", "dead00000002")
    }
    assert {table: run(of_2022.url).counts(table) for table in ("sessions", "refresh_tokens")} == {
        "sessions": {"derived": 3, "unchanged": 3},
        "refresh_tokens": {"read": 7, "unchanged": 7},
    }
    for held, user_id in (("ada000000003", ada), ("other0000001", ada), ("grace0000001", grace)):
        response = refresh(api, held)
        assert (response.status_code, response.json()["user"]["id"]) == (200, str(user_id))


def test_a_token_without_its_parent_starts_a_family(api: Api, of_2022: Reference) -> None:
    user_id = of_2022.user()
    of_2022.execute("ALTER TABLE auth.refresh_tokens DROP CONSTRAINT refresh_tokens_parent_fkey")
    of_2022.refresh_token(user_id, "ab2c3def4ghi", parent="cleaned-away")
    assert run(of_2022.url).counts("sessions") == {"derived": 1, "new": 1}
    assert rotate(api, "ab2c3def4ghi")


# One-time tokens


def test_filled_columns_become_secrets(api: Api, of_2022: Reference) -> None:
    mailed, new = "a" * 56, "b" * 22
    user_id = of_2022.user(
        "Ada@example.com",
        confirmation_token=mailed,
        confirmation_sent_at=of_2022.at,
        email_change_token_new=new,
        email_change="New@example.com",
        email_change_sent_at=of_2022.at,
        recovery_token="",
        recovery_sent_at=of_2022.at,
        reauthentication_token="c" * 56,
    )
    by_phone = of_2022.user(
        None, phone="1555", confirmation_token="123456", confirmation_sent_at=of_2022.at, phone_change_token=""
    )
    ran = run(of_2022.url)
    assert ran.counts("one_time_tokens") == {"derived": 4, "new": 3, "skipped": 1}
    tokens_by_user = {(row.user_id, row.token_type): row for row in OneTimeToken.objects.all()}
    assert {key: (row.token_hash, row.relates_to, row.created_at) for key, row in tokens_by_user.items()} == {
        (user_id, "confirmation_token"): (crypto.key_digest(mailed), "ada@example.com", of_2022.at),
        (user_id, "email_change_token_new"): (crypto.key_digest(new), "new@example.com", of_2022.at),
        (by_phone, "confirmation_token"): (crypto.key_digest("123456"), "1555", of_2022.at),
    }
    assert tokens_by_user[by_phone, "confirmation_token"].link_hash is None
    assert run(of_2022.url).counts("one_time_tokens") == {"derived": 4, "unchanged": 3, "skipped": 1}

    response = api.get(f"/verify?token={mailed}&type=signup")

    assert "access_token=" in response.headers["Location"]


# The oldest schema


def test_a_source_without_token_ids_and_families_is_imported(
    api: Api, make_reference: Callable[..., Reference]
) -> None:
    reference = make_reference(OF_2020)
    user_id = reference.user(
        "ada@example.com",
        encrypted_password=HASH,
        confirmed_at=reference.at,
        email_change_token="d" * 22,
        email_change="new@example.com",
        email_change_sent_at=reference.at,
    )
    reference.refresh_token(user_id, "Abc-_fghijklmnopqrstuv")
    reference.refresh_token(user_id, "Old-_fghijklmnopqrstuv", revoked=True)

    ran = run(reference.url)

    assert ran.error == ""
    user = User.objects.get()
    assert (user.email_confirmed_at, user.confirmed_at, user.phone) == (reference.at, reference.at, None)
    assert ran.counts("sessions") == {"derived": 1, "new": 1}
    assert ran.counts("identities") == {"derived": 1, "new": 1}
    assert OneTimeToken.objects.get().token_type == "email_change_token_new"
    assert rotate(api, "Abc-_fghijklmnopqrstuv")


def test_the_schema_version_is_derived_from_columns(of_2022: Reference) -> None:
    of_2022.user(encrypted_password=HASH)
    of_2022.execute("DROP TABLE auth.schema_migrations")
    ran = run(of_2022.url)
    assert ran.output.splitlines()[0] == "source: unknown version"
    assert ran.counts("identities") == {"derived": 1, "new": 1}


def test_amr_claims_without_a_key_are_matched(reference: Reference) -> None:
    reference.execute("ALTER TABLE auth.mfa_amr_claims DROP CONSTRAINT mfa_amr_claims_pkey")
    reference.execute("ALTER TABLE auth.mfa_amr_claims ALTER COLUMN id DROP NOT NULL")
    reference.session(reference.user())
    reference.execute("ALTER TABLE auth.mfa_amr_claims DROP COLUMN id")
    assert run(reference.url).counts("mfa_amr_claims") == {"read": 1, "new": 1}
    assert run(reference.url).counts("mfa_amr_claims") == {"read": 1, "unchanged": 1}
