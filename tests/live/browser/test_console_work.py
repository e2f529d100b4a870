"""Console actions in a real browser: search a user, read the timeline, end sessions, ban, retry a failed message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import requests

from tests.fakes.smtp import FakeSmtp
from tests.live.browser.chromium import Chromium
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in, make_operator, state
from tests.timeouts import wait_until

ADA = "ada@example.com"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"
TIMELINE = "[...document.querySelectorAll('.panel')].find(panel => panel.innerText.startsWith('Timeline'))"


def heading(browser: Chromium, text: str) -> None:
    browser.wait_for(
        f"document.readyState === 'complete' && document.querySelector('h1')?.innerText.includes('{text}')"
    )


def wait_for_message(browser: Chromium, text: str) -> None:
    browser.wait_for(f"document.querySelector('.messagelist')?.innerText.includes('{text}')")


def events(browser: Chromium) -> list[str]:
    """The texts of the rows of the timeline, without the times."""
    shown: list[str] = browser.wait_for(
        f"document.readyState === 'complete' && {TIMELINE} && [...{TIMELINE}.querySelectorAll('tbody tr')]"
        ".map(row => [...row.cells].slice(1, 6).map(cell => cell.innerText.trim()).join(' | '))"
    )
    return shown


def wait_for_row(database_url: str, sql: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        wait_until(lambda: connection.execute(sql).fetchone(), f"a row of: {sql}")


def test_an_operator_supports_a_user(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str, tmp_path: Path
) -> None:
    with FakeSmtp() as smtp:
        service = start_service(
            AUTH_MAILER_AUTOCONFIRM="true",
            AUTH_MAILER_DEV_INBOX_ENABLED="false",
            AUTH_SMTP_HOST=smtp.host,
            AUTH_SMTP_PORT=str(smtp.port),
            AUTH_SMTP_ADMIN_EMAIL="noreply@example.com",
        )
        make_operator(service, fresh_database_url)
        account = {"email": ADA, "password": PASSWORD}
        signed_in = requests.post(f"{service}/signup", json=account, timeout=60).json()
        for password in ("a wrong guess", PASSWORD):
            headers, body = {"User-Agent": FIREFOX}, {"email": ADA, "password": password}
            requests.post(f"{service}/token?grant_type=password", json=body, headers=headers, timeout=60)
        smtp.replies["RCPT"] = "450 4.2.2 mailbox full"
        assert requests.post(f"{service}/recover", json={"email": ADA}, timeout=60).status_code == 200
        wait_for_row(fresh_database_url, "SELECT 1 FROM message_attempts WHERE outcome = 'retry'")
        with psycopg.connect(fresh_database_url) as connection:
            # The last of its attempts is due.
            connection.execute("UPDATE procrastinate_jobs SET attempts = 8, scheduled_at = now()")
        wait_for_row(fresh_database_url, "SELECT 1 FROM procrastinate_jobs WHERE status = 'failed'")
        browser.watch_policy_violations()

        browser.open(f"{service}/operator/")
        fill_in(browser, "#id_name", EMAIL)
        fill_in(browser, "#id_password", PASSWORD)
        browser.click("button.default")
        state(browser, "/operator/")

        browser.click(".stats a[href*='status=failed']")
        heading(browser, "Undelivered messages")
        browser.click(".field-kind a")
        browser.wait_for("document.body.innerText.includes('mailbox full')")
        smtp.replies.clear()
        browser.click("button[value='retry']")
        wait_for_message(browser, "Retrying now")
        wait_for_row(fresh_database_url, "SELECT 1 FROM message_attempts WHERE outcome = 'delivered'")
        assert [received.recipients for received in smtp.received] == [[ADA]]

        browser.open(f"{service}/operator/accounts/user/")
        fill_in(browser, "#searchbar", ADA)
        browser.click("#changelist-search input[type=submit]")
        browser.wait_for("location.search.includes('q=')")
        browser.click("#result_list tbody a")
        heading(browser, ADA)
        browser.wait_for("document.body.innerText.includes('delivered')")
        page = browser.evaluate("location.href")
        shown = events(browser)
        refused, signed_in_again = "method: password\ncause: invalid_credentials", "provider: email"
        assert f"Sign-in refused | User | {refused} | 127.0.0.1 | Firefox on Windows" in shown
        assert f"Signed in | User | {signed_in_again} | 127.0.0.1 | Firefox on Windows" in shown
        assert [event.partition(" | ")[0] for event in shown][:2] == ["Email: Recovery delivered", "Message retried"]
        browser.click(".panel-links a[href*='kind=refused']")
        browser.wait_for("location.search === '?kind=refused'")
        assert len(events(browser)) == 1
        browser.click(".panel-links a[href*='kind=messages']")
        browser.wait_for("location.search === '?kind=messages'")
        assert "Email: Recovery to be retried | – | 450 4.2.2 mailbox full" in "\n".join(events(browser))

        browser.open(page)
        browser.click("button[value='end']")
        heading(browser, "End session")
        browser.click(".form-buttons button")
        wait_for_message(browser, "Session ended: Firefox on Windows")
        browser.click("button[value='end_sessions']")
        heading(browser, "End all sessions")
        browser.click(".form-buttons button")
        wait_for_message(browser, "1 session ended")
        browser.wait_for("document.body.innerText.includes('Not signed in anywhere.')")
        headers = {"Authorization": f"Bearer {signed_in['access_token']}"}
        assert requests.get(f"{service}/user", headers=headers, timeout=60).status_code == 403

        browser.click("button[value='ban']")
        heading(browser, "Ban")
        browser.evaluate("document.querySelector('select').value = '168h'")
        browser.evaluate("document.querySelector('#id_reason').value = 'spam'")
        browser.click("#confirm-action button.default")
        wait_for_message(browser, "is banned: 7 days")
        heading(browser, "banned until")
        rejected = requests.post(f"{service}/token?grant_type=password", json=account, timeout=60)
        assert rejected.json()["error_code"] == "user_banned"
        browser.click(".panel-links a[href*='kind=changes']")
        browser.wait_for("location.search === '?kind=changes'")
        [banned] = events(browser)
        assert banned.startswith(f"Account changed | {EMAIL} (administrator) | ")
        assert "reason: spam" in banned
        assert "banned until: none → 20" in banned
        assert browser.policy_violations() == []
