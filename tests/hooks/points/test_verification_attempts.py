"""The hooks that see verifications of passwords and codes: payloads, rejections, ended sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Factor, FailedAttempts, User
from accounts.users import failed_attempts
from authsvc.conf.sections.hooks import Hook
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.authsvc.console.conftest import Console
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import PASSWORD
from tests.fakes.http_peer import HttpPeer, in_json
from tests.hooks.conftest import SetHook
from tests.page_browser import PageBrowser
from tests.recorded_metrics import RecordedMetrics
from tokens.models import Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return factories.make_user(email="ada@example.com")


@pytest.fixture
def password_hook(set_hook: SetHook, peer: HttpPeer) -> HttpPeer:
    set_hook(Hook.PASSWORD_VERIFICATION_ATTEMPT, uri=peer.url)
    return peer


def sign_in(api: Api, password: str = PASSWORD, email: str = "ada@example.com") -> ApiResponse:
    return api.post("/token?grant_type=password", {"email": email, "password": password})


def payloads(peer: HttpPeer) -> list[dict[str, Any]]:
    return [{**request.json(), "metadata": request.json()["metadata"]["name"]} for request in peer.received]


def test_right_and_wrong_passwords_are_shown(api: Api, user: User, password_hook: HttpPeer) -> None:
    assert sign_in(api).status_code == 200
    assert sign_in(api, "wrong").json()["msg"] == "Invalid login credentials"
    name = "password-verification"
    assert payloads(password_hook) == [
        {"metadata": name, "user_id": str(user.id), "valid": True},
        {"metadata": name, "user_id": str(user.id), "valid": False},
    ]


@pytest.mark.parametrize("state", ["unknown", "banned", "without password"])
def test_users_who_are_not_shown(api: Api, user: User, password_hook: HttpPeer, state: str) -> None:
    if state == "banned":
        User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    if state == "without password":
        User.objects.update(password="")
    sign_in(api, email="unknown@example.com" if state == "unknown" else "ada@example.com")
    assert password_hook.received == []


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
@pytest.mark.parametrize("ends_sessions", [True, False])
def test_a_rejected_password(api: Api, user: User, password_hook: HttpPeer, password: str, ends_sessions: bool) -> None:
    factories.make_session(user)
    password_hook.respond(
        in_json({"decision": "reject", "message": "too many attempts", "should_logout_user": ends_sessions})
    )
    response = sign_in(api, password)
    assert (response.status_code, response.json()["error_code"]) == (400, "invalid_credentials")
    assert response.json()["msg"] == "too many attempts"
    assert Session.objects.exists() is not ends_sessions
    # A rejection hides no guess from the limit of failed attempts.
    assert FailedAttempts.objects.exists() is (password == "wrong")


def test_a_rejection_without_a_message(api: Api, user: User, password_hook: HttpPeer) -> None:
    password_hook.respond(in_json({"decision": "reject"}))
    assert sign_in(api).json()["msg"] == "Further password verification attempts will be rejected."


@pytest.mark.parametrize(
    ("response", "language", "shown"),
    [
        ({"decision": "reject", "message": "<b>too many"}, "de", "&lt;b&gt;too many"),
        ({"decision": "reject"}, "en", "The sign-in was refused."),
        ({"decision": "reject"}, "de", "Die Anmeldung wurde abgelehnt."),
        ({"error": {"message": "only on weekdays", "http_code": 403}}, "de", "only on weekdays"),
        ({"decision": 1}, "en", "Something went wrong."),
    ],
)
def test_a_rejected_password_on_the_hosted_page(
    user: User, password_hook: HttpPeer, auth_config: ChangeConfig, response: dict[str, Any], language: str, shown: str
) -> None:
    auth_config(pages={"enabled": True})
    password_hook.respond(in_json(response))
    browser = PageBrowser()
    browser.client.cookies["account_language"] = language
    page = browser.sign_in("ada@example.com").content.decode()
    assert shown in page
    assert not Session.objects.exists()


@pytest.mark.parametrize("response", [{"decision": "continue"}, {"decision": "else", "message": "x"}, {}, None])
def test_other_responses_keep_the_result(
    api: Api, user: User, password_hook: HttpPeer, response: dict[str, Any] | None
) -> None:
    password_hook.respond(in_json(response))
    assert sign_in(api).status_code == 200
    assert sign_in(api, "wrong").status_code == 400


def test_an_error_of_the_hook_keeps_the_sessions(api: Api, user: User, password_hook: HttpPeer) -> None:
    factories.make_session(user)
    password_hook.respond(in_json({"error": {"http_code": 429, "message": "slow down"}}))
    assert (sign_in(api).status_code, sign_in(api).json()["msg"]) == (429, "slow down")
    assert Session.objects.count() == 1


@pytest.mark.parametrize("document", [{"decision": 1}, {"decision": "reject", "message": []}])
def test_responses_of_another_shape(
    api: Api, user: User, password_hook: HttpPeer, document: dict[str, Any], recorded: RecordedMetrics
) -> None:
    password_hook.respond(in_json(document))
    response = sign_in(api)
    assert (response.status_code, response.json()["msg"]) == (500, "Error unmarshaling JSON output.")
    assert recorded.changes("auth_hook_duration_seconds_count", "outcome") == {("failed",): 1}


@pytest.mark.parametrize(("mode", "status"), [("open", 200), ("closed", 500)])
def test_the_failure_mode(api: Api, user: User, set_hook: SetHook, peer: HttpPeer, mode: str, status: int) -> None:
    set_hook(Hook.PASSWORD_VERIFICATION_ATTEMPT, uri=peer.url, on_failure=mode)
    peer.respond(in_json({}, status=500))
    assert sign_in(api).status_code == status
    peer.respond(in_json({"decision": "reject"}))
    assert sign_in(api).status_code == 400


@pytest.mark.parametrize("is_valid", [True, False])
def test_a_rejected_code_ends_all_sessions(api: Api, set_hook: SetHook, peer: HttpPeer, is_valid: bool) -> None:
    owner = factor_requests.make_owner()
    factors = owner.factor.id, factor_requests.challenged(api, owner.token, owner.factor.id)
    set_hook(Hook.MFA_VERIFICATION_ATTEMPT, uri=peer.url)
    peer.respond(in_json({"decision": "reject", "message": "locked"}))
    code = factor_requests.code() if is_valid else factor_requests.wrong_code()
    response = factor_requests.verify(api, owner.token, *factors, code)
    assert (response.status_code, response.json()["error_code"]) == (403, "mfa_verification_rejected")
    assert response.json()["msg"] == "locked"
    assert payloads(peer) == [
        {
            "metadata": "mfa-verification",
            "user_id": str(owner.user.id),
            "factor_id": str(owner.factor.id),
            "factor_type": "totp",
            "valid": is_valid,
        }
    ]
    assert not Session.objects.filter(user=owner.user).exists()
    assert Factor.objects.filter(id=owner.factor.id).exists()
    assert failed_attempts.read_count(owner.user.id) == (0 if is_valid else 1)


def test_other_responses_keep_the_result_of_a_code(api: Api, set_hook: SetHook, peer: HttpPeer) -> None:
    owner = factor_requests.make_owner()
    set_hook(Hook.MFA_VERIFICATION_ATTEMPT, uri=peer.url)
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    wrong = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.wrong_code())
    assert wrong.json()["error_code"] == "mfa_verification_failed"
    assert factor_requests.step_up(api, owner)["access_token"]
    assert [payload["valid"] for payload in payloads(peer)] == [False, True]


def test_an_error_of_the_hook_ends_the_verification(api: Api, set_hook: SetHook, peer: HttpPeer) -> None:
    owner = factor_requests.make_owner()
    set_hook(Hook.MFA_VERIFICATION_ATTEMPT, uri=peer.url)
    peer.respond(in_json({}, status=500))
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code())
    assert response.json()["msg"] == "Unexpected status code returned from hook: 500"
    assert Session.objects.filter(id=owner.session.id).exists()


def test_operators_sign_in_to_the_console_without_the_hook(password_hook: HttpPeer) -> None:
    factories.make_user(email="op@example.com", role="svc_admin")
    password_hook.respond(in_json({}, status=500))
    console = Console()
    console.sign_in("op@example.com")
    assert console.is_in
    assert password_hook.received == []


def test_the_hosted_sign_in_page_asks_the_hook(user: User, password_hook: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    password_hook.respond(in_json({"decision": "reject"}))
    page = PageBrowser()
    page.sign_in("ada@example.com")
    assert not page.is_in
    assert len(password_hook.received) == 1
