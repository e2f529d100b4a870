"""The second factor of a sign-in: codes, recovery codes and security keys."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from accounts.mfa import recovery_codes, totp_algorithm
from accounts.models import Factor, User
from authsvc.conf import Secret, Vonage
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.models import AuditLogEntry
from authsvc.security import encryption
from tests import factories
from tests.conftest import ChangeConfig, Mailbox
from tests.page_browser import ACCOUNT, SIGN_IN, PageBrowser
from tokens.models import Session

pytestmark = pytest.mark.django_db

SECOND_FACTOR = "/account/second-factor"


def current_code(secret: str) -> str:
    return totp_algorithm.code_at(int(timezone.now().timestamp()) // 30, secret=secret)


@pytest.fixture
def secret(user: User) -> str:
    """The secret of the user's verified authenticator app."""
    secret = totp_algorithm.new_secret()
    factor = factories.make_factor(user, friendly_name="app")
    Factor.objects.filter(id=factor.id).update(secret=encryption.encrypt(secret, bound_to=factor.id))
    return secret


def test_a_code_completes_the_sign_in(browser: PageBrowser, secret: str) -> None:
    response = browser.sign_in("ada@example.com", query="?next=/oauth/device")
    target = f"{SECOND_FACTOR}?next=%2Foauth%2Fdevice"
    assert (response.status_code, response.headers["Location"]) == (303, target)
    assert browser.get().headers["Location"] == f"{SECOND_FACTOR}?next=%2Faccount"
    before = browser.cookie
    factor = str(Factor.objects.get().id)
    wrong = browser.submit(target, factor=factor, code="000000")
    assert (wrong.status_code, "The code is wrong" in wrong.content.decode()) == (422, True)
    response = browser.submit(target, factor=factor, code=current_code(secret))
    assert (response.status_code, response.headers["Location"]) == (303, "/oauth/device")
    assert browser.is_in
    assert Session.objects.get().aal == "aal2"
    # A copy of the cookie from before stays worthless, also when the factor is removed.
    copy = PageBrowser()
    copy.cookie = before
    assert copy.get().headers["Location"].startswith(SIGN_IN)
    Factor.objects.all().delete()
    Session.objects.update(aal="aal1", factor_id=None)
    copy.cookie = before
    assert copy.get().headers["Location"].startswith(SIGN_IN)


def test_a_recovery_code_replaces_the_factor(browser: PageBrowser, user: User, auth_config: ChangeConfig) -> None:
    auth_config(mfa={"recovery_codes_enabled": True})
    signed_in = factories.make_session(user)
    factories.make_factor(user)
    Session.objects.filter(id=signed_in.session.id).update(aal="aal2")
    codes = create_recovery_codes(signed_in)
    browser.sign_in("ada@example.com")
    response = browser.submit(SECOND_FACTOR, factor="recovery", code=codes[0])
    assert (response.status_code, response.headers["Location"]) == (303, ACCOUNT)
    assert browser.is_in


def create_recovery_codes(signed_in: factories.SignIn) -> list[str]:
    from accounts.users.queries import AccountUsers, get_user_record  # noqa: PLC0415
    from authsvc.caller import Caller  # noqa: PLC0415

    current = AccountUsers().find_by_session(signed_in.session.id)
    assert current is not None
    return list(recovery_codes.create(current, get_user_record(current), caller=Caller(), at=timezone.now()))


def test_an_sms_code_completes_the_sign_in(
    browser: PageBrowser, user: User, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    vonage = Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")
    auth_config(mfa={"phone_verify_enabled": True}, sms={"provider": "vonage", "vonage": vonage})
    factor = factories.make_factor(user, factor_type="phone", phone="15551234567")
    browser.sign_in("ada@example.com")
    page = browser.text(SECOND_FACTOR)
    assert f'name="sms" value="{factor.id}"' in page
    unknown = browser.submit(SECOND_FACTOR, sms="00000000-0000-4000-8000-000000000000")
    assert unknown.status_code == 404
    sent = browser.submit(SECOND_FACTOR, sms=str(factor.id))
    assert "A code was sent: Phone …4567" in sent.content.decode()
    code = str(mailbox.sms[-1].variables["Code"])
    assert browser.submit(SECOND_FACTOR, factor=str(factor.id), code=code).status_code == 303
    assert browser.is_in


def test_the_page_needs_a_sign_in_and_is_skipped_after_it(browser: PageBrowser, secret: str) -> None:
    response = browser.get(f"{SECOND_FACTOR}?next=/account/profile")
    assert response.headers["Location"] == f"{SIGN_IN}?next=%2Faccount%2Fprofile"
    browser.sign_in("ada@example.com")
    browser.submit(SECOND_FACTOR, factor=str(Factor.objects.get().id), code=current_code(secret))
    assert browser.get(f"{SECOND_FACTOR}?next=/account/profile").headers["Location"] == "/account/profile"
    assert browser.get(f"{SECOND_FACTOR}?next=//evil.example").headers["Location"] == ACCOUNT


def test_wrong_codes_are_limited_like_those_of_the_api(browser: PageBrowser, secret: str, slow_refill: None) -> None:
    browser.sign_in("ada@example.com")
    factor = str(Factor.objects.get().id)
    responses = [browser.submit(SECOND_FACTOR, factor=factor, code="000000").status_code for _ in range(11)]
    assert responses == [422] * 10 + [429]
    actions = AuditLogEntry.objects.values_list("payload__action", flat=True)
    assert "challenge_created" in actions


def test_the_fields_of_another_step_do_not_change_the_limit(browser: PageBrowser, secret: str) -> None:
    browser.sign_in("ada@example.com")
    browser.submit(SECOND_FACTOR, factor=str(Factor.objects.get().id), code="000000", ask="x")
    buckets = {bucket for (bucket,) in fetch_rows(f"SELECT bucket FROM {namespaced('rate_limits')}", ())}
    assert ("FactorVerify" in buckets, "FactorChallenge" in buckets) == (True, False)


def test_a_user_without_a_factor_goes_on(inside: PageBrowser) -> None:
    target = f"{SECOND_FACTOR}?next=/oauth/device"
    assert inside.get(target).headers["Location"] == "/oauth/device"
    posted = inside.submit("/account/profile", to=target, code="000000")
    assert posted.headers["Location"] == "/oauth/device"


def test_a_key_is_challenged(browser: PageBrowser, user: User, auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"web_authn_verify_enabled": True},
        webauthn={"rp_id": "localhost", "rp_display_name": "x", "rp_origins": ("http://localhost:8081",)},
    )
    credential: Any = {"ID": "AAAA", "PublicKey": "AAAA", "transport": ["usb"]}
    factories.make_factor(user, factor_type="webauthn", web_authn_credential=credential)
    browser.sign_in("ada@example.com")
    assert 'value="key"' in browser.text(SECOND_FACTOR)


@pytest.mark.parametrize(("has_app", "label"), [(True, "Code"), (False, "Recovery code")])
def test_the_field_names_the_only_code_that_it_accepts(
    browser: PageBrowser, user: User, auth_config: ChangeConfig, has_app: bool, label: str
) -> None:
    auth_config(mfa={"recovery_codes_enabled": not has_app})
    factors: Any = {"factor_type": "totp"} if has_app else {"factor_type": "webauthn", "web_authn_credential": {}}
    factories.make_factor(user, **factors)
    browser.sign_in("ada@example.com")
    assert f'<label for="id_code">{label}</label>' in browser.text(SECOND_FACTOR)
