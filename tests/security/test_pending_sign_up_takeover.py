"""A stranger signs up with the address of an invitation or of a pending sign-up."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Secret, Vonage
from tests.accounts.administration import admin_requests
from tests.concurrency import run_concurrently
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, describe_shape
from tests.factories import CHALLENGE, VERIFIER, make_user
from tests.oauthproviders.browser import Browser, GitHub, address
from tests.observations import assert_error, backdate_rate_limits, redirect_fragment, table_contents
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db

EMAIL = "victim@example.com"
PHONE = "15551234567"
VONAGE = Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")
OWNERS, STRANGERS = "the owner's password", "the stranger's password"


@pytest.fixture(autouse=True)
def _phones(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"provider": "vonage", "vonage": VONAGE})


def sign_up(api: Api, password: str, *, path: str = "/signup", **further: Any) -> ApiResponse:
    backdate_rate_limits(timedelta(hours=1))
    body = {"email": EMAIL, **({"password": password} if path == "/signup" else {}), **further}
    response = api.post(path, {name: value for name, value in body.items() if value is not None})
    assert response.status_code == 200, response.content
    return response


def sign_in(api: Api, password: str, **identifier: str) -> int:
    body = {**(identifier or {"email": EMAIL}), "password": password}
    return api.post("/token?grant_type=password", body).status_code


def newest_link(mailbox: Mailbox) -> dict[str, str]:
    variables = mailbox.emails[-1].variables
    return {"type": "signup", "token_hash": variables["TokenHash"]}


def rows() -> dict[str, Any]:
    """The contents of all tables but the audit trail, which names refused sign-ups."""
    return {name: content for name, content in table_contents().items() if name != "audit_log_entries"}


# Invitations


@pytest.mark.parametrize("path", ["/signup", "/otp", "/magiclink"])
@pytest.mark.parametrize("strangers", [{"data": {"team": "evil"}}, {"data": None}])
def test_a_sign_up_never_changes_an_invited_account(
    api: Api, mailbox: Mailbox, path: str, strangers: dict[str, Any]
) -> None:
    invited = admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL, "data": {"team": "red"}})
    invitation = mailbox.emails[-1].variables["TokenHash"]
    before: dict[str, Any] = dict(User.objects.values().get())
    shown = sign_up(api, STRANGERS, path=path, **strangers).json()
    api.post("/resend", {"type": "signup", "email": EMAIL})
    after: dict[str, Any] = dict(User.objects.values().get())
    changed = {name for name in before if before[name] != after[name]}
    # A magic link to the owner leaves the time of sending. A sign-up leaves nothing.
    assert changed <= (set() if path == "/signup" else {"recovery_sent_at", "updated_at"})
    assert invited["id"] not in str(shown)
    assert "invited_at" not in str(shown)
    assert "red" not in str(shown)

    response = api.post("/verify", {"type": "invite", "token_hash": invitation, "password": OWNERS})
    assert response.status_code == 200, response.content
    user = response.json()["user"]
    assert user["user_metadata"]["team"] == "red"
    assert (sign_in(api, STRANGERS), sign_in(api, OWNERS)) == (400, 200)


def test_the_link_of_an_invitation_survives_a_sign_up_in_a_browser(api: Api, mailbox: Mailbox) -> None:
    admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    invitation = mailbox.emails[-1].variables["TokenHash"]
    sign_up(api, STRANGERS, code_challenge=CHALLENGE, code_challenge_method="s256")
    response = api.get(f"/verify?type=invite&token={invitation}")
    assert "access_token=" in response.headers["Location"]
    assert "type=invite" in response.headers["Location"]
    assert sign_in(api, STRANGERS) == 400


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("path", ["/otp", "/signup", "/resend"])
def test_a_request_for_the_phone_keeps_the_invitation(api: Api, mailbox: Mailbox, path: str, confirmed: bool) -> None:
    invited = admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    phone_confirmed_at = timezone.now() if confirmed else None
    User.objects.filter(id=invited["id"]).update(phone=PHONE, phone_confirmed_at=phone_confirmed_at)
    body = {"phone": PHONE, **({"password": STRANGERS} if path == "/signup" else {})}
    response = api.post(path, {**body, "type": "sms"} if path == "/resend" else body)
    assert response.status_code == 200, response.content
    assert invited["id"] not in str(response.json())
    if mailbox.sms:
        # The code belongs to the owner of the phone, whom the administrator has named.
        assert OneTimeToken.objects.filter(relates_to=PHONE).count() == 1
    invitation = mailbox.emails[-1].variables["TokenHash"]
    assert api.post("/verify", {"type": "invite", "token_hash": invitation, "password": OWNERS}).status_code == 200
    assert sign_in(api, STRANGERS) == 400


def test_a_code_by_sms_signs_an_invited_user_in(api: Api, mailbox: Mailbox) -> None:
    invited = admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    User.objects.filter(id=invited["id"]).update(phone=PHONE, phone_confirmed_at=timezone.now())
    assert api.post("/otp", {"phone": PHONE}).status_code == 200
    code = mailbox.sms[-1].variables["Code"]
    response = api.post("/verify", {"type": "sms", "phone": PHONE, "token": code})
    assert response.json()["user"]["id"] == invited["id"]


def test_auto_confirm_does_not_open_an_invited_account(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL, "data": {"team": "red"}})
    invitation = mailbox.emails[-1].variables["TokenHash"]
    auth_config(mailer={"autoconfirm": True})
    before = rows()
    response = api.post("/signup", {"email": EMAIL, "password": STRANGERS})
    assert_error(response, 422, "user_already_exists", "User already registered")
    assert rows() == before
    assert api.post("/otp", {"email": EMAIL}).status_code == 200
    assert User.objects.get().email_confirmed_at is None
    assert api.post("/verify", {"type": "invite", "token_hash": invitation, "password": OWNERS}).status_code == 200


def test_an_invitation_drops_what_a_stranger_signed_up_with(api: Api, mailbox: Mailbox) -> None:
    sign_up(api, STRANGERS, data={"team": "evil"})
    admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    sign_up(api, STRANGERS, data={"team": "evil"})
    invitation = mailbox.emails[-1].variables["TokenHash"]
    response = api.post("/verify", {"type": "invite", "token_hash": invitation, "password": OWNERS})
    assert response.status_code == 200, response.content
    assert "evil" not in str(response.json())
    assert (sign_in(api, STRANGERS), sign_in(api, OWNERS)) == (400, 200)


def test_an_invitation_accepted_at_a_provider_keeps_the_data_of_the_administrator(
    api: Api, mailbox: Mailbox, github: GitHub, browser: Browser
) -> None:
    invited = admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL, "data": {"team": "red"}})
    invitation = mailbox.emails[-1].variables["TokenHash"]
    github.set_user(EMAIL, name="Ada")
    token = redirect_fragment(browser.sign_in(invite_token=invitation))["access_token"]
    user = api.get("/user", bearer=token).json()
    data = user["user_metadata"]
    assert (user["id"], data["team"], data["name"]) == (invited["id"], "red", "Ada")


def test_an_invitation_drops_the_profile_of_a_strangers_identity(
    api: Api, mailbox: Mailbox, github: GitHub, browser: Browser
) -> None:
    github.set_user(address(EMAIL, verified=False), id=666, name="evil")
    browser.sign_in()
    admin_requests.expect_success(api, "POST", "/invite", {"email": EMAIL})
    assert "evil" not in str(User.objects.values().get())
    assert "evil" not in str(api.post("/verify", newest_link(mailbox) | {"type": "invite"}).json())


# Pending sign-ups

SIGN_UPS = {
    "owner, stranger": [OWNERS, STRANGERS],
    "stranger, owner": [STRANGERS, OWNERS],
    "stranger, owner, stranger": [STRANGERS, OWNERS, STRANGERS],
    "owner, stranger, owner": [OWNERS, STRANGERS, OWNERS],
    "owner, owner, stranger, stranger": [OWNERS, OWNERS, STRANGERS, STRANGERS],
    "owner's code, stranger": ["/otp", STRANGERS],
    "stranger, owner's code, stranger": [STRANGERS, "/otp", STRANGERS],
    "stranger, owner's link": [STRANGERS, "/magiclink"],
}


@pytest.mark.parametrize("by", ["link", "code", "browser", "recovery"])
@pytest.mark.parametrize("requests", SIGN_UPS.values(), ids=SIGN_UPS)
def test_no_password_holds_after_different_sign_ups(api: Api, mailbox: Mailbox, requests: list[str], by: str) -> None:
    responses = [
        sign_up(api, request, path=request, data={"from": request}).json()
        if request.startswith("/")
        else sign_up(api, request, data={"from": request}).json()
        for request in requests
    ]
    user = User.objects.get()
    for request, shown in zip(requests[1:], responses[1:], strict=True):
        # The response to another client reveals neither the account nor its data.
        if not request.startswith("/") and request != requests[0]:
            assert shown["id"] != str(user.id)
            assert shown["user_metadata"]["from"] == request
    link = newest_link(mailbox)
    if by == "recovery":
        backdate_rate_limits(timedelta(hours=1))
        assert api.post("/recover", {"email": EMAIL}).status_code == 200
        link = {**newest_link(mailbox), "type": "recovery"}
    match by:
        case "browser":
            location = api.get(f"/verify?type=signup&token={link['token_hash']}").headers["Location"]
            assert "access_token=" in location
        case "code":
            code = mailbox.emails[-1].variables["Token"]
            response = api.post("/verify", {"type": "signup", "email": EMAIL, "token": code})
            assert response.status_code == 200, response.content
        case _:
            response = api.post("/verify", link)
            assert response.status_code == 200, response.content
            metadata = response.json()["user"]["user_metadata"]
            assert "from" not in metadata
    assert (sign_in(api, OWNERS), sign_in(api, STRANGERS)) == (400, 400)


def test_the_person_who_confirms_chooses_the_password(api: Api, mailbox: Mailbox) -> None:
    sign_up(api, STRANGERS)
    sign_up(api, OWNERS)
    session = api.post("/verify", newest_link(mailbox)).json()
    assert api.put("/user", {"password": "a third one"}, bearer=session["access_token"]).status_code == 200
    assert [sign_in(api, password) for password in (STRANGERS, OWNERS, "a third one")] == [400, 400, 200]


def test_the_confirmation_can_carry_the_password(api: Api, mailbox: Mailbox) -> None:
    sign_up(api, STRANGERS)
    sign_up(api, OWNERS)
    assert api.post("/verify", {**newest_link(mailbox), "password": OWNERS}).status_code == 200
    assert (sign_in(api, STRANGERS), sign_in(api, OWNERS)) == (400, 200)


@pytest.mark.parametrize("times", [1, 3])
def test_a_client_that_retries_keeps_its_password_and_data(api: Api, mailbox: Mailbox, times: int) -> None:
    first = sign_up(api, OWNERS, data={"n": 0}).json()
    for number in range(times):
        shown = sign_up(api, OWNERS, data={"n": number + 1}).json()
        assert (shown["id"], shown["user_metadata"]["n"]) == (first["id"], number + 1)
    assert api.post("/verify", newest_link(mailbox)).json()["user"]["user_metadata"]["n"] == times
    assert sign_in(api, OWNERS) == 200


def test_a_repeated_magic_link_keeps_its_data(api: Api, mailbox: Mailbox) -> None:
    for _ in range(2):
        sign_up(api, "", path="/otp", data={"n": 1})
    assert api.post("/verify", newest_link(mailbox)).json()["user"]["user_metadata"]["n"] == 1


def test_phone_sign_ups_follow_the_same_rule(api: Api, mailbox: Mailbox) -> None:
    first = sign_up(api, OWNERS, email=None, phone=PHONE, data={"n": 1}).json()
    second = sign_up(api, STRANGERS, email=None, phone=PHONE, data={"n": 2}).json()
    assert second["id"] != first["id"]
    sign_up(api, STRANGERS, email=None, phone=PHONE)
    code = mailbox.sms[-1].variables["Code"]
    session = api.post("/verify", {"type": "sms", "phone": PHONE, "token": code}).json()
    assert session["user"]["id"] == first["id"]
    assert "n" not in session["user"]["user_metadata"]
    assert (sign_in(api, OWNERS, phone=PHONE), sign_in(api, STRANGERS, phone=PHONE)) == (400, 400)
    assert api.put("/user", {"password": OWNERS}, bearer=session["access_token"]).status_code == 200
    assert sign_in(api, OWNERS, phone=PHONE) == 200


def test_the_challenge_of_a_stranger_opens_nothing(api: Api, mailbox: Mailbox) -> None:
    sign_up(api, OWNERS)
    sign_up(api, STRANGERS, code_challenge=CHALLENGE, code_challenge_method="s256")
    token = mailbox.emails[-1].variables["TokenHash"]
    location = api.get(f"/verify?type=signup&token={token}").headers["Location"]
    # Only the browser of the owner gets the code. With the stranger's verifier it would still activate no password.
    code = location.partition("code=")[2]
    body = {"auth_code": code, "code_verifier": VERIFIER}
    assert api.post("/token?grant_type=pkce", body).status_code == 200
    assert (sign_in(api, OWNERS), sign_in(api, STRANGERS)) == (400, 400)


def test_auto_confirm_opens_a_pending_sign_up_only_with_its_password(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    first = sign_up(api, OWNERS, data={"n": 1}).json()
    auth_config(mailer={"autoconfirm": True})
    before = rows()
    refused = api.post("/signup", {"email": EMAIL, "password": STRANGERS})
    assert_error(refused, 422, "user_already_exists", "User already registered")
    assert rows() == before
    session = api.post("/signup", {"email": EMAIL, "password": OWNERS}).json()
    assert session["user"]["id"] == first["id"]


def test_data_of_an_administrator_survives_different_sign_ups(api: Api, mailbox: Mailbox) -> None:
    body = {"email": EMAIL, "password": OWNERS, "user_metadata": {"team": "red"}}
    made = admin_requests.expect_success(api, "POST", "/admin/users", body)
    sign_up(api, STRANGERS, data={"team": "evil", "other": 1})
    sign_up(api, STRANGERS, data={"team": "evil"})
    user = api.post("/verify", newest_link(mailbox)).json()["user"]
    assert (user["id"], user["user_metadata"].get("team"), "other" in user["user_metadata"]) == (
        made["id"],
        "red",
        False,
    )
    assert (sign_in(api, OWNERS), sign_in(api, STRANGERS)) == (400, 400)


def test_after_different_sign_ups_no_current_password_is_required(
    api: Api, mailbox: Mailbox, github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_current": True})
    sign_up(api, OWNERS)
    sign_up(api, STRANGERS)
    user = User.objects.get()
    admin_requests.expect_success(api, "PUT", f"/admin/users/{user.id}", {"email_confirm": True})
    github.set_user(EMAIL, id=7)
    token = redirect_fragment(browser.sign_in())["access_token"]
    assert api.put("/user", {"password": OWNERS}, bearer=token).status_code == 200
    assert (sign_in(api, STRANGERS), sign_in(api, OWNERS)) == (400, 200)


def test_a_link_of_an_administrator_gives_its_password(api: Api, mailbox: Mailbox) -> None:
    sign_up(api, STRANGERS, data={"team": "evil"})
    body = {"type": "signup", "email": EMAIL, "password": OWNERS, "data": {"team": "red"}}
    made = admin_requests.expect_success(api, "POST", "/admin/generate_link", body)
    user = api.post("/verify", {"type": "signup", "token_hash": made["hashed_token"]}).json()["user"]
    assert user["user_metadata"]["team"] == "red"
    assert (sign_in(api, OWNERS), sign_in(api, STRANGERS)) == (200, 400)


def test_a_pending_change_to_the_address_does_not_reach_the_sign_up(api: Api, mailbox: Mailbox) -> None:
    other = make_user(email="stranger@example.com", email_change=EMAIL, email_change_sent_at=timezone.now())
    sign_up(api, OWNERS)
    user = api.post("/verify", newest_link(mailbox)).json()["user"]
    assert user["id"] != str(other.id)
    assert sign_in(api, OWNERS) == 200


def test_an_external_identity_stays_until_the_address_is_confirmed(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, password="")
    Identity.objects.create(
        user=user,
        provider="github",
        provider_id="1",
        identity_data={"sub": "1", "email": EMAIL},
        created_at=timezone.now(),
    )
    sign_up(api, STRANGERS)
    assert Identity.objects.filter(user=user, provider="github").exists()
    assert api.post("/verify", newest_link(mailbox)).status_code == 200
    assert not Identity.objects.filter(user=user, provider="github").exists()
    assert sign_in(api, STRANGERS) == 400


@pytest.mark.parametrize("owners_request", [OWNERS, "/otp"])
def test_a_strangers_identity_does_not_hold_after_the_owners_sign_up(
    owners_request: str, api: Api, mailbox: Mailbox, github: GitHub, browser: Browser
) -> None:
    github.set_user(address(EMAIL, verified=False), id=666, name="evil")
    browser.sign_in()
    sign_up(api, owners_request, **({"path": owners_request} if owners_request.startswith("/") else {}))
    backdate_rate_limits(timedelta(hours=1))
    assert redirect_fragment(browser.sign_in())["error_code"] == "provider_email_needs_verification"

    confirmed = api.post("/verify", newest_link(mailbox)).json()["user"]

    assert [identity["provider"] for identity in confirmed["identities"]] == ["email"]
    assert "evil" not in str(confirmed)
    assert redirect_fragment(browser.sign_in())["error_code"] == "provider_email_needs_verification"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("passwords", [(OWNERS, STRANGERS), (OWNERS, OWNERS)])
def test_parallel_sign_ups_activate_a_password_only_if_it_is_the_same(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, passwords: tuple[str, str]
) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})

    def attempt(password: str) -> int:
        return api.post("/signup", {"email": EMAIL, "password": password}).status_code

    assert run_concurrently(*[partial(attempt, password) for password in passwords * 2]) == [200] * 4
    usable = [
        response
        for mail in mailbox.emails
        if (response := api.post("/verify", {"type": "signup", "token_hash": mail.variables["TokenHash"]})).status_code
        == 200
    ]
    assert len(usable) == 1
    is_same = passwords[0] == passwords[1]
    assert [sign_in(api, password) for password in passwords] == [200 if is_same else 400] * 2


# The response to a duplicate


@pytest.mark.parametrize("identifier", [{"email": EMAIL}, {"phone": PHONE}])
def test_a_duplicate_is_not_recognisable(api: Api, mailbox: Mailbox, identifier: dict[str, str]) -> None:
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    free = {"email": "free@example.com"} if "email" in identifier else {"phone": "15559999999"}
    further = {"password": OWNERS, "data": {"a": 1}}
    fresh, taken = api.post("/signup", {**free, **further}), api.post("/signup", {**identifier, **further})
    assert [fresh.status_code, fresh.headers.keys()] == [taken.status_code, taken.headers.keys()]
    assert describe_shape(taken.json()) == describe_shape(fresh.json())
    assert taken.json()["role"] == fresh.json()["role"] == "authenticated"
    assert len(taken.json()["identities"]) == 1


@pytest.mark.parametrize(("section", "other"), [("mailer", {"phone": PHONE}), ("sms", {"email": EMAIL})])
def test_auto_confirm_of_one_channel_does_not_reveal_accounts_of_the_other(
    api: Api, auth_config: ChangeConfig, section: str, other: dict[str, str]
) -> None:
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    auth_config(**{section: {"autoconfirm": True}})
    assert api.post("/signup", {**other, "password": OWNERS}).status_code == 200
    (own,) = {"email": EMAIL, "phone": PHONE}.keys() - other.keys()
    refused = api.post("/signup", {own: {"email": EMAIL, "phone": PHONE}[own], "password": OWNERS})
    assert refused.status_code == (422 if own == "email" else 400)


def test_clients_that_recognise_duplicates_can_be_served(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    auth_config(signup={"duplicate_empty_identities_enabled": True})
    shown = sign_up(api, OWNERS, data={"a": 1}).json()
    assert (shown["role"], shown["user_metadata"], shown["identities"]) == ("", {"a": 1}, [])
