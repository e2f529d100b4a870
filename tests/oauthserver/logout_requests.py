"""Clients with logout, browsers that sign out, and the queued logout tokens."""

from __future__ import annotations

from typing import Any

import orjson
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from tests.conftest import Api
from tests.factories import SignIn, make_user
from tests.oauthserver.client_application import Application, register
from tests.page_browser import PageBrowser
from tests.tokens.token_requests import read_claims
from tokens.models import Session
from tokens.sessions import lifecycle

AFTER = "https://client.example.com/bye"
RECEIVER = "https://client.example.com/backchannel"


def client_with_logout(api: Api, **metadata: Any) -> Application:
    defaults = {"post_logout_redirect_uris": [AFTER], "backchannel_logout_uri": RECEIVER}
    return register(api, **{**defaults, **metadata})


def read_queue() -> list[dict[str, str]]:
    """The arguments of the logout tokens that wait."""
    sql = "SELECT args, priority FROM procrastinate_jobs WHERE task_name = 'oauthserver.send_logout_token' ORDER BY id"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall()
    assert all(priority < 0 for _, priority in rows)
    return [orjson.loads(args) if isinstance(args, str) else args for args, _ in rows]


def session_of(tokens: dict[str, Any]) -> str:
    return str(read_claims(tokens["access_token"])["session_id"])


def browser_of(user: User | None = None) -> tuple[PageBrowser, SignIn]:
    """A browser at the hosted pages, and its session."""
    user = user or make_user()
    browser = PageBrowser()
    before = set(Session.objects.filter(user_id=user.id).values_list("id", flat=True))
    assert browser.sign_in(user.email or "").status_code == 303
    session = Session.objects.filter(user_id=user.id).exclude(id__in=before).get()
    found = AccountUsers().find_by_session(session.id)
    assert found is not None
    assert found.session is not None
    token = lifecycle.issue_access_token(
        user=found.user,
        session=found.session,
        amr=found.amr,
        method="password",
        caller=Caller(),
        at=timezone.now(),
    )
    return browser, SignIn(user=user, session=session, access_token=token.token, refresh_token="")
