"""The second step into the console: authenticator app, phone, recovery code."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from accounts.factors import recovery_codes
from accounts.models import Factor, FactorChallenge, RecoveryCode, User
from authsvc.core import clock
from authsvc.core.config.schema import Secret, Twilio
from tests import factories
from tests.accounts.factors import wire
from tests.accounts.factors.wire import PHONE, SECRET
from tests.authsvc.console.conftest import SIGN_IN, START, Console
from tests.conftest import ChangeConfig, Mailbox
from tests.observations import audit_trail
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)

STEP = "/operator/second-step/"


@pytest.fixture(autouse=True)
def phones(auth_config: ChangeConfig) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        mfa={"phone_verify_enabled": True, "recovery_codes_enabled": False},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
    )


@pytest.fixture
def app(operator: User) -> Factor:
    """The operator's authenticator app."""
    return factories.make_factor(operator, secret=SECRET, friendly_name="phone app")


def copy_of(console: Console) -> Console:
    """Another browser with the same cookies."""
    other = Console()
    other.client.cookies.load({name: cookie.value for name, cookie in console.client.cookies.items()})
    return other


def answer(console: Console, code: str, **fields: str) -> Any:
    return console.submit(STEP, code=code, **fields)


def test_the_code_of_the_app_opens_the_console(console: Console, operator: User, app: Factor) -> None:
    console.sign_in("op@example.com")
    done = answer(console, wire.code(), factor=str(app.id), next="/operator/accounts/user/")
    assert (done.status_code, done.headers["Location"]) == (302, "/operator/accounts/user/")
    assert console.is_in
    session = Session.objects.get(user=operator)
    assert (session.aal, session.factor_id) == ("aal2", app.id)
    assert [action for action, _ in audit_trail()] == ["login", "challenge_created", "verification_attempted"]
    assert console.get(STEP).headers["Location"] == START
    assert console.get(SIGN_IN).headers["Location"] == START


def test_the_page_that_was_asked_for_is_remembered_through_both_steps(console: Console, app: Factor) -> None:
    wanted = "/operator/accounts/user/?state=banned"
    console.sign_in("op@example.com", next=wanted)
    back = console.get(wanted).headers["Location"]
    page = console.get(console.get(back).headers["Location"]).content.decode()
    assert f'name="next" value="{wanted}"' in page


def test_only_one_factor_is_no_choice(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert "<select" not in page
    assert re.search(rf'type="hidden" name="factor" value="{app.id}"', page)
    assert "Text me a code" not in page


@pytest.mark.parametrize("code", ["", "123", "zzzzzz"])
def test_a_wrong_code_opens_nothing(console: Console, app: Factor, code: str) -> None:
    console.sign_in("op@example.com")
    said = answer(console, code, factor=str(app.id))
    assert 400 <= said.status_code < 500
    assert ("Invalid TOTP code entered" if code else "This field is required") in said.content.decode()
    assert b"op@example.com" not in said.content
    assert not console.is_in
    assert Session.objects.get().aal == "aal1"


def test_wrong_codes_are_counted_as_anywhere(console: Console, app: Factor, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 2})
    console.sign_in("op@example.com")
    for _ in range(2):
        answer(console, wire.wrong_code(), factor=str(app.id))
    said = answer(console, wire.code(), factor=str(app.id))
    assert (said.status_code, "Retry-After" in said.headers) == (429, True)
    assert not console.is_in


def test_somebody_elses_factor_opens_nothing(console: Console, app: Factor) -> None:
    strange = factories.make_factor(factories.make_user(), secret=SECRET)
    console.sign_in("op@example.com")
    assert answer(console, wire.code(), factor=str(strange.id)).status_code == 400
    assert not console.is_in


def test_the_step_is_for_those_who_made_the_first(console: Console, operator: User) -> None:
    assert console.get(STEP).headers["Location"] == SIGN_IN
    console.sign_in("op@example.com")
    assert console.get(STEP).headers["Location"] == START


