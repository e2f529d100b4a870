"""An operator views an application as a user, in a real browser with the published client library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import requests

from tests.live.browser import accessibility
from tests.live.browser.chromium import Chromium
from tests.live.browser.conftest import Site
from tests.live.browser.console_steps import EMAIL, PASSWORD, fill_in, make_operator, state
from tests.live.browser.test_console_work import ADA, heading
from tests.live.clients import node

LIBRARY = node.FOLDER / "node_modules" / "@supabase" / "supabase-js" / "dist" / "umd" / "supabase.js"
# An application as its developers write it; the library reads the session from the address.
APPLICATION = """<!doctype html><title>Application</title><h1>Loading</h1><script>LIBRARY</script><script type="module">
const auth = new supabase.GoTrueClient({url: 'AUTH_URL', flowType: 'implicit', detectSessionInUrl: true})
const {data: {session}} = await auth.getSession()
const claims = session && JSON.parse(atob(session.access_token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')))
window.application = {auth, claims, hasOpener: window.opener !== null, referrer: document.referrer}
document.querySelector('h1').innerText = session ? session.user.email : 'Signed out'
</script>"""


def sent_to(service: str, address: str) -> list[dict[str, Any]]:
    """The emails to an address, after the arrival of one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        messages = requests.get(f"{service}/inbox/messages.json", timeout=60).json()
        if found := [message for message in messages if message["to"] == address]:
            return found
    raise AssertionError(f"no email to {address}")


def test_an_operator_views_the_application_as_a_user(
    browser: Chromium, start_service: Callable[..., str], fresh_database_url: str, site: Site
) -> None:
    node.install()
    service = start_service(AUTH_MAILER_AUTOCONFIRM="true", AUTH_OPERATOR_IMPERSONATION_ENABLED="true")
    site.page = APPLICATION.replace("LIBRARY", LIBRARY.read_text()).replace("AUTH_URL", service).encode()
    make_operator(service, fresh_database_url)
    account = {"email": ADA, "password": PASSWORD}
    signed_up = requests.post(f"{service}/signup", json=account, timeout=60).json()
    browser.watch_policy_violations()
    browser.open(f"{service}/operator/")
    fill_in(browser, "#id_name", EMAIL)
    fill_in(browser, "#id_password", PASSWORD)
    browser.click("button.default")
    state(browser, "/operator/")

    browser.open(f"{service}/operator/accounts/user/{signed_up['user']['id']}/change/")
    heading(browser, ADA)
    browser.click("button[value='impersonate']")
    heading(browser, "View as user")
    assert accessibility.find_problems(browser) == []
    fill_in(browser, "#id_typed_name", ADA)
    fill_in(browser, "#id_reason", "ticket 4711")
    browser.click("#confirm-action button[type=submit]")
    browser.wait_for("!!document.querySelector('a[target=_blank]')")
    assert browser.evaluate("document.querySelectorAll('.button.default').length") == 1
    assert accessibility.find_problems(browser) == []
    assert browser.policy_violations() == []
    assert accessibility.find_violations(browser) == []  # sets styles, which the policy forbids
    browser.click("a[target=_blank]")
    with browser.new_page():
        browser.wait_for(f"document.querySelector('h1')?.innerText === '{ADA}'")
        seen = browser.evaluate("({...application, auth: null})")
        assert (seen["claims"]["sub"], seen["claims"]["aal"]) == (signed_up["user"]["id"], "aal1")
        assert seen["claims"]["act"]["sub"] != signed_up["user"]["id"]
        assert seen["claims"]["exp"] - seen["claims"]["iat"] <= 15 * 60
        assert (seen["hasOpener"], seen["referrer"]) == (False, "")
        assert browser.evaluate("location.hash") == ""
        change = "application.auth.updateUser({password: 'another long password 1'})"
        refused = browser.evaluate(f"{change}.then(({{error}}) => [error.status, error.code])")
        assert refused == [403, "impersonation_not_allowed"]
        refreshed = "application.auth.refreshSession().then(({data}) => data.session.expires_at)"
        assert browser.evaluate(refreshed) == seen["claims"]["exp"]
    assert requests.post(f"{service}/token?grant_type=password", json=account, timeout=60).status_code == 200
    [email] = sent_to(service, ADA)
    assert email["subject"] == "A member of our staff opened your account"

    browser.open(f"{service}/operator/accounts/user/{signed_up['user']['id']}/change/")
    browser.wait_for(f"document.body.innerText.includes('impersonated by {EMAIL}')")
    audit = f"{service}/operator/core/auditlogentry/?q={signed_up['user']['id']}"
    browser.open(audit)
    browser.wait_for("document.querySelector('#result_list')?.innerText.includes('View as user started')")
    shown = browser.evaluate("document.querySelector('#result_list').innerText")
    for text in ("View as user requested", "reason: ticket 4711", "impersonation_not_allowed", EMAIL):
        assert text in shown, shown
