"""Requests of the OAuth server while their user or client is deleted: no deadlock, and a documented response."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from oauthserver.models import DeviceAuthorization, OAuthAuthorization, OAuthClient, OAuthConsent
from tests.accounts.administration import admin_requests
from tests.concurrency import run_in_order, run_in_own_connection, wait_for_lock_waiters
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import SignIn, make_session
from tests.oauthserver import device_requests as devices
from tests.oauthserver.client_application import approve, decide, exchange, register, show, start
from tokens.models import Session
from tokens.sessions.errors import UserNotFoundForToken

pytestmark = pytest.mark.django_db(transaction=True)

GONE = (403, "user_not_found")
soft_or_not = pytest.mark.parametrize("soft", [False, True])


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})


def delete_user(api: Api, session: SignIn, *, soft: bool = False) -> ApiResponse:
    return admin_requests.ask(api, "DELETE", f"/admin/users/{session.user.id}", {"should_soft_delete": soft})


def delete_client(api: Api, client_id: str) -> ApiResponse:
    return admin_requests.ask(api, "DELETE", f"/admin/oauth/clients/{client_id}")


def outcome_of(response: ApiResponse) -> tuple[int, str]:
    return response.status_code, response.json().get("error_code", "")


@soft_or_not
@pytest.mark.parametrize("request_", ["show", "decide", "revoke"])
def test_a_user_is_deleted_before_a_decision(api: Api, request_: str, soft: bool) -> None:
    application, session = register(api), make_session()
    authorization_id = start(api, application)
    if request_ != "show":
        show(api, authorization_id, session)
    if request_ == "revoke":
        decide(api, authorization_id, session)
    grant = f"/user/oauth/grants?client_id={application.client_id}"
    calls = {
        "show": lambda: show(api, authorization_id, session),
        "decide": lambda: decide(api, authorization_id, session),
        "revoke": lambda: api.delete(grant, bearer=session.access_token),
    }

    deleted, refused = run_in_order(session.user.pk, lambda: delete_user(api, session, soft=soft), calls[request_])

    assert (deleted.status_code, outcome_of(refused)) == (200, GONE)


@soft_or_not
def test_a_user_is_deleted_after_a_decision(api: Api, soft: bool) -> None:
    application, session = register(api), make_session()
    authorization_id = start(api, application)
    show(api, authorization_id, session)

    decided, deleted = run_in_order(
        session.user.pk,
        lambda: decide(api, authorization_id, session),
        lambda: delete_user(api, session, soft=soft),
    )

    assert (decided.status_code, deleted.status_code) == (200, 200)
    assert not OAuthConsent.objects.exists()


@soft_or_not
def test_a_user_is_deleted_before_the_exchange_of_a_code(api: Api, soft: bool) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)

    deleted, exchanged = run_in_order(
        session.user.pk, lambda: delete_user(api, session, soft=soft), lambda: exchange(application, code)
    )

    assert (deleted.status_code, exchanged.status_code, exchanged.json()["error"]) == (200, 400, "invalid_grant")
    assert not Session.objects.exists()


@soft_or_not
@pytest.mark.parametrize("request_", ["find", "decide", "poll"])
def test_a_user_is_deleted_before_a_request_of_a_device(api: Api, request_: str, soft: bool) -> None:
    application, session = devices.television(api), make_session()
    started = devices.start(application)
    if request_ != "find":
        devices.find(started, session)
    if request_ == "poll":
        devices.decide(started, session)

    def decide_or_find() -> Any:
        try:
            return devices.find(started, session) if request_ == "find" else devices.decide(started, session)
        except UserNotFoundForToken as error:
            return error

    deleted, refused = run_in_order(
        session.user.pk,
        lambda: delete_user(api, session, soft=soft),
        (lambda: devices.poll(application, started)) if request_ == "poll" else decide_or_find,
    )

    assert deleted.status_code == 200
    if request_ == "poll":
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    else:
        assert isinstance(refused, UserNotFoundForToken)
    assert not Session.objects.exists()


@contextmanager
def waiting_consents() -> Iterator[None]:
    """Every transaction that stores a consent waits, before its references are checked, for the end of the block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$"
        )
        cursor.execute("CREATE TRIGGER wait BEFORE INSERT ON oauth_consents FOR EACH ROW EXECUTE FUNCTION wait()")
        cursor.execute("SELECT pg_advisory_lock(1)")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(1)")


@pytest.fixture
def _removed_trigger() -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION wait CASCADE")


@pytest.mark.usefixtures("_removed_trigger")
@pytest.mark.parametrize("is_device", [False, True])
def test_a_client_is_deleted_during_an_approval(api: Api, is_device: bool) -> None:
    session = make_session()
    application = devices.television(api) if is_device else register(api)
    if is_device:
        started = devices.start(application)
        devices.find(started, session)
    else:
        authorization_id = start(api, application)
        show(api, authorization_id, session)

    def approve_request() -> int:
        if is_device:
            devices.decide(started, session)
            return 200
        return decide(api, authorization_id, session).status_code

    with ThreadPoolExecutor(2) as threads:
        with waiting_consents():
            approved = threads.submit(run_in_own_connection, approve_request)
            wait_for_lock_waiters(1)
            deleted = threads.submit(run_in_own_connection, lambda: delete_client(api, application.client_id))
            wait_for_lock_waiters(2)
        assert (approved.result(), deleted.result().status_code) == (200, 204)

    assert OAuthClient.objects.get().deleted_at is not None
    assert not OAuthAuthorization.objects.filter(status="approved").exists()
    assert not DeviceAuthorization.objects.exists()
