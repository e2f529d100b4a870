"""GET /user: the account of a token, and rejected tokens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Identity
from authsvc.conf import AuthConfig
from tests.conftest import Api
from tests.factories import make_factor, make_session, make_user
from tests.observations import assert_error, table_contents

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
WRONG_AUDIENCE = (400, "validation_failed", "Token audience doesn't match request audience")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("path", ["/user", "/user/"])
def test_valid_token_returns_account(api: Api, scheme: str, path: str) -> None:
    made = make_session(make_user(email=EMAIL, data={"a": 1}))
    before = table_contents()
    response = api.get(path, headers={"Authorization": f"{scheme} {made.access_token}"})
    assert response.status_code == 200
    shown = response.json()
    assert (shown["id"], shown["email"], shown["user_metadata"]["a"]) == (str(made.user.id), EMAIL, 1)
    assert response.headers["Cache-Control"] == "no-store"
    assert table_contents() == before


def test_response_contains_current_account(api: Api) -> None:
    made = make_session(make_user(email=EMAIL))
    at = timezone.now()
    Identity.objects.create(
        provider="google", provider_id="7", user=made.user, identity_data={"sub": "7"}, created_at=at, updated_at=at
    )
    make_factor(made.user, friendly_name="phone")
    made.user.email_change, made.user.role = "new@example.com", "member"
    made.user.save()
    shown = api.get("/user", bearer=made.access_token).json()
    assert [identity["provider"] for identity in shown["identities"]] == ["email", "google"]
    assert [factor["friendly_name"] for factor in shown["factors"]] == ["phone"]
    assert (shown["new_email"], shown["role"]) == ("new@example.com", "member")


def test_a_token_returns_its_own_account(api: Api) -> None:
    one, other = make_session(make_user()), make_session(make_user())
    assert api.get("/user", bearer=one.access_token).json()["email"] == one.user.email
    assert api.get("/user", bearer=other.access_token).json()["email"] == other.user.email


def test_missing_token_is_rejected(api: Api) -> None:
    assert_error(api.get("/user"), 401, "no_authorization", "This endpoint requires a valid Bearer token")


def test_banned_user_is_rejected(api: Api) -> None:
    made = make_session(make_user(banned_until=timezone.now() + timedelta(minutes=1)))
    assert_error(api.get("/user", bearer=made.access_token), 403, "user_banned", "User is banned")


def test_expired_ban_is_ignored(api: Api) -> None:
    made = make_session(make_user(banned_until=timezone.now() - timedelta(seconds=1)))
    assert api.get("/user", bearer=made.access_token).status_code == 200


def test_ended_session_is_rejected(api: Api) -> None:
    made = make_session()
    assert api.post("/logout?scope=local", bearer=made.access_token).status_code == 204
    text = "Session from session_id claim in JWT does not exist"
    assert_error(api.get("/user", bearer=made.access_token), 403, "session_not_found", text)


def test_deleted_account_is_rejected(api: Api) -> None:
    made = make_session()
    made.user.delete()
    text = "User from sub claim in JWT does not exist"
    assert_error(api.get("/user", bearer=made.access_token), 403, "user_not_found", text)


def test_the_time_limits_of_a_session_do_not_end_its_access_token(api: Api, auth_config: ChangeConfig) -> None:
    made = make_session(not_after=timezone.now() - timedelta(seconds=1))
    auth_config(sessions={"timebox": timedelta(microseconds=1)})
    assert api.get("/user", bearer=made.access_token).status_code == 200


def test_the_requested_audience_must_match_the_token(api: Api) -> None:
    made = make_session()
    assert_error(api.get("/user", bearer=made.access_token, headers={"X-JWT-AUD": "staff"}), *WRONG_AUDIENCE)
    right = api.get("/user", bearer=made.access_token, headers={"X-JWT-AUD": "authenticated"})
    assert right.status_code == 200


def test_without_the_header_the_audience_is_that_of_the_token(api: Api) -> None:
    made = make_session(make_user(audience="staff"))
    assert api.get("/user", bearer=made.access_token).json()["aud"] == "staff"


def test_a_token_of_an_operator_is_checked_against_the_audience_of_the_service(
    api: Api, auth_config: ChangeConfig
) -> None:
    made = make_session(make_user(audience="staff", role="svc_admin"))
    assert_error(api.get("/user", bearer=made.access_token), *WRONG_AUDIENCE)
    auth_config(jwt={"aud": "staff"})
    assert api.get("/user", bearer=made.access_token).status_code == 200


def test_requests_are_not_rate_limited(api: Api) -> None:
    made = make_session()
    assert {api.get("/user", bearer=made.access_token).status_code for _ in range(40)} == {200}
