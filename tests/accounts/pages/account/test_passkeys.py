"""Passkeys on the account pages."""

from __future__ import annotations

import html
import json
from datetime import timedelta

import pytest

from accounts.models import Passkey, User
from tests.authsvc.console.security_keys import ORIGIN, new_device, options_in
from tests.conftest import ChangeConfig
from tests.fakes.authenticator import Authenticator
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser, read_challenge
from tokens.models import Session

pytestmark = pytest.mark.django_db

PASSKEYS = "/account/passkeys"
NEW = f"{PASSKEYS}/new"


@pytest.fixture(autouse=True)
def _passkeys(auth_config: ChangeConfig) -> None:
    auth_config(
        passkeys={"enabled": True},
        webauthn={"rp_id": "example.com", "rp_display_name": "Example", "rp_origins": (ORIGIN,)},
    )


def add(browser: PageBrowser, name: str = "laptop") -> Authenticator:
    """Register a passkey and return the device that has it."""
    device = new_device()
    prompt = browser.submit(NEW, name=name)
    credential = json.dumps(device.create(options_in(prompt)))
    added = browser.submit(NEW, name=name, challenge=read_challenge(prompt), credential=credential)
    assert added.headers["Location"] == PASSKEYS
    return device


def test_a_passkey_is_added_renamed_and_removed(inside: PageBrowser, user: User) -> None:
    add(inside)
    passkey = Passkey.objects.get()
    assert (passkey.user, passkey.friendly_name) == (user, "laptop")
    assert "laptop" in inside.text(PASSKEYS)
    page = f"{PASSKEYS}/{passkey.id}"
    assert inside.submit(f"{page}/name", name="").status_code == 400
    assert inside.submit(f"{page}/name", name="old laptop").headers["Location"] == PASSKEYS
    assert "old laptop" in inside.text(PASSKEYS)
    assert "old laptop" in inside.text(f"{page}/removal")
    assert inside.submit(f"{page}/removal").headers["Location"] == PASSKEYS
    assert not Passkey.objects.exists()
    own = [payload for payload in audit_payloads() if payload["action"].startswith("passkey")]
    assert {payload["actor_id"] for payload in own} == {str(user.id)}
    assert [payload["action"] for payload in own] == [
        "passkey_created", "passkey_updated", "passkey_updated", "passkey_deleted",
    ]  # fmt: skip


def test_a_response_counts_once_and_for_its_user(inside: PageBrowser) -> None:
    device = new_device()
    prompt = inside.submit(NEW, name="laptop")
    fields = {"name": "laptop", "challenge": read_challenge(prompt)}
    bad = inside.submit(NEW, **fields, credential="{}")
    assert (bad.status_code, "was not accepted" in html.unescape(bad.content.decode())) == (400, True)
    used = inside.submit(NEW, **fields, credential=json.dumps(device.create(options_in(prompt))))
    assert (used.status_code, "The prompt has expired." in used.content.decode()) == (400, True)
    assert not Passkey.objects.exists()


def test_a_name_that_is_too_long_starts_no_prompt(inside: PageBrowser) -> None:
    refused = inside.submit(NEW, name="é" * 61)
    assert (refused.status_code, "data-options" in refused.content.decode()) == (400, False)


def test_the_maximum_is_explained(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    add(inside)
    auth_config(passkeys={"max_per_user": 1})
    refused = inside.submit(NEW, name="tablet")
    assert (refused.status_code, "maximum number of passkeys" in refused.content.decode()) == (422, True)


def test_an_old_session_must_sign_in_again_where_settings_require_it(
    inside: PageBrowser, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True, "reauthentication_interval": timedelta(hours=1)})
    add(inside)
    Session.objects.update(created_at="2026-01-01T00:00:00Z")
    refused = inside.submit(NEW, name="tablet")
    assert (refused.status_code, "Sign out and sign in again" in refused.content.decode()) == (400, True)
    assert Passkey.objects.count() == 1
