"""An attacker guesses passwords: the audit trail shows it, and cannot be filled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from authsvc.audit import recording
from authsvc.models import AuditLogEntry, RateLimit
from tests.authsvc.console.conftest import Console
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_session, make_user, refresh_token
from tests.observations import backdate_rate_limits

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]


def refusals() -> list[Any]:
    entries = AuditLogEntry.objects.filter(payload__action="sign_in_refused").order_by("created_at")
    return [entry.payload for entry in entries]


def guess(api: Api, email: str, *, address: str = "203.0.113.7", password: str = "a wrong guess") -> int:
    body = {"email": email, "password": password}
    return api.post("/token?grant_type=password", body, headers={"X-Forwarded-For": address}).status_code


def use_up(key: str) -> None:
    """Empty the bucket of a client, or of the installation, so that no refill during the test fills it."""
    assert RateLimit.objects.filter(bucket=recording.REFUSALS, key=key).update(tokens=-1_000) == 1


def test_a_refusal_is_recorded_without_secrets(api: Api) -> None:
    user = make_user(email="ann@example.com")
    assert guess(api, "ann@example.com", password="almost the password") == 400
    assert guess(api, "my-password-typed-as-name@example.com") == 400
    known, unknown = refusals()
    assert known["traits"] == unknown["traits"] == {"method": "password", "error_code": "invalid_credentials"}
    assert (known["actor_id"], known["actor_username"]) == (str(user.id), "ann@example.com")
    assert unknown["actor_username"] == ""
    assert "almost the password" not in str(known)
    # The name of an unknown account may be a mistyped password.
    assert "my-password" not in str(unknown)
    assert {entry.ip_address for entry in AuditLogEntry.objects.all()} == {"203.0.113.7"}


@pytest.mark.parametrize(
    ("path", "body", "method", "code"),
    [
        ("/verify", {"type": "email", "email": "ann@example.com", "token": "000000"}, "otp", "otp_expired"),
        ("/verify", {"type": "recovery", "token_hash": "0" * 56}, "otp", "otp_expired"),
        (
            "/token?grant_type=pkce",
            {"auth_code": "9d1b3f1e-1111-4222-8333-444455556666", "code_verifier": "v" * 43},
            "pkce",
            "flow_state_not_found",
        ),
        (
            "/token?grant_type=password",
            {"email": "banned@example.com", "password": PASSWORD},
            "password",
            "user_banned",
        ),
        (
            "/token?grant_type=password",
            {"email": "new@example.com", "password": PASSWORD},
            "password",
            "email_not_confirmed",
        ),
    ],
)
def test_other_refusals_are_recorded_too(api: Api, path: str, body: Any, method: str, code: str) -> None:
    make_user(email="banned@example.com", banned_until=timezone.now() + timedelta(days=1))
    make_user(email="new@example.com", confirmed=False)
    assert api.post(path, body).status_code >= 400
    [entry] = refusals()
    assert entry["traits"] == {"method": method, "error_code": code}
    assert "session_id" not in entry


@pytest.mark.parametrize(
    ("identifier", "type"), [({"email": "ann@example.com"}, "email"), ({"phone": "+491701234567"}, "sms")]
)
def test_a_refusal_names_the_account_without_a_pending_code(api: Api, identifier: dict[str, str], type: str) -> None:
    user = make_user(email="ann@example.com", phone="491701234567", phone_confirmed_at=timezone.now())
    assert api.post("/verify", {"type": type, "token": "000000", **identifier}).status_code == 403
    [entry] = refusals()
    assert entry["actor_id"] == str(user.id)


def test_a_malformed_request_and_a_success_are_no_refusals(api: Api) -> None:
    make_user(email="ann@example.com")
    assert api.post("/token?grant_type=password", {"password": "x"}).status_code == 400
    assert guess(api, "ann@example.com", password=PASSWORD) == 200
    assert refusals() == []


def test_one_client_cannot_fill_the_table(api: Api) -> None:
    limit = recording.MAX_REFUSALS_PER_CLIENT
    for _ in range(limit + 5):
        assert guess(api, "ann@example.com", address="2001:db8::1") == 400
    stored = len(refusals())
    assert limit <= stored < limit + 5
    use_up("2001:db8::/64")
    guess(api, "ann@example.com", address="2001:db8::ffff")
    assert len(refusals()) == stored
    guess(api, "ann@example.com", address="203.0.113.8")
    assert len(refusals()) == stored + 1
    backdate_rate_limits(timedelta(hours=1, minutes=1))
    guess(api, "ann@example.com", address="2001:db8::1")
    assert len(refusals()) == stored + 2


def test_many_clients_cannot_fill_the_table(api: Api) -> None:
    guess(api, "ann@example.com", address="203.0.113.1")
    use_up("")
    for number in range(5):
        guess(api, "ann@example.com", address=f"203.0.113.{number + 2}")
    assert len(refusals()) == 1


def test_operators_see_refusals_with_the_account(api: Api) -> None:
    make_user(email="op@example.com", role="svc_admin")
    user = make_user(email="ann@example.com")
    guess(api, "ann@example.com")
    guess(api, "unknown@example.com")
    console = Console()
    console.sign_in("op@example.com")
    page = console.get("/operator/core/auditlogentry/?payload__action=sign_in_refused").content.decode()
    assert "Sign-in refused" in page
    assert "cause: invalid_credentials" in page
    assert "unknown account" in page
    assert "Sign-in refused" in console.get(f"/operator/accounts/user/{user.id}/change/").content.decode()


def test_a_reused_refresh_token_is_recorded(api: Api) -> None:
    signed_in = make_session(make_user(), refresh_token_counter=5)
    body = {"refresh_token": refresh_token(signed_in.session, 3)}
    response = api.post("/token?grant_type=refresh_token", body, headers={"X-Forwarded-For": "203.0.113.7"})
    assert response.json()["error_code"] == "refresh_token_already_used"
    entry = AuditLogEntry.objects.get()
    assert (entry.payload["action"], entry.payload["actor_id"]) == ("token_revoked", str(signed_in.user.id))
    assert entry.payload["traits"] == {"error_code": "refresh_token_already_used"}
    assert (entry.payload["session_id"], entry.ip_address) == (str(signed_in.session.id), "203.0.113.7")


@pytest.mark.parametrize(
    ("setting", "wrong", "code"),
    [
        ("update_requires_reauthentication", {"nonce": "000000"}, "reauthentication_not_valid"),
        ("update_requires_current", {"current_password": "a wrong guess"}, "current_password_invalid"),
    ],
)
def test_wrong_proofs_of_a_change_are_recorded_within_the_limits(
    setting: str, wrong: dict[str, str], code: str, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(passwords={setting: True})
    signed_in = make_session(make_user())
    assert api.get("/reauthenticate", bearer=signed_in.access_token).status_code == 200
    AuditLogEntry.objects.all().delete()

    def attempt() -> Any:
        headers = {"X-Forwarded-For": "203.0.113.7"}
        return api.put("/user", {"password": "chosen", **wrong}, bearer=signed_in.access_token, headers=headers).json()

    assert attempt()["error_code"] == code
    entry = AuditLogEntry.objects.get()
    assert (entry.payload["action"], entry.payload["actor_id"]) == ("user_change_refused", str(signed_in.user.id))
    assert (entry.payload["traits"], entry.ip_address) == ({"error_code": code}, "203.0.113.7")
    assert entry.payload["session_id"] == str(signed_in.session.id)
    assert not set(wrong.values()) & set(str(entry.payload).split("'"))

    use_up("203.0.113.7")
    assert attempt()["error_code"] == code
    assert AuditLogEntry.objects.count() == 1
