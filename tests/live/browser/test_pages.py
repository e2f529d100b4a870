"""The HTML pages in a real browser: the API page sends requests, and every page is readable and works by keyboard.

`make screenshots` also writes images of the pages to `docs/images`.
"""

from __future__ import annotations

import os
import pprint
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import requests

from tests.live import servers
from tests.live.browser import accessibility, images, pages, sample_data
from tests.live.browser.chromium import Chromium
from tests.live.browser.pages import PASSWORD, SIGN_UP, Page

EMAIL = "ada@example.com"
OPERATOR = "operator@example.com"
GET_USER = "#operations-The_signed-in_user-get_user"
# The parts of a page that handle keys, as text: its site, frames and scripts.
_LAYOUT = """[
    location.pathname.split('/')[1], frames.length, ...[...document.scripts].map((script) => script.src),
].join(' ')"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    url: str
    database_url: str


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service like that of `make run`, with an operator and the email of a sign-up."""
    folder = tmp_path_factory.mktemp("pages")
    env = {
        "WEB_CONCURRENCY": "1",
        "AUTH_MAILER_DEV_INBOX_ENABLED": "true",
        "AUTH_MAILER_DEV_INBOX_FOLDER": str(folder / "inbox"),
        "AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED": "true",
        "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED": "true",
        "AUTH_OAUTH_SERVER_ENABLED": "true",
        "AUTH_PAGES_ENABLED": "true",
        "AUTH_OPERATOR_IMPERSONATION_ENABLED": "true",
        "AUTH_PASSKEY_ENABLED": "true",
        "AUTH_WEBAUTHN_RP_ID": "localhost",
        "AUTH_WEBAUTHN_RP_DISPLAY_NAME": "The service",
        "AUTH_WEBAUTHN_RP_ORIGINS": "http://localhost",
        "AUTH_OPERATOR_ROLES": f"{pages.VIEWER}=viewer",
        "AUTH_WEBHOOKS_ENABLED": "true",
        "AUTH_HOOK_SEND_SMS_ENABLED": "true",
        "AUTH_HOOK_SEND_SMS_URI": "https://sms.example.com/send",
        "AUTH_HOOK_SEND_SMS_SECRETS": "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    }
    with (
        servers.fresh_database() as database_url,
        servers.LiveServer(folder=folder, database_url=database_url, env=env) as server,
    ):
        for email in (OPERATOR, EMAIL):
            body = {"email": email, "password": PASSWORD}
            assert requests.post(f"{server.url}/signup", json=body, timeout=60).status_code == 200
        with psycopg.connect(database_url) as connection:
            connection.execute(
                "UPDATE users SET role = 'svc_admin', email_confirmed_at = now() WHERE email = %s", [OPERATOR]
            )
            sample_data.insert(connection, operator=OPERATOR)
        yield Service(url=server.url, database_url=database_url)


@pytest.fixture(scope="module")
def browser(running_browser: Chromium) -> Iterator[Chromium]:
    """One page for all tests, with the session of the operator."""
    with running_browser.profile():
        yield running_browser


@pytest.fixture(scope="module")
def signed_in(browser: Chromium, service: Service) -> None:
    """The browser has signed in to the hosted pages and to the console."""
    for path, button, ready in (
        ("/account/sign-in", "button.primary", "location.pathname === '/account'"),
        (
            "/operator/login/",
            "button.default",
            "location.pathname === '/operator/' && !!document.querySelector('.stats')",
        ),
    ):
        browser.open(f"{service.url}{path}")
        browser.wait_for("document.readyState === 'complete' && !!document.querySelector('#id_password')")
        for field, value in (("name", OPERATOR), ("password", PASSWORD)):
            browser.evaluate(f"document.querySelector('#id_{field}').value = '{value}'")
        browser.click(button)
        browser.wait_for(ready)


def open_page(browser: Chromium, url: str, ready: str) -> None:
    """Open a page and wait until the selector `ready` matches."""
    browser.open("about:blank")
    browser.open(url)
    browser.wait_for(f"document.readyState === 'complete' && !!document.querySelector('{ready}')")


def wait_for_messages(service: Service) -> None:
    """Wait until the inbox has the emails of the sign-ups."""
    while len(requests.get(f"{service.url}/inbox/messages.json", timeout=60).json()) < 2:
        time.sleep(0.05)


def set_role(service: Service, role: str) -> None:
    with psycopg.connect(service.database_url) as connection:
        connection.execute("UPDATE users SET role = %s WHERE email = %s", [role, OPERATOR])


def show_page(browser: Chromium, service: Service, page: Page) -> None:
    """Open a page in a light window of 1280 pixels, and follow its clicks."""
    browser.prefer_color_scheme("light")
    browser.resize(width=1280, height=800, mobile=False)
    # The cookie of the operator belongs to the other host.
    url = service.url.replace("127.0.0.1", "localhost") if page.is_public else service.url
    browser.open(url + page.path)
    for selector in page.clicks:
        browser.click(selector)
    browser.wait_for(f"document.readyState === 'complete' && !!document.querySelector('{page.ready}')", seconds=20)
    if page.prepare:
        page.prepare(browser)


def execute(browser: Chromium, operation: str) -> str:
    """Open an operation of the API page, send its example, and return what the page shows of the response."""
    browser.click(f"{operation} .opblock-summary-control")
    browser.click(f"{operation} .try-out__btn")
    browser.click(f"{operation} .execute")
    text: str = browser.wait_for(f"document.querySelector('{operation} .live-responses-table tbody')?.innerText")
    return text


def test_api_page_searches_signs_up_and_reads_the_user(browser: Chromium, service: Service) -> None:
    browser.resize(width=1280, height=800, mobile=False)
    browser.watch_policy_violations()
    open_page(browser, f"{service.url}/docs", ".opblock")
    all_operations = browser.evaluate("document.querySelectorAll('.opblock').length")
    assert all_operations > 50

    browser.click("#search")
    browser.insert_text("anonymously")
    browser.wait_for("document.querySelectorAll('.opblock').length === 1")
    browser.click(f"{SIGN_UP} .opblock-summary-control")
    browser.click(f"{SIGN_UP} .try-out__btn")
    browser.click(f"{SIGN_UP} textarea")
    browser.evaluate("document.querySelector('textarea').select()")
    browser.insert_text("{}")
    browser.click(f"{SIGN_UP} .execute")
    shown = browser.wait_for(f"document.querySelector('{SIGN_UP} .live-responses-table tbody')?.innerText")
    [token] = re.findall(r'"access_token": "([^"]+)"', shown)

    browser.click(".btn.authorize")
    browser.click(".dialog-ux input")
    browser.insert_text(token)
    browser.click(".dialog-ux .btn.authorize")
    browser.wait_for("!!document.querySelector('.dialog-ux button[aria-label=\"Remove authorization\"]')")
    browser.click(".dialog-ux .btn-done")
    browser.click("#search")
    browser.evaluate("document.querySelector('#search').select()")
    browser.insert_text("GET /user")
    browser.wait_for(f"!!document.querySelector('{GET_USER}')")
    shown = execute(browser, GET_USER)
    assert shown.split()[0] == "200"
    assert '"is_anonymous": true' in shown
    assert browser.policy_violations() == []


@pytest.mark.usefixtures("signed_in")
def test_pages_are_readable_and_work_by_keyboard(browser: Chromium, service: Service) -> None:
    """Each page at both widths and in both colour schemes; with SCREENSHOTS=1, its images go to the documents.

    Tab is pressed on one page of each layout: on the others, the focus is set by script.
    """
    found = {}
    layouts = set()
    wait_for_messages(service)
    for page in pages.PAGES:
        set_role(service, page.role)
        try:
            show_page(browser, service, page)
            folder = images.FOLDER if page.has_images and os.environ.get("SCREENSHOTS") else None
            layout = browser.evaluate(_LAYOUT)
            problems = _problems(browser, url=service.url, page=page, folder=folder, presses_tab=layout not in layouts)
            layouts.add(layout)
        except TimeoutError as error:
            problems = [str(error)[:500]]
        if problems:
            found[page.name] = problems
    set_role(service, pages.ADMIN)
    assert found == {}, pprint.pformat(found, width=160)


def _problems(browser: Chromium, *, url: str, page: Page, folder: Path | None, presses_tab: bool) -> list[str]:
    problems = [*accessibility.clipped(browser), *accessibility.find_violations(browser)]
    if folder:
        images.steady(browser, url=url)
        images.write(browser, folder=folder, name=page.name, width=1280)
        if page.has_dark_image:
            browser.prefer_color_scheme("dark")
            images.write(browser, folder=folder, name=f"{page.name}-dark", width=1280)
            browser.prefer_color_scheme("light")
    browser.resize(width=390, height=844)
    if folder:
        images.write(browser, folder=folder, name=page.name, width=390)
    problems += accessibility.find_problems(browser, presses_tab=presses_tab)
    browser.prefer_color_scheme("dark")
    problems += accessibility.find_problems(browser, presses_tab=False)
    return [*problems, *accessibility.find_violations(browser, only_looks=True)]


@pytest.mark.usefixtures("signed_in")
def test_bulk_mail_shows_its_cost_and_the_start_page_charts_it(browser: Chromium, service: Service) -> None:
    addresses = [f"bulk{number}@example.com" for number in range(2)]
    for email in addresses:
        assert requests.post(f"{service.url}/signup", json={"email": email, "password": PASSWORD}, timeout=60).ok
    browser.resize(width=1280, height=800, mobile=False)
    browser.watch_policy_violations()
    open_page(browser, f"{service.url}/operator/accounts/user/?q=bulk", "#result_list")
    for number in (1, 2):
        browser.click(f"#result_list tbody tr:nth-child({number}) .action-select")
    browser.evaluate("document.querySelector('select[name=action]').value = 'send_recovery'")
    browser.click(".actions button[type=submit]")
    costs = browser.wait_for("document.querySelector('.costs')?.innerText")
    assert "2 by email" in costs
    assert "1,000 left now" in costs
    assert accessibility.find_problems(browser) == []
    browser.click("button.default")
    browser.wait_for("document.querySelector('.messagelist')?.innerText.includes('Recovery email queued: 2 users')")

    received: list[str] = []
    while len(received) < len(addresses):
        messages = requests.get(f"{service.url}/inbox/messages.json", timeout=60).json()
        received = [message["to"] for message in messages if message["to"] in addresses and "ecover" in str(message)]
    open_page(browser, f"{service.url}/operator/", ".chart svg")
    titles = browser.evaluate("[...document.querySelectorAll('.chart:has(rect.bar) h3')].map(title => title.innerText)")
    assert {"Sign-ups", "Sign-ins", "Messages"} <= set(titles)
    assert browser.evaluate("getComputedStyle(document.querySelector('.chart rect.solid')).fill") != "rgb(0, 0, 0)"
    browser.click(".chart summary")
    assert browser.evaluate("document.querySelector('.chart table').checkVisibility()")
    warnings = "document.querySelector('.warnings dl').checkVisibility()"
    assert not browser.evaluate(warnings)
    browser.click(".warnings summary")
    assert browser.evaluate(warnings)
    assert browser.policy_violations() == []


def test_faint_text_and_hidden_focus_are_found(browser: Chromium, service: Service) -> None:
    browser.prefer_color_scheme("light")
    browser.resize(width=390, height=844)
    wait_for_messages(service)
    open_page(browser, f"{service.url}/inbox/", "article")
    browser.evaluate(
        """(() => {
            const style = new CSSStyleSheet()
            style.replaceSync('.hint { color: #999 } a:focus-visible { outline: none }')
            document.adoptedStyleSheets = [style]
            document.body.insertAdjacentHTML('beforeend', '<div id="wide"></div>')
            Object.assign(document.querySelector('#wide').style, {width: '3000px', height: '1px'})
        })()"""
    )
    for presses_tab in (True, False):
        problems = " ".join(accessibility.find_problems(browser, presses_tab=presses_tab))
        assert "p.hint: text has a contrast of" in problems
        assert "a.button: focus has a contrast of 0.00" in problems
        assert "wider than the window" in problems


def test_documents_show_committed_images() -> None:
    texts = "".join(file.read_text() for file in (servers.PROJECT / "docs").rglob("*.md"))
    shown = set(re.findall(r"images/([\w.-]+)\)", texts))
    assert shown
    for name in shown:
        assert 0 < (images.FOLDER / name).stat().st_size < images.MAX_BYTES
    shot = {re.sub(r"(-dark)?-\d+\.webp$", "", file.name) for file in images.FOLDER.iterdir()}
    assert shot <= {*(page.name for page in pages.PAGES), *pages.TUTORIAL_IMAGES}


@pytest.mark.usefixtures("signed_in")
def test_a_list_is_searched_while_typing_and_worked_on_as_a_whole(browser: Chromium, service: Service) -> None:
    with psycopg.connect(service.database_url) as connection:
        connection.execute(
            "INSERT INTO users (id, aud, role, email, raw_user_meta_data, created_at, is_sso_user, is_anonymous)"
            " SELECT gen_random_uuid(), 'authenticated', 'authenticated', 'member' || n || '@example.org',"
            " jsonb_build_object('full_name', 'Zoë Member' || n || repeat('x', n)), now(), false, false"
            " FROM generate_series(1, 120) n"
        )
    browser.resize(width=1280, height=800, mobile=False)
    browser.watch_policy_violations()
    open_page(browser, f"{service.url}/operator/accounts/user/", "#result_list")
    browser.evaluate("window.isSamePage = true")
    browser.click("#searchbar")
    browser.insert_text("ZOE member")
    browser.wait_for("document.querySelector('#search-status').innerText === '120 users'")
    browser.insert_text("119")
    browser.wait_for("document.querySelectorAll('#result_list tbody tr').length === 1")
    assert accessibility.clipped(browser) == []  # by a long name without spaces
    browser.click(".column-account a")  # the address of the list is a link to it, which the sorted list keeps
    browser.wait_for("document.readyState === 'complete' && location.search.includes('o=1') && !window.isSamePage")
    assert browser.evaluate("location.search.includes('q=ZOE+member119')")

    browser.click("#searchbar")
    browser.evaluate("document.querySelector('#searchbar').select()")
    browser.insert_text("zoe")
    browser.wait_for("document.querySelectorAll('#result_list tbody tr').length === 50")
    browser.click("#action-toggle")
    browser.wait_for("document.querySelector('.action-counter').innerText === '50 of 50 selected'")
    browser.click(".question a")
    browser.wait_for("document.querySelector('.actions .all').innerText === 'All 120 users selected'")
    browser.evaluate("document.querySelector('select[name=action]').value = 'add_note'")
    browser.click(".actions button")
    browser.wait_for("document.querySelector('#confirm-action')?.innerText.includes('all 120 users of the list')")
    browser.click("textarea")
    browser.insert_text("Member since the start")
    browser.double_click("#confirm-action button.default")
    browser.wait_for("document.querySelector('.messagelist')?.innerText.includes('Note added: 120 users')")
    assert browser.policy_violations() == []
    with psycopg.connect(service.database_url) as connection:
        row = connection.execute(
            "SELECT count(DISTINCT user_id), count(*) FROM operator_notes WHERE text = 'Member since the start'"
        ).fetchone()
    assert row == (120, 120)


@pytest.mark.usefixtures("signed_in")
def test_a_viewer_sees_the_personal_data_of_the_rows_that_were_found_while_typing(
    browser: Chromium, service: Service
) -> None:
    browser.resize(width=1280, height=800, mobile=False)
    rows = "[...document.querySelectorAll('#result_list tbody tr')].map(row => row.innerText)"
    set_role(service, pages.VIEWER)
    try:
        open_page(browser, f"{service.url}/operator/accounts/user/", ".hidden-data")
        for address, masked in ((sample_data.TOMASZ_EMAIL, "t•••@e•••"), (sample_data.MARA_EMAIL, "m•••@e•••")):
            browser.click("#searchbar")
            browser.evaluate("document.querySelector('#searchbar').select()")
            browser.insert_text(address)
            browser.wait_for(f"{rows}.length === 1 && {rows}[0].includes('{masked}')")
            browser.click(".hidden-data button")
            browser.wait_for(f"document.readyState === 'complete' && {rows}.some(row => row.includes('{address}'))")
            assert browser.evaluate(f"{rows}.length") == 1
            assert not browser.evaluate("!!document.querySelector('.hidden-data')")
    finally:
        set_role(service, pages.ADMIN)
