"""POST /admin/generate_link: six types of link, their effects and errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc.conf import Rate
from authsvc.messaging import EmailType
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import make_session, make_user
from tests.observations import assert_error, audit_payloads, table_contents
from tokens.jwt import access_tokens
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"
NEW_EMAIL = "ann@new.example.com"
PASSWORD = "her own password 1"
OTHER_PASSWORD = "the password of a stranger 1"
LINK_FIELDS = {"action_link", "email_otp", "hashed_token", "verification_type", "redirect_to"}


@pytest.fixture
def admin() -> str:
    return access_tokens.issue_service_token(role="service_role", lifetime=timedelta(hours=1), at=timezone.now())


def generate(api: Api, admin: str, type: str, email: str = EMAIL, **body: Any) -> ApiResponse:
    return api.post("/admin/generate_link", {"type": type, "email": email, **body}, bearer=admin)


def expect_link(api: Api, admin: str, type: str, email: str = EMAIL, **body: Any) -> dict[str, Any]:
    return read_success(generate(api, admin, type, email, **body))


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def follow(api: Api, link: str) -> dict[str, str]:
    url = urlsplit(link)
    location = api.get(f"{url.path}?{url.query}").headers["Location"]
    return {name: values[0] for name, values in parse_qs(urlsplit(location).fragment).items()}


def sign_in(api: Api, password: str, email: str = EMAIL) -> int:
    return api.post("/token?grant_type=password", {"email": email, "password": password}).status_code


@pytest.mark.parametrize(
    ("type", "exists", "link_type", "kind_of_token"),
    [
        ("signup", False, "signup", "confirmation_token"),
        ("invite", False, "invite", "confirmation_token"),
        ("magiclink", True, "magiclink", "recovery_token"),
        ("recovery", True, "recovery", "recovery_token"),
        ("email_change_current", True, "email_change", "email_change_token_current"),
        ("email_change_new", True, "email_change", "email_change_token_new"),
    ],
)
def test_response_contains_link_parts_and_only_invitation_is_mailed(
    api: Api, admin: str, mailbox: Mailbox, type: str, exists: bool, link_type: str, kind_of_token: str
) -> None:
    if exists:
        make_user(email=EMAIL)
    shown = expect_link(api, admin, type, password=PASSWORD, new_email=NEW_EMAIL)
    assert shown["verification_type"] == type
    assert shown["email"] == EMAIL
    assert query_of(shown["action_link"]) == {
        "token": shown["hashed_token"],
        "type": link_type,
        "redirect_to": settings.AUTH.site.url,
    }
    assert shown["action_link"].startswith(f"{settings.AUTH.api.external_url}/verify?token=")
    assert (len(shown["email_otp"]), shown["email_otp"].isdecimal()) == (6, True)
    assert shown["redirect_to"] == settings.AUTH.site.url
    (token,) = OneTimeToken.objects.all()
    assert token.token_type == kind_of_token
    assert token.relates_to == (NEW_EMAIL if type == "email_change_new" else EMAIL)
    mails = [(mail.type, mail.variables["ConfirmationURL"], mail.variables["Token"]) for mail in mailbox.emails]
    assert mails == ([(EmailType.INVITE, shown["action_link"], shown["email_otp"])] if type == "invite" else [])


def test_response_is_user_with_five_more_members(api: Api, admin: str) -> None:
    shown = expect_link(api, admin, "signup", password=PASSWORD, data={"status": "alpha"})
    beside = set(shown) - LINK_FIELDS
    assert beside == {
        "id", "aud", "role", "email", "phone", "confirmation_sent_at", "app_metadata", "user_metadata", "identities",
        "created_at", "updated_at", "is_anonymous",
    }  # fmt: skip
    assert shown["user_metadata"] == {"status": "alpha"}
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}


@pytest.mark.parametrize("type", ["signup", "invite", "magiclink", "recovery"])
@pytest.mark.parametrize("by_link", [True, False])
def test_link_and_code_sign_in_once(api: Api, admin: str, type: str, by_link: bool) -> None:
    if type in ("magiclink", "recovery"):
        make_user(email=EMAIL)
    shown = expect_link(api, admin, type, password=PASSWORD)
    code = {"type": type, "email": EMAIL, "token": shown["email_otp"]}
    if by_link:
        assert follow(api, shown["action_link"])["type"] == type
    else:
        assert api.post("/verify", code).status_code == 200
    assert follow(api, shown["action_link"])["error_code"] == "otp_expired"
    assert api.post("/verify", code).json()["error_code"] == "otp_expired"
    assert api.post("/verify", {"type": type, "token_hash": shown["hashed_token"]}).status_code == 403


def test_the_hash_of_a_link_can_be_redeemed_by_a_client(api: Api, admin: str) -> None:
    make_user(email=EMAIL)
    token = expect_link(api, admin, "magiclink")["hashed_token"]
    assert api.post("/verify", {"type": "magiclink", "token_hash": token}).status_code == 200


def test_invitation_is_not_mailed_when_disabled(
    api: Api, admin: str, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"generate_link_invite_enabled": False}, limits={"email_sent": Rate(events=0)})
    assert expect_link(api, admin, "invite")["invited_at"]
    assert mailbox.emails == []


def test_only_mailed_invitation_uses_quota(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=0)})
    before = table_contents()
    assert_error(generate(api, admin, "invite"), 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before
    assert generate(api, admin, "signup", password=PASSWORD).status_code == 200


def test_a_magic_link_for_an_unknown_address_creates_an_account(api: Api, admin: str, mailbox: Mailbox) -> None:
    shown = expect_link(api, admin, "magiclink", data={"a": 1})
    assert (shown["verification_type"], shown["user_metadata"]) == ("signup", {"a": 1})
    assert "email_confirmed_at" not in shown
    assert query_of(shown["action_link"])["type"] == "signup"
    assert mailbox.emails == []
    assert User.objects.get(email=EMAIL).password.startswith("$argon2id$")  # type: ignore[union-attr]
    assert follow(api, shown["action_link"])["type"] == "signup"


@pytest.mark.parametrize(
    ("type", "body", "status", "error_code", "text"),
    [
        ("recovery", {}, 404, "user_not_found", "User with this email not found"),
        ("email_change_current", {"new_email": NEW_EMAIL}, 404, "user_not_found", "User with this email not found"),
        ("email_change_new", {"new_email": NEW_EMAIL}, 404, "user_not_found", "User with this email not found"),
        ("signup", {}, 400, "validation_failed", "Signup requires a valid password"),
        ("signup", {"password": "a" * 73}, 400, "validation_failed", "Password cannot be longer than 72 characters"),
        ("x", {}, 400, "validation_failed", "Invalid email action link type requested: x"),
        ("", {}, 400, "validation_failed", "Invalid email action link type requested: "),
        ("signup", {"email": ""}, 400, "validation_failed", "An email address is required"),
        ("signup", {"email": "xx"}, 400, "validation_failed", "Unable to validate email address: invalid format"),
    ],
)
def test_types_for_existing_accounts_reject_unknown_email(
    api: Api, admin: str, type: str, body: dict[str, Any], status: int, error_code: str, text: str
) -> None:
    assert_error(
        api.post("/admin/generate_link", {"type": type, "email": EMAIL, **body}, bearer=admin), status, error_code, text
    )
    assert not User.objects.exists()


def test_weak_password_is_rejected(api: Api, admin: str) -> None:
    response = generate(api, admin, "signup", password="abc")
    assert (response.status_code, response.json()["weak_password"]) == (422, {"reasons": ["length"]})


@pytest.mark.parametrize("type", ["invite", "signup"])
def test_confirmed_user_cannot_be_invited_or_signed_up(api: Api, admin: str, type: str) -> None:
    make_user(email=EMAIL)
    before = table_contents()
    text = "A user with this email address has already been registered"
    assert_error(generate(api, admin, type, password=PASSWORD), 422, "email_exists", text)
    assert table_contents() == before


@pytest.mark.parametrize("type", ["invite", "signup", "magiclink"])
def test_the_address_of_an_invited_user_of_another_audience_is_taken(api: Api, admin: str, type: str) -> None:
    make_user(email=EMAIL, confirmed=False, audience="elsewhere", invited_at=timezone.now())
    text = "A user with this email address has already been registered"
    assert_error(generate(api, admin, type, password=PASSWORD), 422, "email_exists", text)


@pytest.mark.parametrize(
    ("secure", "type", "new_email", "status", "error_code", "text"),
    [
        (False, "email_change_current", NEW_EMAIL, 400, "validation_failed",
         "Enable secure email change to generate link for current email"),
        (False, "email_change_current", "", 400, "validation_failed",
         "Enable secure email change to generate link for current email"),
        (True, "email_change_new", "", 400, "validation_failed", "An email address is required"),
        (True, "email_change_current", "xx", 400, "validation_failed",
         "Unable to validate email address: invalid format"),
        (True, "email_change_new", "bob@example.com", 422, "email_exists",
         "A user with this email address has already been registered"),
    ],
)  # fmt: skip
def test_invalid_email_change_is_rejected(
    api: Api,
    admin: str,
    auth_config: ChangeConfig,
    secure: bool,
    type: str,
    new_email: str,
    status: int,
    error_code: str,
    text: str,
) -> None:
    auth_config(mailer={"secure_email_change_enabled": secure})
    make_user(email=EMAIL)
    make_user(email="bob@example.com")
    assert_error(generate(api, admin, type, new_email=new_email), status, error_code, text)


def test_email_change_needs_both_links(api: Api, admin: str) -> None:
    user = make_user(email=EMAIL)
    current = expect_link(api, admin, "email_change_current", new_email=NEW_EMAIL)
    new = expect_link(api, admin, "email_change_new", new_email=NEW_EMAIL)
    assert (current["new_email"], new["new_email"]) == (NEW_EMAIL, NEW_EMAIL)
    assert "access_token" not in follow(api, current["action_link"])
    assert follow(api, new["action_link"])["type"] == "email_change"
    user.refresh_from_db()
    assert user.email == NEW_EMAIL


def test_a_link_for_one_new_address_does_not_confirm_another(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    user = make_user(email=EMAIL)
    first = expect_link(api, admin, "email_change_new", new_email=NEW_EMAIL)
    auth_config(mailer={"secure_email_change_enabled": True})
    expect_link(api, admin, "email_change_current", new_email="ann@third.example.com")
    auth_config(mailer={"secure_email_change_enabled": False})
    assert follow(api, first["action_link"])["error_code"] == "otp_expired"
    user.refresh_from_db()
    assert user.email == EMAIL


def test_link_removes_password_of_earlier_sign_up(api: Api, admin: str) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": OTHER_PASSWORD}).status_code == 200
    stranger = User.objects.get(email=EMAIL)
    strangers_session = make_session(stranger).session
    shown = expect_link(api, admin, "signup", password=PASSWORD, data={"b": 2})
    assert shown["user_metadata"]["b"] == 2
    assert follow(api, shown["action_link"])["type"] == "signup"
    assert sign_in(api, OTHER_PASSWORD) == 400
    assert sign_in(api, PASSWORD) == 200
    assert not Session.objects.filter(id=strangers_session.id).exists()


def test_link_without_password_removes_password_of_earlier_sign_up(api: Api, admin: str) -> None:
    make_user(email=EMAIL, confirmed=False, password_hash=hashing.hash_password(OTHER_PASSWORD))
    shown = expect_link(api, admin, "signup")
    assert follow(api, shown["action_link"])["type"] == "signup"
    assert sign_in(api, OTHER_PASSWORD) == 400


@pytest.mark.parametrize("type", ["magiclink", "recovery"])
def test_sign_in_link_is_recorded_for_the_administrator(api: Api, admin: str, type: str) -> None:
    user = make_user(email=EMAIL)
    assert expect_link(api, admin, type)["recovery_sent_at"]
    (entry,) = audit_payloads()
    assert (entry["action"], entry["actor_username"]) == ("user_recovery_requested", "service_role")
    assert entry["traits"] == {"user_id": str(user.id), "user_email": EMAIL, "link_type": type}


def test_invitation_and_sign_up_are_recorded_for_the_administrator(api: Api, admin: str) -> None:
    expect_link(api, admin, "signup", password=PASSWORD)
    (entry,) = audit_payloads()
    assert (entry["action"], entry["actor_username"]) == ("user_confirmation_requested", "service_role")
    assert (entry["traits"]["user_email"], entry["traits"]["link_type"]) == (EMAIL, "signup")
    user_id = expect_link(api, admin, "invite", "bob@example.com")["id"]
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_username"]) == ("user_invited", "service_role")
    assert entry["traits"] == {"user_id": user_id, "user_email": "bob@example.com"}


@pytest.mark.parametrize(
    ("in_body", "in_query", "target"),
    [
        ("https://app.example.com/a?b=1", "", "https://app.example.com/a?b=1"),
        ("https://app.example.com/a", "https://app.example.com/b", "https://app.example.com/a"),
        ("https://evil.example.net/", "https://app.example.com/b", "https://app.example.com/b"),
        ("https://evil.example.net/", "", "http://localhost:3000"),
        ("", "", "http://localhost:3000"),
        (None, "https://app.example.com/b", "https://app.example.com/b"),
    ],
)
def test_the_first_permitted_target_counts(
    api: Api, admin: str, auth_config: ChangeConfig, in_body: str | None, in_query: str, target: str
) -> None:
    auth_config(site={"allow_list": ("https://app.example.com/**",)})
    make_user(email=EMAIL)
    response = api.post(
        f"/admin/generate_link?redirect_to={in_query}",
        {"type": "magiclink", "email": EMAIL, "redirect_to": in_body},
        bearer=admin,
    )
    shown = response.json()
    assert shown["redirect_to"] == target
    assert query_of(shown["action_link"])["redirect_to"] == target


def test_the_link_uses_the_host_of_the_request(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"external_hosts": ("auth2.example.com",)})
    make_user(email=EMAIL)
    body = {"type": "magiclink", "email": EMAIL}
    shown = api.post("/admin/generate_link", body, bearer=admin, headers={"Host": "auth2.example.com"}).json()
    assert shown["action_link"].startswith("https://auth2.example.com/verify?")


def test_disabled_sign_ups_do_not_apply_to_links(api: Api, admin: str, auth_config: ChangeConfig) -> None:
    auth_config(signup={"disabled": True})
    assert generate(api, admin, "signup", password=PASSWORD).status_code == 200
    assert generate(api, admin, "magiclink", "bob@example.com").status_code == 200


def test_links_require_the_token_of_an_administrator(api: Api) -> None:
    member = make_session(make_user(email=EMAIL)).access_token
    assert_error(generate(api, member, "magiclink"), 403, "not_admin", "User not allowed")
    assert not OneTimeToken.objects.exists()


def test_null_members_count_as_absent(api: Api, admin: str) -> None:
    make_user(email=EMAIL)
    shown = expect_link(api, admin, "magiclink", new_email=None, password=None, data=None, redirect_to=None)
    assert shown["verification_type"] == "magiclink"
