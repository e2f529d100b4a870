"""Access to the account pages: the sign-in, the second factor, CSRF protection, and rows of other users."""

from __future__ import annotations

import pytest

from accounts.models import Factor, Identity, Passkey, User
from tests import factories
from tests.accounts.mfa.factor_requests import SECRET
from tests.conftest import ChangeConfig
from tests.page_browser import ACCOUNT, PageBrowser, read_location, read_text
from tokens.models import Session

pytestmark = pytest.mark.django_db

NAMES = (
    "", "/profile", "/email", "/phone", "/password", "/factors", "/factors/app", "/factors/phone", "/factors/key",
    "/factors/recovery-codes", "/passkeys", "/passkeys/new", "/identities", "/sessions", "/sessions/others", "/data",
    "/deletion",
)  # fmt: skip
PAGES = tuple(f"{ACCOUNT}{name}" for name in NAMES)


@pytest.fixture(autouse=True)
def _passkeys(auth_config: ChangeConfig) -> None:
    auth_config(
        passkeys={"enabled": True},
        webauthn={"rp_id": "example.com", "rp_display_name": "Example", "rp_origins": ("https://auth.example.com",)},
        mfa={"recovery_codes_enabled": True},
    )


def test_every_page_is_shown_to_the_signed_in_user(inside: PageBrowser) -> None:
    for path in PAGES:
        page = inside.text(path)
        assert "<h1>" in page, path
        is_entry = f'<li><a href="{path}"' in page
        assert (f'<li><a href="{path}" aria-current="page">' in page) == is_entry, path
        assert inside.get(f"{path}/").status_code == 200, path


def test_the_pages_need_a_sign_in_and_the_second_factor(browser: PageBrowser, user: User) -> None:
    for path in PAGES:
        assert browser.get(path).headers["Location"].startswith("/account/sign-in?next="), path
    factories.make_factor(user, secret=SECRET)
    browser.sign_in("ada@example.com")
    for path in PAGES:
        response = browser.get(path)
        assert (response.status_code, response.headers["Location"].startswith("/account/second-factor?next=")) == (
            303,
            True,
        ), path


def test_an_access_token_and_an_impersonated_session_do_not_open_the_pages(inside: PageBrowser, user: User) -> None:
    bearer = factories.make_session(user).access_token
    response = PageBrowser().get("/account/profile", Authorization=f"Bearer {bearer}")
    assert response.headers["Location"].startswith("/account/sign-in")
    operator = factories.make_session()
    Session.objects.filter(user=user).update(
        impersonator_id=operator.user.id, impersonator_session_id=operator.session.id
    )
    for path in PAGES:
        assert inside.get(path).headers["Location"].startswith("/account/sign-in"), path


def test_changes_need_a_csrf_token(inside: PageBrowser) -> None:
    for path in PAGES[1:]:
        response = inside.client.post(path, {"name": "x", "provider": "github", "address": "ada@example.com"})
        assert response.status_code in (403, 405), path
    assert User.objects.get().raw_user_meta_data.get("name") is None
    assert not Factor.objects.exists()


def test_rows_of_others_do_not_exist(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": True})
    stranger = factories.make_user()
    factor = factories.make_factor(stranger, secret=SECRET, friendly_name="theirs")
    passkey = Passkey.objects.create(user=stranger, credential_id=b"x", public_key=b"y")
    identity = Identity.objects.get(user=stranger)
    names = (f"factors/{factor.id}/name", f"factors/{factor.id}/removal", f"passkeys/{passkey.id}/name",
             f"passkeys/{passkey.id}/removal", f"identities/{identity.id}/removal")  # fmt: skip
    for name in names:
        path = f"{ACCOUNT}/{name}"
        for response in (inside.get(path), inside.submit("/account/profile", to=path, name="mine")):
            assert read_location(response) == (303, f"{ACCOUNT}/{name.partition('/')[0]}"), path
    session = factories.make_session(stranger).session
    assert inside.submit("/account/sessions", session=str(session.id)).status_code == 404
    assert inside.submit("/account/sessions", session="unknown").status_code == 404
    assert (Factor.objects.get().friendly_name, Passkey.objects.count()) == ("theirs", 1)
    assert Session.objects.filter(pk=session.pk).exists()


def test_the_removal_of_a_row_that_is_gone_leads_back_with_a_message(inside: PageBrowser, user: User) -> None:
    passkey = Passkey.objects.create(user=user, credential_id=b"x", public_key=b"y")
    removal = f"{ACCOUNT}/passkeys/{passkey.id}/removal"
    assert inside.submit(removal).status_code == 303
    assert read_location(inside.submit(f"{ACCOUNT}/profile", to=removal)) == (303, f"{ACCOUNT}/passkeys")
    assert "This passkey does not exist any more." in inside.text(f"{ACCOUNT}/passkeys")
    gone = inside.submit(f"{ACCOUNT}/sessions", session=str(passkey.id))
    assert (gone.status_code, "This session has already ended." in read_text(gone)) == (404, True)


def test_disabled_pages_and_methods_are_not_offered(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(
        passkeys={"enabled": False},
        mfa={"totp_enroll_enabled": False, "recovery_codes_enabled": False},
        pages={"account_deletion_enabled": False},
    )
    overview = inside.text(ACCOUNT)
    assert "Passkeys" not in overview
    assert 'href="/account/phone"' not in overview
    for path in ("/account/passkeys", "/account/passkeys/new", "/account/deletion"):
        assert inside.get(path).status_code == 404, path
    factors = inside.text("/account/factors")
    assert "Add an authenticator app" not in factors
    assert "Delete your account" not in inside.text("/account/data")
    refused = inside.submit("/account/profile", to="/account/factors/app", name="x")
    assert (refused.status_code, Factor.objects.exists()) == (422, False)
    auth_config(pages={"enabled": False})
    for path in PAGES:
        assert inside.get(path).status_code == 404, path


def test_the_overview_summarises_the_account(inside: PageBrowser, user: User) -> None:
    factories.make_session(user)
    page = inside.text(ACCOUNT)
    for text in ("ada@example.com", "You have a password.", "No second factor protects", "0 passkeys", "2 sessions"):
        assert text in page
    for path in ("profile", "email", "password", "factors", "passkeys", "identities", "sessions", "data"):
        assert f'href="/account/{path}"' in page
