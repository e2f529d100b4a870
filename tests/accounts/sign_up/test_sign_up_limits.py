"""POST /signup: intervals, quotas and rate limits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from authsvc.conf import Rate
from tests.accounts.sign_up.sign_up_requests import EMAIL, SIGN_UP
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import make_user
from tests.observations import assert_error, backdate_rate_limits, table_contents

pytestmark = pytest.mark.django_db

# Interval and quota


@pytest.mark.parametrize("account", ["new", "unconfirmed", "confirmed", "banned", "of another audience"])
def test_the_interval_between_sign_ups_is_the_same_for_every_address(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, account: str
) -> None:
    match account:
        case "unconfirmed":
            make_user(email=EMAIL, confirmed=False)
        case "confirmed":
            make_user(email=EMAIL)
        case "banned":
            make_user(email=EMAIL, banned_until=timezone.now() + timedelta(days=1))
        case "of another audience":
            make_user(email=EMAIL, audience="staff")
    assert api.post("/signup", SIGN_UP).status_code == 200
    before, sent = table_contents(), len(mailbox.emails)
    second = api.post("/signup", {**SIGN_UP, "email": "USER@example.com"})
    text = "For security purposes, you can only request this after 899 seconds."
    assert_error(second, 429, "over_email_send_rate_limit", text)
    assert int(second.headers["Retry-After"]) in range(870, 900)
    assert table_contents() == before
    assert len(mailbox.emails) == sent
    backdate_rate_limits(timedelta(seconds=890))
    third = api.post("/signup", SIGN_UP)
    assert third.status_code == 429
    assert 1 <= int(third.headers["Retry-After"]) <= 10
    backdate_rate_limits(timedelta(seconds=11))
    assert api.post("/signup", SIGN_UP).status_code == 200


def test_a_configured_interval_replaces_the_default(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=60)})
    api.post("/signup", SIGN_UP)
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.post("/signup", SIGN_UP), 429, "over_email_send_rate_limit", text)


def test_interval_does_not_apply_to_other_address(api: Api) -> None:
    api.post("/signup", SIGN_UP)
    assert api.post("/signup", {**SIGN_UP, "email": "other@example.com"}).status_code == 200


def test_auto_confirmed_sign_ups_have_no_interval(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    assert api.post("/signup", SIGN_UP).status_code == 200
    assert api.post("/signup", SIGN_UP).status_code == 422


def test_the_email_quota_is_shared_by_all_addresses(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    assert api.post("/signup", SIGN_UP).status_code == 200
    before = table_contents()
    response = api.post("/signup", {**SIGN_UP, "email": "other@example.com"})
    assert_error(response, 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before
    assert len(mailbox.emails) == 1


def test_requests_of_one_client_are_limited_after_the_body_is_read(api: Api) -> None:
    for _ in range(30):
        assert api.post("/signup", {"email": "x"}).status_code == 400
    response = api.post("/signup", SIGN_UP)
    assert_error(response, 429, "over_request_rate_limit", "Request rate limit reached")
    assert int(response.headers["Retry-After"]) in range(1, 11)
    assert api.post("/signup", "{").json()["error_code"] == "bad_json"
    assert api.post("/signup", SIGN_UP, headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 200
    assert api.post("/signup", {}).json()["error_code"] == "anonymous_provider_disabled"
