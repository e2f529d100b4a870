"""DELETE /factors/{factor_id}, and the removal of factors by administrators."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.administration import admin_factors
from accounts.models import Factor, FactorChallenge, RecoveryCode
from authsvc import audit
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.messaging import EmailType
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import make_owner
from tests.authsvc.console.conftest import Console
from tests.conftest import Api, Mailbox, read_success
from tests.factories import PASSWORD, make_factor, make_session, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents
from tests.tokens.token_requests import read_claims, refresh
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

USERS = "/operator/accounts/user/"
NEEDS_AAL2 = (422, "insufficient_aal", "AAL2 required to unenroll verified factor")
NOT_FOUND = (404, "mfa_factor_not_found", "Factor not found")


def test_removal_of_a_factor_lowers_its_sessions(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    assert read_success(factor_requests.unenroll(api, raised["access_token"], owner.factor.id)) == {
        "id": str(owner.factor.id)
    }
    assert not Factor.objects.exists()
    assert not FactorChallenge.objects.exists()
    session = Session.objects.get()
    assert (session.aal, session.factor_id, factor_requests.methods(session)) == ("aal1", None, ["password"])
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_id"]) == ("factor_unenrolled", str(owner.user.id))
    assert entry["traits"] == {
        "factor_id": str(owner.factor.id), "factor_status": "verified", "session_id": str(session.id),
    }  # fmt: skip
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.variables["FactorType"]) == (
        EmailType.FACTOR_UNENROLLED, owner.user.email, "totp",
    )  # fmt: skip
    lowered = read_success(refresh(api, raised["refresh_token"]))
    assert read_claims(lowered["access_token"])["aal"] == "aal1"


def test_removal_keeps_sessions_stepped_up_by_other_factor(api: Api) -> None:
    owner = make_owner()
    other = make_factor(owner.user, friendly_name="other", factor_type="phone", phone=factor_requests.PHONE)
    by_other = make_session(owner.user, aal="aal2", factor_id=other.id)
    at = timezone.now()
    AmrClaim.objects.create(session=by_other.session, authentication_method="mfa/phone", created_at=at, updated_at=at)
    raised = factor_requests.step_up(api, owner)
    read_success(factor_requests.unenroll(api, raised["access_token"], owner.factor.id))
    own = Session.objects.get(id=owner.session.id)
    kept = Session.objects.get(id=by_other.session.id)
    assert (own.aal, factor_requests.methods(own)) == ("aal1", ["password"])
    assert (kept.aal, kept.factor_id, factor_requests.methods(kept)) == ("aal2", other.id, ["mfa/phone", "password"])


def test_session_stepped_up_twice_is_lowered_with_later_factor(api: Api) -> None:
    # The row cannot say whose the other method was, and token and row must agree.
    owner = make_owner()
    done_first = factor_requests.step_up(api, owner)
    other = make_factor(owner.user, friendly_name="other", secret=factor_requests.SECRET)
    challenge_id = factor_requests.challenged(api, done_first["access_token"], other.id)
    raised = read_success(
        factor_requests.verify(api, done_first["access_token"], other.id, challenge_id, factor_requests.code())
    )
    read_success(factor_requests.unenroll(api, raised["access_token"], other.id))
    session = Session.objects.get()
    assert (session.aal, factor_requests.methods(session)) == ("aal1", ["password"])
    lowered = read_success(refresh(api, raised["refresh_token"]))
    assert read_claims(lowered["access_token"])["aal"] == "aal1"


@pytest.mark.parametrize("aal", ["aal1", None])
def test_removal_of_verified_factor_requires_aal2(api: Api, aal: str | None) -> None:
    owner = make_owner()
    Session.objects.update(aal=aal)
    before = table_contents()
    assert_error(factor_requests.unenroll(api, owner.token, owner.factor.id), *NEEDS_AAL2)
    assert table_contents() == before


def test_unverified_factor_can_be_removed_at_aal1(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner(status="unverified")
    make_factor(owner.user, friendly_name="first")
    read_success(factor_requests.unenroll(api, owner.token, owner.factor.id))
    assert [factor.friendly_name for factor in Factor.objects.all()] == ["first"]
    assert audit_trail()[-1][1] == {
        "factor_id": str(owner.factor.id), "factor_status": "unverified", "session_id": str(owner.session.id),
    }  # fmt: skip
    assert [mail.type for mail in mailbox.emails] == [EmailType.FACTOR_UNENROLLED]


def test_factor_of_other_user_is_not_found(api: Api) -> None:
    owner, stranger = make_owner(status="unverified"), make_session()
    assert_error(factor_requests.unenroll(api, stranger.access_token, owner.factor.id), *NOT_FOUND)
    assert_error(factor_requests.unenroll(api, owner.token, factor_requests.NIL), *NOT_FOUND)
    assert_error(
        factor_requests.unenroll(api, owner.token, "abc"), 404, "validation_failed", "factor_id must be an UUID"
    )


# Required AAL


@pytest.mark.parametrize("by_admin", [False, True])
def test_a_lowered_session_loses_its_permissions(api: Api, mailbox: Mailbox, by_admin: bool) -> None:
    owner = make_owner()
    other = make_factor(owner.user, friendly_name="other")
    raised = factor_requests.step_up(api, owner)["access_token"]
    change = {"password": f"{PASSWORD} and more"}
    if by_admin:
        admin_requests.expect_success(api, "DELETE", f"/admin/users/{owner.user.id}/factors/{owner.factor.id}")
        assert not mailbox.emails
    else:
        read_success(factor_requests.unenroll(api, raised, owner.factor.id))
    # The token still contains aal2, but the level of the session counts.
    assert read_claims(raised)["aal"] == "aal2"
    assert factor_requests.enroll(api, raised, friendly_name="new").json()["error_code"] == "insufficient_aal"
    assert factor_requests.unenroll(api, raised, other.id).json()["error_code"] == "insufficient_aal"
    assert api.put("/user", change, bearer=raised).json()["error_code"] == "insufficient_aal"


# Administrators


def reset(user: Any) -> int:
    return admin_factors.reset(
        user.id, actor=audit.Administrator(role="svc_admin"), caller=Caller(address="203.0.113.7"), at=timezone.now()
    )


def test_administrator_removes_all_factors(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner()
    make_factor(owner.user, friendly_name="other", status="unverified")
    RecoveryCode.objects.create(user=owner.user, code_hash="x", created_at=timezone.now())
    bystander = make_owner()
    raised = factor_requests.step_up(api, owner)["access_token"]
    by_code = make_session(owner.user, aal="aal2")
    at = timezone.now()
    AmrClaim.objects.create(
        session=by_code.session, authentication_method="mfa/recovery_code", created_at=at, updated_at=at
    )
    left = Factor.objects.filter(user=owner.user).count()
    assert reset(owner.user) == left
    assert [factor.id for factor in Factor.objects.all()] == [bystander.factor.id]
    assert not RecoveryCode.objects.exists()
    for session in Session.objects.filter(user=owner.user):
        assert (session.aal, session.factor_id, factor_requests.methods(session)) == ("aal1", None, ["password"])
    assert "factors" not in read_success(api.get("/user", bearer=raised))
    entries = [entry for entry in audit_payloads() if entry["action"] == "factor_deleted"]
    assert len(entries) == left
    assert {(entry["actor_username"], entry["traits"]["user_id"]) for entry in entries} == {
        ("svc_admin", str(owner.user.id))
    }
    assert not mailbox.emails


def test_a_reset_needs_a_user_with_factors() -> None:
    with pytest.raises(ApiError, match="This user has no second factor"):
        reset(make_user())
    with pytest.raises(ApiError, match="User not found"):
        admin_factors.reset(uuid4(), actor=audit.Administrator(role="x"), caller=Caller(address=""), at=timezone.now())


# The console


def test_an_operator_resets_factors_in_the_console(api: Api) -> None:
    make_user(email="op@example.com", role="svc_admin")
    owner = make_owner()
    factor_requests.step_up(api, owner)
    console = Console()
    console.sign_in("op@example.com")
    order: Any = {"action": "reset_factors", "index": "0", "_selected_action": [str(owner.user.id)]}
    asked = console.submit(USERS, **order)
    assert "All second factors and recovery codes are removed" in asked.content.decode()
    assert Factor.objects.count() == 1
    done_it = console.submit(USERS, **order, confirmed="yes", typed_name=str(owner.user.email))
    assert done_it.status_code == 302, done_it.content.decode()
    assert "@example.com: 1 second factor removed" in console.get(done_it.headers["Location"]).content.decode()
    assert not Factor.objects.exists()
    assert Session.objects.get(id=owner.session.id).aal == "aal1"
    again = console.submit(USERS, **order, confirmed="yes", typed_name=str(owner.user.email))
    assert "This user has no second factor" in console.get(again.headers["Location"]).content.decode()
