"""Lifecycle events of changes that are not the aim of their request: cleanups, claimed accounts, ended sessions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import responses
from django.db import transaction
from django.utils import timezone

from accounts.identities import account_claiming
from accounts.models import Identity, Passkey
from authsvc import events
from authsvc.events import ActorType, Event, EventType
from authsvc.jobs import cleanup
from oauthserver.models import OAuthClient
from tests import factories
from tests.accounts.administration import admin_requests
from tests.authsvc.console.conftest import Console, page_of
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import PASSWORD, read_record
from tests.fakes.http_peer import MockedServer
from tests.hooks.test_lifecycle_events import Recorder
from tests.oauthproviders.browser import Browser
from tests.oauthproviders.conftest import use_github
from tests.observations import backdate_rate_limits
from tokens.models import Session

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    sink = Recorder()
    events.sinks.append(sink)
    yield sink
    events.sinks.remove(sink)


def clean_up(table: str) -> None:
    for rule in cleanup.rules:
        if rule.table == table:
            rule.run(at=timezone.now().replace(minute=0))


def described(event: Event) -> Any:
    """The part of the user that an event is about."""
    [value] = event.data.values()
    return value


def test_expired_sessions(recorder: Recorder, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"timebox": timedelta(days=2)})
    user, now = factories.make_user(), timezone.now()
    ended = [factories.make_session(user).session for _ in range(2)]
    Session.objects.filter(id=ended[0].id).update(not_after=now - timedelta(days=4))
    Session.objects.filter(id=ended[1].id).update(created_at=now - timedelta(days=4))
    kept = factories.make_session(user).session
    recorder.events.clear()
    clean_up("sessions")
    assert [event.type for event in recorder.events] == [EventType.SESSION_REVOKED] * 2
    assert [event.data for event in recorder.events] == [
        {"session_ids": [str(session.id)], "reason": "expired"} for session in ended
    ]
    assert {(event.user_id, event.actor.type) for event in recorder.events} == {(user.id, ActorType.SYSTEM)}
    assert list(Session.objects.values_list("id", flat=True)) == [kept.id]


def test_unused_clients(recorder: Recorder) -> None:
    columns: dict[str, Any] = {
        "client_secret_hash": "", "registration_type": "dynamic", "redirect_uris": "https://shop.example.com/",
        "grant_types": "authorization_code", "client_type": "public", "token_endpoint_auth_method": "none",
        "created_at": timezone.now() - timedelta(days=40), "updated_at": timezone.now(),
    }  # fmt: skip
    unused = OAuthClient.objects.create(**columns, client_name="Unused")
    OAuthClient.objects.create(**columns, client_name="Deleted before", deleted_at=timezone.now())
    clean_up("oauth_clients")
    deleted = recorder.only(EventType.OAUTH_CLIENT_DELETED)
    assert deleted.data["client"]["client_id"] == str(unused.id)
    assert (deleted.user, deleted.actor.type) == (None, ActorType.SYSTEM)
    assert not OAuthClient.objects.exists()


def test_a_claimed_account(recorder: Recorder) -> None:
    user, now = factories.make_user(email=EMAIL, confirmed=False), timezone.now()
    factor = factories.make_factor(user, friendly_name="Phone")
    factories.make_factor(user, status="unverified")
    passkey = Passkey.objects.create(
        user=user, credential_id=b"1", public_key=b"2", friendly_name="Key", created_at=now, updated_at=now
    )
    session = factories.make_session(user).session
    [kept] = Identity.objects.filter(user=user)
    removed = Identity.objects.create(
        provider="github", provider_id="7", user=user, identity_data={"sub": "7"}, created_at=now, updated_at=now
    )
    recorder.events.clear()
    with transaction.atomic():
        account_claiming.claim_unverified_account(read_record(user), keep_identity=kept.id, at=now)
    assert described(recorder.only(EventType.IDENTITY_UNLINKED))["identity_id"] == str(removed.id)
    assert described(recorder.only(EventType.FACTOR_UNENROLLED))["id"] == str(factor.id)
    assert described(recorder.only(EventType.PASSKEY_DELETED)) == {"id": str(passkey.id), "friendly_name": "Key"}
    assert recorder.only(EventType.SESSION_REVOKED).data["session_ids"] == [str(session.id)]


def test_the_account_that_loses_an_address(recorder: Recorder) -> None:
    claimant = factories.make_user(email=EMAIL, confirmed=False, phone="15551234567", phone_confirmed_at=timezone.now())
    recorder.events.clear()
    with transaction.atomic():
        account_claiming.withdraw_claim(read_record(claimant), "email", at=timezone.now())
    updated = recorder.only(EventType.USER_UPDATED)
    assert (updated.user_id, updated.data["changed"][-1:]) == (claimant.id, ["email"])


def test_a_repeated_sign_up(api: Api, recorder: Recorder) -> None:
    for color in ("red", "blue"):
        recorder.events.clear()
        backdate_rate_limits(timedelta(minutes=16))
        read_success(api.post("/signup", {"email": EMAIL, "password": PASSWORD, "data": {"color": color}}))
    assert recorder.only(EventType.USER_UPDATED).data == {"changed": ["user_metadata"]}


def test_a_sign_up_by_code(api: Api, recorder: Recorder) -> None:
    read_success(api.post("/otp", {"email": EMAIL}))
    assert recorder.only(EventType.USER_CREATED).data == {"provider": "email", "via": "otp"}


def test_a_sign_in_at_a_provider(
    recorder: Recorder, auth_config: ChangeConfig, mocked_requests: responses.RequestsMock
) -> None:
    use_github(MockedServer(mocked_requests, url="https://provider.example.com"), auth_config)
    assert Browser().sign_in().status_code == 302
    session = recorder.only(EventType.SESSION_STARTED).data["session"]
    assert (session["method"], session["provider"]) == ("oauth", "github")


def test_a_changed_password(api: Api, recorder: Recorder) -> None:
    made = factories.make_session()
    admin_requests.ask(api, "PUT", f"/admin/users/{made.user.id}", {"password": "another password 1"})
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert revoked.data == {"session_ids": [str(made.session.id)], "reason": "password_changed"}


def test_a_refresh_token_that_is_used_again(api: Api, recorder: Recorder, auth_config: ChangeConfig) -> None:
    made = factories.make_session()
    first = factories.refresh_token(made.session, 0)
    token = first
    for _ in range(3):
        token = read_success(api.post("/token?grant_type=refresh_token", {"refresh_token": token}))["refresh_token"]
    Session.objects.update(refreshed_at=timezone.now() - timedelta(hours=1))
    assert api.post("/token?grant_type=refresh_token", {"refresh_token": first}).status_code == 400
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert revoked.data == {"session_ids": [str(made.session.id)], "reason": "refresh_reuse"}


def test_an_operator(recorder: Recorder) -> None:
    operator = factories.make_user(email="operator@example.com", role="svc_admin")
    made = factories.make_session()
    console = Console()
    console.sign_in("operator@example.com")
    recorder.events.clear()
    page = page_of(made.user)
    made_id = str(made.user.id)
    form = {"action": "end_sessions", "_selected_action": made_id, "source_row": made_id, "action-confirm": "1"}
    console.submit(page, to="/operator/accounts/user/", confirmed="1", **form)
    revoked = recorder.only(EventType.SESSION_REVOKED)
    assert revoked.data["reason"] == "admin"
    assert (revoked.actor.type, revoked.actor.id) == (ActorType.OPERATOR, operator.id)
