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
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.observations import backdate_rate_limits
from tests.tokens.token_requests import REFRESH_TOKEN_NOT_FOUND, audited_actions, error_of, refresh, verification_result
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


def side(answer: Answer) -> str:
    """As `outcome`; `half` for the first of two confirmations."""
    return "half" if answer.json().get("code") == "200" else verification_result(answer)


def test_two_sides_of_a_change_of_address_at_once_complete_it_once(api: Api, mailbox: Mailbox) -> None:
    for number in range(10):
        made = factories.make_session()
        new = f"new{number}@example.com"
        assert api.put("/user", {"email": new}, bearer=made.access_token).status_code == 200
        tokens = [mail.variables["TokenHash"] for mail in mailbox.emails[-2:]]

        answers = run_concurrently(
            *[
                lambda token=token: api.post("/verify", {"type": "email_change", "token_hash": token})
                for token in tokens
            ]
        )

        assert sorted(side(answer) for answer in answers) == ["half", "session"]
        user = User.objects.get(id=made.user.id)
        assert (user.email, user.email_change, user.email_change_confirm_status) == (new, "", 0)
        assert Session.objects.filter(user=user).count() == 2
        assert not OneTimeToken.objects.exists()
        assert audited_actions(user) == ["user_modified"] * 2


@pytest.mark.parametrize(("links", "browsers", "codes"), [(20, 0, 0), (0, 20, 0), (0, 0, 20), (7, 7, 6)])
def test_one_side_of_a_change_of_address_used_by_many_at_once_counts_once(
    api: Api, mailbox: Mailbox, links: int, browsers: int, codes: int
) -> None:
    made = factories.make_session()
    assert api.put("/user", {"email": "new@example.com"}, bearer=made.access_token).status_code == 200
    mail = mailbox.emails[0]
    said = mail.variables

    run_concurrently(
        *[lambda: api.post("/verify", {"type": "email_change", "token_hash": said["TokenHash"]})] * links,
        *[lambda: api.get(f"/verify?type=email_change&token={said['TokenHash']}")] * browsers,
        *[lambda: api.post("/verify", {"type": "email_change", "email": mail.to, "token": said["Token"]})] * codes,
    )

    made.user.refresh_from_db()
    assert (made.user.email_change, made.user.email_change_confirm_status) == ("new@example.com", 1)
    assert Session.objects.count() == OneTimeToken.objects.count() == 1
    assert audited_actions(made.user) == ["user_modified"]


def test_a_change_asked_for_while_the_former_is_confirmed_is_the_one_that_stays(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False}, limits={"email_sent": Rate(events=1000)})
    for number in range(10):
        made = factories.make_session()
        before = made.user.email
        first, second = f"first{number}@example.com", f"second{number}@example.com"
        assert api.put("/user", {"email": first}, bearer=made.access_token).status_code == 200
        token = mailbox.emails[-1].variables["TokenHash"]
        factories.backdate(made.user, by=timedelta(hours=1))
        backdate_rate_limits(timedelta(hours=1))

        asked, used = run_concurrently(
            lambda: api.put("/user", {"email": second}, bearer=made.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "email_change", "token_hash": token}),  # noqa: B023
        )

        assert asked.status_code == 200
        made.user.refresh_from_db()
        assert made.user.email == (first if verification_result(used) == "session" else before)
        row = OneTimeToken.objects.filter(user=made.user).first()
        assert (made.user.email_change, row and row.relates_to) == (second, second)


def test_one_number_goes_to_one_of_many_who_prove_it_at_once(api: Api) -> None:
    phone = "15551234567"
    users = [factories.make_user(phone_change=phone) for _ in range(5)]
    codes = [factories.make_one_time_token(user, TokenType.PHONE_CHANGE, identifier=phone).code for user in users]
    if len(set(codes)) < len(codes):
        pytest.skip("two of the codes are the same")

    answers = run_concurrently(
        *[
            lambda code=code: api.post("/verify", {"type": "phone_change", "phone": phone, "token": code})
            for code in codes
        ]
    )

    # Only the code sent last counts, and the others only once that is used.
    seen = Counter(verification_result(answer) for answer in answers)
    assert seen["session"] == 1
    assert set(seen) <= {"session", "otp_expired", "phone_exists"}
    assert User.objects.get(phone=phone) == users[-1]
    assert User.objects.filter(phone=phone).count() == 1
    assert Session.objects.count() == 1


