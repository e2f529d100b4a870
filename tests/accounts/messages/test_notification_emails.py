"""Emails of accounts: their template variables and links."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from authsvc.conf import AuthConfig
from authsvc.messaging import Email, EmailType
from tests.conftest import Api, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_user
from tests.observations import backdate_rate_limits
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
VARIABLES = {"SiteURL", "Email", "ConfirmationURL", "Token", "TokenHash", "RedirectTo", "Data"}
# Request → kind of email, type in its link, purpose under which its path is configured.
JOURNEYS: dict[str, tuple[dict[str, Any], bool | None, EmailType, str, str]] = {
    "/signup": (
        {"email": EMAIL, "password": PASSWORD, "data": {"a": [1]}}, None, EmailType.CONFIRMATION, "signup", "c",
    ),
    "/resend": ({"email": EMAIL, "type": "signup"}, False, EmailType.CONFIRMATION, "signup", "c"),
    "/otp": ({"email": EMAIL}, True, EmailType.MAGIC_LINK, "magiclink", "r"),
    "/magiclink": ({"email": EMAIL}, True, EmailType.MAGIC_LINK, "magiclink", "r"),
    "/recover": ({"email": EMAIL}, True, EmailType.RECOVERY, "recovery", "r"),
}  # fmt: skip


def mail_of(api: Api, mailbox: Mailbox, path: str, **options: Any) -> Email:
    body, confirmed, *_ = JOURNEYS[path]
    if confirmed is not None:
        make_user(email=EMAIL, confirmed=confirmed, data={"a": [1]})
    query = options.pop("query", "")
    assert api.post(path + query, {**body, **options.pop("body", {})}, **options).status_code == 200
    (mail,) = mailbox.emails
    return mail


@pytest.mark.parametrize("path", JOURNEYS)
def test_an_email_has_exactly_the_variables_of_its_kind(api: Api, mailbox: Mailbox, path: str) -> None:
    _, _, kind, link_type, _ = JOURNEYS[path]
    mail = mail_of(api, mailbox, path)
    variables = mail.variables
    assert (mail.type, mail.to) == (kind, EMAIL)
    assert set(variables) == VARIABLES
    assert (variables["SiteURL"], variables["Email"]) == ("http://localhost:3000", EMAIL)
    assert variables["RedirectTo"] == "http://localhost:3000"
    assert variables["Data"]["a"] == [1]
    assert variables["Data"]["sub"] == str(mail.user_id)
    assert variables["ConfirmationURL"] == (
        f"http://127.0.0.1:8081/verify?token={variables['TokenHash']}&type={link_type}"
        "&redirect_to=http://localhost:3000"
    )
    assert mail.expires_at == OneTimeToken.objects.get().created_at + timedelta(days=1)


@pytest.mark.parametrize("path", JOURNEYS)
def test_link_and_code_of_an_email_redeem_the_same_secret(api: Api, mailbox: Mailbox, path: str) -> None:
    variables = mail_of(api, mailbox, path).variables
    body = {"type": "email", "email": EMAIL, "token": variables["Token"]}
    assert api.post("/verify", body).status_code == 200
    response = api.get(variables["ConfirmationURL"].removeprefix("http://127.0.0.1:8081"))
    assert "error_code=otp_expired" in response.headers["Location"]


@pytest.mark.parametrize("path", JOURNEYS)
def test_link_of_pkce_flow_has_prefix(api: Api, mailbox: Mailbox, path: str) -> None:
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    variables = mail_of(api, mailbox, path, body=pkce).variables
    assert variables["TokenHash"].startswith("pkce_")
    assert len(variables["TokenHash"]) == len("pkce_") + 56
    assert f"token={variables['TokenHash']}&" in variables["ConfirmationURL"]
    assert variables["Token"].isdigit()


@pytest.mark.parametrize("path", JOURNEYS)
def test_the_path_of_a_link_is_a_setting(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, path: str) -> None:
    auth_config(mailer={"url_paths": {"confirmation": "/c", "recovery": "/r", "invite": "/i", "email_change": "/e"}})
    link = mail_of(api, mailbox, path).variables["ConfirmationURL"]
    assert link.startswith(f"http://127.0.0.1:8081/{JOURNEYS[path][4]}?token=")


def test_target_with_reserved_characters_is_escaped(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(site={"allow_list": ("https://e.com/**",)})
    variables = mail_of(api, mailbox, "/recover", query="?redirect_to=https%3A%2F%2Fe.com%2Fa%3Fb%3D1").variables
    assert variables["ConfirmationURL"].endswith("&redirect_to=https%3A%2F%2Fe.com%2Fa%3Fb%3D1")
    assert variables["RedirectTo"] == "https://e.com/a?b=1"


@pytest.mark.parametrize(("digits", "length"), [(6, 6), (8, 8), (10, 10)])
def test_the_length_of_a_code_is_a_setting(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, digits: int, length: int
) -> None:
    auth_config(mailer={"otp_length": digits})
    code = mail_of(api, mailbox, "/recover").variables["Token"]
    assert len(code) == length
    assert code.isdigit()


def test_every_email_has_its_own_link(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    for _ in range(5):
        api.post("/recover", {"email": EMAIL})
        backdate_rate_limits(timedelta(minutes=2))
    assert len({mail.variables["TokenHash"] for mail in mailbox.emails}) == 5
    assert len({mail.id for mail in mailbox.emails}) == 5


@pytest.mark.parametrize(
    ("hosts", "headers", "base"),
    [
        ((), {"X-Forwarded-Host": "h1"}, "http://127.0.0.1:8081"),
        ((), {"Host": "evil.example"}, "http://127.0.0.1:8081"),
        (("h1",), {"X-Forwarded-Host": "h1"}, "https://h1"),
        (("h1",), {"X-Forwarded-Host": "h2", "Host": "h1"}, "http://127.0.0.1:8081"),
        (("h1",), {"Host": "h1:8081"}, "https://h1"),
        (("h1",), {"Host": "h1.evil.example"}, "http://127.0.0.1:8081"),
        (("h1", "h2"), {"X-Forwarded-Host": "h2", "X-Forwarded-Proto": "http"}, "https://h2"),
        (("localhost",), {"X-Forwarded-Host": "localhost", "X-Forwarded-Proto": "http"}, "http://localhost"),
        (("localhost",), {"Host": "localhost:8081"}, "http://localhost"),
        (("h1",), {"X-Forwarded-Host": "H1"}, "http://127.0.0.1:8081"),
        (("h1",), {"X-Forwarded-Host": "h1, evil.example"}, "http://127.0.0.1:8081"),
    ],
)
def test_link_uses_host_of_configured_list(
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    hosts: tuple[str, ...],
    headers: dict[str, str],
    base: str,
) -> None:
    auth_config(mailer={"external_hosts": hosts})
    link = mail_of(api, mailbox, "/recover", headers=headers).variables["ConfirmationURL"]
    assert link.startswith(f"{base}/verify?token=")


def test_the_repr_of_an_email_contains_no_secrets(api: Api, mailbox: Mailbox) -> None:
    mail = mail_of(api, mailbox, "/recover")
    for secret in (mail.variables["Token"], mail.variables["TokenHash"]):
        assert secret not in repr(mail)
        assert secret not in str(mail)
