"""The same thing at the same moment from many sides: threads with connections of their own against one database."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Rate
from authsvc.db.sql import fetch_rows
from tests import factories
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.observations import backdate_rate_limits
from tests.tokens import wire
from tokens.models import FlowState, LegacyRefreshToken, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[], Answer]

# Other databases of the server belong to other tests.
_WAITING = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture(autouse=True)
def no_request_limit(auth_config: ChangeConfig) -> None:
    # Clients are told apart by a header that these tests do not send.
    auth_config(limits={"header": "X-Nobody"})


def together(*calls: Call) -> list[Answer]:
    """The answers to all calls, made at once by a thread each."""
    ready = threading.Barrier(len(calls))

    def run(call: Call) -> Answer:
        try:
            connection.ensure_connection()
            ready.wait(timeout=30)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def statuses(answers: list[Answer]) -> dict[int, int]:
    return dict(Counter(answer.status_code for answer in answers))


@contextmanager
def locked(session: Session, *, seconds: float = 60) -> Iterator[None]:
    """Somebody else holds the row of a session while the block runs, at most for so long."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Session.objects.select_for_update().get(id=session.id)
                held.set()
                release.wait(seconds)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    try:
        yield
    finally:
        release.set()
        holder.join()


# Refresh tokens


def test_one_refresh_token_used_by_many_at_once_has_one_child(api: Api) -> None:
    signed_in = factories.make_session()

    answers = together(*[lambda: wire.refresh(api, signed_in.refresh_token)] * 64)

    assert statuses(answers) == {200: 64}
    assert {answer.json()["refresh_token"] for answer in answers} == {factories.refresh_token(signed_in.session, 1)}
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == 1
    assert wire.audited(signed_in.user) == ["token_refreshed"] * 64


def test_an_imported_token_used_by_many_at_once_converts_once(api: Api) -> None:
    # Several rounds: who reads before the conversion and locks right after it has only a moment to be seen in.
    for _ in range(10):
        imported = factories.make_legacy_tokens()
        user = User.objects.get(sessions__legacy_tokens=imported[1])

        answers = together(*[lambda: wire.refresh(api, imported[1].token or "")] * 20)  # noqa: B023

        session = Session.objects.get(user=user)
        assert statuses(answers) == {200: 20}
        assert {answer.json()["refresh_token"] for answer in answers} == {factories.refresh_token(session, 0)}
        assert session.refresh_token_counter == 0
        assert LegacyRefreshToken.objects.filter(session=session, revoked=True).count() == 2
        assert wire.audited(user) == [*["token_refreshed"] * 20, "token_revoked"]


def test_the_single_session_of_a_user_refreshed_by_many_at_once(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"single_per_user": True})
    older = factories.make_session()
    newer = factories.make_session(older.user)

    answers = together(
        *[lambda: wire.refresh(api, older.refresh_token)] * 10, *[lambda: wire.refresh(api, newer.refresh_token)] * 10
    )

    assert statuses(answers[:10]) == {400: 10}
    assert {wire.refusal(answer)[1] for answer in answers[:10]} == {"session_expired"}
    assert statuses(answers[10:]) == {200: 10}
    assert {answer.json()["refresh_token"] for answer in answers[10:]} == {factories.refresh_token(newer.session, 1)}


def test_a_reuse_ends_the_session_whatever_else_goes_on(api: Api) -> None:
    session = factories.make_session(refresh_token_counter=2).session
    old, newest = (factories.refresh_token(session, counter) for counter in (0, 2))

    answers = together(*[lambda: wire.refresh(api, old)] * 4, *[lambda: wire.refresh(api, newest)] * 12)

    assert not Session.objects.exists()
    refusals = {wire.refusal(answer) for answer in answers if answer.status_code != 200}
    assert refusals <= {wire.ALREADY_USED, wire.NOT_FOUND}
    assert wire.ALREADY_USED in refusals
    assert 200 not in statuses(answers[:4])
    assert {each.json()["refresh_token"] for each in answers[4:] if each.status_code == 200} <= {
        factories.refresh_token(session, 3)
    }


def test_nothing_outlives_a_logout_at_the_same_moment(api: Api) -> None:
    signed_in = factories.make_session()

    answers = together(
        *[lambda: api.post("/logout", bearer=signed_in.access_token)] * 4,
        *[lambda: wire.refresh(api, signed_in.refresh_token)] * 12,
    )

    assert not Session.objects.exists()
    assert 204 in statuses(answers[:4])
    assert set(statuses(answers[:4])) <= {204, 403}
    assert {wire.refusal(each) for each in answers[4:] if each.status_code != 200} <= {wire.NOT_FOUND}


