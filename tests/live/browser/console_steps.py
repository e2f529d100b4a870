"""Steps of an operator in the console, in a real browser."""

from __future__ import annotations

from typing import Any

import psycopg
import requests

from tests.live.browser.chromium import Chromium

EMAIL = "op@example.com"
PASSWORD = "correct horse battery 1"
# Resources that failed to load, errors, and the state of the style sheet.
STATE = """(() => ({
    path: location.pathname,
    sheets: [...document.styleSheets].map(sheet => { try { return sheet.cssRules.length } catch { return 0 } }),
    scripts: performance.getEntriesByType('resource').filter(entry => entry.initiatorType === 'script').length,
    foreign: performance.getEntriesByType('resource').filter(entry => !entry.name.startsWith(location.origin)).length,
    failed: performance.getEntriesByType('resource')
        .filter(entry => entry.responseStatus >= 400).map(entry => entry.name),
    heading: document.querySelector('h1')?.innerText,
    width: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}))()"""


def make_operator(service: str, database_url: str) -> None:
    body = {"email": EMAIL, "password": PASSWORD}
    assert requests.post(f"{service}/signup", json=body, timeout=60).status_code == 200
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE users SET role = 'svc_admin' WHERE email = %s", [EMAIL])


def fill_in(browser: Chromium, selector: str, text: str) -> None:
    browser.wait_for(f"document.readyState === 'complete' && !!document.querySelector('{selector}')")
    browser.evaluate(f"document.querySelector('{selector}').value = '{text}'")


def state(browser: Chromium, path: str) -> dict[str, Any]:
    browser.wait_for(f"location.pathname === '{path}' && document.readyState === 'complete'")
    page_state: dict[str, Any] = browser.evaluate(STATE)
    assert all(page_state["sheets"]), page_state
    assert len(page_state["sheets"]) >= 3
    assert not page_state["foreign"]
    assert not page_state["failed"]
    return page_state
