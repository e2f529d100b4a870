"""The hooks before and after the creation of a user, over every path that creates one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from accounts.models import User
from authsvc.conf.sections.hooks import Hook
from tests import factories
from tests.accounts.administration.admin_requests import token
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import PASSWORD
from tests.fakes.http_peer import HttpPeer, in_json
from tests.hooks.conftest import SetHook

pytestmark = pytest.mark.django_db

ADDRESS = "new@example.com"
REFUSAL = in_json({"error": {"http_code": 403, "message": "Sign-ups are limited to example.org"}})


@pytest.fixture
def hooks(set_hook: SetHook, peer: HttpPeer) -> HttpPeer:
    for hook in (Hook.BEFORE_USER_CREATED, Hook.AFTER_USER_CREATED):
        set_hook(hook, uri=f"{peer.url}/{hook}")
    return peer


def calls(peer: HttpPeer, hook: Hook) -> list[dict[str, Any]]:
    return [request.json()["user"] for request in peer.received if request.path == f"/{hook}"]


def before(peer: HttpPeer) -> list[dict[str, Any]]:
    return calls(peer, Hook.BEFORE_USER_CREATED)


def after(peer: HttpPeer) -> list[dict[str, Any]]:
    return calls(peer, Hook.AFTER_USER_CREATED)


def sign_up(api: Api, **members: Any) -> ApiResponse:
    return api.post("/signup", {"email": ADDRESS, "password": PASSWORD, "data": {"lang": "de"}, **members})


def test_the_user_before_and_after_a_sign_up(api: Api, hooks: HttpPeer) -> None:
    created = sign_up(api).json()
    [shown] = before(hooks)
    assert shown == {
        "id": created["id"],
        "aud": "authenticated",
        "role": "",
        "email": ADDRESS,
        "phone": "",
        "app_metadata": {"provider": "email", "providers": ["email"]},
        "user_metadata": {"lang": "de"},
        "identities": [],
        "created_at": "0001-01-01T00:00:00Z",
        "updated_at": "0001-01-01T00:00:00Z",
        "is_anonymous": False,
    }
    [stored] = after(hooks)
    assert stored["id"] == created["id"]
    assert stored["identities"][0]["provider"] == "email"
    assert stored["role"] == "authenticated"


def test_data_too_large_for_a_user_are_not_sent(api: Api, auth_config: ChangeConfig, hooks: HttpPeer) -> None:
    auth_config(signup={"anonymous_enabled": True})
    large = {"note": "x" * 16_384}
    assert api.post("/signup", {"data": large}).status_code == 400
    assert api.post("/invite", {"email": ADDRESS, "data": large}, bearer=token()).status_code == 400
    assert hooks.received == []


def test_a_repeated_sign_up_and_a_duplicate_ask_nothing(api: Api, hooks: HttpPeer) -> None:
    factories.make_user(email=ADDRESS)
    factories.make_user(email="unconfirmed@example.com", confirmed=False)
    assert sign_up(api).status_code == 200
    assert sign_up(api, email="unconfirmed@example.com").status_code == 200
    assert hooks.received == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/signup", {"email": ADDRESS, "password": PASSWORD}),
        ("/signup", {"phone": "15551234567", "password": PASSWORD}),
        ("/signup", {}),
        ("/otp", {"email": ADDRESS}),
        ("/otp", {"phone": "15551234567"}),
        ("/magiclink", {"email": ADDRESS}),
    ],
)
def test_a_refusal_creates_no_user(
    api: Api, hooks: HttpPeer, auth_config: ChangeConfig, path: str, body: dict[str, Any]
) -> None:
    auth_config(signup={"anonymous_enabled": True, "phone_enabled": True}, mailer={"dev_inbox_enabled": True})
    hooks.respond(REFUSAL)
    response = api.post(path, body)
    assert (response.status_code, response.json()["error_code"]) == (403, "unknown")
    assert response.json()["msg"] == "Sign-ups are limited to example.org"
    assert not User.objects.exists()
    assert len(before(hooks)) == 1
    assert not after(hooks)
    # No interval between messages has begun.
    assert api.post(path, body).json()["msg"] == "Sign-ups are limited to example.org"


def test_the_anonymous_user(api: Api, hooks: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(signup={"anonymous_enabled": True})
    created = api.post("/signup", {"data": {"a": 1}}).json()["user"]
    [shown] = before(hooks)
    assert (shown["id"], shown["is_anonymous"], shown["app_metadata"]) == (created["id"], True, {})
    assert after(hooks)[0]["id"] == created["id"]


def test_closed_sign_up_is_answered_before_the_hook(api: Api, hooks: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(signup={"disabled": True})
    assert sign_up(api).json()["error_code"] == "signup_disabled"
    assert hooks.received == []


def test_the_session_of_auto_confirm_is_announced(api: Api, hooks: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    signed_up = sign_up(api).json()
    assert signed_up["access_token"]
    assert after(hooks)[0]["id"] == signed_up["user"]["id"]


def test_a_failure_after_the_sign_up_keeps_the_user(api: Api, set_hook: SetHook, peer: HttpPeer) -> None:
    set_hook(Hook.AFTER_USER_CREATED, uri=peer.url)
    peer.respond(REFUSAL)
    response = sign_up(api)
    assert (response.status_code, response.json()["msg"]) == (500, "Error invoking hook")
    assert User.objects.filter(email=ADDRESS).exists()


def test_an_open_hook_that_fails_lets_the_sign_up_go_on(api: Api, set_hook: SetHook, peer: HttpPeer) -> None:
    for hook in (Hook.BEFORE_USER_CREATED, Hook.AFTER_USER_CREATED):
        set_hook(hook, uri=peer.url, on_failure="open")
    peer.respond(in_json({}, status=500))
    assert sign_up(api).status_code == 200
    peer.respond(REFUSAL)
    assert sign_up(api, email="other@example.com").status_code == 403


def test_an_invitation_asks_for_a_new_account_only(api: Api, hooks: HttpPeer) -> None:
    invited = api.post("/invite", {"email": ADDRESS, "data": {"team": "a"}}, bearer=token()).json()
    api.post("/invite", {"email": ADDRESS}, bearer=token())
    [shown] = before(hooks)
    assert (shown["id"], shown["user_metadata"]) == (invited["id"], {"team": "a"})
    assert [user["id"] for user in after(hooks)] == [invited["id"]]


@pytest.mark.parametrize("type", ["signup", "invite", "magiclink", "recovery"])
def test_generated_links(api: Api, hooks: HttpPeer, type: str) -> None:
    body = {"type": type, "email": ADDRESS, "password": PASSWORD}
    if type == "recovery":
        factories.make_user(email=ADDRESS)
    link = api.post("/admin/generate_link", body, bearer=token()).json()
    api.post("/admin/generate_link", body, bearer=token())
    expected = [] if type == "recovery" else [link["id"]]
    assert [user["id"] for user in before(hooks)] == expected
    assert [user["id"] for user in after(hooks)] == expected


def test_users_that_an_administrator_creates_are_not_asked_about(api: Api, hooks: HttpPeer) -> None:
    assert api.post("/admin/users", {"email": ADDRESS, "password": PASSWORD}, bearer=token()).status_code == 200
    assert hooks.received == []


def test_a_refusal_of_an_invitation(api: Api, hooks: HttpPeer) -> None:
    hooks.respond(REFUSAL)
    for path, body in (
        ("/invite", {"email": ADDRESS}),
        ("/admin/generate_link", {"type": "signup", "email": ADDRESS, "password": PASSWORD}),
    ):
        assert api.post(path, body, bearer=token()).status_code == 403
    assert not User.objects.filter(email=ADDRESS).exists()


def test_ids_are_random(api: Api, hooks: HttpPeer) -> None:
    sign_up(api)
    assert UUID(before(hooks)[0]["id"]).version == 4