def test_a_session_held_for_long_is_given_up_and_nobody_waits_in_the_database(api: Api) -> None:
    signed_in = factories.make_session()
    begun = time.monotonic()
    waiting: list[Any] = []

    def watch() -> Answer:
        for _ in range(20):
            time.sleep(0.1)
            waiting.extend(fetch_rows(_WAITING, ()))
        return api.get("/health")

    with locked(signed_in.session):
        answer, _ = together(lambda: wire.refresh(api, signed_in.refresh_token), watch)

    assert wire.refusal(answer) == (
        409,
        "conflict",
        "Too many concurrent token refresh requests on the same session or refresh token",
    )
    assert 4 < time.monotonic() - begun < 10
    assert waiting == []
    assert wire.refreshed(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


def test_a_session_held_for_a_moment_is_waited_for(api: Api) -> None:
    signed_in = factories.make_session()
    with locked(signed_in.session, seconds=0.3):
        assert wire.refreshed(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


def test_an_imported_token_held_for_a_moment_is_waited_for(api: Api) -> None:
    imported = factories.make_legacy_tokens()
    session = Session.objects.get()
    with locked(session, seconds=0.3):
        token = wire.refreshed(api, imported[1].token or "")
    assert token == factories.refresh_token(Session.objects.get(), 0)


# What a mail carried


@pytest.mark.parametrize(("links", "browsers", "codes"), [(20, 0, 0), (0, 20, 0), (0, 0, 20), (7, 7, 6)])
@pytest.mark.parametrize("type", ["recovery", "signup", "email"])
def test_one_mail_redeemed_by_many_at_once_gives_one_session(
    type: str, links: int, browsers: int, codes: int, api: Api
) -> None:
    user = factories.make_user(confirmed=type == "recovery")
    token_type = TokenType.RECOVERY if type == "recovery" else TokenType.CONFIRMATION
    secret = factories.make_one_time_token(user, token_type)

    answers = together(
        *[lambda: api.post("/verify", {"type": type, "token_hash": secret.link_token})] * links,
        *[lambda: api.get(f"/verify?type={type}&token={secret.link_token}")] * browsers,
        *[lambda: api.post("/verify", {"type": type, "email": user.email, "token": secret.code})] * codes,
    )

    assert Session.objects.count() == 1
    assert not OneTimeToken.objects.exists()
    told = Counter(outcome(answer) for answer in answers)
    assert told == {"session": 1, "otp_expired": 19}
    assert wire.audited(user) == ["login" if type == "recovery" else "user_signedup"]


def outcome(answer: Answer) -> str:
    """`session`, `code`, or the error code, whether in a body or in a redirect."""
    if answer.status_code == 303:
        target = urlsplit(answer.headers["Location"])
        told = parse_qs(target.fragment) | parse_qs(target.query)
        if "error_code" in told:
            return told["error_code"][0]
        return "session" if "access_token" in told else "code" if "code" in told else "nothing"
    body = answer.json()
    return "session" if "access_token" in body else str(body["error_code"])


def test_a_link_of_a_flow_opened_by_many_at_once_gives_one_code(api: Api) -> None:
    user = factories.make_user()
    flow = factories.make_flow(user, method="recovery", auth_code_issued_at=None)
    secret = factories.make_one_time_token(user, pkce=True)

    answers = together(*[lambda: api.get(f"/verify?type=recovery&token={secret.link_token}")] * 20)

    assert Counter(outcome(answer) for answer in answers) == {"code": 1, "otp_expired": 19}
    assert not Session.objects.exists()
    assert wire.exchange(api, flow.auth_code).status_code == 200


def test_one_code_of_a_flow_exchanged_by_many_at_once_gives_one_session(api: Api) -> None:
    user = factories.make_user()
    flow = factories.make_flow(user)

    answers = together(*[lambda: wire.exchange(api, flow.auth_code)] * 20)

    assert statuses(answers) == {200: 1, 404: 19}
    assert Session.objects.count() == 1
    assert not FlowState.objects.exists()
    assert wire.audited(user) == ["login"]


def test_wrong_codes_at_once_are_all_counted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 20})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    guess = f"{(int(secret.code) + 1) % 1_000_000:06d}"

    answers = together(*[lambda: api.post("/verify", {"type": "recovery", "email": user.email, "token": guess})] * 20)

    assert Counter(outcome(answer) for answer in answers) == {"otp_expired": 20}
    assert OneTimeToken.objects.get().attempts == 20
    assert (
        outcome(api.post("/verify", {"type": "recovery", "email": user.email, "token": secret.code})) == "otp_expired"
    )
    assert outcome(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token})) == "session"


