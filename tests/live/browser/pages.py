"""The HTML pages that tests measure, check with axe-core and make images of.

A new page needs one line in `PAGES`, and rows in `sample_data` if it shows none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.live.browser import sample_data
from tests.live.browser.chromium import Chromium

ADMIN = "svc_admin"
VIEWER = "auditor"
PASSWORD = "correct horse battery 1"
"""The password of all operators."""
SIGN_UP = "#operations-Accounts-post_signup"
_CONSOLE = "/operator"
_USERS = f"{_CONSOLE}/accounts/user/"
_MARA = f"{_USERS}{sample_data.MARA}/change/"
_TOMASZ = f"{_USERS}{sample_data.TOMASZ}/change/"
_MESSAGES = f"{_CONSOLE}/mailer/message/"
_ATTEMPTS = f"{_CONSOLE}/mailer/attempt/"
_AUDIT = f"{_CONSOLE}/core/auditlogentry/"
_PROVIDERS = f"{_CONSOLE}/oauthproviders/customprovider/"
_CLIENTS = f"{_CONSOLE}/oauthserver/oauthclient/"
_WEBHOOKS = f"{_CONSOLE}/hooks/webhookendpoint/"
_DELIVERIES = f"{_CONSOLE}/hooks/webhookdelivery/"

_MAIN_BUTTON = "main button.primary"

TUTORIAL_IMAGES = ("tutorial-registered", "tutorial-consent", "tutorial-shop", "tutorial-applications")
"""Images that the walk through a tutorial writes."""


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Name of the images, with the width: `users` for `users-1280.webp`."""
    path: str
    ready: str
    """Selector that matches once the page is shown, and not before."""
    clicks: tuple[str, ...] = ()
    """Selectors of the elements that lead from `path` to the page."""
    role: str = ADMIN
    """Role of the operator."""
    has_dark_image: bool = False
    is_public: bool = False
    """Open the page without the cookies of the operator."""
    has_images: bool = True
    """False for a hosted page, which a theme changes."""
    prepare: Callable[[Chromium], None] | None = None
    """Steps on the page before it is measured."""


def show_sign_up(browser: Chromium) -> None:
    """Search the API page, and open the operation."""
    browser.click("#search")
    browser.insert_text("sign up")
    browser.wait_for("document.querySelectorAll('.opblock').length < 10")
    browser.click(f"{SIGN_UP} .opblock-summary-control")
    browser.wait_for(f"!!document.querySelector('{SIGN_UP} .try-out__btn')")


def mail_users(browser: Chromium) -> None:
    """Choose an action for two ticked users, which leads to the page of its cost."""
    for number in (1, 2):
        browser.click(f"#result_list tbody tr:nth-child({number}) .action-select")
    browser.evaluate("document.querySelector('select[name=action]').value = 'send_recovery'")
    browser.click(".actions button[type=submit]")
    browser.wait_for("document.readyState === 'complete' && !!document.querySelector('.costs')")


def view_as_user(browser: Chromium) -> None:
    """Confirm the impersonation of a user, which leads to the page of its link."""
    for field, text in (("typed_name", sample_data.TOMASZ_EMAIL), ("reason", "Ticket 4711")):
        browser.evaluate(f"document.querySelector('#id_{field}').value = '{text}'")
    browser.click("#confirm-action button[type=submit]")
    browser.wait_for("document.readyState === 'complete' && !!document.querySelector('a[target=_blank]')")


def enter_password(browser: Chromium, *, button: str = "button.default", ready: str = "#second-factor") -> None:
    """Sign in as an operator with a second factor; `ready` matches on the page that asks for it."""
    for field, text in (("name", sample_data.OTHER_OPERATOR), ("password", PASSWORD)):
        browser.evaluate(f"document.querySelector('#id_{field}').value = '{text}'")
    browser.click(button)
    browser.wait_for(f"document.readyState === 'complete' && !!document.querySelector('{ready}')")


