"""Attack: codes and links sent to a phone or mailbox sign in after the user has removed or replaced it."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from tests.conftest import Api, ChangeConfig
from tests.factories import SignIn, make_flow, make_one_time_token, make_session, make_user
from tests.observations import assert_error
from tests.tokens.token_requests import exchange_code
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
PHONE = "15551234567"
NEW = {"email": "new@example.com", "phone": "15557654321"}
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")


@pytest.fixture(autouse=True)
def settings(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"manual_linking_enabled": True, "phone_enabled": True},
        mailer={"secure_email_change_enabled": False},
    )


@pytest.fixture
def victim() -> SignIn:
    """A user who can sign in by email, by phone and at a provider."""
    user = make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    for provider in ("phone", "google"):
        Identity.objects.create(user=user, provider=provider, provider_id=provider, identity_data={})
    return make_session(user)


def redeem(api: Api, code: str) -> Any:
    return api.post("/verify", {"type": "sms", "phone": PHONE, "token": code})


def assert_invalid(api: Api, auth_code: str | None) -> None:
    assert_error(
        exchange_code(api, auth_code), 404, "flow_state_not_found", "invalid flow state, no valid flow state found"
    )


@pytest.mark.parametrize("provider", ["email", "phone", "google"])
def test_secrets_and_pending_changes_end_with_an_identity(provider: str, api: Api, victim: SignIn) -> None:
    User.objects.update(email_change=NEW["email"], phone_change=NEW["phone"])
    auth_code = make_flow(victim.user).auth_code
    code = make_one_time_token(victim.user, TokenType.CONFIRMATION, identifier=PHONE).code

    identity = Identity.objects.get(provider=provider)
    response = api.delete(f"/user/identities/{identity.id}", bearer=victim.access_token)

    assert response.status_code == 200, response.content
    assert_error(redeem(api, code), *CODE_DEAD)
    assert_invalid(api, auth_code)
    user = User.objects.get()
    assert (user.email_change, user.phone_change) == ("", "")
    assert not OneTimeToken.objects.exists()
    assert Session.objects.count() == 1


def test_a_code_of_a_flow_ends_with_a_change_of_the_email_address(api: Api, victim: SignIn) -> None:
    User.objects.update(email_change=NEW["email"])
    change = make_one_time_token(victim.user, TokenType.EMAIL_CHANGE_NEW, identifier=NEW["email"])
    auth_code = make_flow(victim.user).auth_code

    response = api.post("/verify", {"type": "email_change", "email": NEW["email"], "token": change.code})

    assert response.status_code == 200, response.content
    assert User.objects.get().email == NEW["email"]
    assert_invalid(api, auth_code)


@pytest.mark.parametrize("token_type", [TokenType.CONFIRMATION, TokenType.RECOVERY])
def test_what_is_sent_to_a_former_mailbox_during_the_change_is_invalid(
    token_type: TokenType, api: Api, victim: SignIn
) -> None:
    sent = make_one_time_token(victim.user, token_type, identifier=EMAIL)
    # The request that sent it had read the user before the change was committed.
    User.objects.update(email=NEW["email"])
    verification_type = "signup" if token_type == TokenType.CONFIRMATION else "recovery"

    link = {"type": verification_type, "token_hash": sent.link_token}
    assert_error(api.post("/verify", link), 403, "otp_expired", "Email link is invalid or has expired")
    code = {"type": verification_type, "email": EMAIL, "token": sent.code}
    assert_error(api.post("/verify", code), *CODE_DEAD)
    assert Session.objects.count() == 1


def test_a_code_sent_to_a_former_phone_is_invalid(api: Api, victim: SignIn) -> None:
    code = make_one_time_token(victim.user, TokenType.CONFIRMATION, identifier=PHONE).code
    User.objects.update(phone=None, phone_confirmed_at=None)

    assert_error(redeem(api, code), *CODE_DEAD)
    assert User.objects.get().phone_confirmed_at is None
