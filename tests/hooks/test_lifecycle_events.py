"""Lifecycle events that requests record: one test for each type, with data, actor and request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.users import deletion
from authsvc import audit, events
from authsvc.caller import Caller
from authsvc.events import ActorType, Event, EventType
from tests import factories
from tests.accounts.administration.admin_requests import token
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import PASSWORD
from tests.page_browser import PageBrowser
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db

ADDRESS = "ada@example.com"


class Recorder:
    """A sink that wants every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.types: set[EventType] = set(EventType)

    def is_subscribed(self, type: EventType) -> bool:
        return type in self.types

    def record(self, event: Event) -> None:
        self.events.append(event)

    def only(self, type: EventType) -> Event:
        [event] = [event for event in self.events if event.type is type]
        return event


@pytest.fixture
def recorder(auth_config: ChangeConfig) -> Iterator[Recorder]:
    auth_config(mailer={"autoconfirm": True}, signup={"anonymous_enabled": True})
    sink = Recorder()
    events.sinks.append(sink)
    yield sink
    events.sinks.remove(sink)


def sign_up(api: Api, **body: Any) -> dict[str, Any]:
    return read_success(api.post("/signup", {"email": ADDRESS, "password": PASSWORD, **body}))


def test_a_sign_up_with_a_session(api: Api, recorder: Recorder) -> None:
    user = sign_up(api, data={"a": 1})["user"]
    types = [event.type for event in recorder.events]
    assert types == [EventType.USER_CREATED, EventType.USER_CONFIRMED, EventType.SESSION_STARTED]
    created, confirmed, started = recorder.events
    assert created.data == {"provider": "email", "via": "signup"}
    assert created.user is not None
    assert (created.user["id"], created.user["email"]) == (user["id"], ADDRESS)
    assert not {"encrypted_password", "password"} & set(created.user)
    assert (created.actor.type, created.actor.id) == (ActorType.ANONYMOUS, None)
    assert created.request is not None
    assert created.request.id
    assert created.request.ip_address == "127.0.0.1"
    assert confirmed.data == {"what": "email"}
    session = started.data["session"]
    assert (session["aal"], session["method"]) == ("aal1", "password")
    assert (started.actor.type, str(started.actor.id)) == (ActorType.USER, user["id"])


def test_an_anonymous_user(api: Api, recorder: Recorder) -> None:
    read_success(api.post("/signup", {}))
    assert recorder.only(EventType.USER_CREATED).data == {"provider": "anonymous", "via": "signup"}


def test_a_change_of_the_own_account(api: Api, recorder: Recorder) -> None:
    session = sign_up(api)
    recorder.events.clear()
    bearer = session["access_token"]
    read_success(
        api.request("PUT", "/user", {"data": {"color": "red"}, "password": "another password 1"}, bearer=bearer)
    )
    updated = recorder.only(EventType.USER_UPDATED)
    assert updated.data == {"changed": ["password", "user_metadata"]}
    assert (updated.actor.type, str(updated.actor.id)) == (ActorType.USER, session["user"]["id"])
    recorder.events.clear()
    read_success(api.request("PUT", "/user", {"data": {"color": "red"}}, bearer=bearer))
    assert recorder.events == []


def test_a_change_by_an_administrator(api: Api, recorder: Recorder) -> None:
    user = factories.make_user(email=ADDRESS)
    recorder.events.clear()
    body = {"role": "editor", "ban_duration": "24h", "app_metadata": {"plan": "pro"}}
    read_success(api.request("PUT", f"/admin/users/{user.id}", body, bearer=token()))
    updated = recorder.only(EventType.USER_UPDATED)
    assert updated.data == {"changed": ["app_metadata", "banned_until", "role"]}
    assert (updated.actor.type, updated.actor.id, updated.actor.role) == (ActorType.ADMIN, None, "service_role")


def test_users_that_administrators_create_and_invite(api: Api, recorder: Recorder) -> None:
    read_success(api.post("/admin/users", {"email": ADDRESS}, bearer=token()))
    assert recorder.only(EventType.USER_CREATED).data == {"provider": "email", "via": "admin"}
    recorder.events.clear()
    read_success(api.post("/invite", {"email": "new@example.com"}, bearer=token()))
    assert recorder.only(EventType.USER_CREATED).data == {"provider": "email", "via": "invite"}
    assert recorder.only(EventType.USER_INVITED).data == {}


