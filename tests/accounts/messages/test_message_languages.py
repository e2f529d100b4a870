"""The language of a message: that of the user, else that of the request."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone, translation

from accounts.messages import notification_emails
from accounts.users import queries
from authsvc import languages
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_session, make_user

pytestmark = pytest.mark.django_db
EMAIL, PHONE = "ada@example.com", "4915112345678"


@pytest.fixture(autouse=True)
def _offered(auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("en", "de")})


@pytest.mark.parametrize(
    ("data", "header", "language"),
    [
        ({}, None, "en"),
        ({}, "de-AT,de;q=0.9,en;q=0.8", "de"),
        ({}, "fr", "en"),
        ({"locale": "de-CH"}, None, "de"),
        ({"locale": "en_GB"}, "de", "en"),
        ({"locale": "fr"}, "de", "de"),
        ({"locale": 7}, "de", "de"),
    ],
)
def test_the_language_of_a_confirmation(
    api: Api, mailbox: Mailbox, data: dict[str, Any], header: str | None, language: str
) -> None:
    headers = {"Accept-Language": header} if header else {}
    assert api.post("/signup", {"email": EMAIL, "password": PASSWORD, "data": data}, headers=headers).status_code == 200
    assert [email.language for email in mailbox.emails] == [language]


def test_without_the_setting_every_message_is_english(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ()})
    make_user(email=EMAIL, data={"locale": "de"})
    api.post("/recover", {"email": EMAIL}, headers={"Accept-Language": "de"})
    assert [email.language for email in mailbox.emails] == ["en"]


@pytest.mark.parametrize(("data", "header", "language"), [({}, "de", "de"), ({"locale": "de"}, "en", "de")])
def test_the_language_of_a_code_by_sms(
    api: Api,
    mailbox: Mailbox,
    auth_config: ChangeConfig,
    data: dict[str, Any],
    header: str,
    language: str,
) -> None:
    auth_config(mailer={"dev_inbox_enabled": True}, signup={"phone_enabled": True})
    make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now(), data=data)
    assert api.post("/otp", {"phone": PHONE}, headers={"Accept-Language": header}).status_code == 200
    assert [text.language for text in mailbox.sms] == [language]


@pytest.mark.parametrize(("data", "language"), [({}, "en"), ({"locale": "de"}, "de")])
def test_the_browser_of_an_administrator_does_not_decide(
    api: Api, mailbox: Mailbox, data: dict[str, Any], language: str
) -> None:
    headers = {"Accept-Language": "de"}
    body = {"email": EMAIL, "data": data}
    assert api.post("/invite", body, bearer=admin_requests.token(), headers=headers).status_code == 200
    assert [email.language for email in mailbox.emails] == [language]


def test_the_browser_of_another_user_does_not_decide() -> None:
    owner = make_user(email=EMAIL)
    with languages.use("de"):
        assert notification_emails.email_taken(queries.require(owner.id)).language == "en"


def test_frequent_requests_translate_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session()
    make_user(email=EMAIL)
    calls: list[str] = []
    for name in ("gettext", "ngettext", "pgettext", "activate"):
        monkeypatch.setattr(translation._trans, name, lambda *arguments: calls.append(str(arguments)))  # type: ignore[attr-defined]
    headers = {"Accept-Language": "de"}
    assert api.get("/user", bearer=session.access_token, headers=headers).status_code == 200
    refresh = {"refresh_token": session.refresh_token}
    assert api.post("/token?grant_type=refresh_token", refresh, headers=headers).status_code == 200
    password = {"email": EMAIL, "password": PASSWORD}
    assert api.post("/token?grant_type=password", password, headers=headers).status_code == 200
    assert calls == []