@pytest.mark.parametrize("stored", [None, "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"])
def test_no_sign_in_by_a_former_password_outlives_its_change(api: Api, stored: str | None) -> None:
    former = "test" if stored else factories.PASSWORD
    for number in range(10):
        made = factories.make_session(factories.make_user(password_hash=stored))
        credentials = {"email": made.user.email, "password": former}

        def sign_in(after: float) -> Answer:
            time.sleep(after)
            return api.post("/token?grant_type=password", credentials)  # noqa: B023

        changed, *_ = run_concurrently(
            lambda: api.put("/user", {"password": f"chosen {number}"}, bearer=made.access_token),  # noqa: B023
            *[partial(sign_in, step / 100) for step in range(10)],
        )

        assert changed.status_code == 200
        assert list(Session.objects.filter(user=made.user)) == [made.session]
        assert api.post("/token?grant_type=password", credentials).status_code == 400


def test_no_refresh_outlives_a_change_of_password(api: Api) -> None:
    for number in range(5):
        user = factories.make_user()
        mine, *others = [factories.make_session(user) for _ in range(4)]

        changed, *answers = run_concurrently(
            lambda: api.put("/user", {"password": f"chosen {number}"}, bearer=mine.access_token),  # noqa: B023
            *[lambda other=other: refresh(api, other.refresh_token) for other in others],
        )

        assert changed.status_code == 200
        assert {error_of(answer) for answer in answers if answer.status_code != 200} <= {REFRESH_TOKEN_NOT_FOUND}
        assert list(Session.objects.filter(user=user)) == [mine.session]
        assert refresh(api, mine.refresh_token).status_code == 200


def test_a_link_opened_while_the_password_changes_leaves_no_session_behind(api: Api) -> None:
    for number in range(5):
        made = factories.make_session()
        secret = factories.make_one_time_token(made.user)

        changed, used = run_concurrently(
            lambda: api.put("/user", {"password": f"chosen {number}"}, bearer=made.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}),  # noqa: B023
        )

        assert changed.status_code == 200
        assert verification_result(used) in ("session", "otp_expired")
        assert list(Session.objects.filter(user=made.user)) == [made.session]


def test_metadata_changed_by_many_at_once_is_all_there(api: Api) -> None:
    made = factories.make_session()

    answers = run_concurrently(
        *[
            lambda number=number: api.put("/user", {"data": {f"k{number}": number}}, bearer=made.access_token)
            for number in range(16)
        ]
    )

    assert status_counts(answers) == {200: 16}
    made.user.refresh_from_db()
    assert {f"k{number}": number for number in range(16)}.items() <= (made.user.raw_user_meta_data or {}).items()


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_a_visitor_and_a_sign_up_who_want_an_address_at_once(
    api: Api, auth_config: ChangeConfig, autoconfirm: bool
) -> None:
    auth_config(
        signup={"anonymous_enabled": True},
        mailer={"autoconfirm": autoconfirm},
        limits={"email_sent": Rate(events=1000)},
    )
    for number in range(5):
        email = f"wanted{number}@example.com"
        visitor = api.post("/signup", {}).json()

        changed, made = run_concurrently(
            lambda: api.put("/user", {"email": email}, bearer=visitor["access_token"]),  # noqa: B023
            lambda: api.post("/signup", {"email": email, "password": "correct horse"}),  # noqa: B023
        )

        assert changed.status_code in (200, 422)
        assert made.status_code in (200, 422)
        assert 200 in (changed.status_code, made.status_code)
        assert User.objects.filter(email=email).count() == 1


def test_a_nonce_used_by_many_at_once_changes_one_password(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True})
    made = factories.make_session(created_at=timezone.now() - timedelta(days=2))
    assert api.get("/reauthenticate", bearer=made.access_token).status_code == 200
    nonce = mailbox.emails[0].variables["Token"]

    answers = run_concurrently(
        *[
            lambda number=number: api.put(
                "/user", {"password": f"chosen {number}", "nonce": nonce}, bearer=made.access_token
            )
            for number in range(8)
        ]
    )

    assert status_counts(answers) == {200: 1, 422: 7}
    assert audited_actions(made.user) == [
        "user_modified",
        "user_reauthenticate_requested",
        "user_updated_password",
    ]
