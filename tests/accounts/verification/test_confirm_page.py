"""The confirmation page of email links: rendering it uses no link, its form redeems the link."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote, urlencode, urljoin

import pytest

from accounts.models import User
from authsvc.security import crypto
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import make_flow, make_one_time_token, make_user
from tests.observations import assert_error, redirect_fragment, redirect_query, table_contents
from tokens.models import Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
SITE = "http://localhost:3000"
HEADINGS = {
    "signup": "Confirm your email address",
    "invite": "Accept the invitation",
    "recovery": "Reset your password",
    "magiclink": "Sign in",
    "email_change": "Change your email address",
    "email": "Continue",
    "nonsense": "Continue",
    "<script>": "Continue",
}
HOSTILE = "\"'><script>alert(1)</script>{{ x }}{% y %}"


@pytest.fixture(autouse=True)
def _links_open_a_page(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"link_confirm_page_enabled": True})


def open_link(api: Api, token: str, type: str, redirect_to: str = SITE, *, path: str = "/verify") -> ApiResponse:
    query = {"token": token, "type": type, "redirect_to": redirect_to}
    return api.get(f"{path}?{urlencode(query)}")


def fields(page: ApiResponse) -> dict[str, str]:
    inputs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page.content.decode())
    return {name: unescape(value) for name, value in inputs}


def press(api: Api, page: ApiResponse, *, path: str = "/verify") -> ApiResponse:
    """Submit the form of a page that was opened at `path`, as a browser does."""
    [action] = re.findall(r'<form method="post" action="([^"]*)">', page.content.decode())
    return submit(api, fields(page), path=urljoin(path, action))


def submit(api: Api, form: dict[str, str], *, path: str = "/verify/confirm") -> ApiResponse:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "null"}
    return api.post(path, urlencode(form), headers=headers)


@pytest.mark.parametrize("path", ["/verify", "/verify/"])
@pytest.mark.parametrize("type", ["signup", "invite", "recovery", "magiclink"])
def test_the_button_redeems_the_link_as_opening_it_would(api: Api, type: str, path: str) -> None:
    confirming = type in ("signup", "invite")
    user = make_user(email=EMAIL, confirmed=not confirming)
    token = make_one_time_token(user, TokenType.CONFIRMATION if confirming else TokenType.RECOVERY).link_token
    page = open_link(api, token, type, f"{SITE}/cb?x=1", path=path)
    assert page.status_code == 200
    assert fields(page) == {"type": type, "token": token, "redirect_to": f"{SITE}/cb?x=1"}
    response = press(api, page, path=path)
    assert response.status_code == 303
    assert response.headers["Location"].startswith(f"{SITE}/cb?x=1#access_token=")
    assert redirect_fragment(response)["type"] == type
    assert User.objects.get().email_confirmed_at is not None
    assert Session.objects.count() == 1
    again = press(api, page, path=path)
    assert redirect_fragment(again)["error_code"] == "otp_expired"


def test_opening_page_does_not_redeem_link(api: Api) -> None:
    token = make_one_time_token(make_user(email=EMAIL, confirmed=False), TokenType.CONFIRMATION).link_token
    before = table_contents()
    pages = [open_link(api, token, "signup") for _ in range(3)]
    api.request("HEAD", f"/verify?token={token}&type=signup")
    api.request("OPTIONS", f"/verify?token={token}&type=signup")
    api.get(f"/verify/confirm?token={token}&type=signup")
    api.request("HEAD", f"/verify/confirm?token={token}&type=signup")
    assert table_contents() == before
    assert [page.status_code for page in pages] == [200] * 3
    assert press(api, pages[0]).headers["Location"].startswith(f"{SITE}#access_token=")


def test_the_button_of_a_flow_leads_to_the_site_with_a_code(api: Api) -> None:
    user = make_user(email=EMAIL)
    token = make_one_time_token(user, pkce=True).link_token
    flow = make_flow(user, method="recovery", auth_code_issued_at=None)
    response = press(api, open_link(api, token, "recovery"))
    assert response.status_code == 303
    flow.refresh_from_db()
    flow.refresh_from_db()
    assert crypto.hash_auth_code(redirect_query(response)["code"]) == flow.auth_code
    refusal = press(api, open_link(api, token, "recovery"))
    assert redirect_fragment(refusal)["error_code"] == redirect_query(refusal)["error_code"] == "otp_expired"


@pytest.mark.parametrize(("type", "heading"), HEADINGS.items())
def test_the_page_shows_the_purpose_of_the_link(api: Api, type: str, heading: str) -> None:
    page = open_link(api, "pkce_0a1b", type).content.decode()
    assert f"<h1>{heading}</h1>" in page
    assert f"<title>{heading}</title>" in page
    assert page.count("<button") == 1


def test_parameters_of_the_link_are_escaped_on_the_page(api: Api) -> None:
    page = open_link(api, HOSTILE, HOSTILE, f"{SITE}/{HOSTILE}")
    text = page.content.decode()
    assert fields(page)["type"] == fields(page)["token"] == HOSTILE
    assert "<script" not in text
    assert text.count("<input") == 3


@pytest.mark.parametrize("target", ["https://evil.example.com/", "javascript:alert(1)", "//evil.example.com", ""])
def test_page_and_form_redirect_to_permitted_targets_only(api: Api, target: str) -> None:
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    assert fields(open_link(api, token, "magiclink", target))["redirect_to"] == SITE
    response = submit(api, {"type": "magiclink", "token": token, "redirect_to": target})
    assert response.headers["Location"].startswith(f"{SITE}#access_token=")


def test_content_security_policy_is_restrictive(api: Api) -> None:
    page = open_link(api, "0a1b", "signup")
    [nonce] = re.findall(r'<style nonce="([\w-]{20,})">', page.content.decode())
    assert page.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<(?:script|link|img|iframe)\b|\bstyle=|\bon\w+=|url\(", page.content.decode())
    assert nonce not in open_link(api, "0a1b", "signup").content.decode()


NO_TYPE = (400, "validation_failed", "Verify requires a verification type")
NO_TOKEN = (400, "validation_failed", "Verify requires a token or a token hash")


@pytest.mark.parametrize(
    ("form", "refusal"),
    [({"token": "0a1b"}, NO_TYPE), ({"type": "signup"}, NO_TOKEN), ({"type": "", "token": ""}, NO_TYPE)],
)
def test_link_without_type_or_token_is_rejected_as_json(
    api: Api, form: dict[str, str], refusal: tuple[int, str, str]
) -> None:
    assert_error(api.get(f"/verify?{urlencode(form)}"), *refusal)
    assert_error(submit(api, form), *refusal)


@pytest.mark.parametrize("type", ["nonsense", "sms", "\x00"])
def test_unknown_type_is_reported_by_redirect(api: Api, type: str) -> None:
    response = press(api, open_link(api, "0a1b", type))
    assert response.status_code == 303
    assert redirect_fragment(response)["error_description"] == "Invalid email verification type"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff\xfe=%ff&type=%00", 400),
        (b'{"type": "signup", "token": "0a1b"}', 400),
        (b"&".join([b"a=1"] * 2_000), 400),
        (b"a" * 1_100_000, 413),
        (b"type=signup&token=0a1b&token=second", 303),
    ],
)
def test_malformed_forms_cause_no_server_error(api: Api, body: bytes, status: int) -> None:
    assert api.post("/verify/confirm", body).status_code == status


def test_open_pages_work_after_setting_is_disabled(api: Api, auth_config: ChangeConfig) -> None:
    token = make_one_time_token(make_user(email=EMAIL)).link_token
    page = open_link(api, token, "magiclink")
    auth_config(mailer={"link_confirm_page_enabled": False})
    assert press(api, page).headers["Location"].startswith(f"{SITE}#access_token=")
    opened = open_link(api, token, "magiclink", quote(SITE))
    assert opened.status_code == 303
    assert redirect_fragment(opened)["error_code"] == "otp_expired"


def test_the_page_is_in_the_language_of_the_browser(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("en", "de")})
    path = f"/verify?type=recovery&token={'0' * 56}"
    german = api.get(path, headers={"accept-language": "de"})
    assert '<html lang="de" dir="ltr">' in german.content.decode()
    assert "<h1>Setzen Sie Ihr Passwort zurück</h1>" in german.content.decode()
    auth_config(languages={"offered": ()})
    english = api.get(path, headers={"accept-language": "de"})
    assert "<h1>Reset your password</h1>" in english.content.decode()
