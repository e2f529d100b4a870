"""/admin/users/{user_id}/factors: changes of second factors by administrators."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Factor, FactorChallenge, User
from authsvc.api.renderers import rfc3339
from authsvc.conf import Secret, Twilio
from tests.accounts.administration.admin_requests import USER_NOT_FOUND, ask, expect_success
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, make_owner
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import make_factor, make_session, make_user
from tests.observations import assert_error, audit_payloads, table_contents
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

USER_ID = "11111111-1111-4111-8111-111111111111"
FACTOR_NOT_FOUND = (404, "mfa_factor_not_found", "Factor not found")


def path(user: User, factor: Factor | None = None) -> str:
    return f"/admin/users/{user.id}/factors" + (f"/{factor.id}" if factor else "")


def use_texts(auth_config: ChangeConfig) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        mfa={"phone_verify_enabled": True},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
    )


def test_a_new_user_has_no_factors(api: Api) -> None:
    assert expect_success(api, "GET", path(make_user())) == []


def test_all_factors_are_shown_without_their_secrets(api: Api) -> None:
    user = make_user()
    totp = make_factor(user, friendly_name="phone app", secret="hidden", last_challenged_at=timezone.now())
    phone = make_factor(
        user, factor_type="phone", status="unverified", phone="15551234567", web_authn_credential={"k": "hidden"}
    )
    response = ask(api, "GET", path(user))
    assert b"hidden" not in response.content
    first, second = response.json()
    moment = rfc3339(totp.created_at)
    assert first == {
        "id": str(totp.id),
        "created_at": moment,
        "updated_at": moment,
        "status": "verified",
        "friendly_name": "phone app",
        "factor_type": "totp",
        "phone": "",
        "last_challenged_at": rfc3339(totp.last_challenged_at) if totp.last_challenged_at else None,
    }
    assert (second["id"], second["phone"], second["status"]) == (str(phone.id), "15551234567", "unverified")
    assert (second["last_challenged_at"], "friendly_name" in second) == (None, False)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_factor_of_other_user_is_not_found(api: Api, method: str) -> None:
    user, other = make_user(), make_user()
    others = make_factor(other)
    before = table_contents()
    assert_error(ask(api, method, path(user, others), {}), *FACTOR_NOT_FOUND)
    assert_error(ask(api, method, f"{path(user)}/{USER_ID}", {}), *FACTOR_NOT_FOUND)
    assert_error(ask(api, method, f"{path(user)}/x", {}), 404, "validation_failed", "factor_id must be an UUID")
    assert_error(
        ask(api, method, f"/admin/users/x/factors/{others.id}", {}), 404, "validation_failed", "user_id must be an UUID"
    )
    assert_error(ask(api, method, f"/admin/users/{USER_ID}/factors/{others.id}", {}), *USER_NOT_FOUND)
    assert table_contents() == before


def test_the_list_of_factors_needs_an_existing_user(api: Api) -> None:
    assert_error(ask(api, "GET", f"/admin/users/{USER_ID}/factors"), *USER_NOT_FOUND)
    assert_error(ask(api, "GET", "/admin/users/x/factors"), 404, "validation_failed", "user_id must be an UUID")


def test_factor_can_be_renamed(api: Api) -> None:
    user = make_user()
    factor = make_factor(user, friendly_name="x", secret="s")
    session = make_session(user, factor_id=factor.id, aal="aal2").session
    shown = expect_success(api, "PUT", path(user, factor), {"friendly_name": "y", "phone": "not looked at"})
    assert (shown["friendly_name"], shown["status"], shown["phone"]) == ("y", "verified", "")
    kept = Factor.objects.get()
    assert (kept.friendly_name, kept.secret, kept.status, kept.phone) == ("y", "s", "verified", None)
    assert Session.objects.get(id=session.id).aal == "aal2"
    assert audit_payloads() == [
        {
            "action": "factor_updated",
            "actor_id": "00000000-0000-0000-0000-000000000000",
            "actor_username": "service_role",
            "actor_role": "service_role",
            "actor_via_sso": False,
            "log_type": "factor",
            "traits": {
                "user_id": str(user.id),
                "factor_id": str(factor.id),
                "factor_type": "totp",
                "factor_status": "verified",
                "changes": {"friendly_name": {"old": "x", "new": "y"}},
            },
        }
    ]


def test_phone_of_factor_can_be_changed(api: Api) -> None:
    user = make_user()
    factor = make_factor(user, factor_type="phone", phone="15551234567", friendly_name="mine")
    shown = expect_success(api, "PUT", path(user, factor), {"phone": "+1976154321"})
    assert (shown["phone"], shown["friendly_name"]) == ("1976154321", "mine")


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [({"phone": "15557654321"}, True), ({"phone": PHONE, "friendly_name": "same"}, False)],
    ids=["another number", "the same number"],
)
def test_pending_code_of_previous_phone_is_invalid(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, body: Any, is_refused: bool
) -> None:
    use_texts(auth_config)
    owner = make_owner(factor_type="phone", phone=PHONE)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id, {})
    expect_success(api, "PUT", path(owner.user, owner.factor), body)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, mailbox.sms[0].variables["Code"])
    if is_refused:
        assert_error(response, 422, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found")
    assert Session.objects.get().aal == ("aal1" if is_refused else "aal2")


def test_verified_challenge_survives_phone_change(api: Api, auth_config: ChangeConfig) -> None:
    use_texts(auth_config)
    owner = make_owner(factor_type="phone", phone=PHONE)
    at = timezone.now()
    answered = FactorChallenge.objects.create(factor=owner.factor, created_at=at, verified_at=at)
    expect_success(api, "PUT", path(owner.user, owner.factor), {"phone": "15557654321"})
    assert list(FactorChallenge.objects.all()) == [answered]


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        (
            {"friendly_name": "taken"},
            422,
            "mfa_factor_name_conflict",
            'A factor with the friendly name "taken" for this user already exists',
        ),
        (
            {"phone": "15557654321"},
            422,
            "mfa_verified_factor_exists",
            "A verified phone factor already exists, unenroll the existing factor to continue",
        ),
        ({"phone": "x"}, 400, "validation_failed", "Invalid phone number format (E.164 required)"),
    ],
)
def test_name_or_phone_of_other_factor_is_rejected(api: Api, body: Any, status: int, code: str, text: str) -> None:
    user = make_user()
    factor = make_factor(user, factor_type="phone", phone="15551234567")
    make_factor(user, factor_type="phone", phone="15557654321", friendly_name="taken")
    before = table_contents()
    assert_error(ask(api, "PUT", path(user, factor), body), status, code, text)
    assert table_contents() == before


@pytest.mark.parametrize("body", [b"", b"[]", {"friendly_name": 1}])
def test_body_of_other_type_is_rejected(api: Api, body: Any) -> None:
    user = make_user()
    assert ask(api, "PUT", path(user, make_factor(user)), body).json()["error_code"] == "bad_json"


@pytest.mark.parametrize(
    ("factor_type", "method"), [("totp", "totp"), ("phone", "mfa/phone"), ("webauthn", "mfa/webauthn")]
)
def test_removal_lowers_sessions_of_factor(api: Api, factor_type: str, method: str) -> None:
    user = make_user(email="ann@example.com")
    factor, other = (
        make_factor(user, factor_type=factor_type, friendly_name="lost"),
        make_factor(user, friendly_name="kept"),
    )
    stepped_up = [make_session(user, factor_id=enrolled.id, aal="aal2").session for enrolled in (factor, other)]
    at = timezone.now()
    for session in stepped_up:
        AmrClaim.objects.create(session=session, authentication_method=method, created_at=at, updated_at=at)
    shown = expect_success(api, "DELETE", path(user, factor))
    assert (shown["id"], shown["friendly_name"], shown["status"]) == (str(factor.id), "lost", "verified")
    assert [factor.friendly_name for factor in Factor.objects.all()] == ["kept"]
    lost, kept = (Session.objects.get(id=session.id) for session in stepped_up)
    assert (lost.aal, lost.factor_id) == ("aal1", None)
    assert (kept.aal, kept.factor_id) == ("aal2", other.id)
    assert list(lost.amr_claims.values_list("authentication_method", flat=True)) == ["password"]
    assert sorted(kept.amr_claims.values_list("authentication_method", flat=True)) == sorted(["password", method])
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("factor_deleted", "factor")
    assert entry["actor_username"] == "service_role"
    removed = {"factor_id": str(factor.id), "factor_type": factor_type, "factor_status": "verified"}
    assert entry["traits"] == {"user_id": str(user.id), **removed}


def test_audit_entry_of_removal_contains_ip_address(api: Api) -> None:
    user = make_user()
    factor = make_factor(user)
    ask(api, "DELETE", path(user, factor), headers={"X-Forwarded-For": "203.0.113.7"})
    [entry] = expect_success(api, "GET", "/admin/audit")
    assert entry["ip_address"] == "203.0.113.7"
