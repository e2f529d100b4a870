"""The timeline of a user: what it contains, filters, paging, hostile contents."""

from __future__ import annotations

import html
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from accounts.models import OperatorNote, User
from authsvc.models import AuditLogEntry
from mailer.models import Attempt
from tests import factories
from tests.authsvc.console.conftest import USERS, Console, page_of, timeline_of
from tests.authsvc.console.test_message_pages import send_email
from tests.conftest import Api
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"


@pytest.fixture
def ada() -> User:
    return factories.make_user(email="ada@example.com")


def sign_in(api: Api, password: str, *, address: str) -> int:
    headers = {"X-Forwarded-For": address, "User-Agent": FIREFOX}
    body = {"email": "ada@example.com", "password": password}
    return api.post("/token?grant_type=password", body, headers=headers).status_code


def make_attempt(user: User, *, at: datetime | None = None, **columns: Any) -> Attempt:
    values = {"channel": "email", "kind": "recovery", "attempt": 1, "outcome": "delivered", **columns}
    attempt = Attempt.objects.create(message_id=uuid4(), user_id=user.pk, **values)
    if at:
        Attempt.objects.filter(pk=attempt.pk).update(created_at=at)
    return attempt


def make_entry(payload: Any, *, at: datetime | None = None, **columns: Any) -> AuditLogEntry:
    return AuditLogEntry.objects.create(payload=payload, created_at=at or timezone.now(), **columns)


def make_note(user: User, text: str, *, at: datetime | None = None) -> OperatorNote:
    return OperatorNote.objects.create(user=user, author="op@example.com", text=text, created_at=at or timezone.now())


def rows(text: str) -> list[list[str]]:
    """The texts of the cells of a timeline, without the time."""
    _, _, table = text.partition("<h2>Timeline</h2>")
    table = table.partition("</table>")[0].partition("<tbody>")[2]
    cells = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in table.split("</tr>")]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row[1:]] for row in cells if row]


def run(console: Console, user: User, action: str, **fields: str) -> None:
    form = {"action": action, "_selected_action": str(user.pk), "source_row": str(user.pk), "confirmed": "1"}
    done = console.submit("/operator/", to=USERS, **form, **fields)
    assert done.status_code == 302, done.content


@pytest.fixture
def history(api: Api, inside: Console, ada: User) -> User:
    """A user with events of every kind, from the oldest to the newest."""
    assert sign_in(api, "a wrong guess", address="203.0.113.7") == 400
    assert sign_in(api, PASSWORD, address="198.51.100.7") == 200
    make_attempt(ada, outcome="retry", error="450 mailbox full")
    make_attempt(ada, attempt=2, gateway_id="250 queued as 17")
    fields = {"action-email": "ada@new.example", "action-is_confirmed": "on", "reason": "ticket 42"}
    run(inside, ada, "edit", **fields, **{"action-user_metadata": "{}", "action-app_metadata": "{}"})
    run(inside, ada, "add_note", **{"action-text": "called on the phone"})
    return ada


def test_the_timeline_merges_events_of_every_kind(inside: Console, history: User) -> None:
    found = rows(inside.text(timeline_of(history)))
    titles = [row[0] for row in found]
    assert titles == [
        "Note",
        "Account changed",
        "Email: Recovery delivered",
        "Email: Recovery to be retried",
        "Signed in",
        "Sign-in refused",
    ]
    note, changed, delivered, retried, signed_in, refused = found
    assert note[1:3] == ["op@example.com", "called on the phone"]
    assert changed[1] == "op@example.com (administrator)"
    assert "reason: ticket 42" in changed[2]
    assert "email: ada@example.com → ada@new.example" in changed[2]
    assert delivered[2:] == ["attempt 2\n250 queued as 17", "–", "–"]
    assert retried[2] == "450 mailbox full"
    assert signed_in[1:] == ["User", "provider: email", "198.51.100.7", "Firefox on Windows"]
    assert refused[1:] == ["User", refused[2], "203.0.113.7", "Firefox on Windows"]
    assert sorted(refused[2].split("\n")) == ["cause: invalid_credentials", "method: password"]


