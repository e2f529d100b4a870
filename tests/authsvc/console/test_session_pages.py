"""Sessions in the console: list, details, and ending a session from the user's page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from authsvc import user_agents
from authsvc.models import AuditLogEntry
from tests import factories
from tests.authsvc.console.conftest import Console
from tests.conftest import Api
from tests.factories import SignIn
from tokens.models import Session

pytestmark = pytest.mark.django_db

LIST = "/operator/tokens/session/"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"


def user_page(sign_in: SignIn) -> str:
    return f"/operator/accounts/user/{sign_in.user.pk}/change/"


def end(console: Console, sign_in: SignIn, **fields: str) -> tuple[int, str]:
    row = str(sign_in.session.pk)
    form = {"action": "end", "_selected_action": row, "source_row": row, **fields}
    done = console.submit(user_page(sign_in), to=LIST, **form)
    return done.status_code, done.headers.get("Location", "") or done.content.decode()


def test_a_session_is_ended_from_the_page_of_its_user(inside: Console, api: Api) -> None:
    sign_in = factories.make_session(user_agent=FIREFOX)
    other = factories.make_session(sign_in.user)
    status, question = end(inside, sign_in)
    assert status == 200
    assert "Firefox on Windows, 192.0.2.1, since" in question
    assert api.get("/user", bearer=sign_in.access_token).status_code == 200
    assert end(inside, sign_in, confirmed="1") == (302, user_page(sign_in))
    page = inside.get(user_page(sign_in)).content.decode()
    assert "Session ended: Firefox on Windows" in page
    assert api.get("/user", bearer=sign_in.access_token).status_code == 403
    assert api.get("/user", bearer=other.access_token).status_code == 200
    refresh = api.post("/token?grant_type=refresh_token", {"refresh_token": sign_in.refresh_token})
    assert refresh.status_code == 400
    [entry] = AuditLogEntry.objects.filter(payload__action="logout")
    assert entry.payload is not None
    assert (entry.payload["actor_role"], entry.payload["actor_username"]) == ("svc_admin", "op@example.com")
    assert entry.payload["traits"] == {"user_id": str(sign_in.user.pk), "session_id": str(sign_in.session.pk)}


def test_ending_an_ended_session_is_no_error(inside: Console) -> None:
    sign_in = factories.make_session()
    Session.objects.filter(pk=sign_in.session.pk).delete()
    status, _ = end(inside, sign_in, confirmed="1")
    assert status == 302
    assert not AuditLogEntry.objects.filter(payload__action="logout").exists()


def test_a_session_page_hides_the_key(inside: Console) -> None:
    sign_in = factories.make_session(user_agent=FIREFOX, aal="aal2")
    text = inside.get(f"{LIST}{sign_in.session.pk}/change/").content.decode()
    for shown in (FIREFOX, "Firefox on Windows", "192.0.2.1", "password", "AAL2", user_page(sign_in)):
        assert shown in text
    key = sign_in.session.refresh_token_hmac_key
    assert key
    assert key not in text
    assert 'value="end"' in text


def test_the_list_contains_sessions_of_one_user(inside: Console) -> None:
    sign_in = factories.make_session(ip="198.51.100.1")
    factories.make_session(ip="198.51.100.2")
    response = inside.get(LIST)
    assert (response.status_code, response.headers["Location"]) == (302, "/operator/")
    text = inside.get(f"{LIST}?user={sign_in.user.pk}").content.decode()
    assert "198.51.100.1" in text
    assert "198.51.100.2" not in text
    for wrong in ("", "x", str(uuid4())):
        page = inside.get(f"{LIST}?user={wrong}")
        page = inside.get(page.headers["Location"]) if page.status_code == 302 else page
        assert b"198.51.100" not in page.content
    assert LIST not in inside.get().content.decode()


@pytest.mark.parametrize("row", ["x", "11111111-2222-4333-8444-555555555555", ""])
def test_ending_no_session_does_nothing(inside: Console, row: str) -> None:
    sign_in = factories.make_session()
    response = inside.submit(user_page(sign_in), to=LIST, action="end", _selected_action=row, confirmed="1")
    assert response.status_code in (302, 400)
    assert Session.objects.filter(pk=sign_in.session.pk).exists()


def test_the_age_is_counted_from_the_sign_in(inside: Console) -> None:
    sign_in = factories.make_session()
    factories.backdate(sign_in.session, by=timedelta(days=3, hours=1))
    assert "3\xa0days" in inside.get(user_page(sign_in)).content.decode()


@pytest.mark.parametrize(
    ("user_agent", "summary"),
    [
        (FIREFOX, "Firefox on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.0 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) CriOS/120.0 Safari/604.1", "Chrome on iPhone"),
        ("Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/120.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Edg/120.0", "Edge on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64) SomethingElse/1", "Browser on Linux"),
        ("Mozilla/5.0", "Browser"),
        ("okhttp/4.12.0", "okhttp/4.12.0"),
        ("x" * 100, "x" * 60),
        ("evil\u202e\n\x00app", "evil\ufffd\ufffd\ufffdapp"),
        ("", ""),
        (None, ""),
    ],
)  # fmt: skip
def test_user_agents_are_summarized(user_agent: str | None, summary: str) -> None:
    assert user_agents.describe(user_agent) == summary


@pytest.mark.parametrize("query", ["", "?e=1", "?o=1"])
def test_sessions_of_all_users_are_not_exported(inside: Console, query: str) -> None:
    sign_in = factories.make_session()
    assert inside.submit("/operator/", to=f"{LIST}export/{query}").status_code == 400
    export: Any = inside.submit("/operator/", to=f"{LIST}export/?user={sign_in.user.pk}")
    assert b"192.0.2.1" in export.getvalue()
    head: Any = inside.client.head(LIST)
    assert head.status_code == 302
