"""POST /factors/{factor_id}/verify: the session, its tokens and other sessions after a correct code."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import Factor, FactorChallenge
from accounts.users.queries import AccountUsers
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import PHONE, make_owner
from tests.accounts.mfa.verification_requests import signed
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import backdate, make_factor, make_legacy_tokens, make_session
from tests.observations import assert_error, audit_payloads
from tests.tokens.token_requests import read_claims, refresh, session_exists
from tokens.models import AmrClaim, LegacyRefreshToken, Session
from tokens.sessions.users import SignedInUser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("phone_factors")]

USED = (400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")


@pytest.mark.parametrize("status", ["unverified", "verified"])
def test_correct_code_steps_up_session(api: Api, status: str) -> None:
    owner = make_owner(status=status, friendly_name="phone app")
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, f" {factor_requests.code()} ")
    shown = read_success(response)
    session = Session.objects.get()
    assert (session.id, session.aal, session.factor_id) == (owner.session.id, "aal2", owner.factor.id)
    assert (session.refresh_token_counter, session.refreshed_at) == (2, None)
    claims = read_claims(shown["access_token"])
    assert (claims["aal"], claims["session_id"]) == ("aal2", str(session.id))
    assert [entry["method"] for entry in claims["amr"]] == ["totp", "password"]
    assert {"token_type", "expires_in", "expires_at", "refresh_token", "user"} < set(shown)
    (factor,) = shown["user"]["factors"]
    assert (factor["id"], factor["status"], factor["friendly_name"]) == (str(owner.factor.id), "verified", "phone app")
    assert api.get("/user", bearer=shown["access_token"]).json() == shown["user"]
    challenge = FactorChallenge.objects.get()
    assert challenge.verified_at is not None
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("verification_attempted", "factor")
    assert entry["traits"] == {
        "factor_id": str(owner.factor.id), "challenge_id": challenge_id, "factor_type": "totp",
    }  # fmt: skip


def test_refreshed_token_keeps_aal2_and_previous_refresh_token_revokes_session(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    next_pair = read_success(refresh(api, raised["refresh_token"]))
    assert read_claims(next_pair["access_token"])["aal"] == "aal2"
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert not Session.objects.exists()


@pytest.mark.parametrize(("age", "continues"), [(0, True), (9, True), (11, False)])
def test_previous_refresh_token_is_invalid_and_ends_the_session_after_the_reuse_interval(
    api: Api, age: int, continues: bool
) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    backdate(owner.session, *AmrClaim.objects.all(), by=timedelta(seconds=age))
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert Session.objects.exists() is continues
    assert api.get("/user", bearer=raised["access_token"]).status_code == (200 if continues else 403)
    assert refresh(api, raised["refresh_token"]).status_code == (200 if continues else 400)


def test_an_older_refresh_token_ends_the_session_after_a_step_up_too(api: Api) -> None:
    owner = make_owner()
    assert refresh(api, owner.refresh_token).status_code == 200
    factor_requests.step_up(api, owner)
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert not Session.objects.exists()


def test_previous_refresh_token_is_only_invalid_when_the_step_up_comes_during_the_refresh(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_owner()
    find_by_session = AccountUsers.find_by_session
    raised: list[dict[str, Any]] = []

    def find_and_step_up(source: AccountUsers, session_id: UUID) -> SignedInUser | None:
        found = find_by_session(source, session_id)
        if not raised:
            raised.append(factor_requests.step_up(api, owner))
        return found

    monkeypatch.setattr(AccountUsers, "find_by_session", find_and_step_up)
    assert_error(refresh(api, owner.refresh_token), *USED)
    assert refresh(api, raised[0]["refresh_token"]).status_code == 200


@pytest.mark.parametrize("refresh_settings", [{"allow_reuse": True}, {"rotation_enabled": False}])
def test_previous_refresh_token_is_rejected_when_reuse_is_tolerated(
    api: Api, auth_config: ChangeConfig, refresh_settings: dict[str, bool]
) -> None:
    auth_config(refresh=refresh_settings)
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    assert_error(
        refresh(api, owner.refresh_token),
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    )
    assert read_claims(read_success(refresh(api, raised["refresh_token"]))["access_token"])["aal"] == "aal2"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "refresh_token_already_used"),
        ({"allow_reuse": True}, "refresh_token_not_found"),
        ({"rotation_enabled": False}, "refresh_token_not_found"),
    ],
)
def test_imported_session_is_converted_and_its_token_is_invalid(
    api: Api, auth_config: ChangeConfig, config: dict[str, bool], code: str
) -> None:
    owner = make_owner()
    [*_, imported] = make_legacy_tokens(owner.user)
    assert imported.session is not None
    access_token = signed(read_claims(owner.token) | {"session_id": str(imported.session.id)})
    auth_config(refresh=config)
    challenge_id = factor_requests.challenged(api, access_token, owner.factor.id)
    raised = read_success(
        factor_requests.verify(api, access_token, owner.factor.id, challenge_id, factor_requests.code())
    )
    session = Session.objects.get(id=imported.session.id)
    assert (session.aal, session.refresh_token_counter) == ("aal2", 2)
    assert not LegacyRefreshToken.objects.filter(revoked=False).exists()
    assert [entry["action"] for entry in audit_payloads()[-2:]] == ["verification_attempted", "token_revoked"]
    assert read_claims(read_success(refresh(api, raised["refresh_token"]))["access_token"])["aal"] == "aal2"
    assert refresh(api, imported.token or "").json()["error_code"] == code


def test_other_sessions_below_aal2_are_revoked(api: Api) -> None:
    owner = make_owner()
    other = make_factor(owner.user, friendly_name="other")
    low, high, unknown = (
        make_session(owner.user, aal=aal, factor_id=factor)
        for aal, factor in (("aal1", None), ("aal2", other.id), (None, None))
    )
    stranger = make_session()
    factor_requests.step_up(api, owner)
    assert not session_exists(low.session)
    for kept in (owner, high, unknown, stranger):
        assert session_exists(kept.session)


def test_new_sign_in_starts_at_aal1_and_keeps_other_session(api: Api) -> None:
    owner = make_owner()
    raised = factor_requests.step_up(api, owner)
    low = make_session(owner.user)
    assert read_claims(low.access_token)["aal"] == "aal1"
    assert read_success(api.get("/user", bearer=raised["access_token"]))["id"] == str(owner.user.id)


def test_repeated_method_keeps_its_amr_row(api: Api) -> None:
    owner = make_owner()
    at = timezone.now() - timedelta(hours=1)
    AmrClaim.objects.create(session=owner.session, authentication_method="totp", created_at=at, updated_at=at)
    factor_requests.step_up(api, owner)
    claim = AmrClaim.objects.get(authentication_method="totp")
    assert claim.created_at == at
    assert claim.updated_at > at
    assert factor_requests.methods(owner.session) == ["password", "totp"]


def test_verification_deletes_unfinished_enrolments_of_type(api: Api) -> None:
    owner = make_owner(status="unverified")
    make_factor(owner.user, status="unverified", friendly_name="same type")
    make_factor(owner.user, status="verified", friendly_name="same type, done")
    make_factor(owner.user, status="unverified", factor_type="phone", phone=PHONE, friendly_name="other type")
    make_factor(make_session().user, status="unverified", friendly_name="of other user")
    Session.objects.filter(id=owner.session.id).update(aal="aal2")
    factor_requests.step_up(api, owner)
    left = {factor.friendly_name for factor in Factor.objects.exclude(id=owner.factor.id)}
    assert left == {"same type, done", "other type", "of other user"}


def test_step_up_ends_time_limit_of_aal1(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"allow_low_aal": timedelta(minutes=10)})
    owner = make_owner()
    assert factor_requests.step_up(api, owner)["expires_in"] == 3600
