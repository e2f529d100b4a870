"""Concurrent decisions and exchanges: one code, one session."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from oauthserver.models import OAuthConsent
from tests.concurrency import run_concurrently, run_in_order, status_counts
from tests.conftest import Api
from tests.factories import make_session
from tests.oauthserver.client_application import approve, decide, exchange, register, show, start
from tokens.models import Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_code_gives_one_session(api: Api) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)

    responses = run_concurrently(*[lambda: exchange(application, code)] * 20)

    assert status_counts(responses) == {200: 1, 400: 19}
    assert {response.json().get("error") for response in responses if response.status_code == 400} == {"invalid_grant"}
    # The session exists unless one of the others came after the exchange, and so was a replay.
    assert Session.objects.filter(oauth_client_id=application.client_id).count() <= 1
    exchange(application, code)
    assert not Session.objects.filter(oauth_client_id=application.client_id).exists()


def test_a_request_is_decided_once(api: Api) -> None:
    application, session = register(api), make_session()
    authorization_id = start(api, application)
    show(api, authorization_id, session)

    responses = run_concurrently(*[lambda: decide(api, authorization_id, session)] * 8)

    counts = status_counts(responses)
    assert counts.pop(200) == 1
    assert set(counts) <= {400, 404}
    assert OAuthConsent.objects.count() == 1


def test_a_code_does_not_survive_a_change_of_the_password(api: Api) -> None:
    application, session = register(api), make_session()
    kept, code = make_session(session.user), approve(api, application, session)

    changed, exchanged = run_in_order(
        session.user.pk,
        lambda: api.put("/user", {"password": "another horse battery"}, bearer=kept.access_token),
        lambda: exchange(application, code),
    )

    assert (changed.status_code, exchanged.json()["error"]) == (200, "invalid_grant")
    assert list(Session.objects.values_list("id")) == [(kept.session.id,)]


def test_a_logout_ends_the_session_of_an_exchange_in_progress(api: Api) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)

    exchanged, ended = run_in_order(
        session.user.pk,
        lambda: exchange(application, code),
        lambda: api.post("/logout", bearer=session.access_token),
        until_update=True,
    )

    assert (exchanged.status_code, ended.status_code) == (200, 204)
    assert not Session.objects.exists()


def test_a_new_sign_in_of_the_browser_keeps_the_session_of_an_exchange_in_progress(api: Api) -> None:
    application, session = register(api), make_session()
    code, renewed = approve(api, application, session), make_session(session.user)
    previous = AccountUsers().find_signed_in_user(user_id=session.user.id, session_id=session.session.id)
    assert previous is not None

    exchanged, _ = run_in_order(
        session.user.pk,
        lambda: exchange(application, code),
        lambda: revocation.replace_browser_session(
            previous, session_id=renewed.session.id, caller=Caller(), at=timezone.now()
        ),
        until_update=True,
    )

    assert exchanged is not None
    assert exchanged.status_code == 200
    assert Session.objects.get(oauth_client_id=application.client_id).approving_session_id == renewed.session.id


def test_a_revocation_ends_the_session_of_an_exchange_in_progress(api: Api) -> None:
    application, session = register(api), make_session()
    code = approve(api, application, session)

    exchanged, revoked = run_in_order(
        session.user.pk,
        lambda: exchange(application, code),
        lambda: api.delete(f"/user/oauth/grants?client_id={application.client_id}", bearer=session.access_token),
        until_update=True,
    )

    assert (exchanged.status_code, revoked.status_code) == (200, 204)
    assert not Session.objects.filter(oauth_client_id=application.client_id).exists()
