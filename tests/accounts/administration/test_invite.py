"""POST /invite: permitted recipients, the email, and ownership of the account."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc import messaging
from authsvc.conf import Rate
from authsvc.messaging import EmailType
from mailer.models import Message
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, make_session, make_user
from tests.observations import assert_error, audit_payloads, table_contents
from tokens.jwt import access_tokens
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"
OTHER_PASSWORD = "the password of a stranger 1"
EXISTS = "A user with this email address has already been registered"


@pytest.fixture
def admin() -> str:
    return access_tokens.issue_service_token(role="service_role", lifetime=timedelta(hours=1), at=timezone.now())


def invite(api: Api, admin: str, email: object = EMAIL, **body: Any) -> ApiResponse:
    return api.post("/invite", {"email": email, **body}, bearer=admin)


def sign_in(api: Api, password: str) -> ApiResponse:
    return api.post("/token?grant_type=password", {"email": EMAIL, "password": password})


def link_of(mailbox: Mailbox) -> str:
    url = urlsplit(mailbox.emails[-1].variables["ConfirmationURL"])
    return f"{url.path}?{url.query}"


def invited_by_mail(mailbox: Mailbox) -> list[str]:
    return [mail.to for mail in mailbox.emails if mail.type is EmailType.INVITE]


def test_new_address_gets_account_without_password_and_one_email(api: Api, admin: str, mailbox: Mailbox) -> None:
    response = invite(api, admin, "Ann@Example.com", data={"team": "red"})
    assert response.status_code == 200, response.content
    shown = response.json()
    assert (shown["email"], shown["aud"], shown["role"]) == (EMAIL, AUDIENCE, "authenticated")
    assert shown["invited_at"] == shown["confirmation_sent_at"]
    assert "email_confirmed_at" not in shown
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}
    assert shown["user_metadata"] == {"team": "red"}
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False}
    assert [identity["identity_data"] for identity in shown["identities"]] == [known]
    assert User.objects.get(email=EMAIL).password == ""
    assert invited_by_mail(mailbox) == [EMAIL]
    query = parse_qs(urlsplit(mailbox.emails[0].variables["ConfirmationURL"]).query)
    assert query["type"] == ["invite"]
    assert query["redirect_to"] == [settings.AUTH.site.url]
    assert mailbox.emails[0].variables["Data"] == {"team": "red"}


def test_the_audit_log_names_the_invited_user_and_the_role(api: Api, admin: str) -> None:
    user_id = invite(api, admin).json()["id"]
    (entry,) = audit_payloads()
    assert entry == {
        "action": "user_invited",
        "actor_id": "00000000-0000-0000-0000-000000000000",
        "actor_username": "service_role",
        "actor_role": "service_role",
        "actor_via_sso": False,
        "log_type": "team",
        "traits": {"user_id": user_id, "user_email": EMAIL},
    }


@pytest.mark.parametrize(
    ("body", "status", "error_code", "text"),
    [
        ({}, 400, "validation_failed", "An email address is required"),
        ({"email": None}, 400, "validation_failed", "An email address is required"),
        ({"email": "xx"}, 400, "validation_failed", "Unable to validate email address: invalid format"),
    ],
)
def test_invalid_email_is_rejected(
    api: Api, admin: str, body: dict[str, Any], status: int, error_code: str, text: str
) -> None:
    assert_error(api.post("/invite", body, bearer=admin), status, error_code, text)


def test_invitations_require_the_token_of_an_administrator(api: Api) -> None:
    assert_error(
        api.post("/invite", {"email": EMAIL}), 401, "no_authorization", "This endpoint requires a valid Bearer token"
    )
    member = make_session().access_token
    assert_error(invite(api, member), 403, "not_admin", "User not allowed")
    assert not User.objects.filter(email=EMAIL).exists()


def test_null_metadata_counts_as_absent(api: Api, admin: str) -> None:
    assert invite(api, admin, data=None).json()["user_metadata"] == {}


def test_second_invitation_replaces_first_and_keeps_metadata(api: Api, admin: str, mailbox: Mailbox) -> None:
    first_id = invite(api, admin, data={"team": "red"}).json()["id"]
    first = link_of(mailbox)
    again = invite(api, admin, data={"team": "blue"})
    assert again.status_code == 200
    assert (again.json()["id"], again.json()["user_metadata"]) == (first_id, {"team": "red"})
    assert invited_by_mail(mailbox) == [EMAIL, EMAIL]
    assert OneTimeToken.objects.count() == 1
    assert "otp_expired" in api.get(first).headers["Location"]
    assert "access_token" in api.get(link_of(mailbox)).headers["Location"]


def test_confirmed_user_cannot_be_invited(api: Api, admin: str, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    before = table_contents()
    assert_error(invite(api, admin), 422, "email_exists", EXISTS)
    assert (table_contents(), mailbox.emails) == (before, [])


def test_the_address_of_an_invited_user_of_another_audience_is_taken(api: Api, admin: str, mailbox: Mailbox) -> None:
    make_user(email=EMAIL, confirmed=False, audience="elsewhere", invited_at=timezone.now())
    assert_error(invite(api, admin), 422, "email_exists", EXISTS)
    assert mailbox.emails == []


def test_disabled_sign_ups_do_not_apply_to_invitations(
    api: Api, admin: str, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(signup={"disabled": True, "email_enabled": False})
    assert invite(api, admin).status_code == 200
    assert "access_token" in api.get(link_of(mailbox)).headers["Location"]


def test_exhausted_quota_creates_no_account(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=0)})
    before = table_contents()
    assert_error(invite(api, admin), 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before


def test_unauthorized_recipient_creates_no_account(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(recipients={"authorized_addresses": ("bob@example.com",)})
    before = table_contents()
    text = f'Email address "{EMAIL}" cannot be used as it is not authorized'
    assert_error(invite(api, admin), 400, "email_address_not_authorized", text)
    assert table_contents() == before


def test_unqueued_email_creates_no_account(api: Api, admin: str) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("the queue is gone")

    before = table_contents()
    messaging.email_requested.connect(refuse, weak=False)
    try:
        response = invite(api, admin)
    finally:
        messaging.email_requested.disconnect(refuse)
    assert (response.status_code, response.json()["msg"]) == (500, "Error sending invite email")
    assert table_contents() == before


def test_unavailable_mail_server_does_not_fail_request(
    api: Api, admin: str, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(smtp={"host": "127.0.0.1", "port": 9, "admin_email": "admin@example.org"})
    assert invite(api, admin).status_code == 200
    (mail,) = mailbox.emails
    waiting = Message.objects.get(args__message_id=str(mail.id))
    assert (waiting.status, waiting.attempts, waiting.args["kind"]) == ("todo", 0, "invite")


def test_invitation_link_signs_in_and_password_can_be_set(api: Api, admin: str, mailbox: Mailbox) -> None:
    invite(api, admin, data={"team": "red"})
    location = api.get(link_of(mailbox)).headers["Location"]
    fragment = parse_qs(urlsplit(location).fragment, keep_blank_values=True)
    assert fragment["type"] == ["invite"]
    user = api.put("/user", {"password": "her own password 1"}, bearer=fragment["access_token"][0])
    assert user.status_code == 200, user.content
    assert user.json()["user_metadata"] == {"team": "red", "email_verified": True}
    assert user.json()["identities"][0]["identity_data"]["email_verified"] is True
    assert sign_in(api, "her own password 1").status_code == 200


def test_invitation_code_can_be_redeemed_with_password(api: Api, admin: str, mailbox: Mailbox) -> None:
    invite(api, admin)
    body = {"type": "invite", "email": EMAIL, "token": mailbox.emails[-1].variables["Token"]}
    response = api.post("/verify", {**body, "password": "her own password 1"})
    assert (response.status_code, response.json()["type"]) == (200, "invite")
    assert sign_in(api, "her own password 1").status_code == 200


@pytest.mark.parametrize("by_link", [True, False])
def test_acceptance_removes_access_of_earlier_sign_up(api: Api, admin: str, mailbox: Mailbox, by_link: bool) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": OTHER_PASSWORD}).status_code == 200
    strangers = make_session(User.objects.get(email=EMAIL))
    assert invite(api, admin).status_code == 200
    assert sign_in(api, OTHER_PASSWORD).status_code == 400
    if by_link:
        assert "access_token" in api.get(link_of(mailbox)).headers["Location"]
    else:
        token = mailbox.emails[-1].variables["TokenHash"]
        assert api.post("/verify", {"type": "invite", "token_hash": token}).status_code == 200
    assert_error(sign_in(api, OTHER_PASSWORD), 400, "invalid_credentials", "Invalid login credentials")
    refreshed = api.post("/token?grant_type=refresh_token", {"refresh_token": strangers.refresh_token})
    assert refreshed.status_code == 400
    assert not Session.objects.filter(id=strangers.session.id).exists()


def test_account_with_confirmed_phone_keeps_password(api: Api, admin: str) -> None:
    stored = hashing.hash_password(OTHER_PASSWORD)
    owner = make_user(
        email=EMAIL, confirmed=False, password_hash=stored, phone="15550001234", phone_confirmed_at=timezone.now()
    )
    session = make_session(owner).session
    assert invite(api, admin).status_code == 200
    owner.refresh_from_db()
    assert owner.password == stored
    assert Session.objects.filter(id=session.id).exists()


def test_sign_up_with_invited_address_reveals_no_invitation(api: Api, admin: str) -> None:
    invite(api, admin, data={"salary": 1})
    response = api.post("/signup", {"email": EMAIL, "password": OTHER_PASSWORD})
    assert response.status_code == 200
    shown = response.json()
    assert shown["id"] != str(User.objects.get().id)
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False}
    assert (shown["user_metadata"], "invited_at" in shown) == (known, False)


def test_invitation_ignores_email_interval(api: Api, admin: str, mailbox: Mailbox) -> None:
    for _ in range(2):
        assert invite(api, admin).status_code == 200
    assert api.post("/signup", {"email": EMAIL, "password": OTHER_PASSWORD}).status_code == 200
    assert invite(api, admin).status_code == 200
    assert [mail.type for mail in mailbox.emails] == [EmailType.INVITE] * 3


def test_the_target_is_the_permitted_one_of_the_query(
    api: Api, admin: str, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(site={"allow_list": ("https://app.example.com/**",)})
    for requested, target in [
        ("https://app.example.com/in", "https://app.example.com/in"),
        ("https://evil.example.net/", settings.AUTH.site.url),
    ]:
        api.post(f"/invite?redirect_to={requested}", {"email": EMAIL}, bearer=admin)
        assert mailbox.emails[-1].variables["RedirectTo"] == target
