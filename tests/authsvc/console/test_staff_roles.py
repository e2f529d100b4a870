"""Staff with limited access: the actions that each level may run, and personal data that viewers do not see."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils import timezone

from accounts.models import User
from authsvc import conf
from authsvc.console import personal_data
from authsvc.models import AuditLogEntry
from tests import factories
from tests.authsvc.console.conftest import USERS, Console, page_of, sign_in_as, timeline_of
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tokens.models import Session

pytestmark = pytest.mark.django_db

AUDIT = "/operator/core/auditlogentry/"
ROLES = {"helpdesk": "support", "auditor": "viewer", "manager": "admin"}


@pytest.fixture(autouse=True)
def staff_roles(auth_config: ChangeConfig) -> None:
    auth_config(console={"roles": ROLES})


@pytest.fixture
def ada() -> User:
    return factories.make_user(email="ada@example.com", data={"full_name": "Ada Lovelace"})


def run(console: Console, user: User, action: str, **fields: str) -> tuple[int, str]:
    """Confirm an action on a user; the status, and the text of the page that follows."""
    form = {"action": action, "_selected_action": str(user.pk), "source_row": str(user.pk), "confirmed": "1"}
    form |= {"typed_name": user.email or "", "reason": "abuse"}
    done = console.submit("/operator/", to=USERS, **form, **{f"action-{name}": text for name, text in fields.items()})
    if done.status_code != 302:
        return done.status_code, done.content.decode()
    return 302, console.get(done.headers["Location"]).content.decode()


# --- access -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_staff_cannot_use_the_admin_endpoints(api: Api, role: str) -> None:
    token = factories.make_session(factories.make_user(email="x@staff.example", role=role)).access_token
    assert api.get("/admin/users", bearer=token).status_code == 403


def test_a_role_without_access_cannot_sign_in(console: Console, auth_config: ChangeConfig) -> None:
    auth_config(console={"roles": {}})
    factories.make_user(email="x@staff.example", role="helpdesk")
    assert console.sign_in("x@staff.example").status_code == 400


def test_the_default_role_never_has_access(console: Console, auth_config: ChangeConfig) -> None:
    auth_config(console={"roles": {"authenticated": "admin"}})
    factories.make_user(email="x@staff.example")
    assert console.sign_in("x@staff.example").status_code == 400


def test_a_withdrawn_role_ends_the_console_session(auth_config: ChangeConfig) -> None:
    inside = sign_in_as("helpdesk")
    auth_config(console={"roles": {}})
    assert not inside.is_in


@pytest.mark.parametrize(
    "action", ["ban", "set_role", "anonymise", "delete", "reset_factors", "end_sessions", "send_recovery"]
)
def test_viewers_run_no_action(ada: User, action: str) -> None:
    inside = sign_in_as("auditor")
    assert f'value="{action}"' not in inside.text(page_of(ada))
    assert run(inside, ada, action, duration="24h")[0] == 403
    ada.refresh_from_db()
    assert (ada.deleted_at, ada.banned_until) == (None, None)


def test_support_helps_users(ada: User) -> None:
    inside = sign_in_as("helpdesk")
    assert "is banned" in run(inside, ada, "ban", duration="24h")[1]
    ada.refresh_from_db()
    assert ada.banned_until is not None


@pytest.mark.parametrize("action", ["set_role", "anonymise", "delete"])
def test_support_neither_deletes_nor_sets_roles(ada: User, action: str) -> None:
    inside = sign_in_as("helpdesk")
    assert f'value="{action}"' not in inside.text(page_of(ada))
    assert run(inside, ada, action, role="svc_admin", grants_access="on")[0] == 403
    ada.refresh_from_db()
    assert (ada.role, ada.deleted_at) == ("authenticated", None)


@pytest.mark.parametrize("role", ["svc_admin", "helpdesk", "auditor", "manager"])
@pytest.mark.parametrize("action", ["ban", "send_recovery", "reset_factors", "end_sessions"])
def test_support_does_not_touch_operators(role: str, action: str) -> None:
    other = factories.make_user(email="other@staff.example", role=role)
    inside = sign_in_as("helpdesk")
    assert "Accounts of operators are changed by administrators" in run(inside, other, action, duration="24h")[1]
    other.refresh_from_db()
    assert (other.banned_until, other.recovery_sent_at) == (None, None)


def test_support_does_not_touch_a_user_who_becomes_an_operator_meanwhile(ada: User) -> None:
    bob = factories.make_user(email="bob@example.com")
    inside = sign_in_as("helpdesk")

    def promote_after_the_first_ban(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("UPDATE") and '"banned_until" = ' in sql:
            User.objects.filter(banned_until=None).exclude(role="helpdesk").update(role="svc_admin")
        return result

    form: dict[str, Any] = {"action": "ban", "_selected_action": [str(ada.pk), str(bob.pk)], "confirmed": "1"}
    with connection.execute_wrapper(promote_after_the_first_ban):
        done = inside.submit(USERS, **form, **{"action-duration": "24h"}, reason="abuse")
    assert done.status_code == 302, done.content
    users = User.objects.filter(pk__in=[ada.pk, bob.pk])
    assert {user.role: user.banned_until is None for user in users} == {"authenticated": False, "svc_admin": True}


def test_support_does_not_end_a_session_of_an_operator() -> None:
    other = factories.make_session(factories.make_user(email="other@staff.example", role="svc_admin"))
    inside = sign_in_as("helpdesk")
    row = str(other.session.pk)
    form = {"action": "end", "_selected_action": row, "source_row": row, "confirmed": "1"}
    done = inside.submit("/operator/", to="/operator/tokens/session/", **form)
    assert "Accounts of operators are changed by administrators" in inside.text(done.headers["Location"])
    assert Session.objects.filter(pk=other.session.pk).exists()


def test_administrators_by_role_have_all_actions(ada: User) -> None:
    inside = sign_in_as("manager")
    assert "has the role helpdesk" in run(inside, ada, "set_role", role="helpdesk", grants_access="on")[1]
    assert run(inside, ada, "set_role", role="auditor")[0] == 200  # the box is not ticked
    ada.refresh_from_db()
    assert ada.role == "helpdesk"


def test_viewers_do_not_retry_messages() -> None:
    inside = sign_in_as("auditor")
    assert inside.get("/operator/mailer/message/retry/").status_code == 403
    assert inside.submit("/operator/", to="/operator/mailer/message/retry/").status_code == 403


@pytest.mark.parametrize(
    ("text", "problem"),
    [("helpdesk=owner", "unknown access 'owner'; use viewer, support, admin"), ("helpdesk", "name=value")],
)
def test_an_unknown_access_is_refused_at_the_start(text: str, problem: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=problem):
        conf.load({**conf.process_environment(), "AUTH_OPERATOR_ROLES": text})


# --- personal data ----------------------------------------------------------------------------------------------------

SECRETS = ("ada@example.com", "Lovelace", "198.51.100.7", "4917012345", "Firefox")


@pytest.fixture
def history(api: Api, ada: User) -> User:
    """A user with a phone, a session and entries in the audit trail."""
    User.objects.filter(pk=ada.pk).update(phone="491701234567")
    response = api.post(
        "/token?grant_type=password",
        {"email": "ada@example.com", "password": PASSWORD},
        headers={"X-Forwarded-For": "198.51.100.7", "User-Agent": "Mozilla/5.0 (X11; Linux) Firefox/130.0"},
    )
    assert response.status_code == 200
    return ada


def shown(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_personal_data_is_hidden_from_viewers(history: User) -> None:
    inside = sign_in_as("auditor")
    for path in (USERS, page_of(history), timeline_of(history), AUDIT, f"{USERS}?q=ada@example.com"):
        text = inside.text(path)
        # The search box repeats what the viewer typed.
        assert shown(text.replace('value="ada@example.com"', "").replace("q=ada@example.com", "")) == []
        assert "Personal data is hidden" in text
    session = history.sessions.get()
    assert shown(inside.text(f"/operator/tokens/session/{session.pk}/change/")) == []
    entry = AuditLogEntry.objects.filter(payload__action="login", payload__actor_id=str(history.pk)).first()
    assert entry is not None
    assert shown(inside.text(f"{AUDIT}{entry.pk}/change/")) == []


def test_viewers_find_users_by_whole_values_only(history: User) -> None:
    inside = sign_in_as("auditor")
    for text in ("ada@example.com", "+491701234567", str(history.pk)):
        assert str(history.pk) in inside.text(f"{USERS}?q={text.replace('+', '%2B')}")
    for part in ("ada", "lovelace", "ada@", "49170123456"):
        assert str(history.pk) not in inside.text(f"{USERS}?q={part}")
    assert str(history.pk) not in inside.text(f"{AUDIT}?q=lovelace")


@pytest.mark.parametrize(
    "query",
    [
        "accounts/user/?email__startswith=a",
        "accounts/user/?raw_user_meta_data__full_name=Ada+Lovelace",
        "accounts/user/?raw_app_meta_data__customer=Ada",
        "accounts/user/?phone=1",
        "mailer/attempt/?error__contains=ada",
        "mailer/message/?last_error__contains=ada",
    ],
)
def test_viewers_cannot_filter_by_personal_data(ada: User, query: str) -> None:
    assert sign_in_as("auditor").get(f"/operator/{query}").status_code == 400


@pytest.mark.parametrize("page_of", [page_of, timeline_of])
def test_a_viewer_asks_for_a_page_and_the_audit_trail_records_it(history: User, page_of: Callable[[User], str]) -> None:
    inside = sign_in_as("auditor")
    page = page_of(history)
    done = inside.submit(page, to="/operator/personal-data/", next=page)
    assert (done.status_code, done.headers["Location"]) == (302, page)
    assert "ada@example.com" in inside.text(page)
    assert shown(inside.text(USERS)) == []
    entry = AuditLogEntry.objects.get(payload__action="personal_data_viewed")
    assert entry.payload is not None
    assert entry.payload["actor_username"] == "auditor@staff.example"
    assert entry.payload["traits"] == {"page": page, "user_id": str(history.pk)}


@pytest.mark.parametrize(
    "url",
    ["{page}", "{list}?q={id}", "{list}{quoted}/change/", "{list}%7B{id}%7D/change/", "{list}{hex}/change/?x=1"],
)
def test_the_audit_trail_names_the_user_of_every_form_of_the_url(history: User, url: str) -> None:
    inside = sign_in_as("auditor")
    user_id = str(history.pk)
    page = url.format(
        page=page_of(history), list=USERS, id=user_id, quoted=f"urn_3Auuid_3A{user_id}", hex=history.pk.hex
    )
    inside.submit("/operator/", to="/operator/personal-data/", next=page)
    assert "ada@example.com" in inside.text(page)
    entry = AuditLogEntry.objects.get(payload__action="personal_data_viewed")
    assert entry.payload is not None
    assert entry.payload["traits"]["user_id"] == user_id


def test_a_page_hides_its_data_again(history: User, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = sign_in_as("auditor")
    page = page_of(history)
    inside.submit(page, to="/operator/personal-data/", next=page)
    later = timezone.now() + personal_data.SHOWN_FOR + timedelta(seconds=1)
    monkeypatch.setattr("django.utils.timezone.now", lambda: later)
    assert shown(inside.text(page)) == []


def test_metadata_names_of_factors_and_reasons_are_hidden_from_viewers(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(phone="4917012", raw_app_meta_data={"customer": "Countess Ada"})
    factors = factories.make_factor(ada, friendly_name="phone of Ada Byron", factor_type="phone", phone="4917013")
    factories.make_user(email="op@example.com", role="svc_admin")
    admin = Console()
    admin.sign_in("op@example.com")
    run(admin, ada, "ban", duration="24h")
    inside = sign_in_as("auditor")
    entry = AuditLogEntry.objects.get(payload__action="user_modified")
    for path in (page_of(ada), timeline_of(ada), AUDIT, f"{AUDIT}{entry.pk}/change/"):
        text = inside.text(path)
        for secret in ("4917012", factors.phone or "", "Countess", "Byron", "abuse"):
            assert secret not in text, path


def test_the_id_of_a_removed_identity_is_hidden_from_viewers(ada: User) -> None:
    entry = AuditLogEntry.objects.create(
        id=ada.pk,
        created_at=timezone.now(),
        payload={"action": "identity_unlinked", "traits": {"provider": "google", "provider_id": "117" * 7}},
    )
    inside = sign_in_as("auditor")
    for path in (AUDIT, f"{AUDIT}{entry.pk}/change/"):
        assert "117117" not in inside.text(path)


def test_viewers_filter_the_audit_trail_by_action(history: User) -> None:
    inside = sign_in_as("auditor")
    assert "Signed in" in inside.text(f"{AUDIT}?payload__action=login")
    assert inside.get(f"{AUDIT}?payload__actor_username=ada@example.com").status_code == 400


def test_support_does_not_reset_an_operator_by_an_invitation() -> None:
    other = factories.make_user(email="other@staff.example", role="svc_admin", confirmed=False)
    session = factories.make_session(other).session
    inside = sign_in_as("helpdesk")
    refused = inside.submit(f"{USERS}invite/", email="Other@staff.example")
    assert "has already been registered" in refused.content.decode()
    other.refresh_from_db()
    assert (other.invited_at, bool(other.password)) == (None, True)
    assert Session.objects.filter(pk=session.pk).exists()


def test_support_sees_personal_data(history: User) -> None:
    text = sign_in_as("helpdesk").text(page_of(history))
    assert "ada@example.com" in text
    assert "Personal data is hidden" not in text


@pytest.mark.parametrize("path", ["//evil.example/", "https://evil.example/", "/user"])
def test_asking_redirects_to_pages_of_the_console_only(path: str) -> None:
    inside = sign_in_as("auditor")
    assert inside.submit("/operator/", to="/operator/personal-data/", next=path).headers["Location"] == "/operator/"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("ada@example.com", "a•••@e•••"),
        ("550 <ada@example.com>: unknown", "550 <a•••@e•••>: unknown"),
        ("491701234567", "•••67"),
        ("+491701234567 failed", "•••67 failed"),
        ("to o'brien@example.com", "to o•••@e•••"),
        ("0d1f8a52-1111-4222-8333-123456789012", "0d1f8a52-1111-4222-8333-123456789012"),
        (None, ""),
    ],
)
def test_addresses_in_texts_are_masked(text: str | None, masked: str) -> None:
    assert personal_data.mask_text(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("ada@example.com", "a•••@e•••"),
        ('"ada lovelace"@example.com', '"•••@e•••'),
        ("491701234567", "•••67"),
        ("4917012", "•••"),
        ("service_role", "service_role"),
        (None, ""),
    ],
)
def test_addresses_are_masked(text: str | None, masked: str) -> None:
    assert personal_data.mask_address(text) == masked
