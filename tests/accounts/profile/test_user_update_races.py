"""Concurrent changes of one account."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Rate
from tests import factories
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.observations import backdate_rate_limits
from tests.tokens.token_requests import REFRESH_TOKEN_NOT_FOUND, audited_actions, error_of, refresh, verification_result
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


def email_change_result(response: ApiResponse) -> str:
    """As `verification_result`; `pending` for the first of the two confirmations."""
    return "pending" if response.json().get("code") == "200" else verification_result(response)


def test_concurrent_confirmations_of_both_addresses_complete_the_email_change_once(api: Api, mailbox: Mailbox) -> None:
    for number in range(10):
        signed_in = factories.make_session()
        new_email = f"new{number}@example.com"
        assert api.put("/user", {"email": new_email}, bearer=signed_in.access_token).status_code == 200
        tokens = [email.variables["TokenHash"] for email in mailbox.emails[-2:]]

        responses = run_concurrently(
            *[
                lambda token=token: api.post("/verify", {"type": "email_change", "token_hash": token})
                for token in tokens
            ]
        )

        assert sorted(email_change_result(response) for response in responses) == ["pending", "session"]
        user = User.objects.get(id=signed_in.user.id)
        assert (user.email, user.email_change, user.email_change_confirm_status) == (new_email, "", 0)
        assert Session.objects.filter(user=user).count() == 2
        assert not OneTimeToken.objects.exists()
        assert audited_actions(user) == ["user_modified"] * 2


@pytest.mark.parametrize(("links", "browsers", "codes"), [(20, 0, 0), (0, 20, 0), (0, 0, 20), (7, 7, 6)])
def test_concurrent_confirmations_of_one_address_count_once(
    api: Api, mailbox: Mailbox, links: int, browsers: int, codes: int
) -> None:
    signed_in = factories.make_session()
    assert api.put("/user", {"email": "new@example.com"}, bearer=signed_in.access_token).status_code == 200
    email = mailbox.emails[0]
    link_token, code = email.variables["TokenHash"], email.variables["Token"]

    run_concurrently(
        *[lambda: api.post("/verify", {"type": "email_change", "token_hash": link_token})] * links,
        *[lambda: api.get(f"/verify?type=email_change&token={link_token}")] * browsers,
        *[lambda: api.post("/verify", {"type": "email_change", "email": email.to, "token": code})] * codes,
    )

    signed_in.user.refresh_from_db()
    assert (signed_in.user.email_change, signed_in.user.email_change_confirm_status) == ("new@example.com", 1)
    assert Session.objects.count() == OneTimeToken.objects.count() == 1
    assert audited_actions(signed_in.user) == ["user_modified"]


def test_new_email_change_during_confirmation_of_previous_change_stays_pending(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False}, limits={"email_sent": Rate(events=1000)})
    for number in range(10):
        signed_in = factories.make_session()
        old_email = signed_in.user.email
        first, second = f"first{number}@example.com", f"second{number}@example.com"
        assert api.put("/user", {"email": first}, bearer=signed_in.access_token).status_code == 200
        token = mailbox.emails[-1].variables["TokenHash"]
        factories.backdate(signed_in.user, by=timedelta(hours=1))
        backdate_rate_limits(timedelta(hours=1))

        requested, confirmed = run_concurrently(
            lambda: api.put("/user", {"email": second}, bearer=signed_in.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "email_change", "token_hash": token}),  # noqa: B023
        )

        assert requested.status_code == 200
        signed_in.user.refresh_from_db()
        assert signed_in.user.email == (first if verification_result(confirmed) == "session" else old_email)
        row = OneTimeToken.objects.filter(user=signed_in.user).first()
        assert (signed_in.user.email_change, row and row.relates_to) == (second, second)


def test_concurrent_confirmations_of_one_phone_succeed_for_one_user(api: Api) -> None:
    phone = "15551234567"
    users = [factories.make_user(phone_change=phone) for _ in range(5)]
    codes: list[str] = []
    for user in users:
        while (code := factories.make_one_time_token(user, TokenType.PHONE_CHANGE, identifier=phone).code) in codes:
            pass
        codes.append(code)

    responses = run_concurrently(
        *[
            lambda code=code: api.post("/verify", {"type": "phone_change", "phone": phone, "token": code})
            for code in codes
        ]
    )

    # Only the code that was sent last is valid; the other codes are compared after its use.
    results = Counter(verification_result(response) for response in responses)
    assert results["session"] == 1
    assert set(results) <= {"session", "otp_expired", "phone_exists"}
    assert User.objects.get(phone=phone) == users[-1]
    assert User.objects.filter(phone=phone).count() == 1
    assert Session.objects.count() == 1


@pytest.mark.parametrize("password_hash", [None, "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"])
def test_concurrent_sign_in_with_old_password_leaves_no_session(api: Api, password_hash: str | None) -> None:
    old_password = "test" if password_hash else factories.PASSWORD
    for number in range(10):
        signed_in = factories.make_session(factories.make_user(password_hash=password_hash))
        credentials = {"email": signed_in.user.email, "password": old_password}

        def sign_in(delay: float) -> ApiResponse:
            time.sleep(delay)
            return api.post("/token?grant_type=password", credentials)  # noqa: B023

        changed, *_ = run_concurrently(
            lambda: api.put("/user", {"password": f"new password {number}"}, bearer=signed_in.access_token),  # noqa: B023
            *[partial(sign_in, step / 100) for step in range(10)],
        )

        assert changed.status_code == 200
        assert list(Session.objects.filter(user=signed_in.user)) == [signed_in.session]
        assert api.post("/token?grant_type=password", credentials).status_code == 400


@pytest.mark.usefixtures("no_refresh_timeout")
def test_concurrent_refresh_of_other_session_does_not_outlive_password_change(api: Api) -> None:
    for number in range(5):
        user = factories.make_user()
        current, *others = [factories.make_session(user) for _ in range(4)]

        changed, *responses = run_concurrently(
            lambda: api.put("/user", {"password": f"new password {number}"}, bearer=current.access_token),  # noqa: B023
            *[lambda other=other: refresh(api, other.refresh_token) for other in others],
        )

        assert changed.status_code == 200
        assert {error_of(response) for response in responses if response.status_code != 200} <= {
            REFRESH_TOKEN_NOT_FOUND
        }
        assert list(Session.objects.filter(user=user)) == [current.session]
        assert refresh(api, current.refresh_token).status_code == 200


def test_concurrent_link_redemption_does_not_outlive_password_change(api: Api) -> None:
    for number in range(5):
        signed_in = factories.make_session()
        secret = factories.make_one_time_token(signed_in.user)

        changed, redeemed = run_concurrently(
            lambda: api.put("/user", {"password": f"new password {number}"}, bearer=signed_in.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}),  # noqa: B023
        )

        assert changed.status_code == 200
        assert verification_result(redeemed) in ("session", "otp_expired")
        assert list(Session.objects.filter(user=signed_in.user)) == [signed_in.session]


def test_concurrent_metadata_updates_are_all_stored(api: Api) -> None:
    signed_in = factories.make_session()

    responses = run_concurrently(
        *[
            lambda number=number: api.put("/user", {"data": {f"k{number}": number}}, bearer=signed_in.access_token)
            for number in range(16)
        ]
    )

    assert status_counts(responses) == {200: 16}
    signed_in.user.refresh_from_db()
    assert {f"k{number}": number for number in range(16)}.items() <= (signed_in.user.raw_user_meta_data or {}).items()


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_anonymous_user_and_sign_up_claiming_one_address_concurrently(
    api: Api, auth_config: ChangeConfig, autoconfirm: bool
) -> None:
    auth_config(
        signup={"anonymous_enabled": True},
        mailer={"autoconfirm": autoconfirm},
        limits={"email_sent": Rate(events=1000)},
    )
    for number in range(5):
        email = f"new{number}@example.com"
        anonymous = api.post("/signup", {}).json()

        changed, signed_up = run_concurrently(
            lambda: api.put("/user", {"email": email}, bearer=anonymous["access_token"]),  # noqa: B023
            lambda: api.post("/signup", {"email": email, "password": "correct horse"}),  # noqa: B023
        )

        assert changed.status_code in (200, 422)
        assert signed_up.status_code in (200, 422)
        assert 200 in (changed.status_code, signed_up.status_code)
        assert User.objects.filter(email=email).count() == 1


def test_nonce_used_concurrently_changes_password_once(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(passwords={"update_requires_reauthentication": True})
    signed_in = factories.make_session(created_at=timezone.now() - timedelta(days=2))
    assert api.get("/reauthenticate", bearer=signed_in.access_token).status_code == 200
    nonce = mailbox.emails[0].variables["Token"]

    responses = run_concurrently(
        *[
            lambda number=number: api.put(
                "/user", {"password": f"new password {number}", "nonce": nonce}, bearer=signed_in.access_token
            )
            for number in range(8)
        ]
    )

    assert status_counts(responses) == {200: 1, 422: 7}
    assert audited_actions(signed_in.user) == [
        "user_modified",
        "user_reauthenticate_requested",
        "user_updated_password",
    ]
