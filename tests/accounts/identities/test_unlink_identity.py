"""DELETE /user/identities/{identity_id}: errors, and the account after unlinking."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.messaging import EmailType
from tests import factories
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import SignIn, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"


@pytest.fixture(autouse=True)
def linking(auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": True})


def add_identity(user: User, provider: str, *, email: str = "", minutes: int = 1, **claims: Any) -> Identity:
    """A further identity, `minutes` younger than the account."""
    identity_data = {"sub": provider, **({"email": email} if email else {}), **claims}
    return Identity.objects.create(
        provider=provider, provider_id=provider, user=user, identity_data=identity_data,
        created_at=timezone.now() + timedelta(minutes=minutes), updated_at=timezone.now(),
    )  # fmt: skip


def known_as(provider: str, user: User) -> Identity:
    return Identity.objects.get(user=user, provider=provider)


def unlink(api: Api, signed_in: SignIn, identity: Identity | str, **headers: str) -> ApiResponse:
    id_ = identity if isinstance(identity, str) else str(identity.id)
    return api.delete(f"/user/identities/{id_}", bearer=signed_in.access_token, headers=headers)


@pytest.fixture
def ada() -> SignIn:
    """A user with an email address, a password and a pending link."""
    user = make_user(email=EMAIL)
    factories.make_one_time_token(user)
    return factories.make_session(user)


# Errors


def test_unlinking_requires_enabled_setting(ada: SignIn, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": False})

    assert_error(unlink(api, ada, "x"), 404, "manual_linking_disabled", "Manual linking is disabled")


def test_the_request_needs_a_signed_in_user(ada: SignIn, api: Api) -> None:
    path = f"/user/identities/{known_as('email', ada.user).id}"

    assert_error(api.delete(path), 401, "no_authorization", "This endpoint requires a valid Bearer token")
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    assert_error(api.delete(path, bearer=ada.access_token), 403, "user_banned", "User is banned")


@pytest.mark.parametrize(
    ("has_another", "identity_id", "status", "error_code", "text"),
    [
        (False, "x", 404, "validation_failed", "identity_id must be an UUID"),
        (
            False,
            "6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11",
            422,
            "single_identity_not_deletable",
            "User must have at least 1 identity after unlinking",
        ),
        (True, "6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11", 422, "identity_not_found", "Identity doesn't exist"),
        (True, "of other user", 422, "identity_not_found", "Identity doesn't exist"),
    ],
)
def test_invalid_identity_id_is_rejected(
    has_another: bool, identity_id: str, status: int, error_code: str, text: str, ada: SignIn, api: Api
) -> None:
    if has_another:
        add_identity(ada.user, "google", email=EMAIL)
    if identity_id == "of other user":
        identity_id = str(known_as("email", make_user()).id)
    before = table_contents()

    assert_error(unlink(api, ada, identity_id), status, error_code, text)
    assert table_contents() == before


def test_last_identity_cannot_be_removed(ada: SignIn, api: Api) -> None:
    response = unlink(api, ada, known_as("email", ada.user))

    assert (response.status_code, response.json()["error_code"]) == (422, "single_identity_not_deletable")


def test_the_requested_audience_must_be_the_tokens(ada: SignIn, api: Api) -> None:
    add_identity(ada.user, "google", email=EMAIL)

    response = unlink(api, ada, known_as("google", ada.user), **{"X-JWT-AUD": "elsewhere"})

    assert_error(response, 403, "unexpected_audience", "Token audience doesn't match request audience")


def test_an_address_of_another_account_is_not_used_as_replacement(ada: SignIn, api: Api) -> None:
    make_user(email="taken@example.com")
    add_identity(ada.user, "google", email="taken@example.com", email_verified=True)
    before = table_contents()

    assert_error(
        unlink(api, ada, known_as("email", ada.user)),
        422,
        "email_conflict_identity_not_deletable",
        "Unable to unlink identity due to email conflict",
    )
    assert table_contents() == before


# The account after unlinking


def test_an_identity_with_another_address_leaves_the_accounts_unchanged(
    ada: SignIn, api: Api, mailbox: Mailbox
) -> None:
    gone = add_identity(ada.user, "google", email="other@example.com", email_verified=True)

    response = unlink(api, ada, gone)

    assert (response.status_code, response.json()) == (200, {})
    user = User.objects.get()
    known: Any = user.raw_app_meta_data
    assert (user.email, known) == (EMAIL, {"provider": "email", "providers": ["email"]})
    about = {"identity_id": str(gone.id), "provider": "google", "provider_id": "google"}
    assert audit_trail() == [("identity_unlinked", about)]
    assert audit_payloads()[0]["log_type"] == "user"
    assert Session.objects.filter(id=ada.session.id).exists()
    assert [(mail.type, mail.to, mail.variables["Provider"]) for mail in mailbox.emails] == [
        (EmailType.IDENTITY_UNLINKED, EMAIL, "google")
    ]


def test_the_phone_is_removed_with_its_identity(ada: SignIn, api: Api) -> None:
    User.objects.update(phone="15551234567", phone_confirmed_at=timezone.now())
    gone = add_identity(ada.user, "phone", phone="15551234567")

    assert unlink(api, ada, gone).status_code == 200

    user = User.objects.get()
    assert (user.phone, user.phone_confirmed_at, user.email) == (None, None, EMAIL)


def test_email_without_replacement_loses_confirmation(ada: SignIn, api: Api) -> None:
    User.objects.update(phone="15551234567", phone_confirmed_at=timezone.now(), email_change="new@example.com")
    add_identity(ada.user, "phone", phone="15551234567")

    assert unlink(api, ada, known_as("email", ada.user)).status_code == 200

    user = User.objects.get()
    metadata: Any = user.raw_user_meta_data
    assert (user.email, user.email_confirmed_at, user.email_change) == (None, None, "")
    assert (user.phone, metadata["email_verified"]) == ("15551234567", False)
    assert not OneTimeToken.objects.exists()
    assert api.get("/user", bearer=ada.access_token).json()["app_metadata"]["providers"] == ["phone"]


@pytest.mark.parametrize(
    ("claims", "autoconfirm", "is_replaced"),
    [
        ({"email_verified": True}, False, True),
        ({"email_verified": False}, False, False),
        ({}, False, False),
        ({"email_verified": False}, True, False),
    ],
)
def test_removed_address_is_replaced_by_a_verified_address_only(
    claims: dict[str, Any], autoconfirm: bool, is_replaced: bool, ada: SignIn, api: Api, mailbox: Mailbox,
    auth_config: ChangeConfig,
) -> None:  # fmt: skip
    auth_config(mailer={"autoconfirm": autoconfirm})
    add_identity(ada.user, "google", email="new@example.com", **claims)

    assert unlink(api, ada, known_as("email", ada.user)).status_code == 200

    user = User.objects.get()
    metadata: Any = user.raw_user_meta_data
    assert user.email == ("new@example.com" if is_replaced else None)
    assert (user.email_confirmed_at is not None) == is_replaced
    assert (metadata["email_verified"] is not False) == is_replaced
    assert not OneTimeToken.objects.exists()
    assert [(mail.to, mail.variables["Provider"]) for mail in mailbox.emails] == [(EMAIL, "email")]


def test_verified_address_is_preferred_to_older_one(ada: SignIn, api: Api) -> None:
    add_identity(ada.user, "google", email="older@example.com", email_verified=False, minutes=1)
    add_identity(ada.user, "github", email="verified@example.com", email_verified=True, minutes=2)

    unlink(api, ada, known_as("email", ada.user))

    user = User.objects.get()
    known: Any = user.raw_app_meta_data
    assert (user.email, known["providers"]) == ("verified@example.com", ["google", "github"])


def test_address_of_remaining_identity_is_kept(ada: SignIn, api: Api) -> None:
    add_identity(ada.user, "google", email=EMAIL, email_verified=False)

    unlink(api, ada, known_as("email", ada.user))

    user = User.objects.get()
    assert user.email == EMAIL
    assert user.email_confirmed_at is not None
