"""Second factors and recovery codes on the account pages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from accounts.mfa import recovery_codes
from accounts.models import Factor, RecoveryCode, User
from authsvc.messaging import EmailType
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.test_challenges import TWILIO
from tests.authsvc.console.security_keys import ORIGIN, new_device, options_in
from tests.conftest import ChangeConfig, Mailbox
from tests.observations import audit_payloads
from tests.page_browser import ACCOUNT, PageBrowser, read_text
from tokens.models import Session

pytestmark = pytest.mark.django_db

FACTORS = "/account/factors"
APP, PHONE, KEY = f"{FACTORS}/app", f"{FACTORS}/phone", f"{FACTORS}/key"
CODES = f"{FACTORS}/recovery-codes"


@pytest.fixture(autouse=True)
def _all_factors(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={
            "web_authn_enroll_enabled": True,
            "web_authn_verify_enabled": True,
            "phone_enroll_enabled": True,
            "phone_verify_enabled": True,
            "recovery_codes_enabled": True,
        },
        sms={"provider": "twilio", "twilio": TWILIO, "autoconfirm": False},
        webauthn={"rp_id": "example.com", "rp_display_name": "Example", "rp_origins": (ORIGIN,)},
    )


def secret_in(page: str) -> str:
    match = re.search(r"<code>([A-Z2-7]{32})</code>", page)
    assert match, page
    return match[1]


def enrol_app(browser: PageBrowser, name: str = "my app") -> str:
    """Enrol an authenticator app and return its secret."""
    assert browser.submit(APP, name=name).headers["Location"] == f"{APP}/code"
    secret = secret_in(browser.text(f"{APP}/code"))
    response = browser.submit(f"{APP}/code", code=factor_requests.code(secret=secret))
    assert response.headers["Location"] == FACTORS
    return secret


def entries(action: str) -> list[dict[str, Any]]:
    return [payload for payload in audit_payloads() if payload["action"] == action]


def test_an_app_is_enrolled_by_qr_code_and_asked_for_at_sign_in(
    inside: PageBrowser, user: User, mailbox: Mailbox
) -> None:
    elsewhere = factories.make_session(user).session
    earlier = inside.cookie
    assert 'value="Authenticator app"' in inside.text(APP)
    inside.submit(APP, name="my app")
    page = inside.get(f"{APP}/code")
    text = page.content.decode()
    secret = secret_in(text)
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in text
    assert f"secret={secret}" in text
    assert " style=" not in text
    assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
    wrong = inside.submit(f"{APP}/code", code=factor_requests.wrong_code())
    assert (wrong.status_code, "The code is wrong." in read_text(wrong), secret in read_text(wrong)) == (
        422,
        True,
        True,
    )
    assert inside.submit(f"{APP}/code", code=factor_requests.code(secret=secret)).headers["Location"] == FACTORS
    assert "my app" in inside.text(FACTORS)
    assert Session.objects.get().aal == "aal2"
    assert not Session.objects.filter(pk=elsewhere.pk).exists()
    thief = PageBrowser()
    thief.cookie = earlier
    assert not thief.is_in
    factor = Factor.objects.get()
    assert (factor.friendly_name, factor.status) == ("my app", "verified")
    assert inside.get(f"{APP}/code").headers["Location"] == APP  # the secret is shown during the enrolment only
    assert [mail.type for mail in mailbox.emails] == [EmailType.FACTOR_ENROLLED]
    assert secret not in json.dumps(audit_payloads())
    again = PageBrowser()
    again.sign_in("ada@example.com")
    step = again.get().headers["Location"]
    assert step.startswith("/account/second-factor")
    again.submit(step, code=factor_requests.code(secret=secret), factor=str(factor.id))
    assert again.is_in


def test_an_enrolment_that_was_not_completed_is_replaced(inside: PageBrowser) -> None:
    inside.submit(APP, name="my app")
    first = secret_in(inside.text(f"{APP}/code"))
    assert inside.submit(APP, name="my app").headers["Location"] == f"{APP}/code"
    assert secret_in(inside.text(f"{APP}/code")) != first
    assert Factor.objects.count() == 1


def test_names_are_unique_and_changed(inside: PageBrowser, user: User) -> None:
    enrol_app(inside, "Authenticator app")
    assert 'value="Authenticator app 2"' in inside.text(APP)
    taken = inside.submit(APP, name="Authenticator app")
    assert (taken.status_code, "Choose another name." in read_text(taken)) == (422, True)
    page = f"{FACTORS}/{Factor.objects.get().id}/name"
    assert inside.submit(page, name="").status_code == 400
    assert inside.submit(page, name="<b>old</b>").headers["Location"] == FACTORS
    assert "&lt;b&gt;old&lt;/b&gt;" in inside.text(FACTORS)
    (entry,) = entries("factor_updated")
    assert entry["actor_id"] == str(user.id)


def test_a_factor_is_removed_after_a_question(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    enrol_app(inside)
    page = f"{FACTORS}/{Factor.objects.get().id}/removal"
    assert 'class="danger"' in inside.text(page)
    assert Factor.objects.exists()
    assert inside.submit(page).headers["Location"] == FACTORS
    assert not Factor.objects.exists()
    assert inside.is_in
    (entry,) = entries("factor_unenrolled")
    assert entry["actor_id"] == str(user.id)
    assert mailbox.emails[-1].type == EmailType.FACTOR_UNENROLLED


def test_a_session_below_aal2_changes_nothing(inside: PageBrowser) -> None:
    enrol_app(inside)
    removal = f"{FACTORS}/{Factor.objects.get().id}/removal"
    form = inside.text(removal)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token
    Session.objects.update(aal="aal1", factor_id=None)
    for path in (removal, APP, KEY, CODES, "/account/password", "/account/deletion"):
        response = inside.client.post(path, {"csrfmiddlewaretoken": token[1], "name": "x"})
        assert response.headers["Location"].startswith("/account/second-factor?next="), path
    assert Factor.objects.count() == 1


def test_a_phone_is_enrolled_with_the_code_of_a_message(inside: PageBrowser, mailbox: Mailbox) -> None:
    assert inside.submit(PHONE, name="mobile", phone="+1 555 000 4567").headers["Location"] == f"{PHONE}/code"
    (text,) = mailbox.sms
    assert "+15550004567" in inside.text(f"{PHONE}/code")
    assert inside.submit(f"{PHONE}/code", code="000000").status_code == 422
    assert inside.submit(f"{PHONE}/code", code=text.variables["Code"]).headers["Location"] == FACTORS
    factor = Factor.objects.get()
    assert (factor.factor_type, factor.status, factor.phone) == ("phone", "verified", "15550004567")
    assert inside.is_in
    assert inside.get(f"{PHONE}/code").headers["Location"] == PHONE


def test_a_security_key_is_enrolled(inside: PageBrowser) -> None:
    device = new_device()
    prompt = inside.submit(KEY, name="blue key")
    assert 'data-ceremony="create"' in read_text(prompt)
    credential = device.create(options_in(prompt))
    credential["response"]["transports"] = ["\0"]
    for bad in ("{}", "[]", "null", "x", json.dumps(credential)):
        assert inside.submit(KEY, credential=bad).status_code == 400, bad
    options = options_in(inside.submit(KEY, name="blue key"))
    assert inside.submit(KEY, credential=json.dumps(device.create(options))).headers["Location"] == FACTORS
    factor = Factor.objects.get()
    assert (factor.factor_type, factor.status, factor.friendly_name) == ("webauthn", "verified", "blue key")
    assert inside.is_in


def test_recovery_codes_are_shown_once(inside: PageBrowser) -> None:
    refused = inside.submit(CODES)
    assert refused.status_code == 422  # without a factor
    enrol_app(inside)
    assert "Create recovery codes" in inside.text(FACTORS)
    shown = read_text(inside.submit(CODES))
    codes = re.findall(r"(?:[0-9a-z]{4}-){3}[0-9a-z]{4}", shown)
    assert len(codes) == recovery_codes.SET_SIZE == RecoveryCode.objects.count()
    assert 'name="language"' not in shown  # the menu would open the page again, without the codes
    assert "10 codes are left" in inside.text(FACTORS)
    assert codes[0] not in inside.text(CODES)
    assert "10 recovery codes left" in inside.text(ACCOUNT)
    again = PageBrowser()
    again.sign_in("ada@example.com")
    step = again.get().headers["Location"]
    again.submit(step, factor="recovery", code=codes[0])
    assert again.is_in
    assert entries("recovery_codes_created")


def test_attempts_are_limited_as_in_the_api(inside: PageBrowser, slow_refill: None) -> None:
    inside.submit(APP, name="my app")
    responses = [inside.submit(f"{APP}/code", code=factor_requests.wrong_code()).status_code for _ in range(31)]
    assert (responses[0], responses[-1]) == (422, 429)
