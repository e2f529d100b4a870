"""Action links: base URL, path and query."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from accounts.messages import confirmation_emails
from authsvc.conf import AuthConfig

ChangeConfig = Callable[..., AuthConfig]


@pytest.mark.parametrize(
    ("base", "path", "link"),
    [
        ("https://test.example.com", "", "https://test.example.com/verify?"),
        ("https://test.example.com", "/verify", "https://test.example.com/verify?"),
        ("https://h/auth/v1", "/verify", "https://h/verify?"),
        ("https://h/auth/v1", "verify", "https://h/auth/verify?"),
        ("https://h/auth/v1/", "verify", "https://h/auth/v1/verify?"),
        ("https://test.example.com/removed", "/templates/c", "https://test.example.com/templates/c?"),
        ("https://test.example.com", "f", "https://test.example.com/f?"),
        ("https://test.example.com", "/c?old=1", "https://test.example.com/c?"),
        ("https://test.example.com", "https://app.example.com/confirm", "https://app.example.com/confirm?"),
        ("https://test.example.com", "//app.example.com/confirm", "https://app.example.com/confirm?"),
        ("http://127.0.0.1:8081", "", "http://127.0.0.1:8081/verify?"),
        ("http://[::1]:8081/x/y", "../z", "http://[::1]:8081/z?"),
    ],
)
def test_the_path_is_resolved_against_the_base(auth_config: ChangeConfig, base: str, path: str, link: str) -> None:
    auth_config(mailer={"url_paths": {"confirmation": path}})
    made = confirmation_emails.action_link(
        base=base, purpose="confirmation", token="T", link_type="signup", redirect_to="https://example.com"
    )
    assert made == f"{link}token=T&type=signup&redirect_to=https://example.com"


def test_fragment_of_path_follows_query(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"url_paths": {"invite": "https://app.example.com/confirm?a=1#x"}})
    made = confirmation_emails.action_link(
        base="https://h", purpose="invite", token="T", link_type="invite", redirect_to="https://e"
    )
    assert made == "https://app.example.com/confirm?token=T&type=invite&redirect_to=https://e#x"


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com/a?b", "https://example.com/a?b"),
        ("https://e.com/a?b=1", "https%3A%2F%2Fe.com%2Fa%3Fb%3D1"),
        ("https://e.com/a?b=1&c=2", "https%3A%2F%2Fe.com%2Fa%3Fb%3D1%26c%3D2"),
        ("https://e.com/#x", "https%3A%2F%2Fe.com%2F%23x"),
        ("com.example.app://", "com.example.app://"),
        ("https://e.com/a b=c", "https%3A%2F%2Fe.com%2Fa+b%3Dc"),
    ],
)
def test_target_with_reserved_characters_is_escaped_completely(target: str, written: str) -> None:
    made = confirmation_emails.action_link(
        base="https://h", purpose="recovery", token="pkce_T", link_type="recovery", redirect_to=target
    )
    assert made == f"https://h/verify?token=pkce_T&type=recovery&redirect_to={written}"
    assert parse_qs(urlsplit(made).query)["redirect_to"] == [target]


def test_each_purpose_has_its_path(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"url_paths": {"confirmation": "/c", "recovery": "/r", "email_change": "/e"}})
    paths = {
        purpose: urlsplit(
            confirmation_emails.action_link(base="https://h", purpose=purpose, token="T", link_type="x", redirect_to="")
        ).path
        for purpose in ("invite", "confirmation", "recovery", "email_change")
    }
    assert paths == {"invite": "/verify", "confirmation": "/c", "recovery": "/r", "email_change": "/e"}


@pytest.mark.parametrize("token", ["a&b", "a=b", "a#b", "a b", "ü", "a%26b"])
def test_token_is_unchanged_in_query(token: str) -> None:
    made = confirmation_emails.action_link(
        base="https://h", purpose="invite", token=token, link_type=token, redirect_to="https://e"
    )
    query = parse_qs(urlsplit(made).query)
    assert (query["token"], query["type"], query["redirect_to"]) == ([token], [token], ["https://e"])