def enter_account_password(browser: Chromium) -> None:
    enter_password(browser, button=_MAIN_BUTTON, ready="#id_code")


def request_code(browser: Chromium) -> None:
    """Request a code, whose page is the next one."""
    browser.evaluate("document.querySelector('#id_name').value = 'code@example.com'")
    browser.click(_MAIN_BUTTON)
    browser.wait_for("document.readyState === 'complete' && !!document.querySelector('#id_code')")


PAGES = (
    Page("start", "/", "dl"),
    Page("not-found", "/unknown", "h1"),
    Page("inbox", "/inbox/", "article"),
    Page("inbox-message", "/inbox/", "iframe", clicks=("article h2 a",)),
    Page("inbox-preview", "/inbox/previews/", "h3", clicks=("article h2 a",)),
    Page("confirmation", "/inbox/", "form button", clicks=(".actions a",)),
    Page("api", "/docs", ".opblock", prepare=show_sign_up),
    Page("sign-in", f"{_CONSOLE}/login/", "#id_password", is_public=True),
    Page("dashboard", f"{_CONSOLE}/", ".stats", has_dark_image=True),
    Page("users", _USERS, "#result_list", has_dark_image=True),
    Page("users-no-match", f"{_USERS}?q=unknown@example.com", ".empty"),
    Page("user", _MARA, ".panel", has_dark_image=True),
    Page("user-edit", _MARA, "#confirm-action", clicks=("button[value=edit]",)),
    Page("user-ban", _MARA, "#confirm-action", clicks=("button[value=ban]",)),
    Page("user-link", _MARA, ".shown-once", clicks=("button[value=create_link]", "#confirm-action button.button")),
    Page("user-delete", _MARA, "#confirm-action", clicks=("button[value=delete]",)),
    Page("user-create", f"{_USERS}create/", "#confirm-action"),
    Page("user-create-error", f"{_USERS}create/", ".errorlist", clicks=("#confirm-action button.button",)),
    Page("user-invite", f"{_USERS}invite/", "#confirm-action"),
    Page("users-mail", _USERS, "#result_list", prepare=mail_users),
    Page("user-impersonate", _TOMASZ, "#confirm-action", clicks=("button[value=impersonate]",)),
    Page(
        "user-impersonation-link",
        _TOMASZ,
        "#confirm-action",
        clicks=("button[value=impersonate]",),
        prepare=view_as_user,
    ),
    Page("user-timeline", f"{_USERS}{sample_data.MARA}/timeline/", ".panel-links"),
    Page("session", f"{_CONSOLE}/tokens/session/{sample_data.SESSION}/change/", ".readonly"),
    Page("sessions", f"{_CONSOLE}/tokens/session/?user={sample_data.MARA}", "#result_list"),
    Page("sessions-impersonated", f"{_CONSOLE}/tokens/session/?impersonated=yes", "#result_list"),
    Page("messages", _MESSAGES, "#result_list"),
    Page("message", f"{_MESSAGES}{sample_data.FAILED_JOB}/change/", ".readonly"),
    Page("messages-retry", f"{_MESSAGES}retry/", "#confirm-action"),
    Page("attempts", _ATTEMPTS, "#result_list"),
    Page("attempt", f"{_ATTEMPTS}{sample_data.ATTEMPT}/change/", ".readonly"),
    Page("audit", _AUDIT, "#result_list"),
    Page("audit-entry", f"{_AUDIT}{sample_data.AUDIT_ENTRY}/change/", ".readonly"),
    Page("providers", _PROVIDERS, "#result_list"),
    Page("provider", f"{_PROVIDERS}{sample_data.PROVIDER}/change/", ".readonly"),
    Page("provider-test", f"{_PROVIDERS}{sample_data.PROVIDER}/change/", ".remedy", clicks=("button[formaction]",)),
    Page("provider-create", f"{_PROVIDERS}create/oidc/", "#confirm-action"),
    Page("provider-edit", f"{_PROVIDERS}{sample_data.PROVIDER}/edit/", "#confirm-action"),
    Page("providers-built-in", f"{_PROVIDERS}built-in/", ".panel"),
    Page("provider-built-in", f"{_PROVIDERS}built-in/google/", ".panel"),
    Page("oauth-clients", _CLIENTS, "#changelist"),
    Page("oauth-client-register", f"{_CLIENTS}register/", "#confirm-action"),
    Page("webhooks", _WEBHOOKS, "#result_list"),
    Page("webhook", f"{_WEBHOOKS}{sample_data.ENDPOINT}/change/", ".readonly"),
    Page("webhook-create", f"{_WEBHOOKS}create/", "#confirm-action"),
    Page("webhook-edit", f"{_WEBHOOKS}{sample_data.ENDPOINT}/edit/", "#confirm-action"),
    Page(
        "webhook-secret",
        f"{_WEBHOOKS}{sample_data.ENDPOINT}/change/",
        ".shown-once",
        clicks=("button[value=rotate_secret]", "#confirm-action button.button"),
        has_images=False,
    ),
    Page("webhook-deliveries", _DELIVERIES, "#result_list"),
    Page("webhook-delivery", f"{_DELIVERIES}{sample_data.DELIVERY}/change/", ".readonly"),
    Page("hooks", f"{_WEBHOOKS}hooks/", ".panel"),
    Page("account", f"{_CONSOLE}/account/", ".panel"),
    Page("account-password", f"{_CONSOLE}/account/password/", "#confirm-action"),
    Page("account-app", f"{_CONSOLE}/account/app/", "#confirm-action"),
    Page("forgotten-password", f"{_CONSOLE}/forgotten-password/", "#sign-in-step", is_public=True),
    Page("second-step", f"{_CONSOLE}/login/", "#id_password", is_public=True, prepare=enter_password),
    Page("console-error", f"{_CONSOLE}/unknown/", "h1"),
    Page("applications", "/account/applications", ".items", has_images=False),
    Page(
        "consent",
        f"/oauth/consent?authorization_id={sample_data.AUTHORIZATION}",
        "button[value=approve]",
        has_images=False,
    ),
    Page("consent-unknown", "/oauth/consent?authorization_id=unknown", "h1", has_images=False),
    Page("device", "/oauth/device", "#id_user_code", has_images=False),
    Page("logout", "/oauth/logout", "form .primary", has_images=False),
    *(
        Page(f"hosted-{name}", f"/account/{name}", "main form, main .button", is_public=True, has_images=False)
        for name in ("sign-in", "sign-up", "recover", "signed-out")
    ),
    Page("hosted-error", "/account/sign-in", ".notice", clicks=(_MAIN_BUTTON,), is_public=True, has_images=False),
    Page("hosted-deleted", "/account/deleted", "main", is_public=True, has_images=False),
    Page("hosted-link", "/account/confirm?token=x", ".notice", is_public=True, has_images=False),
    Page("hosted-code", "/account/code", "#id_name", is_public=True, has_images=False, prepare=request_code),
    Page(
        "hosted-second-factor",
        "/account/sign-in",
        "#id_password",
        is_public=True,
        has_images=False,
        prepare=enter_account_password,
    ),
    Page("users-hidden", _USERS, ".hidden-data", role=VIEWER),
    Page("user-hidden", _MARA, ".hidden-data", role=VIEWER),
    *(
        Page(f"hosted-{name.replace('/', '-') or 'overview'}", f"/account/{name}".rstrip("/"), "main", has_images=False)
        for name in (
            "",
            "profile",
            "email",
            "password",
            "factors",
            "factors/app",
            "passkeys",
            "identities",
            "sessions",
            "sessions/others",
            "data",
            "deletion",
        )
    ),
    Page("hosted-app-code", "/account/factors/app", ".qr svg", clicks=(_MAIN_BUTTON,), has_images=False),
)