TITLES = {
    "sign-ins": ["Signed in"],
    "refused": ["Sign-in refused"],
    "messages": ["Email: Recovery delivered", "Email: Recovery to be retried"],
    "changes": ["Account changed"],
    "notes": ["Note"],
}


def test_the_url_has_the_kind(inside: Console, history: User) -> None:
    for kind, titles in TITLES.items():
        text = inside.text(timeline_of(history, f"?kind={kind}"))
        assert [row[0] for row in rows(text)] == titles
        assert f'?kind={kind}" aria-current="page"' in text


def test_the_page_of_a_user_has_the_newest_events(inside: Console, history: User) -> None:
    text = inside.text(page_of(history))
    # The notes have a panel of their own.
    assert rows(text)[0][0] == "Account changed"
    assert text.count("called on the phone") == 1
    for kind in TITLES:
        assert timeline_of(history, f"?kind={kind}") in text
    assert f'<a href="{timeline_of(history)}">Show all</a>' not in text
    for _ in range(20):
        make_attempt(history)
    text = inside.text(page_of(history))
    assert len(rows(text)) == 20
    assert f'<a href="{timeline_of(history)}">Show all</a>' in text


def test_refreshes_and_entries_of_others_are_left_out(inside: Console, ada: User) -> None:
    other = str(uuid4())
    make_entry({"action": "token_refreshed", "actor_id": str(ada.pk)})
    make_entry({"action": "login", "actor_id": other})
    make_entry({"action": "user_modified", "actor_id": str(ada.pk), "traits": {"user_id": other}})
    assert rows(inside.text(timeline_of(ada))) == []


def test_a_message_without_an_attempt_is_waiting(inside: Console, ada: User) -> None:
    send_email(user_id=ada.pk, failed=False)
    send_email(user_id=uuid4(), failed=False)
    assert [row[0] for row in rows(inside.text(timeline_of(ada)))] == ["Email: Recovery waiting"]


def test_a_message_with_an_attempt_is_no_event_of_its_own(inside: Console, ada: User) -> None:
    send_email(user_id=ada.pk, failed=True)
    assert [row[0] for row in rows(inside.text(timeline_of(ada)))] == ["Email: Recovery failed"]


