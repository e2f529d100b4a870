"""The language of the pages: menu, cookie, user and Accept-Language."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from accounts.models import User
from accounts.pages.account import account_page
from accounts.pages.error_texts import error_text
from authsvc import languages
from authsvc.audit.models import AuditLogEntry
from authsvc.errors import ValidationFailed
from tests.conftest import ApiResponse, ChangeConfig, Mailbox
from tests.page_browser import ACCOUNT, SIGN_IN, PageBrowser

pytestmark = pytest.mark.django_db

LANGUAGE = "/account/language"


def language_of(response: ApiResponse) -> str:
    text = response.content.decode()
    return text.partition('<html lang="')[2].partition('"')[0]


def choose(browser: PageBrowser, code: str, *, page: str = SIGN_IN) -> ApiResponse:
    return browser.submit(page, to=LANGUAGE, language=code)


def test_accept_language_decides_without_a_choice(browser: PageBrowser) -> None:
    assert language_of(browser.get(SIGN_IN)) == "en"
    german = browser.get(SIGN_IN, accept_language="de-AT, en;q=0.5")
    assert language_of(german) == "de"
    assert "Passwort" in german.content.decode()
    assert language_of(browser.get("/account/no-such-page", accept_language="de")) != "en"
    assert translation.get_language() == "en-us"


def test_the_menu_stores_the_choice_in_the_browser(browser: PageBrowser) -> None:
    response = choose(browser, "de", page=f"{SIGN_IN}?next=/account/language")
    assert (response.status_code, response.headers["Location"]) == (303, f"{SIGN_IN}?next=/account/language")
    cookie = browser.client.cookies["account_language"]
    assert (cookie.value, cookie["httponly"], cookie["samesite"], cookie["path"]) == ("de", True, "Lax", "/")
    assert language_of(browser.get(SIGN_IN, accept_language="en")) == "de"


def test_the_choice_of_a_signed_in_user_is_stored_for_other_browsers(
    inside: PageBrowser, user: User, browser: PageBrowser
) -> None:
    choose(inside, "de", page=ACCOUNT)
    user.refresh_from_db()
    assert user.raw_user_meta_data["locale"] == "de"
    other = PageBrowser()
    other.sign_in("ada@example.com")
    assert language_of(other.get(ACCOUNT, accept_language="en")) == "de"
    # The choice in a browser comes first.
    other.client.cookies["account_language"] = "en"
    assert language_of(other.get(ACCOUNT)) == "en"


def test_the_choice_is_an_audited_change_of_the_user_once(inside: PageBrowser, user: User) -> None:
    def changes() -> int:
        return AuditLogEntry.objects.filter(payload__action="user_modified").count()

    choose(inside, "de", page=ACCOUNT)
    assert changes() == 1
    choose(inside, "de", page=ACCOUNT)
    assert changes() == 1


@pytest.mark.parametrize("page", ["https://evil.example", "//evil.example", "/\\evil.example", "/admin/users"])
def test_the_menu_leads_to_pages_of_this_service_only(browser: PageBrowser, page: str) -> None:
    response = browser.submit(SIGN_IN, to=LANGUAGE, language="de", page=page)
    assert (response.status_code, response.headers["Location"]) == (303, ACCOUNT)


@pytest.mark.parametrize("code", ["fr", "", "../de", "de\r\nX-Injected: 1"])
def test_other_languages_are_refused(browser: PageBrowser, code: str) -> None:
    response = choose(browser, code)
    assert response.status_code == 400
    assert "account_language" not in browser.client.cookies
    browser.client.cookies["account_language"] = code.partition("\r")[0]
    assert language_of(browser.get(SIGN_IN)) == ("de" if code.startswith("de") else "en")


def test_a_form_of_another_site_cannot_choose_the_language(browser: PageBrowser) -> None:
    response: Any = browser.client.post(LANGUAGE, {"language": "de"})
    assert response.status_code == 403
    assert "account_language" not in browser.client.cookies


def test_with_one_language_there_is_no_menu(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("en",)})
    page = browser.get(SIGN_IN, accept_language="de")
    assert language_of(page) == "en"
    assert LANGUAGE not in page.content.decode()


def test_the_console_and_the_api_stay_english(inside: PageBrowser) -> None:
    console: Any = inside.client.get("/operator/login/", headers={"accept-language": "de"})
    assert '<html lang="en-us"' in console.content.decode()
    api: Any = inside.client.post(
        "/token?grant_type=password", {}, "application/json", headers={"accept-language": "de"}
    )
    assert api.json()["error_code"] == "validation_failed"
    assert api.json()["msg"].isascii()


@pytest.mark.parametrize("chosen", ["de", ""])
def test_an_account_keeps_the_language_that_its_user_has_chosen(
    browser: PageBrowser, mailbox: Mailbox, chosen: str
) -> None:
    if chosen:
        choose(browser, chosen)
    browser.submit(
        "/account/sign-up",
        headers={"accept-language": "de"},
        name="new@example.com",
        password="correct horse battery staple",
    )
    assert User.objects.get(email="new@example.com").raw_user_meta_data.get("locale", "") == chosen
    assert [email.language for email in mailbox.emails] == ["de"]


def test_the_profile_changes_the_language_of_this_browser_too(inside: PageBrowser, user: User) -> None:
    inside.submit("/account/profile", locale="de")
    assert language_of(inside.get(ACCOUNT)) == "de"
    inside.submit("/account/profile", locale="")
    user.refresh_from_db()
    assert "locale" not in user.raw_user_meta_data
    assert language_of(inside.get(ACCOUNT)) == "en"


def test_days_are_in_the_language_of_the_page() -> None:
    for code, day in (("en", "March 9, 2026"), ("de", "9. März 2026")):
        with languages.use(code):
            assert account_page.format_day("2026-03-09T23:59:59.123456Z") == day
            assert account_page.format_day(None) == ""


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "This factor has an unknown type"),
        ("de", "Das hat nicht geklappt. Prüfen Sie Ihre Eingaben und versuchen Sie es noch einmal."),
    ],
)
def test_an_error_without_a_text_of_its_own_is_not_english_on_a_german_page(language: str, text: str) -> None:
    with languages.use(language):
        assert error_text(ValidationFailed("This factor has an unknown type")) == text


@pytest.mark.parametrize(("language", "direction"), [("ar", "rtl"), ("de", "ltr")])
def test_pages_have_the_direction_of_their_language(
    browser: PageBrowser, auth_config: ChangeConfig, language: str, direction: str
) -> None:
    auth_config(languages={"offered": (language,)}, mailer={"link_confirm_page_enabled": True})
    for path in ("/account/sign-in", "/verify?type=signup&token=x"):
        assert f'<html lang="{language}" dir="{direction}">' in browser.text(path)
