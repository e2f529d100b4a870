"""Attack: an account that its attacker controls waits for the owner of an address to arrive there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.administration import support_messages
from accounts.models import User
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.conf import Secret, Vonage
from authsvc.errors import UnprocessableInput
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_one_time_token
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, GitHub, address, start_link_flow
from tests.oauthproviders.flow.id_token_requests import exchange
from tests.observations import backdate_rate_limits, redirect_fragment
from tokens.models import TokenType

pytestmark = pytest.mark.django_db

VICTIM = "ada@example.com"
VICTIMS_PHONE = "15550007777"
ATTACKERS_PHONE = "15550006666"
ATTACKERS_PASSWORD = "the password of the attacker"
GATEWAY = {"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")}


@dataclass
class World:
    """The clients, the mailboxes and the two providers of an attack."""

    api: Api
    mailbox: Mailbox
    browser: Browser
    github: GitHub
    auth_config: ChangeConfig

    def attack(self, plant: Callable[[World], str]) -> str:
        """Let the attacker prepare an account, and return the access token, or `""`."""
        token = plant(self)
        backdate_rate_limits(timedelta(hours=1))
        self.mailbox.clear()
        return token


@pytest.fixture
def world(api: Api, mailbox: Mailbox, browser: Browser, github: GitHub, auth_config: ChangeConfig) -> World:
    auth_config(
        signup={"phone_enabled": True, "anonymous_enabled": True},
        sms=GATEWAY,
        mailer={"generate_link_invite_enabled": True},
    )
    return World(api=api, mailbox=mailbox, browser=browser, github=github, auth_config=auth_config)


def sign_up_by_phone(world: World, phone: str = ATTACKERS_PHONE) -> str:
    world.api.post("/signup", {"phone": phone, "password": ATTACKERS_PASSWORD})
    code = world.mailbox.sms[-1].variables["Code"]
    response = world.api.post("/verify", {"type": "sms", "phone": phone, "token": code})
    return str(response.json()["access_token"])


def link_unverified(world: World, token: str) -> str:
    world.github.set_user(address(VICTIM, verified=False), id=666)
    response = world.browser.callback(start_link_flow(world.api, token))
    assert redirect_fragment(response)["error_code"] == "email_not_confirmed"
    return token


# Accounts that the attacker prepares


def phone_account_with_linked_identity(world: World) -> str:
    return link_unverified(world, sign_up_by_phone(world))


def anonymous_account_with_linked_identity(world: World) -> str:
    return link_unverified(world, world.api.post("/signup", {}).json()["access_token"])


def account_without_its_former_address(world: World) -> str:
    """The attacker's own address is unlinked, so that the unverified one of another identity could replace it."""
    world.api.post("/signup", {"email": "mallory@example.com", "password": ATTACKERS_PASSWORD})
    code = world.mailbox.emails[-1].variables["Token"]
    body = {"type": "signup", "email": "mallory@example.com", "token": code}
    session = world.api.post("/verify", body).json()
    token = str(session["access_token"])
    world.github.set_user(address(VICTIM, verified=False), id=666)
    assert "access_token" in redirect_fragment(world.browser.callback(start_link_flow(world.api, token)))
    own = session["user"]["identities"][0]["identity_id"]
    assert world.api.delete(f"/user/identities/{own}", bearer=token).status_code == 200
    return token


def account_with_unverified_sign_ins(world: World) -> str:
    world.auth_config(mailer={"allow_unverified_email_sign_ins": True})
    world.github.set_user(address(VICTIM, verified=False), id=666)
    token = redirect_fragment(world.browser.sign_in())["access_token"]
    world.auth_config(mailer={"allow_unverified_email_sign_ins": False})
    return token


def account_from_before_the_rule(world: World) -> str:
    """A row as earlier versions stored it: the linked identity's unverified address is that of the account."""
    token = phone_account_with_linked_identity(world)
    User.objects.update(email=VICTIM, email_change="")
    return token


def account_invited_by_an_earlier_version(world: World) -> str:
    """Earlier versions invited an address into the account that had claimed it."""
    token = account_from_before_the_rule(world)
    User.objects.update(invited_at=timezone.now())
    return token


def account_made_by_an_administrator(world: World) -> str:
    body = {"email": VICTIM, "phone": ATTACKERS_PHONE, "phone_confirm": True, "password": ATTACKERS_PASSWORD}
    admin_requests.expect_success(world.api, "POST", "/admin/users", body)
    response = world.api.post("/token?grant_type=password", {"phone": ATTACKERS_PHONE, "password": ATTACKERS_PASSWORD})
    return str(response.json()["access_token"])


