"""The operator's own account in the console: password, second factors, passkeys, recovery codes and sessions."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from accounts.mfa import recovery_codes
from accounts.models import Factor, FailedAttempts, Passkey, RecoveryCode, User
from authsvc.messaging import EmailType
from authsvc.models import AuditLogEntry
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import SECRET
from tests.authsvc.console.conftest import SIGN_IN, START, USERS, Console
from tests.authsvc.console.security_keys import ORIGIN, copy_of, new_device, options_in
from tests.conftest import ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tests.fakes.authenticator import Authenticator
from tests.observations import audit_payloads
from tests.page_browser import read_challenge
from tokens.models import Session

pytestmark = pytest.mark.django_db

ACCOUNT = "/operator/account/"
CHANGE_PASSWORD = f"{ACCOUNT}password/"
APP = f"{ACCOUNT}app/"
APP_CODE = f"{APP}code/"
KEY = f"{ACCOUNT}key/"
PASSKEY = f"{ACCOUNT}passkey/"
CODES = f"{ACCOUNT}recovery-codes/"
END = f"{ACCOUNT}sessions/end/"
END_OTHERS = f"{ACCOUNT}sessions/end-others/"
STEP = "/operator/second-step/"
NEW_PASSWORD = "a quite different phrase 7"


@pytest.fixture(autouse=True)
def all_methods(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"web_authn_enroll_enabled": True, "web_authn_verify_enabled": True, "recovery_codes_enabled": True},
        passkeys={"enabled": True},
        webauthn={"rp_id": "example.com", "rp_display_name": "Example", "rp_origins": (ORIGIN,)},
    )


@pytest.fixture(params=["svc_admin", "helpdesk", "auditor"])
def any_operator(request: pytest.FixtureRequest, auth_config: ChangeConfig) -> User:
    """An operator of each access."""
    auth_config(console={"roles": {"helpdesk": "support", "auditor": "viewer"}})
    return factories.make_user(email="op@example.com", role=request.param)


def change_password(console: Console, current: str = PASSWORD, new: str = NEW_PASSWORD, **fields: str) -> Any:
    return console.submit(CHANGE_PASSWORD, current_password=current, password=new, repeated=new, **fields)


def secret_in(page: str) -> str:
    match = re.search(r'id="secret" value="([A-Z2-7]{32})"', page)
    assert match, page
    return match[1]


def enrol_app(console: Console, name: str = "phone", *, leads_to: str = ACCOUNT) -> str:
    """Enrol an authenticator app and return its secret."""
    assert console.submit(APP, name=name).headers["Location"] == APP_CODE
    secret = secret_in(console.text(APP_CODE))
    assert console.submit(APP_CODE, code=factor_requests.code(secret=secret)).headers["Location"] == leads_to
    return secret


def add_passkey(console: Console, name: str = "laptop") -> Authenticator:
    """Register a passkey and return the device that has it."""
    device = new_device()
    prompt = console.submit(PASSKEY, name=name)
    credential = json.dumps(device.create(options_in(prompt)))
    added = console.submit(PASSKEY, name=name, challenge=read_challenge(prompt), credential=credential)
    assert added.headers["Location"] == ACCOUNT
    return device


def passkey_response(console: Console, device: Authenticator) -> dict[str, str]:
    """The form fields of a sign-in with the device."""
    prompt = console.submit(SIGN_IN, ask="passkey")
    return {"challenge": read_challenge(prompt), "credential": json.dumps(device.get(options_in(prompt)))}


def entries(action: str) -> list[dict[str, Any]]:
    return [payload for payload in audit_payloads() if payload["action"] == action]


# Access


def test_every_role_manages_its_own_account(console: Console, any_operator: User) -> None:
    console.sign_in("op@example.com")
    page = console.text(ACCOUNT)
    assert "Personal data is hidden" not in page
    assert "op@example.com" in page
    assert change_password(console).headers["Location"] == ACCOUNT
    enrol_app(console)
    assert "phone" in console.text(ACCOUNT)
    assert {payload["actor_id"] for payload in audit_payloads()} == {str(any_operator.id)}
    assert {payload["log_type"] for payload in audit_payloads()} <= {"user", "account", "factor", "token"}


PAGES = (ACCOUNT, CHANGE_PASSWORD, APP, APP_CODE, KEY, PASSKEY, CODES, END_OTHERS)


def test_the_pages_need_a_complete_sign_in(console: Console, operator: User) -> None:
    for path in PAGES:
        assert console.get(path).headers["Location"].startswith(f"{SIGN_IN}?next=")
    factories.make_factor(operator, secret=SECRET)
    console.sign_in("op@example.com")  # without the second factor
    for path in PAGES:
        assert console.get(path).headers["Location"].startswith(f"{SIGN_IN}?next=")


def test_an_access_token_does_not_open_the_pages(operator: User) -> None:
    bearer = factories.make_session(operator).access_token
    for path in PAGES:
        assert Console().get(path, Authorization=f"Bearer {bearer}").headers["Location"].startswith(SIGN_IN)


def test_changes_need_a_csrf_token(inside: Console) -> None:
    for path in (*PAGES, END):
        assert inside.client.post(path, {"name": "x", "confirmed": "1"}).status_code == 403
    assert not Factor.objects.exists()


def test_methods_that_are_disabled_are_not_offered(inside: Console, auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"web_authn_enroll_enabled": False, "totp_enroll_enabled": False, "recovery_codes_enabled": False},
        passkeys={"enabled": False},
    )
    page = inside.text(ACCOUNT)
    for text in ("Add authenticator app", "Add security key", "Passkeys", "Recovery codes"):
        assert text not in page
    assert inside.submit(ACCOUNT, to=APP, name="x").status_code == 422
    assert inside.submit(ACCOUNT, to=KEY, name="x").status_code == 422
    assert inside.submit(ACCOUNT, to=PASSKEY, name="x").status_code == 404
    assert inside.submit(ACCOUNT, to=CODES).status_code == 422
    assert not Factor.objects.exists()


# Password


def test_a_password_change_ends_other_sessions_and_is_notified(
    inside: Console, operator: User, mailbox: Mailbox
) -> None:
    other = Console()
    other.sign_in("op@example.com")
    factories.make_session(operator)
    assert change_password(inside).headers["Location"] == ACCOUNT
    assert "Password changed" in inside.text(ACCOUNT)
    assert Session.objects.count() == 1
    assert not other.is_in
    assert Console().sign_in("op@example.com").status_code == 400
    assert Console().sign_in("op@example.com", NEW_PASSWORD).status_code == 302
    (entry,) = entries("user_updated_password")
    assert entry["actor_id"] == str(operator.id)
    assert NEW_PASSWORD not in json.dumps(audit_payloads())
    assert [mail.type for mail in mailbox.emails] == [EmailType.PASSWORD_CHANGED]


@pytest.mark.parametrize(
    ("current", "new", "status", "message"),
    [
        ("wrong", NEW_PASSWORD, 400, "Current password required when setting new password."),
        ("", NEW_PASSWORD, 400, "This field is required."),
        (PASSWORD, "abc", 422, "Password should be at least 6 characters."),
        (PASSWORD, PASSWORD, 422, "New password should be different"),
    ],
)
def test_a_refused_password_change(inside: Console, current: str, new: str, status: int, message: str) -> None:
    """The current password is needed although the settings do not require it of the API."""
    response = change_password(inside, current, new)
    text = html.unescape(response.content.decode())
    assert (response.status_code, message in text) == (status, True), text
    assert NEW_PASSWORD not in text
    assert Console().sign_in("op@example.com").status_code == 302


def test_wrong_current_passwords_count_as_failed_attempts(inside: Console, operator: User) -> None:
    change_password(inside, "wrong")
    assert FailedAttempts.objects.get(user_id=operator.id).attempts == 1
    (refused,) = AuditLogEntry.objects.filter(payload__action="user_change_refused").values_list("payload", flat=True)
    assert isinstance(refused, dict)
    assert refused["actor_id"] == str(operator.id)


def test_the_code_of_a_reauthentication_is_asked_for_where_required(
    inside: Console, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True})
    assert change_password(inside).status_code == 400
    assert inside.submit(CHANGE_PASSWORD, send="1").status_code == 200
    (mail,) = mailbox.emails
    assert change_password(inside, nonce="000000").status_code == 422
    assert change_password(inside, nonce=mail.variables["Token"]).headers["Location"] == ACCOUNT


# Second factors


def test_an_app_is_enrolled_by_qr_code_and_asked_for_at_sign_in(
    inside: Console, operator: User, mailbox: Mailbox
) -> None:
    elsewhere = factories.make_session(operator).session
    thief = copy_of(inside)
    assert 'value="Authenticator app"' in inside.text(APP)
    inside.submit(APP, name="phone")
    page = inside.text(APP_CODE)
    secret = secret_in(page)
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in page
    assert f"secret={secret}" in page
    assert " style=" not in page
    wrong = inside.submit(APP_CODE, code=factor_requests.wrong_code())
    assert (wrong.status_code, secret in wrong.content.decode()) == (422, True)
    code = factor_requests.code(secret=secret)
    done = inside.submit(APP_CODE, code=f"{code[:3]} {code[3:]}")
    assert done.headers["Location"] == ACCOUNT
    assert inside.is_in
    assert not thief.is_in
    assert not Session.objects.filter(pk=elsewhere.pk).exists()
    factor = Factor.objects.get()
    assert (factor.friendly_name, factor.status) == ("phone", "verified")
    assert inside.get(APP_CODE).headers["Location"] == APP  # the secret is shown during the enrolment only
    assert [mail.type for mail in mailbox.emails] == [EmailType.FACTOR_ENROLLED]
    assert secret not in json.dumps(audit_payloads())
    inside.sign_out()
    inside.sign_in("op@example.com")
    assert not inside.is_in
    inside.submit(STEP, code=factor_requests.code(secret=secret), factor=str(factor.id))
    assert inside.is_in


def test_an_enrolment_that_was_not_completed_is_replaced(inside: Console) -> None:
    inside.submit(APP, name="phone")
    first = secret_in(inside.text(APP_CODE))
    assert inside.submit(APP, name="phone").headers["Location"] == APP_CODE
    assert secret_in(inside.text(APP_CODE)) != first
    assert Factor.objects.count() == 1


def test_names_of_factors_are_unique(inside: Console) -> None:
    enrol_app(inside, "Authenticator app")
    assert 'value="Authenticator app 2"' in inside.text(APP)
    taken = inside.submit(APP, name="Authenticator app")
    assert (taken.status_code, "already exists" in taken.content.decode()) == (422, True)


def test_a_factor_is_renamed(inside: Console, operator: User) -> None:
    enrol_app(inside)
    factor = Factor.objects.get()
    page = f"{ACCOUNT}factors/{factor.id}/name/"
    assert 'value="phone"' in inside.text(page)
    assert inside.submit(page, name="").status_code == 400
    assert inside.submit(page, name="<b>old</b> phone").headers["Location"] == ACCOUNT
    assert "&lt;b&gt;old&lt;/b&gt; phone" in inside.text(ACCOUNT)
    (entry,) = entries("factor_updated")
    assert entry["actor_id"] == str(operator.id)
    assert entry["traits"]["changes"] == {"friendly_name": {"old": "phone", "new": "<b>old</b> phone"}}


def test_a_factor_is_removed_after_a_question(inside: Console, operator: User, mailbox: Mailbox) -> None:
    enrol_app(inside)
    page = f"{ACCOUNT}factors/{Factor.objects.get().id}/removal/"
    assert inside.submit(ACCOUNT, to=page, action="ask", _selected_action="").status_code == 200
    assert Factor.objects.exists()
    assert inside.submit(page, confirmed="1").headers["Location"] == ACCOUNT
    assert not Factor.objects.exists()
    assert inside.is_in
    (entry,) = entries("factor_unenrolled")
    assert entry["actor_id"] == str(operator.id)
    assert mailbox.emails[-1].type == EmailType.FACTOR_UNENROLLED


def test_copies_of_the_cookie_stay_invalid_without_the_factor(inside: Console) -> None:
    earlier = copy_of(inside)
    enrol_app(inside)
    one_factor = copy_of(inside)
    assert one_factor.is_in
    enrol_app(inside, "tablet")
    assert not one_factor.is_in
    for factor in Factor.objects.order_by("created_at"):
        inside.submit(f"{ACCOUNT}factors/{factor.id}/removal/", confirmed="1")
    assert not Factor.objects.exists()
    assert inside.is_in
    assert not earlier.is_in


def test_a_session_below_aal2_cannot_remove_or_add_factors(inside: Console, operator: User) -> None:
    enrol_app(inside)
    factor = Factor.objects.get()
    Session.objects.update(aal="aal1", factor_id=None)
    for path in (f"{ACCOUNT}factors/{factor.id}/removal/", APP, PASSKEY, CODES, END_OTHERS):
        refused = inside.submit(STEP, to=path, confirmed="1", name="x")
        assert refused.headers["Location"].startswith(SIGN_IN)
    assert Factor.objects.count() == 1


def test_factors_and_passkeys_of_others_do_not_exist(inside: Console) -> None:
    stranger = factories.make_user()
    factor = factories.make_factor(stranger, secret=SECRET)
    passkey = Passkey.objects.create(user=stranger, credential_id=b"x", public_key=b"y")
    for path in (f"factors/{factor.id}", f"passkeys/{passkey.id}"):
        for page in ("name", "removal"):
            assert inside.get(f"{ACCOUNT}{path}/{page}/").headers["Location"] == ACCOUNT
            response = inside.submit(ACCOUNT, to=f"{ACCOUNT}{path}/{page}/", confirmed="1", name="mine")
            assert response.headers["Location"] == ACCOUNT
            assert "not found" in inside.text(ACCOUNT)
    assert Factor.objects.get().friendly_name == factor.friendly_name
    assert Passkey.objects.get().friendly_name == ""


def test_a_security_key_is_enrolled_and_asked_for_at_sign_in(inside: Console) -> None:
    device = new_device()
    prompt = inside.submit(KEY, name="blue key")
    assert 'data-ceremony="create"' in prompt.content.decode()
    bad = inside.submit(KEY, credential="{}")
    assert (bad.status_code, "Invalid credential_response" in bad.content.decode()) == (400, True)
    options = options_in(inside.submit(KEY, name="blue key"))
    assert inside.submit(KEY, credential=json.dumps(device.create(options))).headers["Location"] == ACCOUNT
    factor = Factor.objects.get()
    assert (factor.factor_type, factor.status, factor.friendly_name) == ("webauthn", "verified", "blue key")
    assert inside.is_in
    inside.sign_out()
    inside.sign_in("op@example.com")
    asked = options_in(inside.submit(STEP, ask="key"))
    assert inside.submit(STEP, credential=json.dumps(device.get(asked))).status_code == 302
    assert inside.is_in


# A required second factor


@pytest.fixture
def required(auth_config: ChangeConfig) -> None:
    auth_config(console={"second_factor_required": True})


@pytest.mark.usefixtures("required")
def test_an_operator_without_a_factor_is_led_to_its_enrolment(console: Console, operator: User) -> None:
    assert console.sign_in("op@example.com").status_code == 302
    assert not console.is_in
    assert console.get(SIGN_IN).headers["Location"].startswith(ACCOUNT)
    page = console.text(ACCOUNT)
    assert f'href="{APP}"' in page
    assert CHANGE_PASSWORD not in page
    for path in (CHANGE_PASSWORD, PASSKEY, CODES, END_OTHERS):
        assert console.get(path).headers["Location"].startswith(SIGN_IN)
    step = console.get(f"{SIGN_IN}?next={USERS}").headers["Location"]
    console.text(step)
    enrol_app(console, leads_to=USERS)
    assert console.is_in


@pytest.mark.usefixtures("required")
def test_without_permitted_enrolment_the_page_says_so(
    console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    auth_config(mfa={"totp_enroll_enabled": False, "web_authn_enroll_enabled": False})
    console.sign_in("op@example.com")
    assert "AUTH_MFA_TOTP_ENROLL_ENABLED" in console.text(ACCOUNT)
    assert not console.is_in


@pytest.mark.usefixtures("required")
def test_the_last_required_factor_stays(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    enrol_app(console)
    first = Factor.objects.get()
    removal = f"{ACCOUNT}factors/{first.id}/removal/"
    refused = console.submit(removal, confirmed="1")
    assert (refused.status_code, "Add another one first" in refused.content.decode()) == (422, True)
    assert Factor.objects.exists()
    enrol_app(console, "tablet")
    assert console.submit(removal, confirmed="1").headers["Location"] == ACCOUNT
    assert console.is_in


# Passkeys


def test_a_passkey_is_registered_and_signs_in(inside: Console, operator: User) -> None:
    device = add_passkey(inside)
    passkey = Passkey.objects.get()
    assert (passkey.user, passkey.friendly_name) == (operator, "laptop")
    inside.sign_out()

    signed = passkey_response(inside, device)
    done = inside.submit(SIGN_IN, next="/operator/accounts/user/", **signed)
    assert done.headers["Location"] == "/operator/accounts/user/"
    assert inside.is_in
    assert Session.objects.get().not_after is not None
    replayed = Console().submit(SIGN_IN, **signed)
    assert (replayed.status_code, "Challenge not found" in replayed.content.decode()) == (400, True)

    page = f"{ACCOUNT}passkeys/{passkey.id}"
    assert inside.submit(f"{page}/name/", name="old laptop").headers["Location"] == ACCOUNT
    assert "old laptop" in inside.text(ACCOUNT)
    assert inside.submit(f"{page}/removal/", confirmed="1").headers["Location"] == ACCOUNT
    assert not Passkey.objects.exists()
    own = [payload for payload in audit_payloads() if payload["action"].startswith("passkey")]
    assert {payload["actor_id"] for payload in own} == {str(operator.id)}
    assert [payload["action"] for payload in own] == [
        "passkey_created", "passkey_updated", "passkey_updated", "passkey_deleted",
    ]  # fmt: skip


def test_a_name_that_is_too_long_registers_no_passkey(inside: Console) -> None:
    refused = inside.submit(PASSKEY, name="é" * 61)
    assert (refused.status_code, "120" in refused.content.decode()) == (400, True)
    prompt = inside.submit(PASSKEY, name="laptop")
    credential = json.dumps(new_device().create(options_in(prompt)))
    for name in ("é" * 61, ""):
        refused = inside.submit(PASSKEY, name=name, challenge=read_challenge(prompt), credential=credential)
        assert refused.status_code == 400
    assert not Passkey.objects.exists()


def test_the_passkey_of_a_user_opens_no_console(inside: Console, operator: User) -> None:
    device = add_passkey(inside)
    inside.sign_out()
    User.objects.filter(id=operator.id).update(role="authenticated")
    refused = inside.submit(SIGN_IN, **passkey_response(inside, device))
    assert (refused.status_code, "Credential verification failed" in refused.content.decode()) == (400, True)
    assert not Session.objects.exists()


def test_a_passkey_does_not_replace_the_second_factor(inside: Console) -> None:
    device = add_passkey(inside)
    enrol_app(inside)
    inside.sign_out()
    assert inside.submit(SIGN_IN, **passkey_response(inside, device)).status_code == 302
    assert not inside.is_in
    assert inside.get(STEP).status_code == 200


# Recovery codes


def test_recovery_codes_are_shown_once_and_counted(inside: Console, operator: User) -> None:
    assert "Recovery codes" not in inside.text(ACCOUNT)
    without_factor = inside.submit(ACCOUNT, to=CODES)
    assert (without_factor.status_code, RecoveryCode.objects.count()) == (422, 0)
    enrol_app(inside)
    assert "No codes." in inside.text(ACCOUNT)
    shown = inside.submit(CODES).content.decode()
    codes = re.findall(r"\b(?:[0-9a-z]{4}-){3}[0-9a-z]{4}\b", shown)
    assert len(codes) == len(set(codes)) == recovery_codes.SET_SIZE
    assert codes[0] not in inside.text(CODES) + inside.text(ACCOUNT)
    assert "<td>10</td>" in inside.text(ACCOUNT)
    assert [payload["actor_id"] for payload in entries("recovery_codes_created")] == [str(operator.id)]
    inside.sign_out()
    inside.sign_in("op@example.com")
    assert inside.submit(STEP, code=codes[0], factor="recovery").status_code == 302
    assert "<td>9</td>" in inside.text(ACCOUNT)
    again = inside.submit(CODES).content.decode()
    assert codes[1] not in again


# Sessions


def test_sessions_are_listed_and_ended(inside: Console, operator: User) -> None:
    other = Console()
    other.sign_in("op@example.com")
    stranger = factories.make_session(factories.make_user()).session
    page = inside.text(ACCOUNT)
    assert page.count("This session") == 1
    (shown,) = re.findall(r'name="_selected_action" value="([0-9a-f-]{36})"', page)
    assert inside.submit(ACCOUNT, to=END, _selected_action=str(stranger.pk)).status_code == 302
    assert Session.objects.filter(pk=stranger.pk).exists()
    assert inside.submit(ACCOUNT, to=END, _selected_action=shown).headers["Location"] == ACCOUNT
    assert "Session ended." in inside.text(ACCOUNT)
    assert not other.is_in
    assert inside.is_in
    (entry,) = entries("logout")
    assert (entry["actor_id"], entry["traits"]) == (str(operator.id), {"ended_session_id": shown})
    assert "End all other sessions" not in inside.text(ACCOUNT)


def test_all_other_sessions_end_after_a_question(inside: Console, operator: User) -> None:
    consoles = [Console(), Console()]
    for other in consoles:
        other.sign_in("op@example.com")
    assert "must sign in again" in inside.text(END_OTHERS)
    assert inside.is_in
    assert inside.submit(END_OTHERS).headers["Location"] == ACCOUNT
    assert [other.is_in for other in (inside, *consoles)] == [True, False, False]
    assert Session.objects.count() == 1


@pytest.mark.parametrize("value", ["", "x", "0" * 36, "'; --", "\N{SNOWMAN}"])
def test_hostile_session_ids_are_refused(inside: Console, value: str) -> None:
    assert inside.submit(ACCOUNT, to=END, _selected_action=value).status_code == 404


def test_the_header_links_to_the_account(inside: Console) -> None:
    assert f'href="{ACCOUNT}"' in inside.text(START)
