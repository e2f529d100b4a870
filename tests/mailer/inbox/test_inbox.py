"""The development inbox: storage and pages."""

from __future__ import annotations

import itertools
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test import Client
from django.urls import include, path
from pytest_django import Settings

from authsvc.jobs.registry import queue
from authsvc.outgoing import bulkhead
from mailer.inbox import storage, views
from tests.conftest import ChangeConfig

urlpatterns = [path("inbox/", include("mailer.urls"))]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]

LINK = "https://auth.example.com/verify?token=0a1b&type=signup&redirect_to=https://example.com/123456"
PAGES = ["/inbox/", "/inbox/messages.json", "/inbox/style.css"]


@pytest.fixture(autouse=True)
def folder(auth_config: ChangeConfig, settings: Settings, tmp_path: Path) -> Path:
    auth_config(mailer={"dev_inbox_enabled": True})
    settings.DEV_INBOX_FOLDER = tmp_path / "data" / "inbox"
    return tmp_path / "data" / "inbox"


def keep(
    *,
    channel: str = "email",
    to: str = "ada@example.com",
    subject: str = "Hello",
    html: str = "<p>Hi</p>",
    text: str = "Hi",
) -> storage.InboxMessage:
    storage.save_message(channel=channel, to=to, subject=subject, html=html, text=text, message_id="m-1")
    return storage.list_messages()[0]