ACCOUNTS = [
    phone_account_with_linked_identity,
    anonymous_account_with_linked_identity,
    account_without_its_former_address,
    account_with_unverified_sign_ins,
    account_from_before_the_rule,
    account_invited_by_an_earlier_version,
    account_made_by_an_administrator,
]


# The ways in which the owner of the address arrives


def newest_secret(world: World, name: str) -> str:
    sent = [mail for mail in world.mailbox.emails if mail.to == VICTIM]
    return str(sent[-1].variables[name])


def session_of_link(world: World, link_type: str) -> str:
    response = world.api.get(f"/verify?type={link_type}&token={newest_secret(world, 'TokenHash')}")
    return redirect_fragment(response)["access_token"]


def sign_up_by_link(world: World) -> str:
    assert world.api.post("/signup", {"email": VICTIM, "password": PASSWORD}).status_code == 200
    return session_of_link(world, "signup")


def sign_up_by_code(world: World) -> str:
    assert world.api.post("/signup", {"email": VICTIM, "password": PASSWORD}).status_code == 200
    body = {"type": "signup", "email": VICTIM, "token": newest_secret(world, "Token")}
    return str(world.api.post("/verify", body).json()["access_token"])


def magic_link(world: World) -> str:
    assert world.api.post("/magiclink", {"email": VICTIM}).status_code == 200
    return session_of_link(world, "signup")


def code_by_email(world: World) -> str:
    assert world.api.post("/otp", {"email": VICTIM}).status_code == 200
    body = {"type": "email", "email": VICTIM, "token": newest_secret(world, "Token")}
    return str(world.api.post("/verify", body).json()["access_token"])


def invitation(world: World) -> str:
    admin_requests.expect_success(world.api, "POST", "/invite", {"email": VICTIM})
    return session_of_link(world, "invite")


def generated_link(world: World) -> str:
    body = {"type": "magiclink", "email": VICTIM}
    link = admin_requests.expect_success(world.api, "POST", "/admin/generate_link", body)
    response = world.api.get(f"/verify?type={link['verification_type']}&token={link['hashed_token']}")
    return redirect_fragment(response)["access_token"]


def invitation_accepted_at_provider(world: World) -> str:
    admin_requests.expect_success(world.api, "POST", "/invite", {"email": VICTIM})
    world.github.set_user(VICTIM, id=7)
    response = world.browser.sign_in(invite_token=newest_secret(world, "TokenHash"))
    return redirect_fragment(response)["access_token"]


def provider_sign_in(world: World) -> str:
    world.github.set_user(VICTIM, id=7)
    return redirect_fragment(world.browser.sign_in())["access_token"]


SIGN_IN_METHODS = [
    sign_up_by_link,
    sign_up_by_code,
    magic_link,
    code_by_email,
    invitation,
    generated_link,
    invitation_accepted_at_provider,
    provider_sign_in,
]


@pytest.mark.parametrize("sign_in", SIGN_IN_METHODS, ids=lambda sign_in: sign_in.__name__)
@pytest.mark.parametrize("plant", ACCOUNTS, ids=lambda plant: plant.__name__)
def test_the_owner_of_the_address_gets_an_own_account(
    plant: Callable[[World], str], sign_in: Callable[[World], str], world: World
) -> None:
    attackers_token = world.attack(plant)
    attacker = world.api.get("/user", bearer=attackers_token).json()

    owner = world.api.get("/user", bearer=sign_in(world)).json()

    assert (owner["id"] != attacker["id"], owner["email"], owner["phone"]) == (True, VICTIM, "")
    # The attacker keeps the own account, without the address.
    still = world.api.get("/user", bearer=attackers_token).json()
    assert (still["id"], still["email"], still["phone"]) == (attacker["id"], "", attacker["phone"])
    for path in ("/token?grant_type=password", "/otp"):
        body = {"phone": ATTACKERS_PHONE, "password": ATTACKERS_PASSWORD, "create_user": False}
        response = world.api.post(path, body)
        if response.status_code == 200 and "user" in response.json():
            assert response.json()["user"]["id"] == attacker["id"]
    assert (
        world.api.post("/token?grant_type=password", {"email": VICTIM, "password": ATTACKERS_PASSWORD}).status_code
        == 400
    )


