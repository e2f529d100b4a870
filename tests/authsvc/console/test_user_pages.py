"""Users in the console: search, details, and the effect of every action on the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.admin import search
from accounts.models import Identity, User
from authsvc import audit
from authsvc.conf import Rate
from authsvc.models import AuditLogEntry
from mailer.models import Attempt
from tests import factories
from tests.authsvc.console.conftest import USERS, Console, page_of
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return factories.make_user(email="ada@example.com", data={"full_name": "Ada Lovelace"})


def press(console: Console, user: User, action: str, **fields: str) -> ApiResponse:
    """Run an action on the page of a user; `fields` fill in its form."""
    form = {
        "reason": "abuse",
        "action": action,
        "_selected_action": str(user.pk),
        "source_row": str(user.pk),
        "typed_name": user.email or f"+{user.phone}",
    }
    values = {f"action-{name}": value for name, value in fields.items()}
    return console.submit(page_of(user), to=USERS, **form, **values, **({"confirmed": "1"} if fields else {}))


def run_action(console: Console, user: User, action: str, **fields: str) -> str:
    """Run and confirm an action, and return the text that the operator sees."""
    done = press(console, user, action, confirm="1", **fields)
    assert done.status_code == 302, done.content
    return console.text(done.headers["Location"])


def entries(action: audit.Action) -> list[dict[str, Any]]:
    rows = AuditLogEntry.objects.filter(payload__action=action.value).order_by("created_at")
    return [entry.payload or {} for entry in rows if "actor_role" in (entry.payload or {})]


# --- search -----------------------------------------------------------------------------------------------------------


def test_the_list_identifies_users(inside: Console, ada: User) -> None:
    at = timezone.now()
    factories.make_user(email="bob@example.com", banned_until=at + timedelta(days=1))
    factories.make_user(email="eve@example.com", confirmed=False)
    factories.make_user(email="x", is_anonymous=True, phone=None)
    factories.make_user(email="gone@example.com", deleted_at=at)
    text = inside.text(USERS)
    for shown in ("ada@example.com", "Ada Lovelace", "banned until", "not confirmed", "anonymous", "deleted"):
        assert shown in text
    assert "gone@example.com" not in text


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("banned", "bob@example.com"),
        ("unconfirmed", "eve@example.com"),
        ("operators", "op@example.com"),
        ("deleted", "Deleted user"),
        ("anonymous", "Anonymous user"),
    ],
)
def test_users_are_filtered_by_state(inside: Console, ada: User, state: str, expected: str) -> None:
    at = timezone.now()
    factories.make_user(email="bob@example.com", banned_until=at + timedelta(days=1))
    factories.make_user(email="was@example.com", banned_until=at - timedelta(days=1))
    factories.make_user(email="eve@example.com", confirmed=False)
    User.objects.filter(pk=factories.make_user().pk).update(email=None, is_anonymous=True)
    factories.make_user(email="gone@example.com", deleted_at=at)
    text = inside.text(f"{USERS}?state={state}")
    table = text[text.index('id="result_list"') :]
    assert expected in table
    assert table.count('class="field-state') == 1


@pytest.mark.parametrize("query", ["state=", "state=all", "created=", "created=x", "created=400"])
def test_unknown_filter_values_show_no_user(inside: Console, ada: User, query: str) -> None:
    page = inside.get(f"{USERS}?{query}")
    page = inside.get(page.headers["Location"]) if page.status_code == 302 else page
    assert page.status_code == 400
    assert b"ada@example.com" not in page.content


def test_the_filter_for_new_users_excludes_older_ones(inside: Console, ada: User) -> None:
    factories.backdate(ada, by=timedelta(days=8))
    assert "ada@example.com" not in inside.text(f"{USERS}?created=7")
    assert "ada@example.com" in inside.text(f"{USERS}?created=30")


@pytest.mark.parametrize(
    "typed",
    [
        "ada@example.com",
        " ADA@Example.com ",
        "ada@",
        "lovelace",
        "+44 20 7946 0000",
        "442079460000",
        pytest.param(lambda user: str(user.pk), id="id"),
        pytest.param(lambda user: str(user.pk).upper(), id="id in capitals"),
    ],
)
def test_a_user_is_found_by_id_email_and_phone(inside: Console, ada: User, typed: str | Callable[[User], str]) -> None:
    User.objects.filter(pk=ada.pk).update(phone="442079460000")
    factories.make_user(email="bob@example.com")
    search_term = typed if isinstance(typed, str) else typed(ada)
    answered: Any = inside.client.get(USERS, {"q": search_term})
    text = answered.content.decode()
    assert "ada@example.com" in text
    assert "bob@example.com" not in text


@pytest.mark.parametrize("typed", ["nobody@example.com", "00000000-1111-4222-8333-444444444444", "4930", "%zzz", "\\"])
def test_a_search_without_matches_shows_no_user(inside: Console, ada: User, typed: str) -> None:
    answered: Any = inside.client.get(USERS, {"q": typed})
    assert answered.status_code == 200
    assert b"No matches" in answered.content
    assert b"ada@example.com" not in answered.content


def test_a_complete_address_matches_exactly(inside: Console, ada: User) -> None:
    other = factories.make_user(email="xada@example.com")
    assert search.find(User.objects.all(), "ada@example.com").get() == ada
    assert set(search.find(User.objects.all(), "ada@example")) == {ada, other}


def test_users_of_other_audiences_are_found_by_complete_address(inside: Console) -> None:
    user = factories.make_user(email="far@example.com", audience="elsewhere")
    assert search.find(User.objects.all(), "far@example.com").get().pk == user.pk


def test_an_sso_user_is_found_by_address(inside: Console) -> None:
    user = factories.make_user(email="sso@example.com", is_sso_user=True)
    assert search.find(User.objects.all(), "sso@example.com").get().pk == user.pk


def test_a_search_without_an_index_explains_its_limits(inside: Console, ada: User) -> None:
    assert "Only the newest" not in inside.text(f"{USERS}?q=ada")
    with connection.cursor() as cursor:
        # The statistics of a large table, as ANALYZE would store them.
        cursor.execute("UPDATE pg_class SET reltuples = 1e6 WHERE oid = 'users'::regclass")
    assert "Only the newest 20,000 users are searched, because" in inside.text(f"{USERS}?q=ada")
    assert "Only the newest 20,000 users are searched. Type a letter" in inside.text(f"{USERS}?q=%40")
    assert "Only the newest" not in inside.text(f"{USERS}?q=ada@example.com")


def test_a_search_for_a_complete_address_uses_no_pattern(inside: Console, ada: User) -> None:
    with CaptureQueriesContext(connection) as statements:
        assert search.find(User.objects.all(), "ada@example.com")
    assert not [statement for statement in statements if "LIKE" in statement["sql"]]


# --- details ----------------------------------------------------------------------------------------------------------


def test_a_page_shows_related_rows_and_no_secret(inside: Console, ada: User) -> None:
    factories.make_factor(ada, secret="JBSWY3DPEHPK3PXP", friendly_name="My phone")
    session = factories.make_session(ada, user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:1) Gecko/1 Firefox/130.0")
    secret = factories.make_one_time_token(ada)
    token = OneTimeToken.objects.get(user=ada)
    Attempt.objects.create(
        message_id=uuid4(), channel="email", kind="recovery", user_id=ada.pk, attempt=1, outcome="failed",
        error="550 mailbox full",
    )  # fmt: skip
    text = inside.text(page_of(ada))
    for shown in (
        "ada@example.com", "Ada Lovelace", "Identities", "My phone", "Authenticator app (TOTP)", "Firefox on Linux",
        "192.0.2.1", "password", "550 mailbox full", "Recovery", "Timeline",
    ):  # fmt: skip
        assert shown in text, shown
    row = User.objects.get(pk=ada.pk)
    for hidden in (
        "JBSWY3DPEHPK3PXP", row.password, session.session.refresh_token_hmac_key, session.refresh_token,
        session.access_token, secret.code, token.token_hash, token.link_hash, "argon2",
    ):  # fmt: skip
        assert hidden, "there is something to hide"
        assert hidden not in text


def test_the_page_of_a_minimal_account_names_missing_values(inside: Console) -> None:
    user = factories.make_user(password="")
    User.objects.filter(pk=user.pk).update(email=None, is_anonymous=True, raw_user_meta_data=None)
    Identity.objects.filter(user=user).delete()
    text = inside.text(page_of(user))
    for phrase in ("Anonymous user", "Not signed in anywhere.", "No notes.", "No events."):
        assert phrase in text


def test_user_names_are_escaped(inside: Console) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x>"
    user = factories.make_user(email="evil@example.com", data={"full_name": evil, "x": evil})
    factories.make_session(user, user_agent=evil)
    factories.make_factor(user, friendly_name=evil)
    for path in (USERS, page_of(user), f"{USERS}?q=evil"):
        text = inside.text(path)
        assert "<script>alert" not in text
        assert "<img src=x" not in text


def test_the_number_of_statements_of_a_page_is_bounded(inside: Console, ada: User) -> None:
    for _ in range(25):
        factories.make_session(ada)
    inside.text(page_of(ada))  # the first page of a process reads content types, which Django caches
    with CaptureQueriesContext(connection) as statements:
        text = inside.text(page_of(ada))
    assert text.count(">End</button>") == 20
    assert "Show all" in text
    assert len([statement for statement in statements if statement["sql"].lstrip().startswith("SELECT")]) <= 12


@pytest.mark.parametrize(
    ("columns", "offered", "absent"),
    [
        ({}, {"ban", "send_recovery", "end_sessions", "anonymise", "delete", "set_role"}, {"unban", "confirm_email"}),
        ({"email_confirmed_at": None}, {"confirm_email", "resend_confirmation"}, {"confirm_phone", "unban"}),
        # The user has signed in without ever confirming the address, or confirmed another identifier: a claim.
        (
            {"email_confirmed_at": None, "last_sign_in_at": timezone.now()},
            {"confirm_email"},
            {"resend_confirmation", "send_recovery"},
        ),
        (
            {"phone": "4930123", "phone_confirmed_at": None},
            {"confirm_phone", "send_recovery"},
            {"confirm_email", "resend_confirmation"},
        ),
        ({"banned_until": timezone.now() + timedelta(days=400)}, {"unban"}, {"ban"}),
        ({"deleted_at": timezone.now()}, {"delete"}, {"ban", "anonymise", "set_role", "send_recovery", "end_sessions"}),
    ],
)
def test_only_applicable_actions_are_offered(
    inside: Console, columns: dict[str, Any], offered: set[str], absent: set[str]
) -> None:
    user = factories.make_user(**columns)
    text = inside.text(page_of(user))
    buttons = {name for name in offered | absent if f'name="action" value="{name}"' in text}
    assert buttons == offered


# --- actions ----------------------------------------------------------------------------------------------------------


def test_an_email_is_confirmed(inside: Console) -> None:
    user = factories.make_user(email="eve@example.com", confirmed=False)
    assert "Email confirmed" in run_action(inside, user, "confirm_email")
    user.refresh_from_db()
    assert user.email_confirmed_at is not None
    [entry] = entries(audit.Action.MODIFIED)
    assert (entry["actor_username"], entry["traits"]["user_id"]) == ("op@example.com", str(user.pk))


def test_a_phone_is_confirmed(inside: Console, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(phone="4930123456")
    assert "Phone confirmed" in run_action(inside, ada, "confirm_phone")
    ada.refresh_from_db()
    assert ada.phone_confirmed_at is not None


@pytest.mark.parametrize("action", ["confirm_email", "confirm_phone", "resend_confirmation"])
def test_no_confirmation_is_sent_if_none_is_needed(inside: Console, ada: User, action: str) -> None:
    assert "no email address or phone that waits" in run_action(inside, ada, action)
    assert not entries(audit.Action.MODIFIED)


@pytest.mark.parametrize(
    ("duration", "length"),
    [("1h", timedelta(hours=1)), ("168h", timedelta(days=7)), ("876000h", timedelta(days=36500))],
)
def test_a_ban_blocks_sign_ins_until_it_ends(
    inside: Console, api: Api, ada: User, duration: str, length: timedelta
) -> None:
    token = factories.make_session(ada).access_token
    before = timezone.now()
    assert ">ada@example.com is banned" in run_action(inside, ada, "ban", duration=duration)
    ada.refresh_from_db()
    assert ada.banned_until is not None
    assert timedelta(0) <= ada.banned_until - before - length < timedelta(minutes=1)
    assert api.get("/user", bearer=token).status_code == 403
    assert entries(audit.Action.MODIFIED)[0]["traits"]["user_id"] == str(ada.pk)


@pytest.mark.parametrize("duration", ["", "5 minutes", "none", "-1h"])
def test_a_ban_has_one_of_the_offered_durations(inside: Console, ada: User, duration: str) -> None:
    page = press(inside, ada, "ban", duration=duration)
    assert page.status_code == 200
    ada.refresh_from_db()
    assert ada.banned_until is None


def test_a_ban_is_lifted(inside: Console, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(banned_until=timezone.now() + timedelta(days=1))
    assert "No longer banned" in run_action(inside, ada, "unban")
    ada.refresh_from_db()
    assert ada.banned_until is None
    assert len(entries(audit.Action.MODIFIED)) == 1


def test_a_recovery_email_is_sent(inside: Console, api: Api, ada: User, mailbox: Mailbox) -> None:
    assert "Recovery email sent to ada@example.com" in run_action(inside, ada, "send_recovery")
    [email] = mailbox.emails
    assert (email.type, email.to, email.user_id) == ("recovery", "ada@example.com", ada.pk)
    [entry] = entries(audit.Action.RECOVERY_REQUESTED)
    assert entry["traits"]["user_id"] == str(ada.pk)
    code = email.variables["Token"]
    proof = {"type": "recovery", "email": "ada@example.com", "token": code}
    assert api.post("/verify", proof).status_code == 200
    assert code not in inside.text(page_of(ada))


def test_a_confirmation_is_resent(inside: Console, api: Api, mailbox: Mailbox) -> None:
    user = factories.make_user(email="eve@example.com", confirmed=False)
    assert "Confirmation sent to eve@example.com" in run_action(inside, user, "resend_confirmation")
    [email] = mailbox.emails
    assert email.type == "confirmation"
    assert len(entries(audit.Action.CONFIRMATION_REQUESTED)) == 1
    proof = {"type": "signup", "email": "eve@example.com", "token": email.variables["Token"]}
    assert api.post("/verify", proof).status_code == 200


def test_an_sms_code_is_resent_to_users_with_a_phone_only(
    inside: Console, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    user = factories.make_user()
    User.objects.filter(pk=user.pk).update(email=None, email_confirmed_at=None, phone="4930123456")
    assert "Confirmation sent to +4930123456" in run_action(inside, user, "resend_confirmation")
    [text] = mailbox.sms
    assert (text.to, text.user_id) == ("4930123456", user.pk)


def test_users_without_an_address_get_no_message(inside: Console, ada: User, mailbox: Mailbox) -> None:
    User.objects.filter(pk=ada.pk).update(email=None, phone="4930123456")
    assert "no email address" in run_action(inside, ada, "send_recovery")
    assert not mailbox.emails


def test_operators_have_their_own_email_quota(
    inside: Console, ada: User, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(limits={"email_sent": Rate(events=0), "operator_messages": Rate(events=1)})
    assert "Recovery email sent" in run_action(inside, ada, "send_recovery")
    mailbox.clear()
    assert "rate limit" in run_action(inside, ada, "send_recovery")
    assert not mailbox.emails
    assert len(entries(audit.Action.RECOVERY_REQUESTED)) == 1


def test_all_sessions_are_ended(inside: Console, api: Api, ada: User) -> None:
    tokens = [factories.make_session(ada).access_token for _ in range(2)]
    other = factories.make_session()
    assert "2 sessions ended" in run_action(inside, ada, "end_sessions")
    assert [api.get("/user", bearer=token).status_code for token in tokens] == [403, 403]
    assert api.get("/user", bearer=other.access_token).status_code == 200
    [entry] = entries(audit.Action.LOGOUT)
    assert entry["traits"] == {"user_id": str(ada.pk), "sessions": 2}


def test_a_role_is_set(inside: Console, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(role="odd")
    assert "has the role authenticated" in run_action(inside, ada, "set_role", role="authenticated")
    ada.refresh_from_db()
    assert ada.role == "authenticated"
    assert len(entries(audit.Action.MODIFIED)) == 1


def test_promotion_to_operator_requires_confirmation(inside: Console, ada: User) -> None:
    page = press(inside, ada, "set_role", role="svc_admin")
    assert b"This role grants operator access" in page.content
    ada.refresh_from_db()
    assert ada.role == "authenticated"
    assert "has the role svc_admin" in run_action(inside, ada, "set_role", role="svc_admin", grants_access="on")
    ada.refresh_from_db()
    assert ada.role == "svc_admin"
    browser = Console()
    browser.sign_in("ada@example.com")
    assert browser.is_in


@pytest.mark.parametrize("role", ["", "postgres", "supabase_admin"])
def test_only_offered_roles_are_accepted(inside: Console, ada: User, role: str) -> None:
    assert press(inside, ada, "set_role", role=role, grants_access="on").status_code == 200
    ada.refresh_from_db()
    assert ada.role == "authenticated"


def test_personal_data_is_erased(inside: Console, ada: User) -> None:
    factories.make_session(ada)
    assert "Personal data erased" in run_action(inside, ada, "anonymise")
    ada.refresh_from_db()
    assert ada.deleted_at is not None
    assert ada.email != "ada@example.com"
    assert not Session.objects.filter(user=ada).exists()
    assert entries(audit.Action.DELETED)[0]["traits"]["user_email"] == "ada@example.com"


def test_an_account_is_deleted(inside: Console, ada: User) -> None:
    factories.make_session(ada)
    text = run_action(inside, ada, "delete")
    assert "Deleted: ada@example.com" in text
    assert not User.objects.filter(pk=ada.pk).exists()
    assert not Identity.objects.filter(user_id=ada.pk).exists()
    assert not Session.objects.filter(user_id=ada.pk).exists()
    assert len(entries(audit.Action.DELETED)) == 1


@pytest.mark.parametrize("action", ["ban", "end_sessions", "anonymise", "delete", "set_role"])
def test_irreversible_actions_require_confirmation(inside: Console, ada: User, action: str) -> None:
    factories.make_session(ada)
    page = press(inside, ada, action)
    assert page.status_code == 200
    assert b"ada@example.com" in page.content
    assert b"Cancel" in page.content
    before = User.objects.get(pk=ada.pk)
    assert (before.banned_until, before.deleted_at, before.role) == (None, None, "authenticated")
    assert Session.objects.filter(user=ada).exists()


@pytest.mark.parametrize("action", ["ban", "end_sessions", "anonymise", "delete", "set_role", "send_recovery"])
def test_operators_cannot_change_their_own_account(
    inside: Console, operator: User, mailbox: Mailbox, action: str
) -> None:
    fields = {"duration": "24h", "role": "authenticated"}
    assert "changed by another operator" in run_action(inside, operator, action, **fields)
    now = User.objects.get(pk=operator.pk)
    assert (now.banned_until, now.deleted_at, now.role) == (None, None, "svc_admin")
    assert inside.is_in
    assert not mailbox.emails


@pytest.mark.parametrize("change", [{"role": "authenticated"}, {"banned_until": timezone.now() + timedelta(days=400)}])
@pytest.mark.parametrize("action", ["ban", "unban", "delete", "set_role", "send_recovery", "confirm_email"])
def test_demoted_operators_cannot_run_actions(
    inside: Console, operator: User, ada: User, mailbox: Mailbox, action: str, change: dict[str, Any]
) -> None:
    inside.text(page_of(ada))
    User.objects.filter(pk=operator.pk).update(**change)
    fields = {
        "action": action, "_selected_action": str(ada.pk), "confirmed": "1", "action-duration": "24h",
        "action-role": "svc_admin", "action-grants_access": "on", "csrfmiddlewaretoken": inside.cookie("operator_csrf"),
    }  # fmt: skip
    rejected: Any = inside.client.post(USERS, fields)
    assert rejected.status_code == 302
    assert rejected.headers["Location"].startswith("/operator/login/")
    now = User.objects.get(pk=ada.pk)
    assert (now.banned_until, now.role) == (None, "authenticated")
    assert not mailbox.emails


def test_several_users_are_banned_from_the_list(inside: Console, ada: User) -> None:
    others = [factories.make_user() for _ in range(2)]
    chosen: Any = [str(user.pk) for user in (ada, *others)]
    fields = {"action": "ban", "confirmed": "1", "action-duration": "24h", "reason": "abuse"}
    assert inside.submit(USERS, _selected_action=chosen, **fields).status_code == 302
    assert User.objects.filter(banned_until__isnull=False).count() == 3


def test_metadata_is_shown_unchanged(inside: Console) -> None:
    user = factories.make_user(data={"plan": {"seats": 5}})
    text = inside.text(page_of(user)).replace("&quot;", '"')
    assert '"plan": {\n    "seats": 5\n  }' in text
