"""View as user: its start in the console, the session that it gives, its end, and its traces."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from accounts.users import failed_attempts
from authsvc.audit import erasure
from authsvc.caller import Caller
from authsvc.jobs import cleanup
from authsvc.messaging import EmailType
from authsvc.models import AuditLogEntry
from authsvc.personal_data import DataSubject
from tests import factories
from tests.authsvc.console.conftest import USERS, Console, page_of
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tokens.models import ImpersonationLink, Session
from tokens.personal_data import TokensPersonalData

pytestmark = pytest.mark.django_db

SESSIONS = "/operator/tokens/session/"
REASON = "ticket 4711"
CONFIRMED_PHONE = {"phone": "4915112345678", "phone_confirmed_at": timezone.now()}


@pytest.fixture(autouse=True)
def is_enabled(auth_config: ChangeConfig) -> None:
    auth_config(console={"impersonation_enabled": True, "roles": {"helpdesk": "support"}})


@pytest.fixture
def ada() -> User:
    return factories.make_user(email="ada@example.com")


def press(console: Console, *users: User, **fields: str) -> ApiResponse:
    form: dict[str, Any] = {"action": "impersonate", "_selected_action": [str(user.pk) for user in users]}
    form |= {"source_row": str(users[0].pk), **fields}
    return console.submit("/operator/", to=USERS, **form)


def confirm(
    console: Console, user: User, *, redirect_to: str = "http://localhost:3000/app", **fields: str
) -> ApiResponse:
    form = {"confirmed": "1", "typed_name": user.email or "", "reason": REASON, "action-redirect_to": redirect_to}
    return press(console, user, **form | fields)


def link_of(response: ApiResponse) -> str:
    found = re.search(
        r'<a class="button default" href="([^"]+)" target="_blank" rel="noopener noreferrer">', text(response)
    )
    assert found, text(response)
    return html.unescape(found[1])


def text(response: ApiResponse) -> str:
    return response.content.decode()


def refusal(console: Console, response: ApiResponse) -> str:
    assert response.status_code == 302
    return html.unescape(text(console.get(response.headers["Location"])))


def open_link(api: Api, link: str) -> dict[str, str]:
    """The parameters in the fragment of the redirect."""
    parts = urlsplit(link)
    response = api.get(f"{parts.path}?{parts.query}")
    assert response.status_code == 303
    return dict(parse_qsl(urlsplit(response.headers["Location"]).fragment))


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims


def entries(action: str) -> list[dict[str, Any]]:
    rows = AuditLogEntry.objects.filter(payload__action=action).order_by("created_at")
    return [row.payload for row in rows if row.payload is not None]


# --- start ------------------------------------------------------------------------------------------------------------


def test_an_operator_opens_the_application_as_a_user(
    inside: Console, operator: User, ada: User, api: Api, mailbox: Mailbox
) -> None:
    question = text(press(inside, ada))
    assert "Type <strong>ada@example.com</strong>" in question
    assert 'value="http://localhost:3000"' in question
    created = confirm(inside, ada)
    assert created.headers["Cache-Control"] == "no-store"
    link = link_of(created)
    assert urlsplit(link).path == "/verify"
    assert mailbox.emails == []  # nothing has happened to the account yet
    assert not Session.objects.filter(user=ada).exists()
    [requested] = entries("impersonation_requested")
    assert (requested["actor_id"], requested["reason"]) == (str(operator.pk), REASON)
    token = dict(parse_qsl(urlsplit(link).query))["token"]
    assert token not in orjson.dumps(requested).decode()
    assert token not in ImpersonationLink.objects.get().link_hash

    given = open_link(api, link)
    assert {"access_token", "refresh_token", "expires_in", "expires_at", "token_type"} <= given.keys()
    claims = claims_of(given["access_token"])
    assert (claims["sub"], claims["act"], claims["aal"]) == (str(ada.pk), {"sub": str(operator.pk)}, "aal1")
    assert [entry["method"] for entry in claims["amr"]] == ["impersonation"]
    assert api.get("/user", bearer=given["access_token"]).json()["id"] == str(ada.pk)
    session = Session.objects.get(user=ada)
    assert session.not_after is not None
    assert session.created_at is not None
    assert session.not_after - session.created_at == timedelta(minutes=15)
    assert claims["exp"] == int(session.not_after.timestamp())

    [started] = entries("impersonation_started")
    assert (started["actor_id"], started["actor_username"], started["reason"]) == (
        str(operator.pk), "op@example.com", REASON,
    )  # fmt: skip
    assert (started["session_id"], started["traits"]["user_id"]) == (str(session.pk), str(ada.pk))
    [email] = mailbox.emails
    assert (email.type, email.to) == (EmailType.IMPERSONATION, "ada@example.com")
    ada.refresh_from_db()
    assert ada.last_sign_in_at is None


def test_a_link_is_opened_once_and_within_two_minutes(inside: Console, ada: User, api: Api) -> None:
    link = link_of(confirm(inside, ada))
    assert "access_token" in open_link(api, link)
    assert open_link(api, link)["error_code"] == "otp_expired"
    late = link_of(confirm(inside, ada))
    factories.backdate(ImpersonationLink.objects.get(), by=timedelta(minutes=2, seconds=1))
    assert open_link(api, late)["error_code"] == "otp_expired"
    assert Session.objects.filter(user=ada).count() == 1


def test_a_new_link_replaces_the_former(inside: Console, ada: User, api: Api) -> None:
    former, newest = (link_of(confirm(inside, ada)) for _ in range(2))
    assert open_link(api, former)["error_code"] == "otp_expired"
    assert "access_token" in open_link(api, newest)


def test_an_application_exchanges_the_token_itself(inside: Console, ada: User, api: Api) -> None:
    response = confirm(
        inside, ada, redirect_to="http://localhost:3000/auth/confirm?next=/", **{"action-is_exchanged": "on"}
    )
    link = urlsplit(link_of(response))
    query = dict(parse_qsl(link.query))
    assert (link.netloc, link.path, query.pop("next")) == ("localhost:3000", "/auth/confirm", "/")
    session = api.post("/verify", query).json()
    assert claims_of(session["access_token"])["act"]
    assert session["refresh_token"]
    assert api.post("/verify", query).status_code == 403


def test_the_confirmation_page_of_mail_links_is_left_out(
    inside: Console, ada: User, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"link_confirm_page_enabled": True})
    assert "access_token" in open_link(api, link_of(confirm(inside, ada)))


@pytest.mark.parametrize(
    "redirect_to", ["https://evil.example/", "javascript:alert(1)", "http://localhost:3000@evil.example", ""]
)
def test_only_permitted_targets_are_accepted(inside: Console, ada: User, redirect_to: str) -> None:
    response = confirm(inside, ada, redirect_to=redirect_to)
    assert "errorlist" in text(response)
    assert not ImpersonationLink.objects.exists()


@pytest.mark.parametrize(
    "fields", [{"reason": ""}, {"reason": " "}, {"typed_name": ""}, {"typed_name": "bob@example.com"}]
)
def test_the_reason_and_the_typed_address_are_required(inside: Console, ada: User, fields: dict[str, str]) -> None:
    assert "No action taken" in text(confirm(inside, ada, **fields))
    assert not ImpersonationLink.objects.exists()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"role": "svc_admin"}, "Operators cannot be impersonated"),
        ({"role": "helpdesk"}, "Operators cannot be impersonated"),
        ({"banned_until": timezone.now() + timedelta(hours=1)}, "Banned users"),
        ({"deleted_at": timezone.now()}, "Deleted users"),
        ({"is_anonymous": True}, "without a confirmed email"),
        ({"email_confirmed_at": None}, "without a confirmed email"),
        ({"email_confirmed_at": None, **CONFIRMED_PHONE}, "no confirmed email"),
    ],
)
def test_some_users_cannot_be_impersonated(inside: Console, ada: User, columns: dict[str, Any], reason: str) -> None:
    User.objects.filter(pk=ada.pk).update(**columns)
    name = f"Deleted user {ada.pk}" if "deleted_at" in columns else "ada@example.com"
    assert reason in refusal(inside, confirm(inside, ada, typed_name=name))
    assert 'value="impersonate"' not in inside.text(page_of(ada))
    assert not ImpersonationLink.objects.exists()


def test_no_operator_impersonates_oneself(inside: Console, operator: User) -> None:
    assert "Your own account" in refusal(inside, confirm(inside, operator))


def test_several_users_are_refused(inside: Console, ada: User) -> None:
    bob = factories.make_user(email="bob@example.com")
    assert "applies to a single row only" in refusal(inside, press(inside, ada, bob))


def test_a_user_who_changes_before_the_link_is_opened_is_not_impersonated(inside: Console, ada: User, api: Api) -> None:
    link = link_of(confirm(inside, ada))
    User.objects.filter(pk=ada.pk).update(role="helpdesk")
    assert open_link(api, link)["error_code"] == "otp_expired"


def test_support_staff_cannot_impersonate(console: Console, ada: User) -> None:
    factories.make_user(email="help@staff.example", role="helpdesk")
    assert console.sign_in("help@staff.example").status_code == 302
    assert 'value="impersonate"' not in console.text(page_of(ada))
    assert confirm(console, ada).status_code == 403


def test_it_is_off_by_default(inside: Console, ada: User, api: Api, auth_config: ChangeConfig) -> None:
    link = urlsplit(link_of(confirm(inside, ada)))
    token = dict(parse_qsl(link.query))["token"]
    given = factories.make_impersonation(ada)
    auth_config(console={"impersonation_enabled": False})
    assert 'value="impersonate"' not in inside.text(page_of(ada))
    assert "Impersonation is disabled" in refusal(inside, confirm(inside, ada))
    refused = api.post("/verify", {"type": "impersonation", "token_hash": token})
    assert (refused.status_code, refused.json()["msg"]) == (400, "Invalid email verification type")
    assert api.get("/user", bearer=given.access_token).status_code == 403


def test_the_notification_can_be_disabled(
    inside: Console, ada: User, api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"notifies_of_impersonation": False})
    User.objects.filter(pk=ada.pk).update(email_confirmed_at=None, **CONFIRMED_PHONE)
    assert "access_token" in open_link(api, link_of(confirm(inside, ada)))
    assert mailbox.emails == []


# --- session ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    operator: factories.SignIn
    given: factories.SignIn


@pytest.fixture
def active(ada: User) -> Impersonation:
    operator = factories.make_session(factories.make_user(email="boss@example.com", role="svc_admin"))
    return Impersonation(operator=operator, given=factories.make_impersonation(ada, operator=operator))


def refresh(api: Api, token: str) -> ApiResponse:
    return api.post("/token?grant_type=refresh_token", {"refresh_token": token})


def test_a_refresh_does_not_extend_the_session(active: Impersonation, api: Api) -> None:
    Session.objects.filter(pk=active.given.session.pk).update(not_after=timezone.now() + timedelta(minutes=3))
    refreshed = refresh(api, active.given.refresh_token).json()
    claims = claims_of(refreshed["access_token"])
    assert refreshed["expires_in"] <= 180
    assert claims["act"] == {"sub": str(active.operator.user.pk)}
    assert [entry["method"] for entry in claims["amr"]] == ["impersonation"]
    [entry] = entries("token_refreshed")
    assert (entry["actor_username"], entry["impersonator_username"]) == ("ada@example.com", "boss@example.com")
    Session.objects.filter(pk=active.given.session.pk).update(not_after=timezone.now() - timedelta(seconds=1))
    expired = refresh(api, refreshed["refresh_token"])
    assert (expired.status_code, expired.json()["error_code"]) == (400, "session_expired")


def test_the_level_is_that_of_the_operator(ada: User, api: Api) -> None:
    boss = factories.make_user(role="svc_admin")
    factories.make_factor(boss)
    given = factories.make_impersonation(ada, operator=factories.make_session(boss, aal="aal2"))
    assert claims_of(given.access_token)["aal"] == "aal2"
    assert claims_of(refresh(api, given.refresh_token).json()["access_token"])["aal"] == "aal2"


@pytest.mark.parametrize(
    "end",
    [
        lambda boss: Session.objects.filter(pk=boss.session.pk).delete(),
        lambda boss: Session.objects.filter(pk=boss.session.pk).update(not_after=timezone.now() - timedelta(seconds=1)),
        lambda boss: User.objects.filter(pk=boss.user.pk).update(role="helpdesk"),
        lambda boss: User.objects.filter(pk=boss.user.pk).update(role="authenticated"),
        lambda boss: User.objects.filter(pk=boss.user.pk).update(banned_until=timezone.now() + timedelta(hours=1)),
        lambda boss: User.objects.filter(pk=boss.user.pk).update(deleted_at=timezone.now()),
        lambda boss: factories.make_factor(boss.user),
        lambda _: User.objects.filter(email="ada@example.com").update(role="svc_admin"),
    ],
    ids=["signed out", "expired", "demoted", "dismissed", "banned", "deleted", "factor not verified", "user promoted"],
)
def test_the_session_ends_with_the_access_of_the_operator(active: Impersonation, api: Api, end: Any) -> None:
    assert api.get("/user", bearer=active.given.access_token).status_code == 200
    end(active.operator)
    refused = api.get("/user", bearer=active.given.access_token)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "session_not_found")
    refused = refresh(api, active.given.refresh_token)
    assert (refused.status_code, refused.json()["error_code"]) == (400, "session_not_found")


def test_a_sign_out_from_the_console_ends_it(inside: Console, ada: User, api: Api) -> None:
    given = open_link(api, link_of(confirm(inside, ada)))
    assert inside.sign_out().status_code == 302
    assert api.get("/user", bearer=given["access_token"]).status_code == 403


def test_only_requests_of_an_impersonated_session_read_the_operator(active: Impersonation, api: Api) -> None:
    own = factories.make_session(active.given.user)
    for token, statements in ((own.access_token, 1), (active.given.access_token, 2)):
        with CaptureQueriesContext(connection) as captured:
            assert api.get("/user", bearer=token).status_code == 200
        assert len(captured) == statements, [query["sql"] for query in captured]


@pytest.mark.parametrize("scope", ["", "?scope=global", "?scope=local"])
def test_a_logout_ends_only_the_impersonated_session(active: Impersonation, api: Api, scope: str) -> None:
    own = factories.make_session(active.given.user)
    assert api.post(f"/logout{scope}", bearer=active.given.access_token).status_code == 204
    assert api.get("/user", bearer=active.given.access_token).status_code == 403
    assert api.get("/user", bearer=own.access_token).status_code == 200
    [entry] = entries("impersonation_ended")
    assert (entry["actor_username"], entry["traits"]["user_id"], entry["traits"]["cause"]) == (
        "boss@example.com", str(own.user.pk), "signed out",
    )  # fmt: skip
    assert entries("logout") == []


def test_a_logout_of_the_other_sessions_is_refused(active: Impersonation, api: Api) -> None:
    own = factories.make_session(active.given.user)
    refused = api.post("/logout?scope=others", bearer=active.given.access_token)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "impersonation_not_allowed")
    assert api.get("/user", bearer=own.access_token).status_code == 200
    assert [entry["error_code"] for entry in (row["traits"] for row in entries("user_change_refused"))] == [
        "impersonation_not_allowed"
    ]


def test_it_is_no_newer_sign_in_of_the_user(active: Impersonation, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"single_per_user": True})
    own = factories.make_session(active.given.user, at=timezone.now() - timedelta(minutes=1))
    assert refresh(api, own.refresh_token).status_code == 200
    assert refresh(api, active.given.refresh_token).status_code == 200


def test_a_sign_out_everywhere_by_the_user_ends_it(active: Impersonation, api: Api) -> None:
    own = factories.make_session(active.given.user)
    assert api.post("/logout", bearer=own.access_token).status_code == 204
    assert api.get("/user", bearer=active.given.access_token).status_code == 403


def test_the_network_of_the_operator_is_not_one_of_the_user(
    active: Impersonation, ada: User, auth_config: ChangeConfig
) -> None:
    auth_config(codes={"max_failed_attempts": 1})
    failed_attempts.record([ada.pk], at=timezone.now())
    at_the_operator, at_home = Caller(address=active.given.session.ip or ""), Caller(address="198.51.100.7")
    factories.make_session(ada, ip=at_home.address)
    assert failed_attempts.is_refused(ada.pk, caller=at_the_operator)
    assert not failed_attempts.is_refused(ada.pk, caller=at_home)


def test_the_export_of_the_user_leaves_the_device_of_the_operator_out(active: Impersonation, ada: User) -> None:
    own = factories.make_session(ada).session
    subject = DataSubject(id=ada.pk, addresses=frozenset({"ada@example.com"}))
    [exported] = [list(rows) for table, rows in TokensPersonalData().export(subject) if table == "sessions"]
    rows = {row["id"]: row for row in exported}
    assert rows.keys() == {own.pk, active.given.session.pk}
    assert {"ip", "user_agent"} <= rows[own.pk].keys()
    assert not {"ip", "user_agent", "impersonator_session_id"} & rows[active.given.session.pk].keys()


def test_ordinary_tokens_and_entries_name_no_operator(ada: User, api: Api) -> None:
    own = factories.make_session(ada)
    assert "act" not in claims_of(own.access_token)
    assert refresh(api, own.refresh_token).status_code == 200
    [entry] = entries("token_refreshed")
    assert not {"impersonator_id", "impersonator_username"} & entry.keys()


# --- console and cleanup ----------------------------------------------------------------------------------------------


def test_the_console_shows_and_ends_active_impersonations(
    inside: Console, active: Impersonation, api: Api, ada: User
) -> None:
    own = factories.make_session(ada, ip="198.51.100.7")
    assert api.put("/user", {"data": {"seen": True}}, bearer=active.given.access_token).status_code == 200
    assert "User (impersonated by boss@example.com)" in inside.text(page_of(ada))  # in the timeline
    assert "impersonated by boss@example.com" in inside.text(page_of(ada))
    assert "boss@example.com" in inside.text(f"{SESSIONS}{active.given.session.pk}/change/")
    assert "Active views as user" in inside.text("/operator/")
    listed = inside.text(f"{SESSIONS}?impersonated=yes")
    assert "boss@example.com" in listed
    assert "198.51.100.7" not in listed
    row = str(active.given.session.pk)
    form = {"action": "end", "_selected_action": row, "source_row": row, "confirmed": "1"}
    assert inside.submit(page_of(ada), to=SESSIONS, **form).status_code == 302
    assert api.get("/user", bearer=active.given.access_token).status_code == 403
    assert api.get("/user", bearer=own.access_token).status_code == 200
    [entry] = entries("impersonation_ended")
    assert (entry["actor_username"], entry["traits"]["cause"]) == ("op@example.com", "ended by an operator")


def test_viewers_do_not_see_the_address_of_the_operator(
    console: Console, active: Impersonation, ada: User, auth_config: ChangeConfig, api: Api
) -> None:
    auth_config(console={"roles": {"auditor": "viewer"}})
    assert refresh(api, active.given.refresh_token).status_code == 200
    factories.make_user(email="eve@staff.example", role="auditor")
    assert console.sign_in("eve@staff.example").status_code == 302
    entry = AuditLogEntry.objects.get(payload__action="token_refreshed")
    for page in (page_of(ada), f"{SESSIONS}?impersonated=yes", f"/operator/core/auditlogentry/{entry.pk}/change/"):
        shown = console.text(page)
        assert "b•••@e•••" in shown
        assert "boss@example.com" not in shown


@pytest.mark.parametrize(
    ("change", "cause"),
    [({"not_after": timezone.now() - timedelta(minutes=1)}, "expired"), (None, "operator signed out")],
)
def test_cleanup_records_the_end(active: Impersonation, change: dict[str, Any] | None, cause: str) -> None:
    own = factories.make_session(active.given.user)
    cleanup.run(at=timezone.now(), only_mandatory=True)
    assert Session.objects.filter(pk=active.given.session.pk).exists()
    if change:
        Session.objects.filter(pk=active.given.session.pk).update(**change)
    else:
        Session.objects.filter(pk=active.operator.session.pk).delete()
    cleanup.run(at=timezone.now(), only_mandatory=True)
    assert not Session.objects.filter(pk=active.given.session.pk).exists()
    assert Session.objects.filter(pk=own.session.pk).exists()
    [entry] = entries("impersonation_ended")
    assert (entry["actor_username"], entry["traits"]["cause"]) == ("boss@example.com", cause)


def test_cleanup_deletes_unopened_links(inside: Console, ada: User) -> None:
    confirm(inside, ada)
    cleanup.run(at=timezone.now(), only_mandatory=True)
    assert ImpersonationLink.objects.exists()
    cleanup.run(at=timezone.now() + timedelta(minutes=3), only_mandatory=True)
    assert not ImpersonationLink.objects.exists()


@pytest.mark.parametrize("erased", ["ada@example.com", "boss@example.com"])
def test_an_erasure_replaces_one_of_both_people(active: Impersonation, api: Api, erased: str) -> None:
    assert refresh(api, active.given.refresh_token).status_code == 200
    user = User.objects.get(email=erased)
    for _ in erasure.pseudonymise_entries(DataSubject(id=user.pk), keep_id=False):
        pass
    [entry] = entries("token_refreshed")
    names = [entry["actor_username"], entry["impersonator_username"]]
    ids = [entry["actor_id"], entry["impersonator_id"]]
    kept = {"ada@example.com", "boss@example.com"} - {erased}
    assert len({*names, "ada@example.com", "boss@example.com"}) == 3
    assert kept < set(names)
    assert str(user.pk) not in ids
    assert len(set(ids)) == 2