@pytest.mark.parametrize("plant", ACCOUNTS, ids=lambda plant: plant.__name__)
def test_the_attackers_account_is_not_named_by_the_address(plant: Callable[[World], str], world: World) -> None:
    world.attack(plant)

    assert world.api.post("/recover", {"email": VICTIM}).status_code == 200
    backdate_rate_limits(timedelta(hours=1))
    assert world.api.post("/resend", {"type": "signup", "email": VICTIM}).status_code == 200
    body = {"type": "recovery", "email": VICTIM}
    assert admin_requests.ask(world.api, "POST", "/admin/generate_link", body).status_code == 404
    assert world.api.post("/otp", {"email": VICTIM, "create_user": False}).status_code == 422

    assert world.mailbox.emails == []


def test_a_link_from_before_the_rule_is_refused(world: World) -> None:
    token = sign_up_by_phone(world)
    user_id = world.api.get("/user", bearer=token).json()["id"]
    User.objects.filter(id=user_id).update(email=VICTIM)
    attacker = User.objects.get(id=user_id)
    secret = make_one_time_token(attacker, TokenType.CONFIRMATION, identifier=VICTIM)

    response = world.api.get(f"/verify?type=signup&token={secret.link_token}")

    assert redirect_fragment(response)["error_code"] == "otp_expired"
    by_code = world.api.post("/verify", {"type": "signup", "email": VICTIM, "token": secret.code})
    assert by_code.status_code == 403
    attacker.refresh_from_db()
    assert attacker.email_confirmed_at is None


def test_an_id_token_links_an_unverified_address_as_a_pending_change_only(
    issuer: Issuer, api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"anonymous_enabled": True})
    token = api.post("/signup", {}).json()["access_token"]
    linked = exchange(
        api,
        issuer.token(sub="666", email=VICTIM, email_verified=False),
        bearer=token,
        link_identity=True,
    )
    assert linked.json()["error_code"] == "email_not_confirmed"
    assert api.get("/user", bearer=token).json()["email"] == ""

    owner = exchange(api, issuer.token(sub="7", email=VICTIM, email_verified=True)).json()

    assert owner["user"]["email"] == VICTIM
    assert owner["user"]["id"] != api.get("/user", bearer=token).json()["id"]
    # The link of the former change cannot take the address any more.
    [change] = [mail for mail in mailbox.emails if mail.variables.get("NewEmail") == VICTIM]
    late = api.get(f"/verify?type=email_change&token={change.variables['TokenHash']}")
    assert redirect_fragment(late)["error_code"] == "email_exists"


def test_linking_a_verified_address_takes_it_from_an_account_that_only_claims_it(world: World) -> None:
    account_from_before_the_rule(world)
    token = sign_up_by_phone(world, VICTIMS_PHONE)
    world.github.set_user(VICTIM, id=7)

    assert "access_token" in redirect_fragment(world.browser.callback(start_link_flow(world.api, token)))

    assert world.api.get("/user", bearer=token).json()["email"] == VICTIM
    assert User.objects.get(phone=ATTACKERS_PHONE).email is None


# Phone numbers


def sign_in_by_sms(world: World, path: str, body: dict[str, Any]) -> ApiResponse:
    assert world.api.post(path, {"phone": VICTIMS_PHONE, **body}).status_code == 200
    code = [text for text in world.mailbox.sms if text.to == VICTIMS_PHONE][-1].variables["Code"]
    return world.api.post("/verify", {"type": "sms", "phone": VICTIMS_PHONE, "token": code})


@pytest.mark.parametrize(("path", "body"), [("/signup", {"password": PASSWORD}), ("/otp", {})])
def test_the_owner_of_a_phone_gets_an_own_account(path: str, body: dict[str, Any], world: World) -> None:
    """The account's email is confirmed, its phone is not."""
    created = {"email": "mallory@example.com", "email_confirm": True, "phone": VICTIMS_PHONE}
    admin_requests.expect_success(world.api, "POST", "/admin/users", {**created, "password": ATTACKERS_PASSWORD})
    credentials = {"email": "mallory@example.com", "password": ATTACKERS_PASSWORD}
    attacker = world.api.post("/token?grant_type=password", credentials).json()

    owner = sign_in_by_sms(world, path, body).json()["user"]

    assert (owner["id"] != attacker["user"]["id"], owner["phone"], owner["email"]) == (True, VICTIMS_PHONE, "")
    still = world.api.get("/user", bearer=attacker["access_token"]).json()
    assert (still["phone"], still["email"]) == ("", "mallory@example.com")


