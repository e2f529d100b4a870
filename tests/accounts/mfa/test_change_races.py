"""Requests that were authenticated before an operator removed a factor or ended the session, and write afterwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.administration import admin_factors
from accounts.models import Factor, RecoveryCode, User
from authsvc import audit
from authsvc.caller import Caller
from authsvc.conf import Secret, Twilio
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import Owner, make_owner
from tests.accounts.passkeys import passkey_requests
from tests.concurrency import wait_for_lock_waiters
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import make_factor, make_session
from tests.fakes.authenticator import Authenticator
from tests.observations import assert_error, table_contents
from tokens.models import Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[], ApiResponse]
OPERATOR: Any = {"actor": audit.Administrator(role="svc_admin"), "caller": Caller(address="203.0.113.7")}
LATE = (401, "insufficient_aal", "AAL2 session is required to update email or password when MFA is enabled.")
ENDED = (403, "session_not_found", "Session from session_id claim in JWT does not exist")
CODES = "/factors/recovery_codes"


@pytest.fixture(autouse=True)
def switched_on(auth_config: ChangeConfig) -> None:
    auth_config(
        mfa={"recovery_codes_enabled": True},
        passkeys={"enabled": True},
        webauthn=passkey_requests.PARTY,
        sms={"autoconfirm": True},
        mailer={"worker_enabled": False},
    )


@pytest.fixture
def owner(api: Api) -> Owner:
    """A user with two factors and a session that one of them has stepped up."""
    owner = make_owner(friendly_name="lost")
    make_factor(owner.user, friendly_name="kept", secret=factor_requests.SECRET)
    factor_requests.step_up(api, owner)
    return owner


def respond_after(user: User, call: Call, by: Callable[[], object]) -> ApiResponse:
    """The response to a request that was authenticated before `by` and writes after it; both wait for one row."""

    def run(request: Callable[[], Any]) -> Any:
        try:
            return request()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        with transaction.atomic():
            User.objects.select_for_update().get(id=user.id)
            first = threads.submit(run, by)
            wait_for_lock_waiters(1)
            second = threads.submit(run, call)
            wait_for_lock_waiters(2)
        first.result(20)
        response: ApiResponse = second.result(20)
        return response


def remove(owner: Owner) -> Callable[[], object]:
    """An administrator takes away the factor that has raised the session; another is left."""
    return lambda: admin_factors.remove(owner.user.id, owner.factor.id, **OPERATOR, at=timezone.now())


def reset(owner: Owner) -> Callable[[], object]:
    return lambda: admin_factors.reset(owner.user.id, **OPERATOR, at=timezone.now())


def revoke_sessions(owner: Owner) -> Callable[[], object]:
    return lambda: revocation.revoke_all_sessions_as_operator(owner.user.id, **OPERATOR, at=timezone.now())


# Requests: each function prepares one and returns the call.


def enrol(api: Api, owner: Owner) -> Call:
    return partial(factor_requests.enroll, api, owner.token, friendly_name="new")


def finish_enrolment(api: Api, owner: Owner) -> Call:
    begun = make_factor(owner.user, friendly_name="begun", status="unverified", secret=factor_requests.SECRET)
    challenge_id = factor_requests.challenged(api, owner.token, begun.id)
    return lambda: factor_requests.verify(api, owner.token, begun.id, challenge_id, factor_requests.code())


def unenrol(api: Api, owner: Owner) -> Call:
    return partial(factor_requests.unenroll, api, owner.token, Factor.objects.get(friendly_name="kept").id)


def change(what: dict[str, str], api: Api, owner: Owner) -> Call:
    return partial(api.put, "/user", what, bearer=owner.token)


def register_passkey(api: Api, owner: Owner) -> Call:
    challenge = passkey_requests.start_registration(api, owner.token)
    credential = Authenticator().create(challenge["options"])
    return partial(passkey_requests.complete, api, owner.token, challenge["challenge_id"], credential)


def remove_passkey(api: Api, owner: Owner) -> Call:
    made = read_success(passkey_requests.register(api, owner.token, Authenticator()))
    return partial(api.delete, f"/passkeys/{made['id']}", bearer=owner.token)


def make_codes(api: Api, owner: Owner) -> Call:
    return partial(api.post, CODES, bearer=owner.token)


@pytest.mark.parametrize(
    ("prepare", "refusal"),
    [
        pytest.param(enrol, (403, "insufficient_aal", "AAL2 required to enroll a new factor"), id="enrol"),
        pytest.param(
            finish_enrolment, (403, "insufficient_aal", "AAL2 required to enroll a new factor"), id="finish enrolment"
        ),
        pytest.param(unenrol, (422, "insufficient_aal", "AAL2 required to unenroll verified factor"), id="unenrol"),
        pytest.param(partial(change, {"password": "another correct horse"}), LATE, id="password"),
        pytest.param(partial(change, {"email": "thief@example.com"}), LATE, id="address"),
        pytest.param(partial(change, {"phone": "15557654321"}), LATE, id="number"),
        pytest.param(register_passkey, passkey_requests.NEEDS_AAL2, id="register passkey"),
        pytest.param(remove_passkey, passkey_requests.NEEDS_AAL2, id="remove passkey"),
        pytest.param(
            make_codes, (403, "insufficient_aal", "AAL2 required to create recovery codes"), id="recovery codes"
        ),
    ],
)
@pytest.mark.parametrize("intervene", [remove, revoke_sessions])
def test_request_at_aal2_is_rejected_after_concurrent_factor_removal(
    api: Api, owner: Owner, prepare: Callable[[Api, Owner], Call], refusal: Any, intervene: Any
) -> None:
    call = prepare(api, owner)
    before = table_contents()
    assert_error(
        respond_after(owner.user, call, intervene(owner)), *(ENDED if intervene is revoke_sessions else refusal)
    )
    changed = {table for table, content in table_contents().items() if content != before[table]}
    # Changes of the operator, and the ceremony, which every response of an authenticator ends.
    assert changed <= {
        "audit_log_entries", "mfa_factors", "mfa_challenges", "sessions", "mfa_amr_claims", "webauthn_challenges",
    }  # fmt: skip
    assert not RecoveryCode.objects.exists()
    assert not Factor.objects.filter(friendly_name="new").exists()
    assert not Session.objects.filter(aal="aal2").exists()


def test_metadata_can_change_without_a_second_factor(api: Api, owner: Owner) -> None:
    response = respond_after(owner.user, change({"data": {"a": 1}}, api, owner), remove(owner))  # type: ignore[dict-item]
    assert read_success(response)["user_metadata"]["a"] == 1


def test_recovery_codes_are_not_created_after_concurrent_reset(api: Api, owner: Owner) -> None:
    response = respond_after(owner.user, make_codes(api, owner), reset(owner))
    assert_error(response, 422, "mfa_factor_not_found", "A verified factor is required to create recovery codes")
    assert not RecoveryCode.objects.exists()


def test_recovery_code_is_rejected_after_concurrent_reset(api: Api, owner: Owner) -> None:
    codes = read_success(api.post(CODES, bearer=owner.token))["codes"]
    low = make_session(owner.user)
    call = partial(api.post, f"{CODES}/verify", {"code": codes[0]}, bearer=low.access_token)
    assert_error(
        respond_after(owner.user, call, reset(owner)), 422, "mfa_verification_failed", "Invalid recovery code entered"
    )
    assert set(Session.objects.values_list("aal", flat=True)) == {"aal1"}


def test_sms_code_is_rejected_after_concurrent_phone_change(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(mfa={"phone_verify_enabled": True}, sms={"provider": "twilio", "twilio": twilio})
    owner = make_owner(factor_type="phone", phone=factor_requests.PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    code = mailbox.sms[0].variables["Code"]
    response = respond_after(
        owner.user,
        lambda: factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code),
        lambda: admin_factors.update(
            owner.user.id,
            owner.factor.id,
            friendly_name="",
            phone="15557654321",
            actor=audit.Administrator(role="svc_admin"),
            caller=Caller(address="203.0.113.7"),
            at=timezone.now(),
        ),
    )
    assert_error(response, 404, "mfa_factor_not_found", "Factor not found")
    assert Session.objects.get().aal == "aal1"