def test_a_copy_of_the_cookie_from_before_opens_nothing(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    thief = copy_of(console)
    answer(console, wire.code(), factor=str(app.id))
    assert console.is_in
    assert not thief.is_in
    assert thief.get().headers["Location"].startswith(SIGN_IN)


def test_a_session_raised_elsewhere_is_not_raised_for_the_cookie(console: Console, operator: User, app: Factor) -> None:
    console.sign_in("op@example.com")
    Session.objects.filter(user=operator).update(aal="aal2")
    assert not console.is_in


def test_a_factor_that_is_taken_away_lowers_an_open_console(console: Console, operator: User, app: Factor) -> None:
    factories.make_factor(operator, friendly_name="other", secret=SECRET)
    console.sign_in("op@example.com")
    answer(console, wire.code(), factor=str(app.id))
    assert console.is_in
    Session.objects.filter(user=operator).update(aal="aal1", factor_id=None)
    assert not console.is_in
    assert console.get(STEP).status_code == 200


# Phones


def test_a_code_is_texted_when_it_is_asked_for(console: Console, operator: User, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    console.sign_in("op@example.com")
    assert not mailbox.texts
    early = answer(console, "123456", factor=str(phone.id))
    assert (early.status_code, "MFA factor with the provided challenge ID not found" in early.content.decode()) == (
        422, True,
    )  # fmt: skip
    sent = answer(console, "", factor=str(phone.id), send="sms")
    assert sent.status_code == 200
    assert "A code is on its way: Phone …7889" in sent.content.decode()
    assert PHONE not in sent.content.decode()
    (text,) = mailbox.texts
    assert answer(console, text.variables["Code"], factor=str(phone.id)).status_code == 302
    assert console.is_in


def test_a_phone_waits_before_it_is_texted_again(console: Console, operator: User, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    console.sign_in("op@example.com")
    answer(console, "", factor=str(phone.id), send="sms")
    said = answer(console, "", factor=str(phone.id), send="sms")
    assert (said.status_code, "you can only request this after" in said.content.decode()) == (429, True)
    assert len(mailbox.texts) == 1


def test_who_has_several_factors_chooses(console: Console, operator: User, app: Factor, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    factories.make_factor(operator, status="unverified", friendly_name="not yet")
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert re.findall(r"<option value=\"([^\"]+)\"[^>]*>([^<]+)<", page) == [
        (str(app.id), "Authenticator app (phone app)"),
        (str(phone.id), "Phone …7889"),
    ]
    # The app is chosen in the form, and there is but one phone.
    answer(console, "", factor=str(app.id), send="sms")
    assert len(mailbox.texts) == 1
    assert answer(console, wire.code(), factor=str(app.id)).status_code == 302


def test_nothing_is_texted_to_who_has_no_phone(console: Console, app: Factor, mailbox: Mailbox) -> None:
    console.sign_in("op@example.com")
    assert answer(console, "", factor=str(app.id), send="sms").status_code == 400
    assert not mailbox.texts
    assert not FactorChallenge.objects.exists()


# Recovery codes


def test_a_recovery_code_opens_the_console_too(
    console: Console, operator: User, app: Factor, auth_config: ChangeConfig
) -> None:
    auth_config(mfa={"recovery_codes_enabled": True})
    code, *_ = recovery_codes.make()
    digest = recovery_codes.digest(code, user_id=operator.id)
    RecoveryCode.objects.create(user=operator, code_hash=digest, created_at=clock.now() - timedelta(days=1))
    console.sign_in("op@example.com")
    assert "Recovery code" in console.get(STEP).content.decode()
    assert answer(console, "0000", factor="recovery").status_code == 422
    assert answer(console, code, factor="recovery").status_code == 302
    assert console.is_in
    assert not RecoveryCode.objects.exists()


def test_recovery_codes_are_not_offered_where_they_are_off(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    assert answer(console, "0000", factor="recovery").status_code == 400


def test_a_factor_that_cannot_be_asked_for_keeps_everything_shut(console: Console, operator: User) -> None:
    factories.make_factor(operator, factor_type="webauthn")
    console.sign_in("op@example.com")
    page = console.get(STEP)
    assert "cannot ask for" in page.content.decode()
    assert not console.is_in
