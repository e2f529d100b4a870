"""POST /token?grant_type=refresh_token with the tokens of an imported database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    REFRESH_TOKEN_REUSED,
    audited_actions,
    error_of,
    read_claims,
    refresh,
    rotate,
    session_exists,
)
from tokens.models import LegacyRefreshToken, Session

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
INTERVAL = timedelta(seconds=10)
OFF = {"rotation_enabled": False}
LENIENT = {"allow_reuse": True}
BOTH_AUDITED = ["token_refreshed", "token_revoked"]


def session_of(row: LegacyRefreshToken) -> Session:
    return Session.objects.get(legacy_tokens=row)


def revoked(rows: list[LegacyRefreshToken]) -> list[bool | None]:
    return [LegacyRefreshToken.objects.get(id=row.id).revoked for row in rows]


def age(rows: list[LegacyRefreshToken], *, by: timedelta) -> None:
    factories.backdate(*rows, session_of(rows[0]), by=by)


# A session that is not converted yet


def test_the_active_token_is_exchanged_for_one_of_ours(api: Api) -> None:
    r0, r1 = rows = factories.make_legacy_tokens()
    age(rows, by=timedelta(days=30))
    r0.refresh_from_db()
    before = timezone.now()
    user = User.objects.filter(id=session_of(r0).user_id).values()
    as_it_was = user.get()

    answer = refresh(api, r1.token or "", headers={"User-Agent": "a browser"})

    assert answer.status_code == 200, answer.content
    session = session_of(r1)
    assert answer.json()["refresh_token"] == factories.refresh_token(session, 0)
    assert read_claims(answer.json()["access_token"])["session_id"] == str(session.id)
    assert answer.json()["user"]["id"] == str(r1.user_id)
    assert session.refresh_token_counter == 0
    assert session.refreshed_at is not None
    assert before <= session.refreshed_at <= timezone.now()
    assert (session.user_agent, session.ip) == ("a browser", "127.0.0.1")
    assert LegacyRefreshToken.objects.count() == 2
    assert revoked(rows) == [True, True]
    used = LegacyRefreshToken.objects.get(id=r1.id)
    assert used.updated_at == session.refreshed_at
    assert LegacyRefreshToken.objects.get(id=r0.id).updated_at == r0.updated_at
    assert user.get() == as_it_was
    assert audited_actions(User.objects.get()) == BOTH_AUDITED
    assert rotate(api, answer.json()["refresh_token"]) == factories.refresh_token(session, 1)


def test_a_token_of_an_older_server_is_accepted_where_a_row_holds_it(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.filter(id=row.id).update(token="Abc-_fghijklmnopqrstuv")
    assert rotate(api, "Abc-_fghijklmnopqrstuv") == factories.refresh_token(session_of(row), 0)


def test_other_branches_of_the_session_end_with_the_conversion(api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    LegacyRefreshToken.objects.filter(id=rows[0].id).update(revoked=False)
    age(rows, by=timedelta(days=1))
    untouched = LegacyRefreshToken.objects.get(id=rows[0].id).updated_at

    rotate(api, rows[2].token or "")

    assert revoked(rows) == [True, True, True]
    assert LegacyRefreshToken.objects.get(id=rows[0].id).updated_at == untouched


def test_other_sessions_of_the_user_are_not_touched(api: Api) -> None:
    user = factories.make_user()
    mine = factories.make_legacy_tokens(user)
    others = factories.make_legacy_tokens(user)
    rotate(api, mine[1].token or "")
    assert revoked(others) == [True, False]
    assert rotate(api, others[1].token or "") == factories.refresh_token(session_of(others[0]), 0)


# Which of r0 ← r1 ← r2 (active) is presented, how long after it was revoked, and what comes back.
@pytest.mark.parametrize(
    ("chosen", "presented", "seconds"),
    [
        pytest.param({}, 1, 9, id="predecessor inside the interval"),
        pytest.param(OFF, 1, 9, id="predecessor inside the interval, rotation off"),
        pytest.param(OFF, 1, 5000, id="predecessor after the interval, rotation off"),
        pytest.param(LENIENT, 1, 5000, id="predecessor after the interval, reuse allowed"),
        pytest.param(LENIENT, 0, 5000, id="older, reuse allowed"),
        pytest.param({**OFF, **LENIENT}, 0, 5000, id="older, reuse allowed, rotation off"),
    ],
)
def test_a_revoked_token_that_gets_the_active_one(
    chosen: dict[str, object], presented: int, seconds: int, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=chosen)
    rows = factories.make_legacy_tokens(count=3)
    age(rows, by=seconds * SECOND)
    before = timezone.now()

    assert rotate(api, rows[presented].token or "") == rows[2].token

    assert revoked(rows) == [True, True, False]
    session = session_of(rows[0])
    assert (session.refresh_token_hmac_key, session.refresh_token_counter) == (None, None)
    assert session.refreshed_at is not None
    assert session.refreshed_at >= before
    assert audited_actions(User.objects.get()) == ["token_refreshed"]


@pytest.mark.parametrize(
    ("presented", "seconds"),
    [
        pytest.param(1, 11, id="predecessor after the interval"),
        pytest.param(0, 0, id="older, at once"),
        pytest.param(0, 5000, id="older, later"),
    ],
)
def test_a_revoked_token_used_again_revokes_the_active_one(presented: int, seconds: int, api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    age(rows, by=seconds * SECOND)
    before = timezone.now()

    assert error_of(refresh(api, rows[presented].token or "")) == REFRESH_TOKEN_REUSED

    assert revoked(rows) == [True, True, True]
    last = LegacyRefreshToken.objects.get(id=rows[2].id)
    assert last.updated_at is not None
    assert last.updated_at >= before
    assert session_exists(session_of(rows[0]))
    assert audited_actions(User.objects.get()) == []
    assert error_of(refresh(api, rows[2].token or "")) == REFRESH_TOKEN_REUSED


@pytest.mark.parametrize("chosen", [{}, LENIENT], ids=["", "reuse allowed"])
def test_a_revoked_token_without_an_active_one_is_reuse(
    chosen: dict[str, object], api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=chosen)
    rows = factories.make_legacy_tokens(active=False)
    assert error_of(refresh(api, rows[1].token or "")) == REFRESH_TOKEN_REUSED
    assert session_exists(session_of(rows[0]))


@pytest.mark.parametrize("active", [True, False])
def test_with_rotation_off_an_older_token_converts_inside_the_interval(
    active: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=OFF)
    rows = factories.make_legacy_tokens(count=3, active=active)
    age(rows, by=9 * SECOND)

    returned = rotate(api, rows[0].token or "")

    assert returned == factories.refresh_token(session_of(rows[0]), 0)
    assert revoked(rows) == [True, True, True]
    assert audited_actions(User.objects.get()) == BOTH_AUDITED


@pytest.mark.parametrize("active", [True, False])
def test_with_rotation_off_an_older_token_is_refused_after_the_interval(
    active: bool, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(refresh=OFF)
    rows = factories.make_legacy_tokens(count=3, active=active)
    age(rows, by=11 * SECOND)
    before = list(LegacyRefreshToken.objects.order_by("id").values()), Session.objects.values().get()

    assert error_of(refresh(api, rows[0].token or "")) == REFRESH_TOKEN_REUSED

    assert (list(LegacyRefreshToken.objects.order_by("id").values()), Session.objects.values().get()) == before
    assert audited_actions(User.objects.get()) == []


def test_a_token_never_revoked_nor_active_on_record_counts_as_active(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.update(revoked=None)
    assert rotate(api, row.token or "") == factories.refresh_token(session_of(row), 0)


# A session that its first refresh here has converted


def test_the_token_that_converted_can_be_used_again_while_its_successor_was_not(api: Api) -> None:
    rows = factories.make_legacy_tokens()
    first = rotate(api, rows[1].token or "")
    assert rotate(api, rows[1].token or "") == first
    age(rows, by=9 * SECOND)
    assert rotate(api, rows[1].token or "") == first
    assert audited_actions(User.objects.get()) == [*["token_refreshed"] * 3, "token_revoked"]


@pytest.mark.parametrize(
    ("presented", "refreshes", "seconds"),
    [
        pytest.param(1, 0, 11, id="converting token after the interval"),
        pytest.param(1, 1, 0, id="converting token after another refresh"),
        pytest.param(0, 0, 0, id="older token"),
        pytest.param(0, 3, 5000, id="older token, later"),
    ],
)
def test_a_token_from_before_the_conversion_ends_the_session(
    presented: int, refreshes: int, seconds: int, api: Api
) -> None:
    rows = factories.make_legacy_tokens()
    newest = rotate(api, rows[1].token or "")
    for _ in range(refreshes):
        newest = rotate(api, newest)
    age(rows, by=seconds * SECOND)
    audited = audited_actions(User.objects.get())

    assert error_of(refresh(api, rows[presented].token or "")) == REFRESH_TOKEN_REUSED

    assert not Session.objects.exists()
    assert not LegacyRefreshToken.objects.exists()
    assert audited_actions(User.objects.get()) == audited
    assert error_of(refresh(api, newest)) == REFRESH_TOKEN_NOT_FOUND


@pytest.mark.parametrize(
    ("chosen", "presented", "refreshes", "seconds", "counter"),
    [
        pytest.param(OFF, 1, 0, 5000, 0, id="converting token, rotation off"),
        pytest.param(OFF, 1, 1, 9, 1, id="converting token after another refresh, rotation off"),
        pytest.param(OFF, 1, 1, 11, None, id="the same after the interval"),
        pytest.param(OFF, 0, 0, 9, 0, id="older token, rotation off"),
        pytest.param(OFF, 0, 0, 11, None, id="the same after the interval, older"),
        pytest.param(LENIENT, 1, 3, 5000, 3, id="converting token, reuse allowed"),
        pytest.param(LENIENT, 0, 3, 5000, 3, id="older token, reuse allowed"),
    ],
)
def test_a_token_from_before_the_conversion_under_lenient_settings(
    chosen: dict[str, object],
    presented: int,
    refreshes: int,
    seconds: int,
    counter: int | None,
    api: Api,
    auth_config: ChangeConfig,
) -> None:
    auth_config(refresh=chosen)
    rows = factories.make_legacy_tokens()
    newest = rotate(api, rows[1].token or "")
    for _ in range(refreshes):
        newest = rotate(api, newest)
    age(rows, by=seconds * SECOND)

    answer = refresh(api, rows[presented].token or "")

    session = session_of(rows[0])
    assert session.refresh_token_counter == refreshes
    if counter is None:
        assert error_of(answer) == REFRESH_TOKEN_REUSED
    else:
        assert answer.json()["refresh_token"] == factories.refresh_token(session, counter) == newest


def test_a_row_that_does_not_say_when_it_changed_is_not_taken_for_the_converting_one(api: Api) -> None:
    rows = factories.make_legacy_tokens(count=3)
    LegacyRefreshToken.objects.filter(id=rows[0].id).update(updated_at=None)
    first = rotate(api, rows[2].token or "")
    assert rotate(api, rows[2].token or "") == first


def test_the_conversion_goes_by_a_step_up_too(api: Api) -> None:
    rows = factories.make_legacy_tokens()
    first = rotate(api, rows[1].token or "")
    # What a step-up does to the counter.
    Session.objects.update(refresh_token_counter=2)
    assert error_of(refresh(api, first)) == REFRESH_TOKEN_REUSED


# Refusals


def test_a_row_without_a_session_is_deleted_when_it_is_presented(api: Api) -> None:
    (row,) = factories.make_legacy_tokens(count=1)
    LegacyRefreshToken.objects.update(session=None)
    no_session = (400, "session_not_found", "Invalid Refresh Token: No Valid Session Found")
    assert error_of(refresh(api, row.token or "")) == no_session
    assert not LegacyRefreshToken.objects.exists()
    assert error_of(refresh(api, row.token or "")) == REFRESH_TOKEN_NOT_FOUND


def test_a_banned_user_is_refused(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    rows = factories.make_legacy_tokens(user)
    answer = refresh(api, rows[1].token or "")
    assert error_of(answer) == (400, "user_banned", "Invalid Refresh Token: User Banned")
    assert revoked(rows) == [True, False]


def test_a_session_past_its_end_is_refused_before_a_reuse(api: Api) -> None:
    rows = factories.make_legacy_tokens(not_after=timezone.now() - SECOND)
    for row in rows:
        status, error_code, _ = error_of(refresh(api, row.token or ""))
        assert (status, error_code) == (400, "session_expired")
    assert revoked(rows) == [True, False]


def test_the_last_use_of_the_presented_token_counts_as_activity(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"inactivity_timeout": timedelta(minutes=10)})
    rows = factories.make_legacy_tokens()
    age(rows, by=timedelta(hours=1))
    inactive = (400, "session_expired", "Invalid Refresh Token: Session Expired (Inactivity)")
    assert error_of(refresh(api, rows[1].token or "")) == inactive
    LegacyRefreshToken.objects.filter(id=rows[1].id).update(updated_at=timezone.now() - timedelta(minutes=9))
    assert rotate(api, rows[1].token or "")
