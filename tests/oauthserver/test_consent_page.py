"""The consent page: decisions, accounts, requirements of clients, hostile clients and forged requests."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from authsvc.api.throttling import BURST
from oauthserver.clients.client_summary import ClientSummary
from oauthserver.models import OAuthAuthorization, OAuthConsent
from oauthserver.pages import client_display
from oauthserver.pages.client_display import ShownClient
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import backdate, make_factor, make_session, make_user
from tests.oauthserver.client_application import (
    CALLBACK,
    Application,
    approve,
    authorize,
    exchange,
    query_of,
    register,
)
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

HOME = "http://localhost:8081"


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True}, oauth_server={"authorization_path": ""}, api={"external_url": HOME})


def page_of(api: Api, application: Application, **changes: Any) -> str:
    """The path of the consent page to which a new request of the client leads."""
    location = authorize(api, application, **changes).headers["Location"]
    assert location.startswith(f"{HOME}/oauth/consent?authorization_id="), location
    return location.removeprefix(HOME)


def row(page: str) -> OAuthAuthorization:
    return OAuthAuthorization.objects.get(authorization_id=query_of(page)["authorization_id"])


def sign_in_new_user(email: str = "ada@example.com") -> PageBrowser:
    """The browser of a new user."""
    make_user(email=email)
    browser = PageBrowser()
    assert browser.sign_in(email).status_code == 303
    return browser


def make_old() -> None:
    """Move all sign-ins two hours back."""
    long_ago = timezone.now() - timedelta(hours=2)
    Session.objects.update(created_at=long_ago)
    AmrClaim.objects.update(created_at=long_ago, updated_at=long_ago)


def token_in(text: str) -> str:
    """The CSRF token of the first form of a page."""
    return text.split('name="csrfmiddlewaretoken" value="')[1].split('"', maxsplit=1)[0]


def location_of(response: ApiResponse) -> str:
    assert response.status_code in (302, 303), (response.status_code, response.content)
    return response.headers["Location"]


def test_user_signs_in_and_allows_the_access(api: Api) -> None:
    user, application = make_user(email="ada@example.com"), register(api, client_name="Shop")
    page, browser = page_of(api, application, login_hint="ada@example.com"), PageBrowser()

    sign_in = location_of(browser.get(page))
    assert query_of(sign_in) == {"next": page, "login_hint": "ada@example.com"}
    assert 'value="ada@example.com"' in browser.text(sign_in)
    assert location_of(browser.sign_in("ada@example.com", query=f"?{urlsplit(sign_in).query}")) == page
    text = browser.text(page)
    for shown in ("Shop", "client.example.com", "ada@example.com", "See your email address"):
        assert shown in text
    response = browser.submit(page, action="approve")

    url = location_of(response)
    assert (response.status_code, url.partition("?")[0]) == (303, CALLBACK)
    assert response.headers["Referrer-Policy"] == "no-referrer"
    tokens = exchange(application, query_of(url)["code"]).json()
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).json()["sub"] == str(user.id)
    assert [entry["action"] for entry in audit_payloads()].count("oauth_grant_approved") == 1
    # The consent is remembered.
    assert "code" in query_of(location_of(browser.get(page_of(api, application))))
    # The request cannot be answered once more.
    assert browser.get(page).status_code == 400


def test_apis_that_the_client_requests_are_shown(api: Api) -> None:
    browser, application = sign_in_new_user(), register(api)
    resource = ["https://FILES.example.com/v1/", "https://münchen.example", f"urn:{'x' * 80}"]
    page = page_of(api, application, resource=resource)
    shown = ["files.example.com/v1", "xn--mnchen-3ya.example", f"urn:{'x' * 55}…"]

    consent = browser.text(page)
    location_of(browser.submit(page, action="approve"))

    applications = browser.text("/account/applications")
    for name in shown:
        assert f"Use {name} on your behalf" in consent
        assert f"Use {name} on your behalf" in applications


def test_user_denies_the_access(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api))
    assert query_of(location_of(browser.submit(page, action="deny")))["error"] == "access_denied"
    assert (row(page).status, OAuthConsent.objects.count()) == ("denied", 0)
    assert browser.client.post(page, {"action": "approve"}).status_code == 403


def test_forged_decisions_are_refused(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api))
    browser.get(page)
    forged: Any = browser.client.post(page, {"action": "approve"})
    assert forged.status_code == 403
    for origin in ("https://evil.example", "null"):
        assert browser.submit(page, action="approve", headers={"Origin": origin}).status_code == 403
    # The token of another browser is of no use, and neither is a parameter of the URL.
    other = sign_in_new_user("eve@example.com")
    form = {"action": "approve", "csrfmiddlewaretoken": token_in(other.text("/account"))}
    assert browser.client.post(page, form).status_code == 403
    assert browser.get(f"{page}&action=approve").status_code == 200
    assert browser.submit(page, action="maybe").status_code == 400
    assert row(page).status == "pending"


def test_page_cannot_be_framed_and_shows_images_of_one_origin(api: Api) -> None:
    application = register(api, logo_uri="https://cdn.example.com/logo.png", client_uri="https://shop.example.com/x")
    response = sign_in_new_user().get(page_of(api, application))

    policy = dict(part.strip().partition(" ")[::2] for part in response.headers["Content-Security-Policy"].split(";"))
    assert policy["frame-ancestors"] == "'none'"
    assert policy["default-src"] == "'none'"
    assert policy["img-src"].split() == ["'self'", "data:", "https://cdn.example.com"]
    # Browsers apply it to redirects after the form, which lead to the client.
    assert "form-action" not in policy
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["Cache-Control"] == "no-store"
    # A client that has opened the page in a window of its own waits for the answer of that window.
    assert response.headers["Cross-Origin-Opener-Policy"] == "unsafe-none"
    text = response.content.decode()
    assert 'src="https://cdn.example.com/logo.png"' in text
    assert 'href="https://shop.example.com/x"' in text


def test_requests_of_others_unknown_and_expired_ones(api: Api) -> None:
    first, second = sign_in_new_user(), sign_in_new_user("eve@example.com")
    page = page_of(api, register(api))
    assert first.get(page).status_code == 200
    for response in (second.get(page), second.submit("/account/sign-out", to=page, action="approve")):
        assert response.status_code == 404
        assert "expired or belongs to another account" in response.content.decode()
    assert row(page).user.email == "ada@example.com"  # type: ignore[union-attr]
    assert first.get("/oauth/consent").status_code == 404
    assert first.get("/oauth/consent?authorization_id=%00").status_code == 404
    backdate(row(page), by=timedelta(minutes=11))
    assert first.get(page).status_code == 404
    assert row(page).status == "expired"


def test_another_account_is_chosen_by_an_ordinary_sign_in(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api), prompt="select_account")
    make_user(email="grace@example.com")
    assert "choose another one" in browser.text(page)
    former_cookie, former_sessions = browser.cookie, set(Session.objects.values_list("id", flat=True))
    stale = browser.text(page)

    sign_in = location_of(browser.submit(page, action="switch"))
    assert row(page).user_id is None
    # The session is still that of the first user, who may change their mind.
    assert browser.is_in
    assert browser.get(page).status_code == 200
    location_of(browser.submit(page, action="switch"))
    assert location_of(browser.sign_in("grace@example.com", query=f"?{urlsplit(sign_in).query}")) == page

    text = browser.text(page)
    assert "grace@example.com" in text
    assert "ada@example.com" not in text
    assert browser.cookie != former_cookie
    # The former session has ended, and the new one did not exist before.
    assert former_sessions.isdisjoint(Session.objects.values_list("id", flat=True))
    # A form that showed the first account decides nothing.
    form = {"action": "approve", "csrfmiddlewaretoken": token_in(stale)}
    assert browser.client.post(page, form).status_code == 403
    former = PageBrowser()
    former.cookie = former_cookie
    assert "sign-in" in location_of(former.get(page))
    assert "code" in query_of(location_of(browser.submit(page, action="approve")))
    assert OAuthConsent.objects.get().user.email == "grace@example.com"


def test_another_user_cannot_release_a_request(api: Api) -> None:
    first, second = sign_in_new_user(), sign_in_new_user("eve@example.com")
    page = page_of(api, register(api))
    first.get(page)
    assert second.submit("/account/sign-out", to=page, action="switch").status_code == 404
    assert row(page).user_id is not None


@pytest.mark.parametrize("changes", [{"prompt": "login"}, {"max_age": "3600"}])
def test_client_requires_a_new_sign_in(changes: dict[str, Any], api: Api) -> None:
    browser, application = sign_in_new_user(), register(api)
    approve(api, application, make_session(User.objects.get()))
    make_old()
    page = page_of(api, application, login_hint="ada@example.com", **changes)

    sign_in = location_of(browser.get(page))
    assert query_of(sign_in) == {"next": page, "login_hint": "ada@example.com", "prompt": "login"}
    assert 'name="password"' in browser.text(sign_in)  # although the browser is signed in
    assert location_of(browser.sign_in("ada@example.com", query=f"?{urlsplit(sign_in).query}")) == page
    response = browser.get(page)
    if "prompt" in changes:
        assert response.status_code == 200
        response = browser.submit(page, action="approve")
    assert "code" in query_of(location_of(response))


def test_sign_in_that_is_too_old_at_the_decision(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api), max_age="3600")
    form = {"action": "approve", "csrfmiddlewaretoken": token_in(browser.text(page))}
    make_old()
    response: Any = browser.client.post(page, form)
    assert location_of(response) == page
    assert "prompt=login" in location_of(browser.get(page))
    assert row(page).status == "pending"


def test_client_requires_a_second_factor(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api), acr_values="aal2")
    response = browser.get(page)
    assert response.status_code == 403
    text = html.unescape(response.content.decode())
    assert 'href="/account/factors"' in text
    assert f'href="{page}"' in text
    assert row(page).user_id is None
    # A user who has one verifies it before anything is shown.
    user = make_user(email="grace@example.com")
    make_factor(user)
    careful = PageBrowser()
    assert location_of(careful.sign_in("grace@example.com")).startswith("/account/second-factor")
    assert query_of(location_of(careful.get(page))) == {"next": page}
    assert "second-factor" in location_of(careful.get(page))


def test_consent_is_asked_for_again(api: Api) -> None:
    browser, application = sign_in_new_user(), register(api)
    location_of(browser.submit(page_of(api, application), action="approve"))
    assert browser.get(page_of(api, application, prompt="consent")).status_code == 200
    assert browser.get(page_of(api, application, scope="openid phone")).status_code == 200
    assert "code" in query_of(location_of(browser.get(page_of(api, application))))


def silent(browser: PageBrowser, application: Application, **changes: Any) -> dict[str, str]:
    """The parameters with which the client gets the browser back at once."""
    location = location_of(authorize_in(browser, application, prompt="none", **changes))
    assert location.startswith(f"{CALLBACK}?")
    return query_of(location)


def authorize_in(
    browser: PageBrowser, application: Application, *, headers: dict[str, str] | None = None, **changes: Any
) -> ApiResponse:
    class Here(Api):
        def request(self, method: str, path: str, body: Any = None, **_: Any) -> ApiResponse:
            return browser.get(path, **(headers or {}))

    return authorize(Here(), application, **changes)


def test_silent_requests_are_answered_without_a_page(api: Api) -> None:
    application, browser = register(api), sign_in_new_user()
    assert silent(PageBrowser(), application)["error"] == "login_required"
    assert not OAuthAuthorization.objects.exists()
    assert silent(browser, application)["error"] == "consent_required"
    assert silent(browser, application, acr_values="aal2")["error"] == "interaction_required"
    location_of(browser.submit(page_of(api, application), action="approve"))

    granted = silent(browser, application)

    assert (granted["state"], set(granted)) == ("xyz", {"code", "iss", "state"})
    assert exchange(application, granted["code"]).status_code == 200
    assert silent(browser, application, scope="openid phone")["error"] == "consent_required"
    make_old()
    assert silent(browser, application, max_age="60")["error"] == "login_required"
    make_factor(make_user(email="grace@example.com"))
    unfinished = PageBrowser()
    unfinished.sign_in("grace@example.com")
    assert silent(unfinished, application)["error"] == "login_required"


def test_silent_requests_redirect_only_to_valid_clients(api: Api) -> None:
    application, browser = register(api), sign_in_new_user()
    for changes in ({"redirect_uri": "https://evil.example/cb"}, {"client_id": "abc"}, {"client_id": None}):
        response = authorize_in(browser, application, prompt="none", **changes)
        assert response.status_code == 400
        assert "Location" not in response.headers
    # Errors of the request come before those of the session.
    assert silent(PageBrowser(), application, scope="foo")["error"] == "invalid_request"


def test_pages_below_a_path_of_the_proxy(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email="ada@example.com")
    application, browser = register(api), PageBrowser()
    auth_config(api={"external_url": f"{HOME}/auth"})
    location = location_of(authorize(api, application))
    assert location.startswith(f"{HOME}/auth/oauth/consent?")
    page = location.removeprefix(f"{HOME}/auth")  # the proxy removes the path

    sign_in = location_of(browser.get(page))
    assert sign_in.startswith("/auth/account/sign-in?")
    assert query_of(sign_in)["next"] == f"/auth{page}"
    response = browser.get(sign_in.removeprefix("/auth"))
    assert "form-action" not in response.headers["Content-Security-Policy"]
    assert location_of(browser.sign_in("ada@example.com", query=f"?{urlsplit(sign_in).query}")) == f"/auth{page}"
    assert f'action="/auth{page}"' in html.unescape(browser.text(page))
    assert "code" in query_of(location_of(browser.submit(page, action="approve")))


def test_browsers_get_a_page_for_errors_that_do_not_redirect(api: Api) -> None:
    application, browser, html_first = register(api), PageBrowser(), {"Accept": "text/html,*/*;q=0.8"}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"client_id": "abc"}, "is not known to this service"),
        ({"redirect_uri": "https://evil.example/cb"}, "invalid redirect_uri"),
    )
    for changes, text in cases:
        response = authorize_in(browser, application, headers=html_first, **changes)
        assert (response.status_code, response.headers["Content-Type"].partition(";")[0]) == (400, "text/html")
        assert text in response.content.decode()
        assert "https://evil.example" not in response.content.decode()
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        assert authorize_in(browser, application, **changes).headers["Content-Type"] == "application/json"
        # An application sends its form from another site.
        form = {"client_id": application.client_id, "redirect_uri": CALLBACK, **changes}
        foreign = {**html_first, "Origin": "https://shop.example.com"}
        form_type = "application/x-www-form-urlencoded"
        other: Any = PageBrowser().client
        posted = other.post("/oauth/authorize", urlencode(form), content_type=form_type, headers=foreign)
        assert (posted.status_code, text in posted.content.decode()) == (400, True)
        # Browsers send no cookie with it (SameSite=Lax). A new one would replace that of a user who is signed in.
        assert not posted.cookies


@pytest.mark.usefixtures("slow_refill")
def test_browsers_get_a_page_after_too_many_requests(api: Api) -> None:
    application, browser, headers = register(api), PageBrowser(), {"Accept": "text/html"}
    for _ in range(BURST):
        assert authorize_in(browser, application, headers=headers).status_code == 302
    response = authorize_in(browser, application, headers=headers)
    assert (response.status_code, "Retry-After" in response.headers) == (429, True)
    assert "too many attempts" in response.content.decode()


def test_the_page_of_an_invalid_request_blames_the_application(api: Api) -> None:
    browser, headers = PageBrowser(), {"Accept": "text/html", "Accept-Language": "de"}
    response = authorize_in(browser, register(api), headers=headers, redirect_uri="https://evil.example/cb")
    text = response.content.decode()
    assert "Die Anwendung hat eine ungültige Anfrage gesendet." in text
    assert "invalid redirect_uri" in text
    assert "Eingabe" not in text


def test_pages_of_the_site_answer_silent_requests_themselves(api: Api, auth_config: ChangeConfig) -> None:
    application, browser = register(api), sign_in_new_user()
    auth_config(oauth_server={"authorization_path": "/consent"})
    location = location_of(authorize_in(browser, application, prompt="none"))
    assert location.startswith("http://localhost:3000/consent?authorization_id=")


def test_disabled_pages_and_server(api: Api, auth_config: ChangeConfig) -> None:
    browser, application = sign_in_new_user(), register(api)
    page = page_of(api, application)
    auth_config(oauth_server={"enabled": False})
    assert browser.get(page).status_code == 404
    assert browser.get("/account/applications").status_code == 404
    assert "applications" not in browser.text("/account")
    auth_config(oauth_server={"enabled": True}, pages={"enabled": False})
    assert browser.get(page).status_code == 404
    refused = query_of(location_of(authorize(api, application)))
    assert refused["error_description"] == "oauth authorization path not configured"


def test_statements_of_the_page(api: Api) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api))
    Session.objects.update(refreshed_at=timezone.now())  # the use of a session is recorded every ten seconds
    for _ in ("first", "again"):
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(page).status_code == 200
        assert len(statements(captured)) <= 5
    form = {"action": "approve", "csrfmiddlewaretoken": token_in(browser.text(page))}
    with CaptureQueriesContext(connection) as captured:
        assert browser.client.post(page, form).status_code == 303
    assert len(statements(captured)) <= 5


def statements(captured: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in captured if "SAVEPOINT" not in query["sql"]]


HOSTILE_NAMES: list[tuple[str, str]] = [
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("Bank\u202egnp.exe", "Bankgnp.exe"),
    ("Shop\n\n\n\tby  us\u200b", "Shop by us"),
    ("A" * 1000, "A" * 59 + "…"),
    ("Z" + "\u0336" * 500, "Z" + "\u0336" * 2),
    ("\u202e\u200b \n", "Application without a name"),
]


@pytest.mark.parametrize(("name", "shown"), HOSTILE_NAMES)
def test_hostile_names(name: str, shown: str) -> None:
    assert ShownClient(summary(name=name)).name == shown


def summary(**values: Any) -> ClientSummary:
    return ClientSummary(
        **{"id": uuid4(), "name": None, "uri": None, "logo_uri": None, "is_self_registered": False, **values}
    )


@pytest.mark.parametrize(
    ("logo", "source"),
    [
        ("https://cdn.example.com:8443/a.png", "https://cdn.example.com:8443"),
        ("http://CDN.example.com/a.png", "http://cdn.example.com"),
        ("javascript:alert(1)", ""),
        ("data:image/svg+xml,<svg/>", ""),
        ("https://a;script-src", ""),
        ("https://a,b/", ""),
        ("//cdn.example.com/a.png", ""),
    ],
)
def test_logos_add_one_source_to_the_policy(logo: str, source: str) -> None:
    client = ShownClient(summary(logo_uri=logo))
    assert (client.logo_origin, bool(client.logo)) == (source, bool(source))
    assert ShownClient(summary(logo_uri=logo, is_self_registered=True)).logo == ""


@pytest.mark.parametrize(
    ("uri", "target", "is_here"),
    [
        ("https://client.example.com/cb?x=1", "client.example.com", False),
        ("https://client.example.com:8443/cb", "client.example.com:8443", False),
        (
            f"https://accounts.example.com.{'a' * 60}.evil.example/cb",
            f"accounts.example.com.{'a' * 60}.evil.example",
            False,
        ),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", False),
        ("http://localhost:3000/cb", "localhost:3000", True),
        ("http://127.0.0.1/cb", "127.0.0.1", True),
        ("myapp://callback", "myapp://callback", True),
    ],
)
def test_target_of_the_response_is_shown_whole(uri: str, target: str, is_here: bool) -> None:
    assert (client_display.target_of(uri), client_display.is_on_this_device(uri)) == (target, is_here)


def test_hostile_client_on_the_page(api: Api) -> None:
    metadata = {
        "redirect_uris": [CALLBACK],
        "client_name": '<img src=x onerror="alert(1)">',
        "logo_uri": "https://evil.example/logo.png",
        "client_uri": 'https://evil.example/"><script>',
        "token_endpoint_auth_method": "none",
    }
    client_id = api.post("/oauth/clients/register", metadata).json()["client_id"]
    response = sign_in_new_user().get(page_of(api, Application(client_id)))
    text = response.content.decode()
    assert "&lt;img src=x onerror=" in text
    assert "<script>" not in text
    assert "<img" not in text
    assert "evil.example/logo" not in text + response.headers["Content-Security-Policy"]
    assert "its name is not verified" in text


def test_unrestricted_tokens_are_said_to_be_so(api: Api, auth_config: ChangeConfig) -> None:
    browser, page = sign_in_new_user(), page_of(api, register(api))
    assert "change everything" not in browser.text(page)
    auth_config(oauth_server={"restrict_client_tokens": False})
    assert "change everything" in browser.text(page)


def test_user_removes_the_access_of_an_application(api: Api) -> None:
    browser, application = sign_in_new_user(), register(api, client_name="Shop & Co")
    code = query_of(location_of(browser.submit(page_of(api, application), action="approve")))["code"]
    tokens = exchange(application, code).json()
    text = browser.text("/account/applications")
    assert "Shop &amp; Co" in text
    assert "See your email address" in text
    assert 'href="/account/applications"' in browser.text("/account")
    # Other users have neither the entry nor the right.
    eve = sign_in_new_user("eve@example.com")
    assert "No application has access" in eve.text("/account/applications")
    refused = eve.submit("/account/applications", client_id=application.client_id)
    assert refused.status_code in (200, 404)
    assert OAuthConsent.objects.get().revoked_at is None
    forged: Any = browser.client.post("/account/applications", {"client_id": application.client_id})
    assert forged.status_code == 403

    response = browser.submit("/account/applications")

    assert location_of(response) == "/account/applications"
    assert "The access is removed" in browser.text("/account/applications")
    ended = api.get("/oauth/userinfo", bearer=tokens["access_token"])
    assert (ended.status_code, ended.json()["error_code"]) == (403, "session_not_found")
    assert browser.get(page_of(api, application)).status_code == 200
    gone = browser.submit("/account/sign-out", to="/account/applications", client_id=application.client_id)
    assert gone.status_code == 404