def test_pages_have_every_event_once_in_order(inside: Console, ada: User) -> None:
    """Many events of three tables have the same time."""
    start = timezone.now() - timedelta(days=1)
    for number in range(40):
        at = start + timedelta(microseconds=number // 20)
        make_attempt(ada, at=at, error=f"event {number}-1")
        make_entry({"action": "login", "actor_id": str(ada.pk), "traits": {"provider": f"event {number}-2"}}, at=at)
        make_note(ada, f"event {number}-3", at=at)
    url, read, pages = timeline_of(ada), [], 0
    while url:
        text = inside.text(url)
        read += [re.findall(r"event (\d+)-(\d)", row[2])[0] for row in rows(text)]
        older = re.search(r'<a href="([^"]+)" rel="next">Older</a>', text)
        assert ('">Newest</a>' in text) == (pages > 0)
        pages += 1
        url = html.unescape(older[1]) if older else ""
    assert pages == 3
    assert len(read) == len(set(read)) == 120
    assert [int(number) // 20 for number, _ in read] == [1] * 60 + [0] * 60


def test_pages_have_every_message_that_waits(inside: Console, ada: User) -> None:
    for _ in range(55):
        send_email(failed=False, user_id=ada.pk)
    newest = inside.text(timeline_of(ada, "?kind=messages"))
    [older_url] = re.findall(r'href="([^"]+before=[^"]+)"', newest)
    assert (len(rows(newest)), len(rows(inside.text(html.unescape(older_url))))) == (50, 5)


def test_older_notes_are_reached_from_their_panel(inside: Console, ada: User) -> None:
    for number in range(21):
        make_note(ada, f"note {number}")
    assert f'<a href="{timeline_of(ada, "?kind=notes")}">Show all</a>' in inside.text(page_of(ada))
    assert len(rows(inside.text(timeline_of(ada, "?kind=notes")))) == 21


@pytest.mark.parametrize(
    "query",
    [
        "kind=x", "kind=%00", "kind=" + "x" * 5000, "before=x", "before=_", "before=2026-01-01", "before=%00",
        "before=2026-01-01_x", f"before=2026-13-01_{UUID(int=1)}", f"before=99999-01-01_{UUID(int=1)}",
    ],
)  # fmt: skip
def test_an_invalid_url_is_refused(inside: Console, ada: User, query: str) -> None:
    assert inside.get(timeline_of(ada, f"?{query}")).status_code == 400


@pytest.mark.parametrize(
    ("at", "is_later"),
    [("0001-01-01", False), ("9999-12-31T23:59:59.999999", True), ("2999-01-01T00:00:00%2B23:59", True)],
)
def test_any_position_in_time_is_accepted(inside: Console, ada: User, at: str, is_later: bool) -> None:
    make_attempt(ada)
    make_entry({"action": "login", "actor_id": str(ada.pk)})
    make_note(ada, "called")
    assert len(rows(inside.text(timeline_of(ada, f"?before={at}_{UUID(int=0)}")))) == (3 if is_later else 0)


def test_an_unknown_user_has_no_timeline(inside: Console) -> None:
    assert inside.get(f"{USERS}{uuid4()}/timeline/").status_code == 404


def test_the_timeline_needs_a_sign_in(console: Console, ada: User) -> None:
    assert console.get(timeline_of(ada)).status_code == 302


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"action": "of_tomorrow", "traits": None},
        {"traits": "x", "action": 7},
        {"action": "login", "user_agent": ["x"], "traits": {"changes": [1], "a": {"b": "c"}}},
        {"action": "sign_in_refused", "actor_username": 17, "traits": {"error_code": None, "method": "x" * 9999}},
        {"action": "user_modified", "traits": {"changes": {"role": "x", "email": {"old": 1}}}, "reason": [1]},
    ],
)
def test_an_entry_of_any_shape_can_be_shown(inside: Console, ada: User, payload: dict[str, Any]) -> None:
    make_entry({"actor_id": str(ada.pk), **payload})
    assert len(rows(inside.text(timeline_of(ada)))) == 1


def test_hostile_texts_are_escaped(inside: Console, ada: User) -> None:
    evil = "<script>alert(1)</script>\u202e\"'><img src=x>"
    own = {"actor_id": str(ada.pk), "user_agent": evil, "request_id": evil, "session_id": evil}
    changes = {evil: {"old": evil, "new": evil}}
    make_entry({**own, "action": evil, "reason": evil, "traits": {evil: evil, "changes": changes}}, ip_address=evil)
    make_entry({**own, "action": "user_modified", "actor_username": evil, "traits": {"user_id": str(ada.pk)}})
    make_attempt(ada, kind=evil, channel=evil, error=evil)
    make_note(ada, evil)
    for path in (timeline_of(ada), page_of(ada)):
        text = inside.text(path)
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text.partition("<h2>Timeline</h2>")[2]


def test_a_slow_table_does_not_break_the_page(inside: Console, ada: User) -> None:
    make_entry({"action": "sign_in_refused", "actor_id": str(ada.pk)})

    def cancel(execute: Any, sql: str, *arguments: Any) -> Any:
        if "message_attempts" in sql:
            raise OperationalError("canceling statement due to statement timeout")
        return execute(sql, *arguments)

    with connection.execute_wrapper(cancel):
        for path in (timeline_of(ada), page_of(ada)):
            assert "Reading the events took too long. Choose one kind of events." in inside.text(path)
        assert len(rows(inside.text(timeline_of(ada, "?kind=refused")))) == 1