def test_a_newer_mail_asked_for_while_the_older_is_used(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    user = factories.make_user()
    for _ in range(5):
        secret = factories.make_one_time_token(user)
        *asked, used = together(
            *[lambda: api.post("/recover", {"email": user.email})] * 4,
            lambda: api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert statuses(asked).keys() <= {200, 429}
        assert outcome(used) in ("session", "otp_expired")


def test_a_sign_up_repeated_while_its_mail_is_used(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)}, limits={"email_sent": Rate(events=1000)})
    for _ in range(10):
        user = factories.make_user(confirmed=False)
        secret = factories.make_one_time_token(user, TokenType.CONFIRMATION)
        *asked, used = together(
            *[lambda: api.post("/otp", {"email": user.email})] * 8,  # noqa: B023
            lambda: api.post("/verify", {"type": "signup", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert statuses(asked).keys() <= {200, 429}
        assert outcome(used) in ("session", "otp_expired")


def test_an_account_confirmed_at_this_moment_keeps_its_password(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)}, limits={"email_sent": Rate(events=1000)})
    for _ in range(10):
        user = factories.make_user(confirmed=False)
        secret = factories.make_one_time_token(user, TokenType.CONFIRMATION)
        strange = {"email": user.email, "password": "chosen by a stranger"}
        asked, used = together(
            lambda: api.post("/signup", strange),  # noqa: B023
            lambda: api.post("/verify", {"type": "signup", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert asked.status_code == 200
        # A repeated sign-up that came first would have ended the link.
        if outcome(used) == "session":
            assert User.objects.get(id=user.id).password == user.password


def test_a_sign_in_that_renews_an_imported_hash_does_not_bring_an_old_password_back(api: Api) -> None:
    user = factories.make_user()
    imported = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # of "test"
    for _ in range(5):
        User.objects.update(password=imported)

        def change() -> Answer:
            time.sleep(0.015)
            User.objects.update(password=user.password)
            return api.get("/health")

        together(lambda: api.post("/token?grant_type=password", {"email": user.email, "password": "test"}), change)

        assert User.objects.get().password == user.password


# Changes of address, number and password


def test_two_sides_of_a_change_of_address_at_once_complete_it_once(api: Api, mailbox: Mailbox) -> None:
    for number in range(10):
        made = factories.make_session()
        new = f"new{number}@example.com"
        assert api.put("/user", {"email": new}, bearer=made.access_token).status_code == 200
        tokens = [mail.variables["TokenHash"] for mail in mailbox.emails[-2:]]

        answers = together(
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
        assert wire.audited(user) == ["user_modified"] * 2


def side(answer: Answer) -> str:
    """As `outcome`; `half` for the first of two confirmations."""
    return "half" if answer.json().get("code") == "200" else outcome(answer)


@pytest.mark.parametrize(("links", "browsers", "codes"), [(20, 0, 0), (0, 20, 0), (0, 0, 20), (7, 7, 6)])
def test_one_side_of_a_change_of_address_used_by_many_at_once_counts_once(
    api: Api, mailbox: Mailbox, links: int, browsers: int, codes: int
) -> None:
    made = factories.make_session()
    assert api.put("/user", {"email": "new@example.com"}, bearer=made.access_token).status_code == 200
    mail = mailbox.emails[0]
    said = mail.variables

    together(
        *[lambda: api.post("/verify", {"type": "email_change", "token_hash": said["TokenHash"]})] * links,
        *[lambda: api.get(f"/verify?type=email_change&token={said['TokenHash']}")] * browsers,
        *[lambda: api.post("/verify", {"type": "email_change", "email": mail.to, "token": said["Token"]})] * codes,
    )

    made.user.refresh_from_db()
    assert (made.user.email_change, made.user.email_change_confirm_status) == ("new@example.com", 1)
    assert Session.objects.count() == OneTimeToken.objects.count() == 1
    assert wire.audited(made.user) == ["user_modified"]


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

        asked, used = together(
            lambda: api.put("/user", {"email": second}, bearer=made.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "email_change", "token_hash": token}),  # noqa: B023
        )

        assert asked.status_code == 200
        made.user.refresh_from_db()
        assert made.user.email == (first if outcome(used) == "session" else before)
        row = OneTimeToken.objects.filter(user=made.user).first()
        assert (made.user.email_change, row and row.relates_to) == (second, second)


@pytest.mark.parametrize("type", ["sms", "phone_change"])
def test_a_texted_code_redeemed_by_many_at_once_gives_one_session(api: Api, type: str) -> None:
    phone = "15551234567"
    columns: dict[str, Any] = {"phone" if type == "sms" else "phone_change": phone}
    user = factories.make_user(email="", **columns)
    token_type = TokenType.CONFIRMATION if type == "sms" else TokenType.PHONE_CHANGE
    secret = factories.make_one_time_token(user, token_type, identifier=phone)

    answers = together(*[lambda: api.post("/verify", {"type": type, "phone": phone, "token": secret.code})] * 20)

    assert Counter(outcome(answer) for answer in answers) == {"session": 1, "otp_expired": 19}
    assert Session.objects.count() == 1
    assert not OneTimeToken.objects.exists()
    assert wire.audited(user) == ["user_signedup" if type == "sms" else "user_modified"]


def test_one_number_goes_to_one_of_many_who_prove_it_at_once(api: Api) -> None:
    phone = "15551234567"
    users = [factories.make_user(phone_change=phone) for _ in range(5)]
    codes = [factories.make_one_time_token(user, TokenType.PHONE_CHANGE, identifier=phone).code for user in users]
    if len(set(codes)) < len(codes):
        pytest.skip("two of the codes are the same")

    answers = together(
        *[
            lambda code=code: api.post("/verify", {"type": "phone_change", "phone": phone, "token": code})
            for code in codes
        ]
    )

    # Only the code sent last counts, and the others only once that is used.
    seen = Counter(outcome(answer) for answer in answers)
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

        changed, *_ = together(
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

        changed, *answers = together(
            lambda: api.put("/user", {"password": f"chosen {number}"}, bearer=mine.access_token),  # noqa: B023
            *[lambda other=other: wire.refresh(api, other.refresh_token) for other in others],
        )

        assert changed.status_code == 200
        assert {wire.refusal(answer) for answer in answers if answer.status_code != 200} <= {wire.NOT_FOUND}
        assert list(Session.objects.filter(user=user)) == [mine.session]
        assert wire.refresh(api, mine.refresh_token).status_code == 200


def test_a_link_opened_while_the_password_changes_leaves_no_session_behind(api: Api) -> None:
    for number in range(5):
        made = factories.make_session()
        secret = factories.make_one_time_token(made.user)

        changed, used = together(
            lambda: api.put("/user", {"password": f"chosen {number}"}, bearer=made.access_token),  # noqa: B023
            lambda: api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}),  # noqa: B023
        )

        assert changed.status_code == 200
        assert outcome(used) in ("session", "otp_expired")
        assert list(Session.objects.filter(user=made.user)) == [made.session]


def test_many_sign_ins_by_an_imported_hash_all_succeed(api: Api) -> None:
    imported = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # of "test"
    user = factories.make_user(password_hash=imported)
    credentials = {"email": user.email, "password": "test"}

    answers = together(*[lambda: api.post("/token?grant_type=password", credentials)] * 12)

    assert statuses(answers) == {200: 12}
    user.refresh_from_db()
    assert (user.password or "").startswith("$argon2id$")


def test_metadata_changed_by_many_at_once_is_all_there(api: Api) -> None:
    made = factories.make_session()

    answers = together(
        *[
            lambda number=number: api.put("/user", {"data": {f"k{number}": number}}, bearer=made.access_token)
            for number in range(16)
        ]
    )

    assert statuses(answers) == {200: 16}
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

        changed, made = together(
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

    answers = together(
        *[
            lambda number=number: api.put(
                "/user", {"password": f"chosen {number}", "nonce": nonce}, bearer=made.access_token
            )
            for number in range(8)
        ]
    )

    assert statuses(answers) == {200: 1, 422: 7}
    assert wire.audited(made.user) == ["user_modified", "user_reauthenticate_requested", "user_updated_password"]
