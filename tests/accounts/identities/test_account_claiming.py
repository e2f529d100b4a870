"""Claiming an account: nothing that another person prepared remains once the owner has verified the address."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Factor, Identity, User
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, VERIFIER, make_factor, make_session, make_user
from tests.observations import assert_error, backdate_rate_limits
from tokens.models import Session

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"
ATTACKERS_PHONE = "15550001234"
NEW_PASSWORD = "a much better one 9"


def test_new_password_withdraws_pending_change(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(
        signup={"phone_enabled": True},
        sms={"test_codes": {ATTACKERS_PHONE: "123456"}},
        mailer={"secure_email_change_enabled": False, "dev_inbox_enabled": True},
    )
    owner = make_user(email=EMAIL)
    attacker, own = make_session(owner), make_session(owner)
    changes = {"phone": ATTACKERS_PHONE, "email": "thief@example.com"}
    assert api.put("/user", changes, bearer=attacker.access_token).status_code == 200
    assert api.put("/user", {"password": NEW_PASSWORD}, bearer=own.access_token).status_code == 200
    sent = len(mailbox.emails)
    backdate_rate_limits(timedelta(hours=1))
    for kind in ("phone_change", "email_change"):
        assert api.post("/resend", {"type": kind, "email": EMAIL}).status_code == 200
        backdate_rate_limits(timedelta(hours=1))
    response = api.post("/verify", {"type": "phone_change", "phone": ATTACKERS_PHONE, "token": "123456"})
    assert_error(response, 403, "otp_expired", "Token has expired or is invalid")
    assert len(mailbox.emails) == sent
    owner.refresh_from_db()
    assert (owner.email, owner.phone) == (EMAIL, None)


def test_a_new_password_invalidates_issued_codes(api: Api, mailbox: Mailbox) -> None:
    owner = make_user(email=EMAIL)
    pair = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    api.post("/recover", {"email": EMAIL, **pair})
    link = mailbox.emails[-1].variables["TokenHash"]
    location = api.get(f"/verify?type=recovery&token={link}").headers["Location"]
    code = location.partition("code=")[2]
    own = make_session(owner)
    assert api.put("/user", {"password": NEW_PASSWORD}, bearer=own.access_token).status_code == 200
    response = api.post("/token?grant_type=pkce", {"auth_code": code, "code_verifier": VERIFIER})
    assert_error(response, 404, "flow_state_not_found", "invalid flow state, no valid flow state found")


def test_verified_owner_keeps_account_when_other_identifier_is_claimed(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True}, signup={"phone_enabled": True})
    make_user(email=EMAIL, confirmed=False, phone="15550000001", phone_confirmed_at=timezone.now())
    response = api.post("/signup", {"email": EMAIL, "password": NEW_PASSWORD})
    assert_error(response, 422, "user_already_exists", "User already registered")
    assert User.objects.get().email_confirmed_at is None


def test_revoked_session_cannot_change_password(api: Api) -> None:
    owner = make_user(email=EMAIL)
    attacker = make_session(owner)
    own = make_session(owner)
    assert api.post("/logout?scope=others", bearer=own.access_token).status_code == 204
    response = api.put("/user", {"password": NEW_PASSWORD}, bearer=attacker.access_token)
    assert_error(response, 403, "session_not_found", "Session from session_id claim in JWT does not exist")
    assert api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}).status_code == 200


@pytest.mark.parametrize("depth", range(880, 1000, 10))
def test_deeply_nested_metadata_causes_no_server_error(api: Api, depth: int) -> None:
    body = b'{"email":"deep@example.com","password":"%s","data":{"a":%s}}' % (
        PASSWORD.encode(),
        b"[" * depth + b"]" * depth,
    )
    response = api.post("/signup", body)
    assert response.status_code in (200, 400)
    assert User.objects.count() == (response.status_code == 200)


def make_planted_account() -> User:
    """An account of another person: an unverified external identity, and a further credential."""
    user = make_user(email=EMAIL, password="", confirmed=False)
    Identity.objects.filter(user=user).delete()
    data = {"sub": "7", "email": EMAIL, "email_verified": False}
    Identity.objects.create(user=user, provider="spotify", provider_id="7", identity_data=data)
    make_factor(user)
    make_session(user)
    return user


def assert_access_is_removed(user: User) -> None:
    user.refresh_from_db()
    assert [identity.provider for identity in user.identities.all()] == ["email"]
    assert user.raw_app_meta_data == {"provider": "email", "providers": ["email"]}
    assert not Factor.objects.filter(user=user).exists()
    assert not Session.objects.filter(user=user).exists()


def test_the_owners_sign_up_removes_an_earlier_external_identity(api: Api, mailbox: Mailbox) -> None:
    user = make_planted_account()
    assert api.post("/signup", {"email": EMAIL, "password": NEW_PASSWORD}).status_code == 200
    earlier = Session.objects.get(user=user)
    link = mailbox.emails[-1].variables["TokenHash"]
    assert api.get(f"/verify?type=signup&token={link}").status_code == 303
    [own] = Session.objects.filter(user=user)
    assert own.id != earlier.id
    own.delete()
    assert_access_is_removed(user)


def test_owners_invitation_removes_earlier_external_identity(api: Api) -> None:
    user = make_planted_account()
    admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    assert_access_is_removed(user)


def test_owners_email_sign_in_removes_earlier_external_identity(api: Api, mailbox: Mailbox) -> None:
    user = make_planted_account()
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    link = mailbox.emails[-1].variables["TokenHash"]
    earlier = Session.objects.get(user=user)
    assert api.get(f"/verify?type=recovery&token={link}").status_code == 303
    [own] = Session.objects.filter(user=user)
    assert own.id != earlier.id
    own.delete()
    assert_access_is_removed(user)