def test_the_first_proof_withdraws_the_other_unconfirmed_identifier(world: World) -> None:
    created = {"email": VICTIM, "phone": ATTACKERS_PHONE, "password": ATTACKERS_PASSWORD}
    admin_requests.expect_success(world.api, "POST", "/admin/users", created)
    assert world.api.post("/otp", {"phone": ATTACKERS_PHONE}).status_code == 200
    code = world.mailbox.sms[-1].variables["Code"]
    attacker = world.api.post("/verify", {"type": "sms", "phone": ATTACKERS_PHONE, "token": code}).json()
    assert (attacker["user"]["email"], attacker["user"]["new_email"]) == ("", VICTIM)

    owner = world.api.get("/user", bearer=sign_up_by_link(world)).json()

    assert (owner["id"] != attacker["user"]["id"], owner["phone"]) == (True, "")


# Legitimate use


def test_the_linked_address_is_confirmed_by_its_own_link(world: World) -> None:
    token = sign_up_by_phone(world)
    link_unverified(world, token)
    [mail] = world.mailbox.emails

    response = world.api.get(f"/verify?type=email_change&token={mail.variables['TokenHash']}")

    assert "access_token" in redirect_fragment(response)
    user = world.api.get("/user", bearer=token).json()
    assert (user["email"], user["phone"]) == (VICTIM, ATTACKERS_PHONE)
    assert "access_token" in redirect_fragment(world.browser.sign_in())


def test_a_linked_identity_signs_in_before_its_address_is_confirmed(world: World) -> None:
    token = phone_account_with_linked_identity(world)
    fragment = redirect_fragment(world.browser.sign_in())
    first, second = (world.api.get("/user", bearer=bearer).json() for bearer in (token, fragment["access_token"]))
    assert (first["id"], first["phone"]) == (second["id"], second["phone"])


def test_a_user_confirms_the_unconfirmed_address_of_the_own_account(world: World) -> None:
    token = account_made_by_an_administrator(world)
    world.mailbox.clear()
    assert world.api.put("/user", {"email": VICTIM}, bearer=token).status_code == 200
    [mail] = world.mailbox.emails
    assert mail.to == VICTIM
    assert "access_token" in redirect_fragment(
        world.api.get(f"/verify?type=email_change&token={mail.variables['TokenHash']}")
    )
    user = world.api.get("/user", bearer=token).json()
    assert (user["email"], bool(user["email_confirmed_at"])) == (VICTIM, True)


def test_a_repeated_invitation_keeps_the_phone_that_was_confirmed_after_the_first(world: World) -> None:
    invited = admin_requests.expect_success(world.api, "POST", "/invite", {"email": VICTIM})
    body = {"phone": VICTIMS_PHONE, "phone_confirm": True}
    admin_requests.expect_success(world.api, "PUT", f"/admin/users/{invited['id']}", body)
    owner = world.api.get("/user", bearer=invitation(world)).json()
    assert (owner["id"], owner["email"], owner["phone"]) == (invited["id"], VICTIM, VICTIMS_PHONE)


def test_an_unconfirmed_sign_up_is_taken_over_by_the_owner(world: World) -> None:
    """No person controls the account yet, so the verified address leads into it, and its password is gone."""
    shown = world.api.post("/signup", {"email": VICTIM, "password": ATTACKERS_PASSWORD}).json()
    owner = world.api.get("/user", bearer=provider_sign_in(world)).json()
    assert owner["id"] == shown["id"]
    assert not admin_requests.can_sign_in(world.api, ATTACKERS_PASSWORD, email=VICTIM)
    assert User.objects.filter(email=VICTIM, last_sign_in_at__lte=timezone.now()).exists()


@pytest.mark.parametrize("send", [support_messages.send_recovery, support_messages.resend_confirmation])
def test_an_operator_sends_no_link_that_would_be_refused(send: Callable[..., str], world: World) -> None:
    """The owner of the address signs up, or the user confirms it as a change."""
    world.attack(account_made_by_an_administrator)
    user = User.objects.get(email=VICTIM)
    with pytest.raises(UnprocessableInput):
        send(user.id, actor=Administrator(role="operator"), caller=Caller(), at=timezone.now())
    assert world.mailbox.emails == []
