"""The second factor of the console sign-in: authenticator app, phone, recovery code and security key."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.mfa import recovery_codes
from accounts.models import Factor, FactorChallenge, RecoveryCode, User
from authsvc.conf import Secret, Twilio
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa import test_webauthn_factor as keys
from tests.accounts.mfa.factor_requests import PHONE, SECRET, Owner
from tests.authsvc.console.conftest import SIGN_IN, START, Console
from tests.authsvc.console.security_keys import ORIGIN, copy_of, new_device, options_in
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.fakes.authenticator import Authenticator
from tests.observations import audit_trail
from tokens.models import Session

pytestmark = pytest.mark.django_db

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


def submit_code(console: Console, code: str, **fields: str) -> Any:
    return console.submit(STEP, code=code, **fields)


def test_a_totp_code_completes_the_sign_in(console: Console, operator: User, app: Factor) -> None:
    console.sign_in("op@example.com")
    done = submit_code(console, factor_requests.code(), factor=str(app.id), next="/operator/accounts/user/")
    assert (done.status_code, done.headers["Location"]) == (302, "/operator/accounts/user/")
    assert console.is_in
    session = Session.objects.get(user=operator)
    assert (session.aal, session.factor_id) == ("aal2", app.id)
    assert [action for action, _ in audit_trail()] == ["login", "challenge_created", "verification_attempted"]
    assert console.get(STEP).headers["Location"] == START
    assert console.get(SIGN_IN).headers["Location"] == START


def test_a_code_may_be_typed_in_groups(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    code = factor_requests.code()
    assert submit_code(console, f"{code[:3]} {code[3:]}", factor=str(app.id)).status_code == 302


def test_the_requested_page_follows_both_sign_in_steps(console: Console, app: Factor) -> None:
    requested_path = "/operator/accounts/user/?state=banned"
    console.sign_in("op@example.com", next=requested_path)
    back = console.get(requested_path).headers["Location"]
    page = console.get(console.get(back).headers["Location"]).content.decode()
    assert f'name="next" value="{requested_path}"' in page


def test_a_single_factor_is_selected_automatically(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert "<select" not in page
    assert re.search(rf'type="hidden" name="factor" value="{app.id}"', page)
    assert "Send a code by SMS" not in page


@pytest.mark.parametrize("code", ["", "123", "zzzzzz"])
def test_a_wrong_code_does_not_complete_the_sign_in(console: Console, app: Factor, code: str) -> None:
    console.sign_in("op@example.com")
    response = submit_code(console, code, factor=str(app.id))
    assert 400 <= response.status_code < 500
    assert ("Invalid TOTP code entered" if code else "This field is required") in response.content.decode()
    assert b"op@example.com" not in response.content
    assert not console.is_in
    assert Session.objects.get().aal == "aal1"


def test_wrong_codes_count_against_the_attempt_limit(console: Console, app: Factor, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 2})
    console.sign_in("op@example.com")
    for _ in range(2):
        submit_code(console, factor_requests.wrong_code(), factor=str(app.id))
    response = submit_code(console, factor_requests.code(), factor=str(app.id))
    assert (response.status_code, "Retry-After" in response.headers) == (429, True)
    assert not console.is_in


def test_another_users_factor_is_rejected(console: Console, app: Factor) -> None:
    strange = factories.make_factor(factories.make_user(), secret=SECRET)
    console.sign_in("op@example.com")
    assert submit_code(console, factor_requests.code(), factor=str(strange.id)).status_code == 400
    assert not console.is_in


def test_the_second_factor_page_requires_the_password(console: Console, operator: User) -> None:
    assert console.get(STEP).headers["Location"] == SIGN_IN
    console.sign_in("op@example.com")
    assert console.get(STEP).headers["Location"] == START


def test_a_cookie_from_before_the_second_factor_stays_incomplete(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    thief = copy_of(console)
    submit_code(console, factor_requests.code(), factor=str(app.id))
    assert console.is_in
    assert not thief.is_in
    assert thief.get().headers["Location"].startswith(SIGN_IN)


def test_a_step_up_elsewhere_does_not_complete_the_console_sign_in(
    console: Console, operator: User, app: Factor
) -> None:
    console.sign_in("op@example.com")
    Session.objects.filter(user=operator).update(aal="aal2")
    assert not console.is_in


def test_removing_the_factor_ends_console_access(console: Console, operator: User, app: Factor) -> None:
    factories.make_factor(operator, friendly_name="other", secret=SECRET)
    console.sign_in("op@example.com")
    submit_code(console, factor_requests.code(), factor=str(app.id))
    assert console.is_in
    Session.objects.filter(user=operator).update(aal="aal1", factor_id=None)
    assert not console.is_in
    assert console.get(STEP).status_code == 200


# Phones


def test_an_sms_code_is_sent_on_request(console: Console, operator: User, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    console.sign_in("op@example.com")
    assert not mailbox.sms
    early = submit_code(console, "123456", factor=str(phone.id))
    assert (early.status_code, "MFA factor with the provided challenge ID not found" in early.content.decode()) == (
        422, True,
    )  # fmt: skip
    sent = submit_code(console, "", factor=str(phone.id), ask="sms")
    assert sent.status_code == 200
    assert "Code sent to: Phone …7889" in sent.content.decode()
    assert PHONE not in sent.content.decode()
    (text,) = mailbox.sms
    assert submit_code(console, text.variables["Code"], factor=str(phone.id)).status_code == 302
    assert console.is_in


def test_sms_codes_have_a_minimum_interval(console: Console, operator: User, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    console.sign_in("op@example.com")
    submit_code(console, "", factor=str(phone.id), ask="sms")
    response = submit_code(console, "", factor=str(phone.id), ask="sms")
    assert (response.status_code, "you can only request this after" in response.content.decode()) == (429, True)
    assert len(mailbox.sms) == 1


def test_users_with_several_factors_choose_one(console: Console, operator: User, app: Factor, mailbox: Mailbox) -> None:
    phone = factories.make_factor(operator, factor_type="phone", phone=PHONE)
    factories.make_factor(operator, status="unverified", friendly_name="not yet")
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert re.findall(r"<option value=\"([^\"]+)\"[^>]*>([^<]+)<", page) == [
        (str(app.id), "Authenticator app (phone app)"),
        (str(phone.id), "Phone …7889"),
    ]
    # The form selects the app, and only one phone exists.
    submit_code(console, "", factor=str(app.id), ask="sms")
    assert len(mailbox.sms) == 1
    assert submit_code(console, factor_requests.code(), factor=str(app.id)).status_code == 302


def test_no_sms_is_sent_without_a_phone(console: Console, app: Factor, mailbox: Mailbox) -> None:
    console.sign_in("op@example.com")
    assert submit_code(console, "", factor=str(app.id), ask="sms").status_code == 400
    assert not mailbox.sms
    assert not FactorChallenge.objects.exists()


# Recovery codes


def test_a_recovery_code_completes_the_sign_in(
    console: Console, operator: User, app: Factor, auth_config: ChangeConfig
) -> None:
    auth_config(mfa={"recovery_codes_enabled": True})
    code, *_ = recovery_codes.generate()
    digest = recovery_codes.hash_code(code, user_id=operator.id)
    RecoveryCode.objects.create(user=operator, code_hash=digest, created_at=timezone.now() - timedelta(days=1))
    console.sign_in("op@example.com")
    assert "Recovery code" in console.get(STEP).content.decode()
    assert submit_code(console, "0000", factor="recovery").status_code == 422
    assert submit_code(console, code, factor="recovery").status_code == 302
    assert console.is_in
    assert not RecoveryCode.objects.exists()


def test_disabled_recovery_codes_are_not_offered(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    assert submit_code(console, "0000", factor="recovery").status_code == 400


def test_an_unsupported_factor_denies_access(console: Console, operator: User) -> None:
    factories.make_factor(operator, factor_type="webauthn")
    console.sign_in("op@example.com")
    page = console.get(STEP)
    assert "does not support" in page.content.decode()
    assert not console.is_in


UNANSWERED = "MFA factor with the provided challenge ID not found"


@pytest.fixture
def with_keys(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"web_authn_verify_enabled": True},
        webauthn={"rp_id": "example.com", "rp_display_name": "Example", "rp_origins": (ORIGIN,)},
    )


def make_key(api: Api, user: User, device: Authenticator) -> Factor:
    """A security key of the user, enrolled in a session that has ended."""
    signed_in = factories.make_session(user, aal="aal2")
    factor = factories.make_factor(
        user, factor_type="webauthn", status="unverified", friendly_name=str(Factor.objects.count())
    )
    owner = Owner(
        user=user,
        session=signed_in.session,
        factor=factor,
        token=signed_in.access_token,
        refresh_token=signed_in.refresh_token,
    )
    read_success(keys.create(api, owner, device))
    Session.objects.filter(user=user).delete()
    return factor


def ask_key(console: Console) -> Any:
    return options_in(console.submit(STEP, ask="key"))


def show(console: Console, credential: Any) -> Any:
    return console.submit(STEP, credential=json.dumps(credential), next="/operator/accounts/user/")


@pytest.mark.usefixtures("with_keys")
def test_a_security_key_completes_the_sign_in(api: Api, console: Console, operator: User) -> None:
    device = new_device()
    key = make_key(api, operator, device)
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert 'value="key"' in page
    assert 'name="code"' not in page
    response = console.submit(STEP, ask="key", next="/operator/accounts/user/")
    assert 'name="next" value="/operator/accounts/user/"' in response.content.decode()
    script = re.search(r'<script src="(/operator/static/[0-9a-f]+/webauthn.js)">', response.content.decode())
    assert script
    assert console.get(script[1]).headers["Content-Type"].startswith("text/javascript")
    done = show(console, device.get(options_in(response)))
    assert (done.status_code, done.headers["Location"]) == (302, "/operator/accounts/user/")
    assert console.is_in
    session = Session.objects.get(user=operator)
    assert (session.aal, session.factor_id) == ("aal2", key.id)


@pytest.mark.usefixtures("with_keys")
def test_any_of_several_keys_is_accepted(api: Api, console: Console, operator: User) -> None:
    make_key(api, operator, new_device())
    device = new_device()
    second = make_key(api, operator, device)
    console.sign_in("op@example.com")
    assert show(console, device.get(ask_key(console))).status_code == 302
    assert console.is_in
    assert Session.objects.get(user=operator).factor_id == second.id


@pytest.mark.usefixtures("with_keys")
def test_an_app_or_a_key_is_accepted_if_both_exist(api: Api, console: Console, operator: User, app: Factor) -> None:
    make_key(api, operator, new_device())
    console.sign_in("op@example.com")
    page = console.get(STEP).content.decode()
    assert 'value="key"' in page
    assert f'name="factor" value="{app.id}"' in page
    text = console.submit(STEP, ask="key", next="/operator/accounts/user/").content.decode()
    assert f'href="{STEP}?next=/operator/accounts/user/"' in text
    assert submit_code(console, factor_requests.code(), factor=str(app.id)).status_code == 302
    assert console.is_in


@pytest.mark.usefixtures("with_keys")
@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        pytest.param({"origin": "https://evil.example"}, 422, "Invalid WebAuthn response", id="origin"),
        pytest.param({"rp_id": "evil.example"}, 422, "Invalid WebAuthn response", id="relying party"),
        pytest.param({"signature": b"x"}, 422, "Invalid WebAuthn response", id="signature"),
        pytest.param(None, 422, "Invalid WebAuthn response", id="the key of another"),
        pytest.param({"garbage": True}, 400, "Invalid credential_response", id="no credential"),
    ],
)
def test_a_webauthn_response_to_another_challenge_is_rejected(
    api: Api, console: Console, operator: User, changes: dict[str, Any] | None, status: int, text: str
) -> None:
    device = new_device()
    make_key(api, operator, device)
    console.sign_in("op@example.com")
    options = ask_key(console)
    if changes is None:
        stranger = new_device()
        make_key(api, factories.make_user(), stranger)
        credential: Any = stranger.get(options, names_user=False)
    else:
        credential = changes if "garbage" in changes else device.get(options, **changes)
    response = show(console, credential)
    assert (response.status_code, text in response.content.decode()) == (status, True)
    assert not console.is_in
    assert Session.objects.get().aal == "aal1"
    # The challenge stays valid for the right response, which consumes it.
    good = device.get(options)
    assert show(console, good).status_code == 302
    console.sign_out()
    console.sign_in("op@example.com")
    replayed = show(console, good)
    assert (replayed.status_code, UNANSWERED in replayed.content.decode()) == (422, True)


@pytest.mark.usefixtures("with_keys")
@pytest.mark.parametrize("credential", ["", "{", "null", "[]"])
def test_invalid_key_responses_are_rejected(api: Api, console: Console, operator: User, credential: str) -> None:
    make_key(api, operator, new_device())
    console.sign_in("op@example.com")
    ask_key(console)
    response = console.submit(STEP, credential=credential)
    assert response.status_code == 400
    assert not console.is_in


@pytest.mark.usefixtures("with_keys")
def test_no_key_prompt_without_a_key(console: Console, app: Factor) -> None:
    console.sign_in("op@example.com")
    assert 'value="key"' not in console.get(STEP).content.decode()
    assert console.submit(STEP, ask="key").status_code == 400
    assert console.submit(STEP, credential="{}").status_code == 400
    assert not FactorChallenge.objects.exists()


@pytest.mark.usefixtures("with_keys")
def test_no_key_prompt_if_keys_are_disabled(
    api: Api, console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    make_key(api, operator, new_device())
    auth_config(mfa={"web_authn_verify_enabled": False})
    console.sign_in("op@example.com")
    assert "does not support" in console.get(STEP).content.decode()
    assert console.submit(STEP, ask="key").status_code == 400
    assert console.submit(STEP, credential="{}").status_code == 400
    assert not console.is_in
