"""Email change: started by PUT /user, confirmed by one or both addresses."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.api.renderers import rfc3339
from authsvc.conf import Rate
from authsvc.messaging import Email, EmailType
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import (
    CHALLENGE,
    PASSWORD,
    VERIFIER,
    SignIn,
    backdate,
    make_one_time_token,
    make_session,
    make_user,
)
from tests.observations import (
    assert_error,
    audit_trail,
    backdate_rate_limits,
    redirect_fragment,
    redirect_query,
    table_contents,
)
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
NEW = "new@example.com"
PHONE = "15551234567"
SITE = "http://localhost:3000"
HALF = "Confirmation link accepted. Please proceed to confirm link sent to the other email"
ACCEPTED = (200, {"code": "200", "msg": HALF})
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
LINK_DEAD = (403, "otp_expired", "Email link is invalid or has expired")
TAKEN = (422, "email_exists", "A user with this email address has already been registered")
MODIFIED = ("user_modified", None)
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
PENDING = [TokenType.EMAIL_CHANGE_CURRENT, TokenType.EMAIL_CHANGE_NEW]


@pytest.fixture
def made() -> SignIn:
    return make_session(make_user(email=EMAIL, data={"name": "Ada"}, at=timezone.now() - timedelta(days=1)))


def ask(api: Api, made: SignIn, email: str = NEW, query: str = "", **further: Any) -> dict[str, Any]:
    """Ask for a change; the user as the answer shows it."""
    return read_success(api.put(f"/user{query}", {"email": email, **further}, bearer=made.access_token))


def change_emails(mailbox: Mailbox) -> tuple[Email, Email]:
    """The latest emails to the present and to the new address."""
    by_recipient = {mail.to: mail for mail in mailbox.emails if mail.type == EmailType.EMAIL_CHANGE}
    return by_recipient[EMAIL], by_recipient[NEW]


def redeem(api: Api, mail: Email, form: str) -> ApiResponse:
    """Redeem the `code` of an email, its token `hash`, or the `token` of its link."""
    variables = mail.variables
    proof = {
        "code": {"email": mail.to, "token": variables["Token"]},
        "hash": {"token_hash": variables["TokenHash"]},
        "token": {"token": variables["TokenHash"]},
    }
    return api.post("/verify", {"type": "email_change", **proof[form]})


def open_link(api: Api, mail: Email) -> ApiResponse:
    return api.get(mail.variables["ConfirmationURL"].removeprefix("http://127.0.0.1:8081"))


def assert_first_confirmation(response: ApiResponse) -> None:
    assert (response.status_code, response.json()) == ACCEPTED


def read_session(response: ApiResponse) -> dict[str, Any]:
    session = read_success(response)
    assert "type" not in session
    assert session["user"]["email"] == NEW
    return session


def pending_types() -> list[str]:
    return sorted(OneTimeToken.objects.values_list("token_type", flat=True))


# Requesting a change


def test_both_addresses_get_a_confirmation(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    shown = ask(api, made, "NEW@example.com", "?redirect_to=http://localhost:3000/cb")

    assert (shown["email"], shown["new_email"]) == (EMAIL, NEW)
    assert shown["email_change_sent_at"] == shown["updated_at"]
    assert shown["identities"][0]["identity_data"]["email"] == EMAIL
    after = User.objects.get()
    assert (after.email, after.email_change, after.email_change_confirm_status) == (EMAIL, NEW, 0)
    present, new = change_emails(mailbox)
    assert len(mailbox.emails) == 2
    for mail in (present, new):
        variables = mail.variables
        assert set(variables) == {
            "SiteURL", "Email", "ConfirmationURL", "Token", "TokenHash", "RedirectTo", "Data", "NewEmail", "SendingTo",
        }  # fmt: skip
        assert (variables["Email"], variables["NewEmail"], variables["SendingTo"]) == (EMAIL, NEW, mail.to)
        assert variables["Data"]["name"] == "Ada"
        assert variables["RedirectTo"] == "http://localhost:3000/cb"
        assert re.fullmatch(r"[0-9a-f]{56}", variables["TokenHash"])
        query = parse_qs(urlsplit(variables["ConfirmationURL"]).query)
        assert query == {
            "token": [variables["TokenHash"]], "type": ["email_change"], "redirect_to": ["http://localhost:3000/cb"],
        }  # fmt: skip
    assert present.variables["TokenHash"] != new.variables["TokenHash"]
    rows = {row.token_type: row.relates_to for row in OneTimeToken.objects.all()}
    assert rows == {"email_change_token_current": EMAIL, "email_change_token_new": NEW}
    assert audit_trail() == [MODIFIED]
    assert not FlowState.objects.exists()


def test_without_secure_email_change_only_the_new_address_gets_a_confirmation(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    make_one_time_token(made.user, TokenType.EMAIL_CHANGE_CURRENT)
    auth_config(mailer={"secure_email_change_enabled": False})
    ask(api, made)
    assert [mail.to for mail in mailbox.emails] == [NEW]
    assert pending_types() == ["email_change_token_new"]


def test_a_user_without_an_address_confirms_at_the_new_one(api: Api, mailbox: Mailbox) -> None:
    made = make_session(make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now()))
    shown = ask(api, made)
    assert (shown["email"], shown["new_email"]) == ("", NEW)
    assert [mail.to for mail in mailbox.emails] == [NEW]
    assert pending_types() == ["email_change_token_new"]
    session = read_session(redeem(api, mailbox.emails[0], "code"))
    assert session["user"]["app_metadata"] == {"provider": "phone", "providers": ["phone", "email"]}
    assert [mail.type for mail in mailbox.emails] == [EmailType.EMAIL_CHANGE]


def test_under_auto_confirm_the_change_still_needs_confirmation(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    auth_config(mailer={"autoconfirm": True})
    shown = ask(api, made)
    assert (shown["email"], shown["new_email"]) == (EMAIL, NEW)
    assert len(mailbox.emails) == 2


def test_both_emails_count_once_against_the_quota(api: Api, auth_config: ChangeConfig, made: SignIn) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    ask(api, made)
    other = make_session()
    before = table_contents()
    response = api.put("/user", {"email": "other@example.com"}, bearer=other.access_token)
    assert_error(response, 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before


@pytest.mark.parametrize("address", [EMAIL, NEW])
@pytest.mark.parametrize("secure", [True, False])
def test_the_operators_allow_list_applies(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn, address: str, secure: bool
) -> None:
    auth_config(recipients={"authorized_addresses": (address,)}, mailer={"secure_email_change_enabled": secure})
    response = api.put("/user", {"email": NEW}, bearer=made.access_token)
    if address == NEW and not secure:
        assert response.status_code == 200
        return
    missing = NEW if address == EMAIL else EMAIL
    text = f'Email address "{missing}" cannot be used as it is not authorized'
    assert_error(response, 400, "email_address_not_authorized", text)
    assert mailbox.emails == []


def test_changes_have_minimum_interval_of_one_minute(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    before = table_contents()
    response = api.put("/user", {"email": "third@example.com"}, bearer=made.access_token)
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(response, 429, "over_email_send_rate_limit", text)
    assert table_contents() == before
    backdate(made.user, by=timedelta(minutes=1))
    backdate_rate_limits(timedelta(minutes=1))
    assert ask(api, made, "third@example.com")["new_email"] == "third@example.com"
    assert len(mailbox.emails) == 4


def test_a_new_password_does_not_shorten_the_wait(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    assert api.put("/user", {"password": "another one"}, bearer=made.access_token).status_code == 200
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.put("/user", {"email": NEW}, bearer=made.access_token), 429, "over_email_send_rate_limit", text)


def test_rejected_address_starts_no_interval(api: Api, auth_config: ChangeConfig, made: SignIn) -> None:
    auth_config(recipients={"authorized_addresses": (EMAIL, NEW)})
    response = api.put("/user", {"email": "nwe@example.com"}, bearer=made.access_token)
    assert (response.status_code, response.json()["error_code"]) == (400, "email_address_not_authorized")
    assert ask(api, made)["new_email"] == NEW


def test_the_interval_applies_to_repeated_requests(api: Api, made: SignIn) -> None:
    ask(api, made)
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.post("/resend", {"type": "email_change", "email": EMAIL}), 429, "over_email_send_rate_limit", text)
    backdate_rate_limits(timedelta(minutes=1))
    assert api.post("/resend", {"type": "email_change", "email": EMAIL}).status_code == 200


@pytest.mark.parametrize("columns", [{}, {"confirmed": False}, {"audience": "staff"}])
def test_address_of_other_user_is_rejected(api: Api, mailbox: Mailbox, made: SignIn, columns: dict[str, Any]) -> None:
    make_user(email=NEW, **columns)
    before = table_contents()
    assert_error(api.put("/user", {"email": "NEW@example.com"}, bearer=made.access_token), *TAKEN)
    assert table_contents() == before
    assert mailbox.emails == []


def test_address_of_sso_account_is_available(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    make_user(email=NEW, is_sso_user=True)
    ask(api, made)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, present, "code"))
    read_session(redeem(api, new, "code"))


# Confirming a change


@pytest.mark.parametrize("forms", [("code", "code"), ("hash", "hash"), ("token", "code"), ("code", "hash")])
@pytest.mark.parametrize("first", ["present", "new"])
def test_the_change_takes_effect_when_both_have_confirmed(
    api: Api, mailbox: Mailbox, made: SignIn, forms: tuple[str, str], first: str
) -> None:
    sent_at = ask(api, made)["email_change_sent_at"]
    one, other = change_emails(mailbox) if first == "present" else reversed(change_emails(mailbox))

    assert_first_confirmation(redeem(api, one, forms[0]))
    between = User.objects.get()
    assert (between.email, between.email_change, between.email_change_confirm_status) == (EMAIL, NEW, 1)
    assert OneTimeToken.objects.get().relates_to == other.to
    assert Session.objects.get() == made.session
    assert audit_trail() == [MODIFIED]

    session = read_session(redeem(api, other, forms[1]))
    shown = session["user"]
    assert shown["id"] == str(made.user.id)
    assert "new_email" not in shown
    assert shown["email_change_sent_at"] == sent_at
    assert shown["email_confirmed_at"] == rfc3339(made.user.email_confirmed_at or timezone.now())
    assert shown["last_sign_in_at"] == shown["updated_at"]
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}
    (identity,) = shown["identities"]
    assert identity["identity_data"] == {
        "sub": str(made.user.id), "email": NEW, "email_verified": True, "phone_verified": False, "name": "Ada",
    }  # fmt: skip
    assert identity["email"] == NEW
    after = User.objects.get()
    assert (after.email, after.email_change, after.email_change_confirm_status) == (NEW, "", 0)
    assert not OneTimeToken.objects.exists()
    assert Session.objects.count() == 2
    assert [claim.authentication_method for claim in AmrClaim.objects.exclude(session=made.session)] == ["email_change"]
    assert audit_trail() == [MODIFIED] * 2
    assert [mail.type for mail in mailbox.emails][2:] == [EmailType.EMAIL_CHANGED]
    assert api.get("/user", bearer=session["access_token"]).json() == shown
    for email, status in ((NEW, 200), (EMAIL, 400)):
        body = {"email": email, "password": PASSWORD}
        assert api.post("/token?grant_type=password", body).status_code == status


def test_the_previous_address_is_notified(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, new, "code"))
    read_session(redeem(api, present, "code"))
    notice = mailbox.emails[-1]
    assert (notice.type, notice.to, notice.user_id) == (EmailType.EMAIL_CHANGED, EMAIL, made.user.id)
    assert (notice.variables["OldEmail"], notice.variables["Email"]) == (EMAIL, NEW)


@pytest.mark.parametrize("form", ["code", "hash", "token"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("pkce", [False, True])
def test_one_address_cannot_confirm_for_both(
    api: Api, mailbox: Mailbox, made: SignIn, form: str, which: int, pkce: bool
) -> None:
    ask(api, made, **(PKCE if pkce else {}))
    mail = change_emails(mailbox)[which]
    assert_first_confirmation(redeem(api, mail, form))
    before = table_contents()
    assert_error(redeem(api, mail, "code"), *CODE_DEAD)
    assert_error(redeem(api, mail, "hash"), *LINK_DEAD)
    assert table_contents() == before
    assert User.objects.get().email == EMAIL
    assert OneTimeToken.objects.count() == 1


def test_confirmation_of_imported_row_is_first_of_two(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    User.objects.update(email_change_confirm_status=None)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, present, "hash"))
    read_session(redeem(api, new, "hash"))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "config", [{"secure_email_change_enabled": False}, {"secure_email_change_enabled": False, "autoconfirm": True}]
)
def test_one_confirmation_suffices_when_configured(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn, which: int, config: dict[str, bool]
) -> None:
    ask(api, made)
    auth_config(mailer=config)
    read_session(redeem(api, change_emails(mailbox)[which], "hash"))
    assert not OneTimeToken.objects.exists()


def test_newer_change_replaces_previous_one(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made, "first@example.com")
    old_present, old_new = mailbox.emails
    assert_first_confirmation(redeem(api, old_present, "hash"))
    backdate(made.user, by=timedelta(minutes=2))
    backdate_rate_limits(timedelta(minutes=2))
    ask(api, made)
    assert User.objects.get().email_change_confirm_status == 0
    assert_error(redeem(api, old_new, "hash"), *LINK_DEAD)
    assert_error(redeem(api, old_new, "code"), *CODE_DEAD)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, new, "hash"))
    read_session(redeem(api, present, "hash"))


@pytest.mark.parametrize("form", ["code", "hash"])
def test_link_and_code_of_an_email_expire_after_a_day(api: Api, mailbox: Mailbox, made: SignIn, form: str) -> None:
    ask(api, made)
    backdate(*OneTimeToken.objects.all(), by=timedelta(days=1, seconds=1))
    before = table_contents()
    assert_error(redeem(api, mailbox.emails[0], form), *(CODE_DEAD if form == "code" else LINK_DEAD))
    assert table_contents() == before


@pytest.mark.parametrize("form", ["code", "hash"])
def test_a_banned_user_changes_nothing(api: Api, mailbox: Mailbox, made: SignIn, form: str) -> None:
    ask(api, made)
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    before = table_contents()
    assert_error(redeem(api, mailbox.emails[0], form), 403, "user_banned", "User is banned")
    fragment = redirect_fragment(open_link(api, mailbox.emails[0]))
    assert (fragment["error"], fragment["error_code"]) == ("access_denied", "user_banned")
    assert table_contents() == before


@pytest.mark.parametrize("type", ["email", "signup", "invite", "recovery", "magiclink"])
@pytest.mark.parametrize("form", ["code", "hash"])
def test_secret_of_change_is_rejected_for_other_types(
    api: Api, mailbox: Mailbox, made: SignIn, type: str, form: str
) -> None:
    ask(api, made)
    mail = change_emails(mailbox)[0]
    proof = {"email": EMAIL, "token": mail.variables["Token"]} if form == "code" else {
        "token_hash": mail.variables["TokenHash"]
    }  # fmt: skip
    response = api.post("/verify", {"type": type, **proof})
    assert_error(response, *(CODE_DEAD if form == "code" else LINK_DEAD))
    assert Session.objects.count() == 1


def test_a_code_is_valid_with_its_recipients_address(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    present, new = change_emails(mailbox)
    if present.variables["Token"] != new.variables["Token"]:
        body = {"type": "email_change", "email": NEW, "token": present.variables["Token"]}
        assert_error(api.post("/verify", body), *CODE_DEAD)
    assert User.objects.get().email_change_confirm_status == 0
    assert_first_confirmation(redeem(api, present, "code"))


@pytest.mark.parametrize("form", ["code", "hash", "browser"])
def test_an_address_taken_in_the_meantime_is_not_taken_over(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn, form: str
) -> None:
    ask(api, made)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, present, "hash"))
    owner = make_user(email=NEW)
    before = table_contents()
    if form == "browser":
        response = open_link(api, new)
        parameters = {"error_code": TAKEN[1], "error_description": TAKEN[2], "sb": ""}
        assert (response.status_code, redirect_fragment(response)) == (303, parameters)
    else:
        assert_error(redeem(api, new, form), *TAKEN)
    assert table_contents() == before
    assert User.objects.get(email=NEW) == owner


@pytest.mark.parametrize("how", ["recovery", "password"])
def test_another_verification_or_password_invalidates_the_confirmations(
    api: Api, mailbox: Mailbox, made: SignIn, how: str
) -> None:
    ask(api, made)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, new, "hash"))
    if how == "recovery":
        secret = make_one_time_token(made.user)
        assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200
    else:
        assert api.put("/user", {"password": "another one"}, bearer=made.access_token).status_code == 200
    assert_error(redeem(api, present, "hash"), *LINK_DEAD)
    assert User.objects.get().email == EMAIL


def test_a_change_adds_a_missing_email_identity(api: Api, mailbox: Mailbox) -> None:
    made = make_session(make_user(email=EMAIL, data={"name": "Ada"}))
    at = timezone.now() - timedelta(days=9)
    Identity.objects.update(provider="google", provider_id="7", created_at=at)
    ask(api, made)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, present, "hash"))
    shown = read_session(redeem(api, new, "hash"))["user"]
    google, email = shown["identities"]
    assert (google["provider"], google["identity_data"]["email"]) == ("google", EMAIL)
    assert (email["provider"], email["id"]) == ("email", shown["id"])
    assert email["identity_data"] == {
        "sub": shown["id"], "email": NEW, "email_verified": True, "phone_verified": False,
    }  # fmt: skip
    assert email["last_sign_in_at"] == email["created_at"] == shown["updated_at"]
    assert shown["app_metadata"] == {"provider": "google", "providers": ["google", "email"]}


def test_a_change_confirms_an_unconfirmed_user(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    made = make_session(make_user(email=EMAIL, confirmed=False))
    ask(api, made)
    shown = read_session(redeem(api, mailbox.emails[0], "code"))["user"]
    assert shown["email_confirmed_at"] == shown["confirmed_at"] == shown["updated_at"]
    assert shown["user_metadata"]["email_verified"] is True


# In a browser


def test_links_confirm_in_a_browser(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made, query="?redirect_to=http://localhost:3000/cb%3Fx%3D1")
    present, new = change_emails(mailbox)

    first = open_link(api, present)
    assert first.status_code == 303
    assert first.headers["Location"].startswith("http://localhost:3000/cb?x=1#")
    assert redirect_fragment(first) == {"message": HALF, "sb": ""}
    assert redirect_query(first) == {"x": "1"}
    assert Session.objects.count() == 1

    fragment = redirect_fragment(open_link(api, new))
    assert list(fragment) == ["access_token", "expires_at", "expires_in", "refresh_token", "sb", "token_type", "type"]
    assert fragment["type"] == "email_change"
    assert api.get("/user", bearer=fragment["access_token"]).json()["email"] == NEW
    assert redirect_fragment(open_link(api, new))["error_code"] == "otp_expired"


def test_links_of_a_flow_give_a_code(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made, **PKCE)
    present, new = change_emails(mailbox)
    flow = FlowState.objects.get()
    assert (flow.user_id, flow.provider_type, flow.authentication_method) == (
        made.user.id, "email_change", "email_change",
    )  # fmt: skip
    assert all(mail.variables["TokenHash"].startswith("pkce_") for mail in (present, new))
    assert all(row.token_hash.startswith("pkce_") for row in OneTimeToken.objects.all())

    first = open_link(api, new)
    assert (redirect_fragment(first), redirect_query(first)) == ({"message": HALF, "sb": ""}, {"message": HALF})
    assert FlowState.objects.get().auth_code_issued_at is None

    second = open_link(api, present)
    assert second.headers["Location"].startswith(f"{SITE}?code=")
    assert Session.objects.count() == 1
    after = User.objects.get()
    assert (after.email, after.last_sign_in_at) == (NEW, None)
    body = {"auth_code": redirect_query(second)["code"], "code_verifier": VERIFIER}
    session = api.post("/token?grant_type=pkce", body).json()
    assert session["user"]["email"] == NEW
    assert [claim.authentication_method for claim in AmrClaim.objects.exclude(session=made.session)] == ["email_change"]
    assert redirect_fragment(open_link(api, present))["error_code"] == "otp_expired"


def test_a_code_typed_by_hand_ends_a_flow_in_a_session(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made, **PKCE)
    present, new = change_emails(mailbox)
    assert_first_confirmation(redeem(api, present, "code"))
    read_session(redeem(api, new, "code"))


def test_missing_flow_keeps_change_pending(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made, **PKCE)
    present, new = change_emails(mailbox)
    open_link(api, present)
    FlowState.objects.all().delete()
    before = table_contents()
    response = open_link(api, new)
    assert redirect_fragment(response)["error_code"] == redirect_query(response)["error_code"] == "flow_state_not_found"
    assert table_contents() == before


@pytest.mark.parametrize(
    "further",
    [
        {"code_challenge": CHALLENGE},
        {"code_challenge_method": "s256"},
        {"code_challenge": CHALLENGE, "code_challenge_method": "md5"},
    ],
)
def test_incomplete_challenge_is_rejected(api: Api, made: SignIn, further: dict[str, str]) -> None:
    response = api.put("/user", {"email": NEW, **further}, bearer=made.access_token)
    assert_error(response, 400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge")
