"""The account that a sign-in at a provider leads to: matching, claiming, confirmation and invitations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.identities import external_sign_in
from accounts.identities.errors import IdentityNotCreated
from accounts.identities.external_identity import Address, ExternalIdentity, ProviderProfile
from accounts.models import Factor, Identity, User
from authsvc.caller import Caller
from authsvc.messaging import EmailType
from tests import factories
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, CHALLENGE, VERIFIER, make_user
from tests.oauthproviders.browser import SITE, Browser, GitHub, address, assert_error_redirect
from tests.observations import audit_trail, backdate_rate_limits, redirect_fragment, table_contents
from tokens.models import FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"
UNVERIFIED = address(EMAIL, verified=False)
MAILED = "Unverified email with github. A confirmation email has been sent to your github email"
NOT_MAILED = "Unverified email with github. Verify the email with github in order to sign in"


def make_identity(user: User, *, provider: str = "google", email: str = EMAIL, verified: bool = True) -> Identity:
    identity_data = {"sub": f"{provider}-7", "email": email, "email_verified": verified, "phone_verified": False}
    return Identity.objects.create(
        provider=provider,
        provider_id=f"{provider}-7",
        user=user,
        identity_data=identity_data,
        created_at=timezone.now(),
    )


def get_providers(user: User) -> Any:
    user.refresh_from_db()
    assert user.raw_app_meta_data is not None
    return user.raw_app_meta_data["providers"]


# Matching


@pytest.mark.parametrize("has_account", [False, True])
def test_with_sign_up_disabled_only_existing_users_sign_in(
    has_account: bool, github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"disabled": True})
    if has_account:
        make_user(email=EMAIL)

    response = browser.sign_in()

    if has_account:
        assert "access_token" in redirect_fragment(response)
        assert User.objects.count() == 1
    else:
        assert_error_redirect(response, "access_denied", "signup_disabled", "Signups not allowed for this instance")
        assert not User.objects.exists()


@pytest.mark.parametrize(
    ("secondary_is_verified", "autoconfirm", "is_linked"),
    [(True, False, True), (False, False, False), (False, True, False)],
)
def test_every_verified_address_matches_an_account(
    secondary_is_verified: bool, autoconfirm: bool, is_linked: bool, github: GitHub, browser: Browser,
    auth_config: ChangeConfig,
) -> None:  # fmt: skip
    auth_config(signup={"disabled": True}, mailer={"autoconfirm": autoconfirm})
    user = make_user(email="work@example.com")
    github.set_user(address(EMAIL), address("work@example.com", verified=secondary_is_verified, primary=False))

    response = browser.sign_in()

    if is_linked:
        assert get_providers(user) == ["email", "github"]
    else:
        assert_error_redirect(response, "access_denied", "signup_disabled", "Signups not allowed for this instance")


def test_a_verified_address_links_the_identity_to_its_account(
    github: GitHub, browser: Browser, mailbox: Mailbox
) -> None:
    user = make_user(email=EMAIL, data={"plan": "free", "name": "A"})
    session = factories.make_session(user).session
    github.set_user("Ada@Example.COM")

    response = browser.sign_in()

    assert "access_token" in redirect_fragment(response)
    identity = Identity.objects.get(provider="github")
    assert get_providers(user) == ["email", "github"]
    assert identity.user_id == user.id
    assert user.raw_user_meta_data is not None
    assert (user.raw_user_meta_data["plan"], user.raw_user_meta_data["name"]) == ("free", "Ada L")
    assert user.password
    assert Session.objects.filter(id=session.id).exists()
    linked = {"identity_id": str(identity.id), "provider": "github", "provider_id": "7"}
    assert audit_trail() == [("identity_linked", linked), ("login", {"provider": "github"})]
    assert [(mail.type, mail.to, mail.variables["Provider"]) for mail in mailbox.emails] == [
        (EmailType.IDENTITY_LINKED, EMAIL, "github")
    ]
    mailbox.clear()
    browser.sign_in()
    assert mailbox.emails == []
    assert [action for action, _ in audit_trail()].count("identity_linked") == 1


def test_several_matching_accounts_are_an_error(github: GitHub, browser: Browser) -> None:
    make_user(email="one@example.com")
    make_identity(make_user(), provider="google")
    make_identity(make_user(), provider="gitlab")
    before = table_contents()

    text = "Multiple accounts with the same email address in the same linking domain detected: default"
    state = browser.start()
    assert_error_redirect(browser.callback(state), "server_error", "unexpected_failure", text)

    FlowState.objects.all().delete()
    assert table_contents() == before


def test_an_sso_account_is_not_matched(github: GitHub, browser: Browser) -> None:
    make_user(email=EMAIL, is_sso_user=True)

    browser.sign_in()

    assert sorted(User.objects.values_list("email", "is_sso_user")) == [(EMAIL, False), (EMAIL, True)]


def test_an_unverified_address_of_an_identity_is_not_matched(github: GitHub, browser: Browser) -> None:
    other = make_user(email="other@example.com")
    make_identity(other, verified=False)

    browser.sign_in()

    assert Identity.objects.get(provider="github").user_id != other.id


@pytest.mark.parametrize(
    "federation",
    [
        {"linking_domains": {"github": "social", "custom:google": "social"}},
        {"linking_domains": {"custom:google": "github"}, "providers_with_own_domain": ("github",)},
    ],
    ids=["mapped", "own_domain"],
)
def test_only_providers_of_the_same_linking_domain_are_matched(
    federation: dict[str, Any], github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(federation=federation)
    make_user(email=EMAIL)
    browser.sign_in()
    user = Identity.objects.get(provider="github").user
    assert user.is_sso_user
    assert user.email == EMAIL
    make_identity(user, provider="custom:google", email="second@example.com")
    github.set_user("second@example.com", id=8)

    browser.sign_in()

    assert Identity.objects.get(provider="github", provider_id="8").user_id == user.id
    assert User.objects.count() == 2


@pytest.mark.parametrize("banned_as", ["returning", "linked"])
def test_a_banned_user_is_an_error_and_nothing_is_written(banned_as: str, github: GitHub, browser: Browser) -> None:
    if banned_as == "returning":
        browser.sign_in()
    else:
        make_user(email=EMAIL)
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    state = browser.start()
    before = table_contents()

    assert_error_redirect(browser.callback(state), "access_denied", "user_banned", "User is banned")
    assert table_contents() == before


def test_an_account_of_another_audience_is_not_matched(github: GitHub, browser: Browser) -> None:
    make_user(email=EMAIL, audience="elsewhere")

    response = browser.sign_in()

    assert "access_token" in redirect_fragment(response)
    assert sorted(User.objects.values_list("aud", "email")) == [("authenticated", None), ("elsewhere", EMAIL)]


def test_a_sign_in_is_repeated_when_another_request_changes_the_account() -> None:
    profile = ProviderProfile(claims={"sub": "7"}, addresses=(Address(email=EMAIL, verified=True, primary=True),))
    identity = ExternalIdentity.from_profile(profile, provider="custom:any", email_optional=False)
    caller, at = Caller(audience=AUDIENCE), timezone.now()
    store = Mock(side_effect=[*[IdentityNotCreated] * 3, "signed in"])

    assert external_sign_in.attempt(identity, store, caller=caller, at=at) == "signed in"

    store = Mock(side_effect=IdentityNotCreated)
    with pytest.raises(IdentityNotCreated):
        external_sign_in.attempt(identity, store, caller=caller, at=at)
    assert store.call_count == 4


def test_subjects_that_differ_in_case_are_different_users() -> None:
    users = [_sign_in(subject) for subject in ("abc", "ABC", "abc")]

    assert users[0] == users[2] != users[1]


def _sign_in(subject: str) -> User:
    email = "lower@example.com" if subject.islower() else "upper@example.com"
    profile = ProviderProfile(claims={"sub": subject}, addresses=(Address(email=email, verified=True, primary=True),))
    identity = ExternalIdentity.from_profile(profile, provider="custom:any", email_optional=False)
    match = external_sign_in.prepare(identity, caller=Caller(audience=AUDIENCE), at=timezone.now())
    with transaction.atomic():
        signed_in = external_sign_in.sign_in(
            match, starts_session=False, redirect_to="", caller=Caller(audience=AUDIENCE), at=timezone.now()
        )
    return User.objects.get(id=signed_in.user.id)


# Unverified addresses


def test_a_verified_sign_in_claims_an_unconfirmed_account(
    github: GitHub, browser: Browser, api: Api, mailbox: Mailbox
) -> None:
    user = make_user(email=EMAIL, confirmed=False, data={"name": "Unverified", "plan": "pro"})
    factories.make_factor(user)
    session = factories.make_session(user)
    link = factories.make_one_time_token(user, TokenType.CONFIRMATION).link_token
    flow = factories.make_flow(user)
    sent_at = timezone.now() - timedelta(hours=1)
    User.objects.update(email_change="evil@example.com", confirmation_sent_at=sent_at)

    response = browser.sign_in()

    fragment = redirect_fragment(response)
    user.refresh_from_db()
    identity = Identity.objects.get()
    assert user.confirmation_sent_at == sent_at
    assert (identity.provider, identity.user_id, get_providers(user)) == ("github", user.id, ["github"])
    assert (user.password, user.email_change, user.email) == (None, "", EMAIL)
    assert user.email_confirmed_at is not None
    assert user.raw_user_meta_data == identity.identity_data
    assert api.get("/user", bearer=fragment["access_token"]).status_code == 200
    assert api.get("/user", bearer=session.access_token).status_code == 403
    assert not Factor.objects.exists()
    assert api.post("/verify", {"type": "signup", "token_hash": link}).status_code == 403
    exchange = {"auth_code": flow.auth_code, "code_verifier": VERIFIER}
    assert api.post("/token?grant_type=pkce", exchange).status_code == 404
    password = {"email": EMAIL, "password": factories.PASSWORD}
    assert api.post("/token?grant_type=password", password).status_code == 400
    assert [action for action, _ in audit_trail()] == ["identity_linked", "user_signedup"]
    assert mailbox.emails == []


def test_an_unverified_address_gets_a_confirmation_email(
    github: GitHub, browser: Browser, api: Api, mailbox: Mailbox
) -> None:
    github.set_user(UNVERIFIED)

    response = browser.sign_in(redirect_to=f"{SITE}/in")

    assert_error_redirect(response, "access_denied", "provider_email_needs_verification", MAILED, to=f"{SITE}/in")
    user = User.objects.get()
    assert (user.email, user.email_confirmed_at, user.last_sign_in_at, get_providers(user)) == (
        EMAIL, None, None, ["github"],
    )  # fmt: skip
    assert user.confirmation_sent_at is not None
    assert audit_trail() == []
    assert not Session.objects.exists()
    (mail,) = mailbox.emails
    assert (mail.type, mail.to) == (EmailType.CONFIRMATION, EMAIL)
    assert f"&type=signup&redirect_to={SITE}/in" in mail.variables["ConfirmationURL"]
    assert not mail.variables["TokenHash"].startswith("pkce_")
    confirmed = api.post("/verify", {"type": "email", "token_hash": mail.variables["TokenHash"]})
    assert confirmed.status_code == 200
    assert "access_token" in redirect_fragment(browser.sign_in())


def test_with_pkce_an_unverified_address_gets_a_confirmation_email(
    github: GitHub, browser: Browser, mailbox: Mailbox
) -> None:
    github.set_user(UNVERIFIED)

    response = browser.sign_in(code_challenge=CHALLENGE, code_challenge_method="s256")

    assert_error_redirect(response, "access_denied", "provider_email_needs_verification", MAILED)
    assert FlowState.objects.get().user_id is None
    assert not mailbox.emails[0].variables["TokenHash"].startswith("pkce_")


def test_the_confirmation_email_is_sent_once_per_interval(
    github: GitHub, browser: Browser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=60)})
    github.set_user(UNVERIFIED)
    browser.sign_in()

    text = "For security purposes, you can only request this after 59 seconds."
    assert_error_redirect(browser.sign_in(), "server_error", "over_email_send_rate_limit", text)
    assert len(mailbox.emails) == 1

    backdate_rate_limits(timedelta(seconds=61))
    assert_error_redirect(browser.sign_in(), "access_denied", "provider_email_needs_verification", MAILED)
    assert len(mailbox.emails) == 2
    assert (User.objects.count(), Identity.objects.count(), OneTimeToken.objects.count()) == (1, 1, 1)


def test_no_account_is_created_for_an_address_that_is_not_authorized(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(recipients={"authorized_addresses": ("authorized@example.com",)})
    github.set_user(UNVERIFIED)

    text = f'Email address "{EMAIL}" cannot be used as it is not authorized'
    assert_error_redirect(browser.sign_in(), "invalid_request", "email_address_not_authorized", text)
    assert not User.objects.exists()


def test_unverified_addresses_sign_in_when_configured(
    github: GitHub, browser: Browser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"allow_unverified_email_sign_ins": True})
    github.set_user(UNVERIFIED)

    first = redirect_fragment(browser.sign_in())

    user = User.objects.get()
    assert "access_token" in first
    assert user.email_confirmed_at is None
    assert user.last_sign_in_at is not None
    assert [mail.to for mail in mailbox.emails] == [EMAIL]
    assert audit_trail() == []
    backdate_rate_limits(timedelta(hours=1))
    assert "access_token" in redirect_fragment(browser.sign_in())
    assert Session.objects.count() == 2


@pytest.mark.parametrize("owner", ["account", "identity", "account elsewhere"])
def test_an_unverified_address_of_another_user_is_neither_linked_nor_stored(
    owner: str, github: GitHub, browser: Browser, mailbox: Mailbox
) -> None:
    if owner == "identity":
        make_identity(make_user())
    else:
        make_user(email=EMAIL, audience="elsewhere" if "elsewhere" in owner else "authenticated")
    before = User.objects.values().get()
    github.set_user(UNVERIFIED)

    response = browser.sign_in()

    assert_error_redirect(response, "access_denied", "provider_email_needs_verification", NOT_MAILED)
    assert User.objects.filter(id=before["id"]).values().get() == before
    created = Identity.objects.get(provider="github").user
    assert (created.email, created.email_confirmed_at, mailbox.emails) == (None, None, [])
    github.set_user(EMAIL)
    assert "access_token" in redirect_fragment(browser.sign_in())
    created.refresh_from_db()
    assert created.email is None
    assert created.email_confirmed_at is not None


def test_a_verified_address_does_not_confirm_another_address_of_the_account(
    github: GitHub, browser: Browser, mailbox: Mailbox
) -> None:
    github.set_user(UNVERIFIED)
    browser.sign_in()
    backdate_rate_limits(timedelta(hours=1))
    github.set_user("other@example.com")

    assert_error_redirect(browser.sign_in(), "access_denied", "provider_email_needs_verification", MAILED)

    assert User.objects.get().email_confirmed_at is None
    assert [mail.to for mail in mailbox.emails] == [EMAIL, EMAIL]


def test_with_auto_confirm_every_address_is_verified(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"autoconfirm": True})
    github.set_user(UNVERIFIED)

    assert "access_token" in redirect_fragment(browser.sign_in())

    user = User.objects.get()
    assert user.email_confirmed_at is not None
    assert user.raw_user_meta_data is not None
    assert user.raw_user_meta_data["email_verified"] is True
    assert Identity.objects.get().identity_data["email_verified"] is False


# Invitations


def invite(email: str = EMAIL) -> str:
    user = make_user(email=email, confirmed=False, password="", invited_at=timezone.now())
    return factories.make_one_time_token(user, TokenType.CONFIRMATION).link_token


def test_a_sign_in_at_a_provider_accepts_an_invitation(github: GitHub, browser: Browser, api: Api) -> None:
    token = invite("Ada@example.com".lower())
    github.set_user(address("other@example.com"), address("ADA@example.com", verified=False, primary=False))

    response = browser.sign_in(invite_token=token)

    fragment = redirect_fragment(response)
    user = User.objects.get()
    assert api.get("/user", bearer=fragment["access_token"]).json()["id"] == str(user.id)
    assert (user.email, get_providers(user)) == (EMAIL, ["github"])
    assert user.email_confirmed_at is not None
    assert audit_trail() == [("invite_accepted", {"provider": "github"})]
    assert not OneTimeToken.objects.exists()


def test_an_invitation_of_another_address_is_an_error(github: GitHub, browser: Browser) -> None:
    token = invite("bob@example.com")

    response = browser.sign_in(invite_token=token)

    text = "Invited email does not match emails from external provider"
    assert_error_redirect(response, "invalid_request", "validation_failed", text)
    assert [identity.provider for identity in Identity.objects.all()] == ["email"]


def test_an_invitation_accepted_during_the_flow_is_an_error(github: GitHub, browser: Browser, api: Api) -> None:
    token = invite()
    state = browser.start(invite_token=token)
    assert api.post("/verify", {"type": "invite", "token_hash": token}).status_code == 200

    assert_error_redirect(browser.callback(state), "server_error", "invite_not_found", "Invite not found")


def test_an_identity_of_another_user_does_not_accept_an_invitation(github: GitHub, browser: Browser) -> None:
    browser.sign_in()
    token = invite("second@example.com")
    github.set_user("second@example.com")

    response = browser.sign_in(invite_token=token)

    assert_error_redirect(response, "server_error", "unexpected_failure", "Error creating identity")
    assert OneTimeToken.objects.count() == 1
