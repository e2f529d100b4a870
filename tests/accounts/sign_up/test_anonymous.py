"""Anonymous users: sign-in through POST /signup, and becoming permanent through PUT /user."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from accounts.models import Identity, User
from authsvc.conf import Rate, Secret, Vonage
from authsvc.messaging import EmailType
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import CHALLENGE, VERIFIER, make_user
from tests.observations import assert_error, audit_trail, redirect_query, table_contents
from tokens.models import AmrClaim, OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
PHONE = "15551234567"
PASSWORD = "correct horse battery staple"
MODIFIED = ("user_modified", None)


@pytest.fixture(autouse=True)
def anonymous_sign_ins_enabled(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"anonymous_enabled": True, "phone_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )


def sign_in_anonymously(api: Api, **data: Any) -> dict[str, Any]:
    """The session of a new anonymous user."""
    return read_success(api.post("/signup", {"data": data}))


def put(api: Api, session: dict[str, Any], body: dict[str, Any]) -> ApiResponse:
    return api.put("/user", body, bearer=session["access_token"])


def claims(session: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = jwt.decode(session["access_token"], options={"verify_signature": False})
    return decoded


def confirm_email(api: Api, mailbox: Mailbox) -> dict[str, Any]:
    code = mailbox.emails[-1].variables["Token"]
    return read_success(api.post("/verify", {"type": "email_change", "email": EMAIL, "token": code}))


def confirm_phone(api: Api, mailbox: Mailbox) -> dict[str, Any]:
    code = mailbox.sms[-1].variables["Code"]
    return read_success(api.post("/verify", {"type": "phone_change", "phone": PHONE, "token": code}))


def test_an_anonymous_user_has_a_session_that_can_be_refreshed(api: Api) -> None:
    session = sign_in_anonymously(api, theme="dark")
    user = session["user"]
    assert (user["email"], user["phone"], user["is_anonymous"], user["identities"]) == ("", "", True, [])
    assert (user["app_metadata"], user["user_metadata"]) == ({}, {"theme": "dark"})
    assert claims(session)["is_anonymous"] is True
    assert claims(session)["amr"][0]["method"] == "anonymous"
    again = api.post("/token?grant_type=refresh_token", {"refresh_token": session["refresh_token"]}).json()
    assert claims(again)["is_anonymous"] is True
    assert claims(again)["sub"] == user["id"]


def test_an_anonymous_user_may_change_metadata(api: Api) -> None:
    session = sign_in_anonymously(api, theme="dark")
    shown = read_success(put(api, session, {"data": {"theme": None, "name": "Ada"}}))
    assert (shown["user_metadata"], shown["app_metadata"], shown["is_anonymous"]) == ({"name": "Ada"}, {}, True)


@pytest.mark.parametrize("further", [{}, {"email": ""}, {"data": {"a": 1}}])
def test_an_anonymous_user_without_email_or_phone_cannot_set_a_password(api: Api, further: dict[str, Any]) -> None:
    session = sign_in_anonymously(api)
    before = table_contents()
    text = "Updating password of an anonymous user without an email or phone is not allowed"
    assert_error(put(api, session, {"password": PASSWORD, **further}), 422, "validation_failed", text)
    assert table_contents() == before


def test_a_confirmed_address_makes_an_anonymous_user_permanent(api: Api, mailbox: Mailbox) -> None:
    anonymous = sign_in_anonymously(api, theme="dark")
    shown = read_success(put(api, anonymous, {"email": EMAIL, "password": PASSWORD, "data": {"name": "Ada"}}))

    assert (shown["email"], shown["new_email"], shown["is_anonymous"]) == ("", EMAIL, True)
    assert shown["identities"] == []
    assert [(mail.type, mail.to) for mail in mailbox.emails] == [(EmailType.EMAIL_CHANGE, EMAIL)]
    variables = mailbox.emails[0].variables
    assert (variables["Email"], variables["NewEmail"], variables["SendingTo"]) == ("", EMAIL, EMAIL)
    credentials = {"email": EMAIL, "password": PASSWORD}
    assert api.post("/token?grant_type=password", credentials).json()["error_code"] == "invalid_credentials"

    session = confirm_email(api, mailbox)
    user = session["user"]
    assert (user["id"], user["is_anonymous"], user["email"]) == (anonymous["user"]["id"], False, EMAIL)
    assert "new_email" not in user
    assert user["app_metadata"] == {"provider": "email", "providers": ["email"]}
    assert user["email_confirmed_at"] == user["confirmed_at"] == user["updated_at"]
    assert user["user_metadata"] == {"theme": "dark", "name": "Ada", "email_verified": True}
    (identity,) = user["identities"]
    assert (identity["provider"], identity["id"], identity["email"]) == ("email", user["id"], EMAIL)
    assert identity["identity_data"] == {
        "sub": user["id"], "email": EMAIL, "email_verified": True, "phone_verified": False,
    }  # fmt: skip
    assert claims(session)["is_anonymous"] is False
    assert audit_trail() == [("user_updated_password", None), MODIFIED, MODIFIED]
    assert [mail.type for mail in mailbox.emails] == [EmailType.EMAIL_CHANGE]
    assert api.post("/token?grant_type=password", credentials).status_code == 200
    refreshed = api.post("/token?grant_type=refresh_token", {"refresh_token": anonymous["refresh_token"]}).json()
    assert claims(refreshed)["is_anonymous"] is False


def test_a_confirmed_phone_makes_an_anonymous_user_permanent(api: Api, mailbox: Mailbox) -> None:
    anonymous = sign_in_anonymously(api)
    shown = read_success(put(api, anonymous, {"phone": PHONE, "password": PASSWORD}))
    assert (shown["phone"], shown["new_phone"], shown["is_anonymous"]) == ("", PHONE, True)
    user = confirm_phone(api, mailbox)["user"]
    assert (user["id"], user["is_anonymous"], user["phone"]) == (anonymous["user"]["id"], False, PHONE)
    assert user["app_metadata"] == {"provider": "phone", "providers": ["phone"]}
    assert [identity["provider"] for identity in user["identities"]] == ["phone"]
    assert user["phone_confirmed_at"] == user["confirmed_at"]
    assert mailbox.emails == []
    body = {"phone": PHONE, "password": PASSWORD}
    assert api.post("/token?grant_type=password", body).status_code == 200


def test_link_of_flow_makes_anonymous_user_permanent(api: Api, mailbox: Mailbox) -> None:
    anonymous = sign_in_anonymously(api)
    read_success(put(api, anonymous, {"email": EMAIL, "code_challenge": CHALLENGE, "code_challenge_method": "s256"}))
    link = mailbox.emails[0].variables["ConfirmationURL"].removeprefix("http://127.0.0.1:8081")
    code = redirect_query(api.get(link))["code"]
    session = api.post("/token?grant_type=pkce", {"auth_code": code, "code_verifier": VERIFIER}).json()
    assert (session["user"]["id"], session["user"]["is_anonymous"]) == (anonymous["user"]["id"], False)


def test_email_and_phone_are_added_to_one_account(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    anonymous = sign_in_anonymously(api)
    read_success(put(api, anonymous, {"phone": PHONE}))
    session = confirm_phone(api, mailbox)
    read_success(put(api, session, {"email": EMAIL}))
    user = confirm_email(api, mailbox)["user"]
    assert user["id"] == anonymous["user"]["id"]
    assert user["app_metadata"] == {"provider": "phone", "providers": ["phone", "email"]}
    assert Identity.objects.count() == 2


# Auto-confirm


def test_auto_confirm_applies_email_of_anonymous_user_immediately(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"autoconfirm": True}, limits={"email_sent": Rate(events=0)})
    anonymous = sign_in_anonymously(api)
    shown = read_success(put(api, anonymous, {"email": EMAIL, "password": PASSWORD}))
    assert (shown["id"], shown["email"], shown["is_anonymous"]) == (anonymous["user"]["id"], EMAIL, False)
    assert "new_email" not in shown
    assert "email_change_sent_at" not in shown
    assert shown["email_confirmed_at"] == shown["updated_at"]
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}
    assert len(shown["identities"]) == 1
    assert mailbox.emails == []
    assert not OneTimeToken.objects.exists()
    assert Session.objects.count() == 1
    credentials = {"email": EMAIL, "password": PASSWORD}
    assert api.post("/token?grant_type=password", credentials).status_code == 200


def test_auto_confirm_applies_phone_of_anonymous_user_immediately(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(sms={"autoconfirm": True})
    shown = read_success(put(api, sign_in_anonymously(api), {"phone": PHONE, "email": EMAIL}))
    assert (shown["phone"], shown["is_anonymous"], shown["new_email"]) == (PHONE, False, EMAIL)
    assert mailbox.sms == []
    user = confirm_email(api, mailbox)["user"]
    assert user["app_metadata"]["providers"] == ["phone", "email"]


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_an_anonymous_user_cannot_take_a_used_email_or_phone(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, autoconfirm: bool
) -> None:
    make_user(email=EMAIL, phone=PHONE)
    auth_config(mailer={"autoconfirm": autoconfirm}, sms={"autoconfirm": autoconfirm})
    anonymous = sign_in_anonymously(api)
    before = table_contents()
    text = "A user with this {} has already been registered"
    assert_error(put(api, anonymous, {"email": EMAIL}), 422, "email_exists", text.format("email address"))
    assert_error(put(api, anonymous, {"phone": PHONE}), 422, "phone_exists", text.format("phone number"))
    assert table_contents() == before


def test_a_pending_address_of_an_anonymous_user_is_still_available(api: Api, mailbox: Mailbox) -> None:
    read_success(put(api, sign_in_anonymously(api), {"email": EMAIL}))
    pending = mailbox.emails[0]
    made = api.post("/signup", {"email": EMAIL, "password": PASSWORD}).json()
    response = api.post("/verify", {"type": "email_change", "token_hash": pending.variables["TokenHash"]})
    text = "A user with this email address has already been registered"
    assert_error(response, 422, "email_exists", text)
    assert str(User.objects.get(email=EMAIL).id) == made["id"]
    assert User.objects.filter(is_anonymous=True).count() == 1


def test_anonymous_users_cannot_reauthenticate(api: Api) -> None:
    response = api.get("/reauthenticate", bearer=sign_in_anonymously(api)["access_token"])
    text = "Reauthentication requires the user to have an email or a phone number"
    assert_error(response, 400, "validation_failed", text)


def test_the_session_of_an_anonymous_user_keeps_its_method(api: Api, mailbox: Mailbox) -> None:
    read_success(put(api, sign_in_anonymously(api), {"email": EMAIL}))
    confirm_email(api, mailbox)
    methods = AmrClaim.objects.order_by("created_at").values_list("authentication_method", flat=True)
    assert list(methods) == ["anonymous", "email_change"]
