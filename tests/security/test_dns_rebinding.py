"""A site resolves its own name to this machine, so that its scripts read the development inbox as their own origin."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from mailer.inbox import storage
from tests.conftest import ChangeConfig

PAGES = ("/inbox/", "/inbox/messages.json", "/inbox/previews/", "/inbox/style.css")


@pytest.fixture(autouse=True)
def inbox(auth_config: ChangeConfig, settings: Settings, tmp_path: Path) -> storage.InboxMessage:
    """A development inbox with one message."""
    settings.DEV_INBOX_FOLDER = tmp_path
    auth_config(mailer={"dev_inbox_enabled": True}, api={"external_url": "https://auth.dev.example.com"})
    storage.save_message(
        channel="email", to="ada@example.com", subject="Hello", html="<p>Hi</p>", text="123456", message_id="m-1"
    )
    return storage.list_messages()[0]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.net",
        "evil.example.net:8081",
        "localhost.evil.example.net",
        "127.0.0.1.evil.example.net",
        "auth",
        "[::1",
        "",
    ],
)
def test_the_inbox_is_hidden_under_foreign_names(host: str, inbox: storage.InboxMessage) -> None:
    for page in (*PAGES, f"/inbox/{inbox.id}", f"/inbox/{inbox.id}/body"):
        response = Client(headers={"Host": host}).get(page)
        assert response.status_code == 404
        assert b"ada@example.com" not in response.content


@pytest.mark.django_db
@pytest.mark.parametrize(
    "host",
    [
        "localhost:8081",
        "app.localhost",
        "127.0.0.1:8081",
        "[::1]:8081",
        "192.168.1.5",
        "auth.dev.example.com",
        "AUTH.dev.example.com:443",
    ],
)
def test_the_developer_reads_the_inbox(host: str, inbox: storage.InboxMessage) -> None:
    response = Client(headers={"Host": host}).get("/inbox/messages.json")
    assert [message["to"] for message in response.json()] == ["ada@example.com"]
    assert Client(headers={"Host": host}).get(f"/inbox/{inbox.id}").status_code == 200