def test_a_stored_email_is_returned_unchanged() -> None:
    message = keep(subject="Grüße <1>", html="<p>ü</p>", text="ü\n")
    assert (message.channel, message.to, message.subject) == ("email", "ada@example.com", "Grüße <1>")
    assert (message.html, message.text, message.message_id) == ("<p>ü</p>", "ü\n", "m-1")
    assert abs(message.received_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert storage.get_message(message.id) == message
    assert "Grüße" not in repr(message)


def test_files_are_readable_by_their_owner_only(folder: Path) -> None:
    keep()
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_newest_messages_are_kept_and_listed_first(folder: Path) -> None:
    for number in range(storage.CAPACITY + 2):
        storage.save_message(channel="email", to="a@example.com", subject=f"{number}", html="", text="", message_id="m")
    newest_first = [str(number) for number in range(storage.CAPACITY + 1, 1, -1)]
    assert [message.subject for message in storage.list_messages()] == newest_first
    assert len(list(folder.iterdir())) == storage.CAPACITY


def test_incomplete_and_other_files_are_not_messages(folder: Path) -> None:
    keep()
    (folder / "00000000000000000001-00000000.part").write_text("{")
    (folder / "notes.json").write_text("{}")
    assert len(storage.list_messages()) == 1


@pytest.mark.parametrize("message_id", ["../secret", "00000000000000000001-00000000", "", "x"])
def test_an_unknown_id_is_no_message(message_id: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "secret.json").write_text("{}")
    assert storage.get_message(message_id) is None


@pytest.mark.parametrize(
    ("subject", "text", "code", "link"),
    [
        ("Hello", f"Go:\n{LINK}\n", "", LINK),
        ("Hello", "Your code is 123456.", "123456", ""),
        ("654321 is your code", f"Go: {LINK}", "654321", LINK),
        (
            "Hello",
            "https://x.example.com/?token_hash=0a1b or 12345678",
            "12345678",
            "https://x.example.com/?token_hash=0a1b",
        ),
        ("Hello", "see javascript:alert(1)?token=1 and call +4912345678", "", ""),
    ],
)
def test_code_and_link_are_found_in_the_text(subject: str, text: str, code: str, link: str) -> None:
    message = keep(subject=subject, text=text)
    assert (message.code, message.link) == (code, link)


def test_the_list_shows_emails_and_refreshes_itself(client: Client) -> None:
    keep(subject="<Hello>", text=f"Go: {LINK}")
    keep(channel="sms", to="4915100000", subject="", html="", text="Your code is 123456")
    response = client.get("/inbox/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "development only" in page
    assert '<script src="/inbox/script.js" defer></script>' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert response.headers["Content-Security-Policy"].endswith("; script-src 'self'; connect-src 'self'")
    assert client.get("/inbox/script.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert page.index("Your code is 123456") < page.index("&lt;Hello&gt;")
    assert "<code>123456</code>" in page
    assert f'href="{LINK.replace("&", "&amp;")}"' in page
    assert "<Hello>" not in page


def test_an_empty_inbox_is_reported(client: Client) -> None:
    assert "No messages yet." in client.get("/inbox/").content.decode()


def test_the_page_of_an_email_shows_its_body_in_a_sandboxed_frame(client: Client) -> None:
    message = keep(subject="<Hello>", html="<script>alert(1)</script>", text="<plain>")
    response = client.get(f"/inbox/{message.id}")
    page = response.content.decode()
    assert (
        f'<iframe src="/inbox/{message.id}/body" title="The message"'
        ' sandbox="allow-top-navigation-by-user-activation"></iframe>' in page
    )
    assert "&lt;plain&gt;" in page
    assert "&lt;Hello&gt;" in page
    assert "<script" not in page
    assert "script-src" not in response.headers["Content-Security-Policy"]
    assert response.headers["Content-Security-Policy"].startswith(
        "default-src 'none'; style-src 'self'; frame-src 'self'"
    )


def test_the_body_of_an_email_runs_no_script(client: Client) -> None:
    message = keep(html="<script>alert(1)</script>")
    response = client.get(f"/inbox/{message.id}/body")
    assert response.content == b'<base target="_top"><script>alert(1)</script>'
    assert (
        response.headers["Content-Security-Policy"] == "sandbox allow-top-navigation-by-user-activation; "
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


def test_the_page_of_an_sms_has_no_frame(client: Client) -> None:
    message = keep(channel="sms", subject="", html="", text="Your code is 123456")
    page = client.get(f"/inbox/{message.id}").content.decode()
    assert "<iframe" not in page
    assert "Your code is 123456" in page


def test_the_inbox_is_available_as_json(client: Client) -> None:
    message = keep(subject="Hello", html="<p>Hi</p>", text=f"123456 {LINK}")
    assert client.get("/inbox/messages.json").json() == [
        {
            "id": message.id,
            "channel": "email",
            "to": "ada@example.com",
            "subject": "Hello",
            "code": "123456",
            "link": LINK,
            "text": f"123456 {LINK}",
            "html": "<p>Hi</p>",
            "message_id": "m-1",
            "kept_at": message.received_at.isoformat(),
        }
    ]


def queue_message() -> None:
    with connection.cursor() as cursor:
        insert = "INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES (%s, 'mailer.deliver', '{}')"
        cursor.execute(insert, (queue(),))


def test_the_json_has_the_message_that_is_being_delivered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_message()

    def deliver(_seconds: float) -> None:
        keep(to="grace@example.com")
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM procrastinate_jobs WHERE task_name = 'mailer.deliver'")

    monkeypatch.setattr(views, "time", SimpleNamespace(sleep=deliver, monotonic=time.monotonic))
    assert [message["to"] for message in client.get("/inbox/messages.json").json()] == ["grace@example.com"]


def test_the_json_waits_five_seconds_at_most(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_message()
    clock = itertools.count()
    monkeypatch.setattr(views, "time", SimpleNamespace(sleep=lambda _seconds: None, monotonic=lambda: next(clock)))
    assert client.get("/inbox/messages.json").json() == []
    assert next(clock) == 6  # after the start at 0, and 1 to 5


def test_the_json_waits_without_a_slot_of_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_message()
    slots, clock = Slots(), itertools.count()
    sleep = lambda _seconds: slots.during_sleep.append(slots.held)  # noqa: E731
    monkeypatch.setattr(views, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: next(clock)))
    bulkhead.set_slots(slots)
    try:
        client.get("/inbox/messages.json")
    finally:
        bulkhead.set_slots(None)
    assert (set(slots.during_sleep), slots.held) == ({0}, 1)


class Slots:
    """The slots of a server whose one slot is in use."""

    size = 1
    max_waiting_threads = 1

    def __init__(self) -> None:
        self.held = 1
        self.during_sleep: list[int] = []

    def reacquire(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_not_cached_and_send_no_referrer(page: str, client: Client) -> None:
    headers = client.get(page).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("page", PAGES)
def test_other_origins_cannot_read_the_inbox(page: str, client: Client) -> None:
    assert client.get(page, headers={"Origin": "https://evil.example.com"}).status_code == 404


def test_the_style_sheet_is_served(client: Client) -> None:
    response = client.get("/inbox/style.css")
    assert response.headers["Content-Type"] == "text/css; charset=utf-8"
    assert b".warning" in response.content


def test_an_unknown_email_is_not_found(client: Client) -> None:
    assert client.get("/inbox/00000000000000000001-00000000").status_code == 404
    assert client.get("/inbox/nothing/body").status_code == 404


def test_other_methods_are_rejected(client: Client) -> None:
    assert client.post("/inbox/").status_code == 405


def test_a_disabled_inbox_stores_nothing_and_has_no_pages(
    client: Client, auth_config: ChangeConfig, folder: Path
) -> None:
    message = keep()
    auth_config(mailer={"dev_inbox_enabled": False})
    storage.save_message(channel="email", to="x@example.com", subject="s", html="", text="t", message_id="m-2")
    assert len(list(folder.iterdir())) == 1
    for page in [*PAGES, f"/inbox/{message.id}", f"/inbox/{message.id}/body"]:
        assert client.get(page).status_code == 404
