"""Attack: with auto-confirm, a provider's profile lists the address of another person as unverified."""

from __future__ import annotations

import pytest

from accounts.models import Identity, User
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_session, make_user
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, GitHub, address, start_link_flow
from tests.oauthproviders.flow.id_token_requests import exchange
from tests.observations import redirect_fragment

pytestmark = pytest.mark.django_db

VICTIM = "ada@example.com"
ATTACKER = "mallory@example.com"


@pytest.fixture(autouse=True)
def _autoconfirm(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})


def assert_untouched(victim: User) -> None:
    victim.refresh_from_db()
    assert (victim.email, [identity.provider for identity in victim.identities.all()]) == (VICTIM, ["email"])
    assert not Identity.objects.filter(user=victim).exclude(provider="email").exists()


@pytest.mark.parametrize("is_confirmed", [True, False])
@pytest.mark.parametrize("is_primary", [True, False])
def test_a_browser_sign_in_does_not_open_the_account(
    is_primary: bool, is_confirmed: bool, github: GitHub, browser: Browser, api: Api
) -> None:
    victim = make_user(email=VICTIM, confirmed=is_confirmed)
    unverified = address(VICTIM, verified=False, primary=is_primary)
    github.set_user(*([] if is_primary else [address(ATTACKER)]), unverified, id=666)

    fragment = redirect_fragment(browser.sign_in())

    if token := fragment.get("access_token"):
        assert api.get("/user", bearer=token).json()["id"] != str(victim.id)
    else:
        assert fragment["error_code"] == "provider_email_needs_verification"
    assert_untouched(victim)

    # The owner's verified address still leads into the account, and a new user is confirmed at once.
    if is_confirmed:
        github.set_user(VICTIM, id=7)
        owner = redirect_fragment(browser.sign_in())
        assert api.get("/user", bearer=owner["access_token"]).json()["id"] == str(victim.id)
    github.set_user(address("new@example.com", verified=False), id=8)
    new = api.get("/user", bearer=redirect_fragment(browser.sign_in())["access_token"]).json()
    assert (new["email"], "email_confirmed_at" in new) == ("new@example.com", True)


def test_an_id_token_does_not_open_the_account(issuer: Issuer, api: Api) -> None:
    victim = make_user(email=VICTIM)

    response = exchange(api, issuer.token(sub="666", email=VICTIM, email_verified=False))

    assert response.status_code == 422
    assert_untouched(victim)
    verified = exchange(api, issuer.token(sub="7", email=VICTIM, email_verified=True))
    assert verified.json()["user"]["id"] == str(victim.id)


def test_an_identity_that_changes_its_address_does_not_confirm_an_existing_account(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"autoconfirm": False})
    github.set_user(address(VICTIM, verified=False), id=666)
    assert redirect_fragment(browser.sign_in())["error_code"] == "provider_email_needs_verification"
    auth_config(mailer={"autoconfirm": True})

    assert "access_token" not in redirect_fragment(browser.sign_in())

    assert User.objects.get().email_confirmed_at is None


def test_unlinking_does_not_promote_the_address(github: GitHub, browser: Browser, api: Api) -> None:
    attacker = make_session(make_user(email=ATTACKER))
    github.set_user(address(VICTIM, verified=False), id=666)
    browser.callback(start_link_flow(api, attacker.access_token))
    own = Identity.objects.get(user=attacker.user, provider="email")

    assert api.delete(f"/user/identities/{own.id}", bearer=attacker.access_token).status_code == 200

    attacker.user.refresh_from_db()
    assert attacker.user.email is None
    signed_up = api.post("/signup", {"email": VICTIM, "password": PASSWORD})
    assert signed_up.status_code == 200
    assert signed_up.json()["user"]["id"] != str(attacker.user.id)
