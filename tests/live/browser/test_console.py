"""The operator console in a real browser: no page violates its content security policy."""

from __future__ import annotations

from collections.abc import Callable

from tests.live.browser.chromium import Chromium
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in, make_operator, state

# The spacing of text that pages must permit (WCAG 2.2 §1.4.12), and the cells of cards that it makes too small.
SPACED_CELLS = """(() => {
    const sheet = new CSSStyleSheet()
    const spacing = {'line-height': '1.5', 'letter-spacing': '0.12em', 'word-spacing': '0.16em'}
    sheet.replaceSync(`* {${Object.entries(spacing).map(([name, value]) => `${name}: ${value} !important`).join(';')}}`)
    document.adoptedStyleSheets = [sheet]
    const cells = [...document.querySelectorAll('td[data-column]')]
    return {count: cells.length, clipped: cells.filter(cell => cell.scrollHeight > cell.clientHeight + 1).length}
})()"""


def test_an_operator_signs_in_browses_and_signs_out(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str
) -> None:
    service = start_service(AUTH_MAILER_AUTOCONFIRM="true")
    make_operator(service, fresh_database_url)
    browser.watch_policy_violations()

    browser.open(f"{service}/operator")
    assert state(browser, "/operator/login/")["heading"] == "Sign in"
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", "wrong")
    browser.click("button.default")
    browser.wait_for("document.querySelector('.errornote')?.innerText === 'Invalid login credentials'")

    fill_in(browser, "#id_password", PASSWORD)
    browser.click("button.default")
    page_state = state(browser, "/operator/")
    assert page_state["scripts"] >= 1
    assert browser.evaluate("document.cookie") == ""
    assert browser.evaluate("document.querySelector('.operator-name').innerText") == EMAIL
    background = "getComputedStyle(document.querySelector('#header')).backgroundColor"
    assert browser.evaluate(background) in ("rgb(15, 23, 42)", "rgb(2, 6, 23)")

    paths = browser.evaluate("[...document.querySelectorAll('#lists a')].map(link => link.pathname)")
    for path in paths:
        browser.open(f"{service}{path}")
        state(browser, path)

    browser.open(f"{service}/operator/")
    browser.click("#logout-form button")
    state(browser, "/operator/login/")
    browser.open(f"{service}/operator/")
    state(browser, "/operator/login/")
    assert browser.policy_violations() == []
    browser.evaluate("document.body.setAttribute('onclick', 'alert()'), document.body.click()")
    assert browser.policy_violations()  # violations are recorded


def test_the_console_fits_on_a_phone(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str
) -> None:
    service = start_service(AUTH_MAILER_AUTOCONFIRM="true")
    make_operator(service, fresh_database_url)
    browser.resize(width=360, height=640)
    browser.open(f"{service}/operator/")
    assert state(browser, "/operator/login/")["width"] <= 0
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", PASSWORD)
    browser.click("button.default")
    assert state(browser, "/operator/")["width"] <= 0
    cells = browser.evaluate(SPACED_CELLS)
    assert (cells["count"] > 0, cells["clipped"]) == (True, 0)
    assert state(browser, "/operator/")["width"] <= 0


def test_another_site_cannot_frame_the_console(browser: Chromium, start_service: Callable[..., str]) -> None:
    service = start_service()
    browser.open(f"{service}/health")
    browser.wait_for("document.readyState === 'complete'")
    browser.evaluate(
        f"""(() => {{
            const frame = document.createElement('iframe')
            frame.src = '{service}/operator/login/'
            frame.onload = () => {{ window.framed = 'loaded' }}
            document.body.append(frame)
        }})()"""
    )
    browser.wait_for("window.framed")
    assert browser.evaluate("document.querySelector('iframe').contentDocument?.querySelector('form') ?? null") is None
