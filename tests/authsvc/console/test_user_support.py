"""Work on accounts in the console: creation, invitation, editing, passwords, links, and typed confirmations."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Identity, OperatorNote, User
from authsvc.models import AuditLogEntry
from tests import factories
from tests.authsvc.console.conftest import USERS, Console, page_of
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tokens.models import Session

pytestmark = pytest.mark.django_db

CREATE = f"{USERS}create/"
INVITE = f"{USERS}invite/"


@pytest.fixture
def ada() -> User:
    return factories.make_user(email="ada@example.com", data={"full_name": "Ada", "plan": "free"})


def press(console: Console, user: User, action: str, **fields: str) -> ApiResponse:
    form = {"action": action, "_selected_action": str(user.pk), "source_row": str(user.pk)}
    return console.submit(page_of(user), to=USERS, **form, **fields)


def confirm(console: Console, user: User, action: str, **fields: str) -> ApiResponse:
    names = {"typed_name": fields.pop("typed_name", ""), "reason": fields.pop("reason", ""), "confirmed": "1"}
    return press(console, user, action, **names, **{f"action-{name}": text for name, text in fields.items()})


def text_after(console: Console, response: ApiResponse) -> str:
    assert response.status_code == 302, response.content
    return html.unescape(console.get(response.headers["Location"]).content.decode())


def shown_secret(response: ApiResponse) -> str:
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    found = re.search(r'value="([^"]*)" readonly', response.content.decode())
    assert found, response.content
    return html.unescape(found[1])


def last_entry(action: str) -> dict[str, Any]:
    entry = AuditLogEntry.objects.filter(payload__action=action).order_by("created_at").last()
    assert entry is not None
    assert entry.payload is not None
    return dict(entry.payload)


def sign_in(api: Api, password: str, email: str = "ada@example.com") -> int:
    return api.post("/token?grant_type=password", {"email": email, "password": password}).status_code


# --- typed confirmation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["anonymise", "delete", "reset_factors"])
@pytest.mark.parametrize("typed", ["", "bob@example.com", "ada"])
def test_a_dangerous_action_needs_the_typed_address(inside: Console, ada: User, action: str, typed: str) -> None:
    factories.make_factor(ada)
    assert "Type <strong>ada@example.com</strong>" in press(inside, ada, action).content.decode()
    refused = confirm(inside, ada, action, typed_name=typed)
    assert "The typed text differs. No action taken." in refused.content.decode()
    ada.refresh_from_db()
    assert (ada.deleted_at, ada.factors.count()) == (None, 1)


def test_case_and_blanks_of_the_typed_address_do_not_matter(inside: Console, ada: User) -> None:
    assert "Deleted: ada@example.com" in text_after(
        inside, confirm(inside, ada, "delete", typed_name=" Ada@Example.com ")
    )
    assert not User.objects.filter(pk=ada.pk).exists()


def test_several_rows_are_confirmed_by_their_number(inside: Console, ada: User) -> None:
    bob = factories.make_user(email="bob@example.com")
    form: dict[str, Any] = {"action": "delete", "_selected_action": [str(ada.pk), str(bob.pk)], "confirmed": "1"}
    assert "The typed text differs" in inside.submit(USERS, **form, typed_name="ada@example.com").content.decode()
    text_after(inside, inside.submit(USERS, **form, typed_name="2 users"))
    assert not User.objects.filter(pk__in=[ada.pk, bob.pk]).exists()


# --- creation and invitation ------------------------------------------------------------------------------------------


def test_create_a_user(inside: Console, api: Api, mailbox: Mailbox) -> None:
    assert CREATE in inside.text(USERS)
    assert re.search(r'<textarea name="user_metadata"[^>]*>\s*{}</textarea>', inside.text(CREATE))
    fields = {
        "email": "Eve@Example.com",
        "phone": "+49 170 1234567",
        "is_confirmed": "on",
        "password": "correct horse 2",
    }
    done = inside.submit(CREATE, **fields, user_metadata='{"plan": "pro"}', reason="asked by phone")
    assert "Created: eve@example.com" in text_after(inside, done)
    eve = User.objects.get(email="eve@example.com")
    assert (eve.phone, eve.raw_user_meta_data) == ("491701234567", {"plan": "pro", "email_verified": True})
    assert sign_in(api, "correct horse 2", "eve@example.com") == 200
    entry = last_entry("user_signedup")
    assert (entry["actor_username"], entry["reason"]) == ("op@example.com", "asked by phone")
    assert mailbox.emails == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Enter an email address or a phone number."),
        ({"email": "ada@example.com"}, "A user with this email address has already been registered"),
        ({"email": "x"}, "Unable to validate email address: invalid format"),
        ({"email": "eve@example.com", "password": "abc"}, "Password should be at least 6 characters."),
        ({"email": "eve@example.com", "user_metadata": "{"}, "Enter a valid JSON."),
        ({"email": "eve@example.com", "user_metadata": "[1]"}, 'Enter a JSON object, such as {"plan": "pro"}.'),
    ],
)
def test_an_invalid_user_is_not_created(inside: Console, ada: User, fields: dict[str, str], problem: str) -> None:
    page = inside.submit(CREATE, **fields)
    assert page.status_code == 400
    assert problem in html.unescape(page.content.decode())
    assert User.objects.count() == 2


def test_invite_a_user(inside: Console, mailbox: Mailbox) -> None:
    assert "Invited: eve@example.com" in text_after(inside, inside.submit(INVITE, email="eve@example.com"))
    assert [message.to for message in mailbox.emails] == ["eve@example.com"]
    assert User.objects.get(email="eve@example.com").invited_at is not None
    again = inside.submit(INVITE, email="op@example.com")
    assert "A user with this email address has already been registered" in again.content.decode()


@pytest.mark.parametrize("page", [CREATE, INVITE])
def test_viewers_neither_create_nor_invite(console: Console, auth_config: ChangeConfig, page: str) -> None:
    auth_config(console={"roles": {"auditor": "viewer"}})
    factories.make_user(email="viewer@staff.example", role="auditor")
    console.sign_in("viewer@staff.example")
    assert page not in console.get(USERS).content.decode()
    assert console.get(page).status_code == 403
    assert console.submit("/operator/", to=page, email="eve@example.com").status_code == 403


# --- editing ----------------------------------------------------------------------------------------------------------


def edit(console: Console, user: User, **fields: str) -> ApiResponse:
    """Change fields of the form; the others are sent as the page contains them."""
    form = form_of(press(console, user, "edit")) | {f"action-{name}": text for name, text in fields.items()}
    return press(console, user, "edit", confirmed="1", **form)


def form_of(response: ApiResponse) -> dict[str, str]:
    """The fields of a page, as a browser would send them."""
    page = response.content.decode()
    inputs = re.findall(r'<input[^>]*name="((?:initial-)?action-\w+)"[^>]*>', page)
    form = {}
    for tag in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        is_checked = "checkbox" not in tag or "checked" in tag
        if name and name[1] in inputs and is_checked:
            form[name[1]] = html.unescape(value[1]) if value else "on" if "checkbox" in tag else ""
    for name, text in re.findall(r'<textarea name="(action-\w+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL):
        form[name] = html.unescape(text)
    return form


def test_edit_a_user(inside: Console, ada: User) -> None:
    done = edit(inside, ada, email="lovelace@example.com", user_metadata='{"full_name": "Ada L", "tags": [1]}')
    assert "Changed" in text_after(inside, done)
    ada.refresh_from_db()
    assert ada.email == "lovelace@example.com"
    assert ada.email_confirmed_at is not None
    assert ada.raw_user_meta_data == {"full_name": "Ada L", "tags": [1]}
    assert Identity.objects.get(user=ada, provider="email").identity_data["email"] == "lovelace@example.com"
    changes = last_entry("user_modified")["traits"]["changes"]
    assert changes["email"] == {"old": "ada@example.com", "new": "lovelace@example.com"}


def test_editing_keeps_what_others_changed_meanwhile(inside: Console, ada: User) -> None:
    page = press(inside, ada, "edit").content.decode()
    found = re.search(r'name="initial-action-user_metadata" value="([^"]*)"', page)
    assert found, page
    seen = html.unescape(found[1])
    User.objects.filter(pk=ada.pk).update(raw_user_meta_data={"full_name": "Ada", "plan": "pro", "new": 1})
    metadata = {**json.loads(seen), "full_name": "Countess"}
    form = {
        "action-email": "ada@example.com",
        "initial-action-user_metadata": seen,
        "action-user_metadata": json.dumps(metadata),
        "initial-action-app_metadata": "{}",
        "action-app_metadata": "{}",
    }
    text_after(inside, press(inside, ada, "edit", confirmed="1", **form))
    ada.refresh_from_db()
    assert ada.raw_user_meta_data == {"full_name": "Countess", "plan": "pro", "new": 1}


def test_editing_keeps_an_address_that_the_user_changed_meanwhile(inside: Console, ada: User) -> None:
    form = form_of(press(inside, ada, "edit"))
    User.objects.filter(pk=ada.pk).update(email="countess@example.com", email_confirmed_at=None, phone="4917012345678")
    form["action-user_metadata"] = '{"full_name": "Countess"}'
    text_after(inside, press(inside, ada, "edit", confirmed="1", **form))
    ada.refresh_from_db()
    assert (ada.email, ada.email_confirmed_at, ada.phone) == ("countess@example.com", None, "4917012345678")
    assert ada.raw_user_meta_data == {"full_name": "Countess"}


def test_a_boolean_differs_from_a_number(inside: Console, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(raw_app_meta_data={"beta": 1, "roles": [0]})
    edit(inside, ada, app_metadata='{"beta": true, "roles": [false]}')
    ada.refresh_from_db()
    assert json.dumps(ada.raw_app_meta_data) == '{"beta": true, "roles": [false]}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "\\ud800"}', '{"a": "\\u0000"}', '{"a": NaN}', '{"a": Infinity}', '{"a": 1e400}',
        '{"a": ' + "9" * 5_000 + "}",
        "[" * 10_000, '{"a":' * 10_000, '{"a": ' + "[" * 40 + "]" * 40 + "}", "1", "true", '"x"',
    ],
    ids=range(12),
)  # fmt: skip
def test_json_that_the_api_refuses_is_refused(inside: Console, ada: User, text: str) -> None:
    assert inside.submit(CREATE, email="eve@example.com", user_metadata=text).status_code == 400
    assert "errorlist" in edit(inside, ada, user_metadata=text).content.decode()
    assert press(inside, ada, "edit", confirmed="1", **{"initial-action-user_metadata": text}).status_code == 400
    assert User.objects.count() == 2


def test_a_user_with_metadata_of_the_maximum_size_is_edited(
    inside: Console, ada: User, auth_config: ChangeConfig
) -> None:
    auth_config(metadata={"max_user_bytes": 65_536, "max_app_bytes": 65_536})
    metadata = {f"key {number}": number for number in range(1_000, 4_500)}
    User.objects.filter(id=ada.id).update(raw_user_meta_data=metadata, raw_app_meta_data=metadata)
    done = edit(inside, ada, user_metadata=json.dumps(metadata | {"key 1000": "new"}, indent=2))
    assert "Changed: ada@example.com" in text_after(inside, done)
    ada.refresh_from_db()
    assert (ada.raw_user_meta_data or {})["key 1000"] == "new"


def test_an_edit_without_a_change_is_reported(inside: Console, ada: User) -> None:
    assert "The values are unchanged" in edit(inside, ada).content.decode()


def test_an_invalid_edit_changes_nothing(inside: Console, ada: User) -> None:
    assert "Enter a valid JSON." in edit(inside, ada, app_metadata="{").content.decode()
    factories.make_user(email="bob@example.com")
    refused = edit(inside, ada, email="bob@example.com", user_metadata='{"plan": "pro"}').content.decode()
    for text in ("A user with this email address has already been registered", "bob@example.com", '{"plan": "pro"}'):
        assert text in html.unescape(refused)  # so that the operator need not type it again
    ada.refresh_from_db()
    assert ada.email == "ada@example.com"


# --- passwords and links ----------------------------------------------------------------------------------------------


def test_a_generated_password_is_shown_once(inside: Console, ada: User, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passwords={"required_characters": ("abc", "0123456789", "#!")})
    factories.make_session(ada)
    password = shown_secret(confirm(inside, ada, "set_password", password="", reason="locked out"))
    assert len(password) >= 20
    assert password not in inside.get(page_of(ada)).content.decode()
    assert not Session.objects.filter(user=ada).exists()
    assert sign_in(api, PASSWORD) == 400
    assert sign_in(api, password) == 200
    entry = last_entry("user_modified")
    assert (entry["reason"], password in json.dumps(entry)) == ("locked out", False)


def test_a_typed_password_is_not_shown(inside: Console, ada: User, api: Api) -> None:
    text = text_after(inside, confirm(inside, ada, "set_password", password="correct horse 3"))
    assert "Password set: ada@example.com" in text
    assert "correct horse 3" not in text
    assert sign_in(api, "correct horse 3") == 200


def test_a_weak_password_is_refused(inside: Console, ada: User, api: Api) -> None:
    refused = confirm(inside, ada, "set_password", password="abc").content.decode()
    assert "Password should be at least 6" in refused
    assert 'name="action-password"' in refused
    assert sign_in(api, PASSWORD) == 200


def test_a_sign_in_link_is_shown_once_and_signs_in_once(inside: Console, ada: User, api: Api, mailbox: Mailbox) -> None:
    link = urlsplit(shown_secret(confirm(inside, ada, "create_link")))
    assert mailbox.emails == []
    target = f"{link.path}?{link.query}"
    assert "access_token=" in api.get(target).headers["Location"]
    assert "otp_expired" in api.get(target).headers["Location"]
    assert last_entry("user_recovery_requested")["actor_username"] == "op@example.com"


def test_no_link_for_an_account_of_another_audience(inside: Console, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(aud="elsewhere")
    before = User.objects.count()
    assert "ada@example.com" in text_after(inside, confirm(inside, ada, "create_link"))
    assert User.objects.count() == before


def test_send_a_magic_link(inside: Console, ada: User, mailbox: Mailbox) -> None:
    assert "Magic link sent to ada@example.com" in text_after(inside, press(inside, ada, "send_magic_link"))
    [message] = mailbox.emails
    assert (message.to, message.type) == ("ada@example.com", "magic_link")


# --- notes ------------------------------------------------------------------------------------------------------------


def test_a_note_is_kept_and_shown(inside: Console, ada: User) -> None:
    text = text_after(inside, confirm(inside, ada, "add_note", text="Lost her phone.\n<b>Call back</b>"))
    assert "Note added: ada@example.com" in text
    page = inside.get(page_of(ada)).content.decode()
    assert "Lost her phone.\n&lt;b&gt;Call back&lt;/b&gt;" in page
    entry = last_entry("operator_note_added")
    assert (entry["actor_username"], entry["traits"]["user_email"]) == ("op@example.com", "ada@example.com")
    assert "phone." not in json.dumps(entry)


@pytest.mark.parametrize("text", ["", "x" * 5_001])
def test_an_unusable_note_is_refused(inside: Console, ada: User, text: str) -> None:
    assert confirm(inside, ada, "add_note", text=text).status_code == 200
    assert not ada.operator_notes.exists()


def test_a_ban_needs_a_reason_and_keeps_it(inside: Console, ada: User) -> None:
    refused = confirm(inside, ada, "ban", duration="24h", reason=" ")
    assert "State the reason. No action taken." in refused.content.decode()
    ada.refresh_from_db()
    assert ada.banned_until is None
    page = text_after(inside, confirm(inside, ada, "ban", duration="24h", reason="Spam to 40 users"))
    assert "Banned (1 day): Spam to 40 users" in page
    assert last_entry("user_modified")["reason"] == "Spam to 40 users"


@pytest.mark.parametrize("action", ["anonymise", "delete"])
def test_notes_end_with_the_account(inside: Console, ada: User, action: str) -> None:
    confirm(inside, ada, "add_note", text="Lost her phone.")
    assert OperatorNote.objects.count() == 1
    text_after(inside, confirm(inside, ada, action, typed_name="ada@example.com"))
    assert OperatorNote.objects.count() == 0


def test_viewers_see_no_notes(inside: Console, ada: User, auth_config: ChangeConfig) -> None:
    confirm(inside, ada, "add_note", text="Lost her phone.")
    auth_config(console={"roles": {"auditor": "viewer"}})
    factories.make_user(email="viewer@staff.example", role="auditor")
    viewer = Console()
    viewer.sign_in("viewer@staff.example")
    assert "Lost her phone" not in viewer.get(page_of(ada)).content.decode()


def test_a_ban_leaves_no_note_about_an_account_that_is_deleted_meanwhile(inside: Console, ada: User) -> None:
    def delete_after_the_ban(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("UPDATE") and "banned_until" in sql:
            User.objects.filter(pk=ada.pk).update(deleted_at=timezone.now())
        return result

    with connection.execute_wrapper(delete_after_the_ban):
        confirm(inside, ada, "ban", duration="24h", reason="Spam")
    ada.refresh_from_db()
    assert ada.deleted_at is not None
    assert not OperatorNote.objects.exists()
