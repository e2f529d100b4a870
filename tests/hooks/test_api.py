"""The public types of Python hooks: they describe the payloads, and a type checker uses them."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from authsvc.caller import Caller
from hooks import api as public
from hooks.api import Hook
from hooks.points.verification_attempts import VerificationAttemptHooks
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tests.hooks.conftest import SetHook
from tests.hooks.invocation import functions
from tests.live.documentation import pages
from tests.live.servers import PROJECT

USER = {"email": "ada@example.com", "password": PASSWORD}


def sign_up(api: Api) -> None:
    assert api.post("/signup", USER).status_code == 200


def sign_up_by_phone(api: Api) -> None:
    assert api.post("/signup", {"phone": "15551234567", "password": PASSWORD}).status_code == 200


def sign_in(api: Api) -> None:
    sign_up(api)
    assert api.post("/token?grant_type=password", USER).status_code in (200, 400)


def check_factor(api: Api) -> None:
    caller = Caller(address="203.0.113.7")
    VerificationAttemptHooks().check_factor(uuid4(), uuid4(), factor_type="totp", is_valid=True, caller=caller)


CASES: dict[Hook, tuple[Any, Callable[[Api], None]]] = {
    Hook.CUSTOM_ACCESS_TOKEN: (public.AccessTokenPayload, sign_up),
    Hook.SEND_EMAIL: (public.SendEmailPayload, sign_up),
    Hook.SEND_SMS: (public.SendSmsPayload, sign_up_by_phone),
    Hook.MFA_VERIFICATION_ATTEMPT: (public.FactorAttemptPayload, check_factor),
    Hook.PASSWORD_VERIFICATION_ATTEMPT: (public.PasswordAttemptPayload, sign_in),
    Hook.BEFORE_USER_CREATED: (public.UserPayload, sign_up),
    Hook.AFTER_USER_CREATED: (public.UserPayload, sign_up),
}


def check_members(value: Any, type_: Any) -> None:
    """Raises AssertionError if the value has other members than the TypedDict, at any depth."""
    members = typing.get_type_hints(type_, vars(public), include_extras=True)
    required = {name for name, member in members.items() if typing.get_origin(member) is not typing.NotRequired}
    assert required <= set(value) <= set(members)
    for name in required:
        if typing.is_typeddict(members[name]):
            check_members(value[name], members[name])


@pytest.mark.django_db
@pytest.mark.parametrize("hook", list(Hook))
def test_payloads_have_their_types(hook: Hook, api: Api, set_hook: SetHook, auth_config: ChangeConfig) -> None:
    type_, request = CASES[hook]
    is_message = hook in (Hook.SEND_EMAIL, Hook.SEND_SMS)
    auth_config(
        mailer={"autoconfirm": not is_message},
        signup={"phone_enabled": True},
        hook_calls={"send_email_delivery": "inline", "send_sms_delivery": "inline"},
    )
    name = "return_claims" if hook == Hook.CUSTOM_ACCESS_TOKEN else "accept"
    set_hook(hook, uri=f"python:tests.hooks.invocation.functions:{name}")
    functions.events.clear()
    request(api)
    payload = functions.events[-1].payload
    msgspec.convert(payload, type=type_)
    check_members(payload, type_)
    assert payload["metadata"]["name"] == functions.events[-1].name == hook


def test_a_type_checker_reads_them() -> None:
    program = pages.programs(pages.DOCS / "tutorial" / "hooks.md")["company/hooks.py"]

    def check(source: str) -> str:
        command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--no-error-summary", "-c", source]
        ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert ran.stderr == ""
        return ran.stdout

    assert check(program) == ""
    assert 'has no key "claim"' in check(program.replace('event.payload["claims"]', 'event.payload["claim"]'))
