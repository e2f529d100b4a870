"""Sessions and recent activity on the account pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc import audit
from authsvc.audit import Administrator
from authsvc.caller import Caller
from tests import factories
from tests.conftest import ChangeConfig
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser
from tokens.models import Session

pytestmark = pytest.mark.django_db

SESSIONS = "/account/sessions"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"


def test_sessions_are_listed_with_device_and_address(inside: PageBrowser, user: User) -> None:
    elsewhere = factories.make_session(user, user_agent=FIREFOX, ip="198.51.100.7").session
    program = factories.make_session(user, user_agent="curl/8 <b>", ip=None).session
    expired = factories.make_session(user, user_agent="expired", not_after=timezone.now() - timedelta(hours=1)).session
    strange = factories.make_session(user_agent="stranger").session
    page = inside.text(SESSIONS)
    assert "Firefox on Linux" in page
    assert "198.51.100.7" in page
    assert "curl/8 &lt;b&gt;" in page
    assert page.count("(this browser)") == 1
    assert "signed in less than a minute ago, last used less than a minute ago" in page
    assert " 0\N{NO-BREAK SPACE}minutes" not in page
    Session.objects.update(created_at=timezone.now() - timedelta(hours=2), refreshed_at=None)
    assert "signed in 2\N{NO-BREAK SPACE}hours ago" in inside.text(SESSIONS)
    for session, is_listed in ((elsewhere, True), (program, True), (expired, False), (strange, False)):
        assert (f'value="{session.id}"' in page) == is_listed


def test_one_session_ends(inside: PageBrowser, user: User) -> None:
    elsewhere, kept = factories.make_session(user).session, factories.make_session(user).session
    assert inside.submit(SESSIONS, session=str(elsewhere.id)).headers["Location"] == SESSIONS
    assert not Session.objects.filter(pk=elsewhere.pk).exists()
    assert Session.objects.filter(pk=kept.pk).exists()
    assert inside.is_in
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["traits"]) == ("logout", {"ended_session_id": str(elsewhere.id)})
    assert inside.submit(SESSIONS, session=str(elsewhere.id)).status_code == 404


def test_the_own_session_and_that_of_an_operator_do_not_end_here(inside: PageBrowser, user: User) -> None:
    own = Session.objects.get()
    impersonated = factories.make_impersonation(user).session
    assert str(impersonated.id) not in inside.text(SESSIONS)
    for session in (own, impersonated):
        assert inside.submit(SESSIONS, session=str(session.id)).status_code == 404
        assert Session.objects.filter(pk=session.pk).exists()


def test_all_other_sessions_end(inside: PageBrowser, user: User) -> None:
    factories.make_session(user)
    assert "End all other sessions" in inside.text(SESSIONS)
    assert "must sign in again" in inside.text(f"{SESSIONS}/others")
    assert Session.objects.filter(user=user).count() == 2
    assert inside.submit(f"{SESSIONS}/others").headers["Location"] == SESSIONS
    assert Session.objects.filter(user=user).count() == 1
    assert inside.is_in
    assert "End all other sessions" not in inside.text(SESSIONS)


def test_recent_activity_shows_no_data_of_operators(inside: PageBrowser, user: User, auth_config: ChangeConfig) -> None:
    operator = Administrator(role="svc_admin", address="op@example.com", reason="secret reason")
    audit.record(
        audit.Action.MODIFIED,
        actor=operator,
        caller=Caller(address="203.0.113.99"),
        at=timezone.now(),
        traits={"user_id": str(user.id)},
    )
    page = inside.text(SESSIONS)
    assert "Signed in" in page
    assert "Account changed" in page
    assert "by the operator of this service" in page
    for text in ("op@example.com", "203.0.113.99", "secret reason"):
        assert text not in page