@pytest.mark.parametrize("is_soft", [True, False])
def test_a_deletion(api: Api, recorder: Recorder, is_soft: bool) -> None:
    user = factories.make_user(email=ADDRESS)
    recorder.events.clear()
    read_success(api.request("DELETE", f"/admin/users/{user.id}", {"should_soft_delete": is_soft}, bearer=token()))
    deleted = recorder.only(EventType.USER_DELETED)
    assert deleted.user == {"id": str(user.id), "email": ADDRESS, "phone": ""}
    assert deleted.data == {"soft": is_soft}


@pytest.mark.parametrize(
    ("scope", "reason", "count"),
    [("global", "logout", 2), ("local", "logout_local", 1), ("others", "logout_others", 1)],
)
def test_logout(api: Api, recorder: Recorder, scope: str, reason: str, count: int) -> None:
    session = factories.make_session(factories.make_user())
    factories.make_session(session.user)
    recorder.events.clear()
    assert api.post(f"/logout?scope={scope}", bearer=session.access_token).status_code == 204
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert revoked.data["reason"] == reason
    assert len(revoked.data["session_ids"]) == count
    assert "truncated" not in revoked.data


def test_many_ended_sessions_are_one_event(recorder: Recorder) -> None:
    user = factories.make_user()
    for _ in range(101):
        factories.make_session(user)
    recorder.events.clear()
    with transaction.atomic():
        revocation.revoke_all_sessions(user.id, reason="admin")
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert (len(revoked.data["session_ids"]), revoked.data["truncated"]) == (100, True)


def test_a_second_factor(api: Api, recorder: Recorder) -> None:
    owner = factor_requests.make_owner(status="unverified")
    other = factories.make_session(owner.user)
    recorder.events.clear()
    stepped_up = factor_requests.step_up(api, owner)
    enrolled = recorder.only(EventType.FACTOR_ENROLLED)
    assert enrolled.data["factor"]["id"] == str(owner.factor.id)
    assert enrolled.data["factor"]["factor_type"] == "totp"
    upgraded = recorder.only(EventType.SESSION_UPGRADED)
    assert upgraded.data["session"]["aal"] == "aal2"
    assert upgraded.data["factor_id"] == str(owner.factor.id)
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert revoked.data == {"session_ids": [str(other.session.id)], "reason": "mfa_upgrade"}
    recorder.events.clear()
    read_success(api.request("DELETE", f"/factors/{owner.factor.id}", bearer=stepped_up["access_token"]))
    assert recorder.only(EventType.FACTOR_UNENROLLED).data == enrolled.data


def test_the_removal_of_a_factor_by_an_administrator(api: Api, recorder: Recorder) -> None:
    owner = factor_requests.make_owner()
    recorder.events.clear()
    path = f"/admin/users/{owner.user.id}/factors/{owner.factor.id}"
    read_success(api.request("DELETE", path, bearer=token()))
    assert recorder.only(EventType.FACTOR_UNENROLLED).actor.type is ActorType.ADMIN


def test_commands_and_jobs_are_the_system(recorder: Recorder) -> None:
    user = factories.make_user()
    recorder.events.clear()
    actor = audit.Administrator(role="manage.py")
    deletion.delete(user.id, soft=False, actor=actor, caller=Caller(), at=timezone.now())
    deleted = recorder.only(EventType.USER_DELETED)
    assert (deleted.actor.type, deleted.request) == (ActorType.SYSTEM, None)


def test_each_type_is_subscribed_to_alone(api: Api, recorder: Recorder) -> None:
    recorder.types = {EventType.USER_CREATED}
    sign_up(api)
    assert [event.type for event in recorder.events] == [EventType.USER_CREATED]


def test_users_of_hosted_pages_are_actors(recorder: Recorder, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    user = factories.make_user(email=ADDRESS)
    page = PageBrowser()
    page.sign_in(ADDRESS)
    recorder.events.clear()
    page.submit("/account/profile", name="Ada")
    updated = recorder.only(EventType.USER_UPDATED)
    assert (updated.actor.type, updated.actor.id) == (ActorType.USER, user.id)
