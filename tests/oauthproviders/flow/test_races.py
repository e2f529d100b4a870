"""Concurrent callbacks, and other requests during a callback."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.conf import Provider
from authsvc.db.sql import fetch_rows
from oauthproviders.models import ClientState
from tests import factories
from tests.accounts.administration import admin_requests
from tests.concurrency import run_concurrently, run_in_order, run_in_own_connection, wait_for_lock_waiters
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, CHALLENGE, SignIn, make_user
from tests.fakes.http_peer import MockedServer, in_json
from tests.fakes.http_peer import Response as PeerResponse
from tests.fakes.issuer import Issuer, SigningKey
from tests.oauthproviders.browser import (
    ADA,
    EMAILS_PATH,
    TOKEN_PATH,
    USER_PATH,
    Browser,
    GitHub,
    address,
    assert_error_redirect,
    provider_settings,
    start_link_flow,
)
from tests.observations import assert_error
from tokens.models import FlowState, Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 8
SIGNING_KEY = SigningKey()

# Other databases of the server belong to other tests.
_BUSY = """
    SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend' AND state <> 'idle'
"""


class Pause:
    """Stops a response of the provider; the `with` block of the test runs while the request waits for it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._ended = threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._ended.wait(timeout=30)

    def __enter__(self) -> None:
        assert self._reached.wait(timeout=30)

    def __exit__(self, *_: object) -> None:
        self._ended.set()


def redirects(responses: list[ApiResponse]) -> list[str]:
    return [response.headers["Location"] for response in responses]


def count_by_mark(locations: list[str], *marks: str) -> list[int]:
    return [sum(mark in location for location in locations) for mark in marks]


def test_one_of_several_callbacks_with_the_same_state_signs_in(github: GitHub, browser: Browser) -> None:
    state = browser.start()

    locations = redirects(run_concurrently(*[lambda: browser.callback(state)] * MANY))

    assert count_by_mark(locations, "#access_token=", "error_code=bad_oauth_state") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, 1)


def test_one_of_several_callbacks_with_the_same_state_gets_the_pkce_code(github: GitHub, browser: Browser) -> None:
    make_user(email="ada@example.com")
    state = browser.start(code_challenge=CHALLENGE, code_challenge_method="s256")

    locations = redirects(run_concurrently(*[lambda: browser.callback(state)] * MANY))

    assert count_by_mark(locations, "?code=", "error_code=flow_state_already_used") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.filter(provider="github").count()) == (1, 1)


def test_concurrent_first_sign_ins_of_a_user_create_one_account(github: GitHub, browser: Browser) -> None:
    states = [browser.start() for _ in range(MANY)]

    locations = redirects(run_concurrently(*[lambda state=state: browser.callback(state) for state in states]))

    assert count_by_mark(locations, "#access_token=") == [MANY]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, MANY)


def test_a_sign_in_that_waits_for_the_removal_of_another_identity_keeps_its_providers(
    github: GitHub, browser: Browser, api: Api
) -> None:
    sign_in = factories.make_session(make_user(email="ada@example.com"))
    browser.sign_in()
    own = sign_in.user.identities.get(provider="email")
    state = browser.start()

    responses = run_in_order(
        sign_in.user.id,
        lambda: api.delete(f"/user/identities/{own.id}", bearer=sign_in.access_token),
        lambda: browser.callback(state),
        until_update=True,
    )

    assert [response.status_code for response in responses] == [200, 302]
    assert User.objects.get().raw_app_meta_data == {"provider": "github", "providers": ["github"]}


def test_an_identity_is_linked_to_one_of_two_users(github: GitHub, browser: Browser, api: Api) -> None:
    states = [start_link_flow(api, factories.make_session().access_token) for _ in range(2)]

    locations = redirects(run_concurrently(*[lambda state=state: browser.callback(state) for state in states]))

    assert count_by_mark(locations, "#access_token=", "error_code=identity_already_exists") == [1, 1]
    assert Identity.objects.filter(provider="github").count() == 1


def test_an_account_confirmed_during_the_callback_is_not_claimed(github: GitHub, browser: Browser) -> None:
    user = make_user(email="ada@example.com", confirmed=False)
    state = browser.start()

    with ThreadPoolExecutor(1) as threads:
        # The callback reads the account before this transaction is committed.
        with transaction.atomic():
            User.objects.filter(id=user.id).update(email_confirmed_at=timezone.now())
            running = threads.submit(run_in_own_connection, lambda: browser.callback(state))
            wait_for_lock_waiters(1)
        location = running.result().headers["Location"]

    password = user.password
    user.refresh_from_db()
    assert "#access_token=" in location
    assert user.password == password
    assert Identity.objects.filter(user=user).count() == 2


def _sign_in_during_a_change(sign_in: Callable[[], ApiResponse], user: User, **changes: Any) -> ApiResponse:
    """Run `sign_in` while another transaction changes `user`: the sign-in finds the account as it was before."""
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            User.objects.filter(id=user.id).update(**changes)
            signing_in = threads.submit(run_in_own_connection, sign_in)
            wait_for_lock_waiters(1)
        return signing_in.result()


def test_a_sign_in_whose_account_changes_sends_the_confirmation_email_of_the_new_account(
    github: GitHub, browser: Browser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=60)})
    user = make_user(email="work@example.com")
    github.set_user(
        address("ada@example.com", verified=False), address("work@example.com", verified=True, primary=False)
    )
    state = browser.start()

    response = _sign_in_during_a_change(lambda: browser.callback(state), user, email="other@example.com")

    assert_error_redirect(
        response,
        "access_denied",
        "provider_email_needs_verification",
        "Unverified email with github. A confirmation email has been sent to your github email",
    )
    assert [email.to for email in mailbox.emails] == ["ada@example.com"]
    assert Identity.objects.get(provider="github").user_id != user.id


def test_a_sign_in_with_an_id_token_whose_account_changes_creates_another_account(
    server: MockedServer, api: Api, auth_config: ChangeConfig
) -> None:
    issuer = Issuer(server, path="/realms/main", key=SIGNING_KEY)
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    user = make_user(email="ada@example.com")
    body = {"id_token": issuer.token(), "provider": "keycloak"}

    response = _sign_in_during_a_change(
        lambda: api.post("/token?grant_type=id_token", body), user, email="other@example.com"
    )

    assert response.status_code == 200, response.content
    assert response.json()["user"]["email"] == "ada@example.com"
    assert response.json()["user"]["id"] != str(user.id)


def sign_out(signed_in: SignIn) -> None:
    assert Api().post("/logout", bearer=signed_in.access_token).status_code == 204


def ban(signed_in: SignIn) -> None:
    admin_requests.expect_success(Api(), "PUT", f"/admin/users/{signed_in.user.id}", {"ban_duration": "1h"})


def end_session(signed_in: SignIn) -> None:
    actor, caller = Administrator(role="svc_admin"), Caller(audience=AUDIENCE)
    revocation.revoke_session_as_operator(signed_in.session.id, actor=actor, caller=caller, at=timezone.now())


ENDINGS = {"logout": sign_out, "ban": ban, "revocation": end_session}


@pytest.mark.parametrize(
    ("ending", "mark"),
    [("logout", "bad_oauth_state"), ("revocation", "bad_oauth_state"), ("ban", "user_banned")],
)
@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
def test_a_session_that_ends_during_the_calls_to_the_provider_links_no_identity(
    verified: bool, ending: str, mark: str, github: GitHub, browser: Browser, api: Api
) -> None:
    signed_in = factories.make_session(make_user(email="", is_anonymous=True))
    emails = in_json([address("ada@example.com", verified=verified)])
    pause = Pause()
    github.server.respond(dataclasses.replace(emails, before=pause), path=EMAILS_PATH)
    state = start_link_flow(api, signed_in.access_token)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run_in_own_connection, lambda: browser.callback(state))
        with pause:
            ENDINGS[ending](signed_in)
        location = running.result().headers["Location"]

    assert count_by_mark([location], "#access_token=", f"error_code={mark}") == [0, 1]
    signed_in.user.refresh_from_db()
    assert signed_in.user.email is None
    assert not Identity.objects.filter(provider="github").exists()


@pytest.mark.parametrize("ending", ["logout", "revocation"])
def test_a_session_that_ends_during_the_request_token_call_starts_no_flow(
    ending: str, server: MockedServer, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"manual_linking_enabled": True}, providers={"twitter": provider_settings(url=server.url)})
    pause = Pause()
    token = PeerResponse(body=b"oauth_token=t&oauth_token_secret=s&oauth_callback_confirmed=true", before=pause)
    server.respond(token, path="/oauth/request_token")
    signed_in = factories.make_session()

    def authorize() -> ApiResponse:
        return api.get("/user/identities/authorize?provider=twitter", bearer=signed_in.access_token)

    with ThreadPoolExecutor(1) as threads:
        authorizing = threads.submit(run_in_own_connection, authorize)
        with pause:
            ENDINGS[ending](signed_in)
        response = authorizing.result()

    assert_error(response, 403, "session_not_found", "Session from session_id claim in JWT does not exist")
    assert not FlowState.objects.exists()
    assert not ClientState.objects.exists()


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("logout", (403, "session_not_found")),
        ("revocation", (403, "session_not_found")),
        ("ban", (403, "user_banned")),
    ],
)
def test_a_session_that_ends_during_the_calls_to_the_issuer_links_no_identity(
    ending: str, error: tuple[int, str], server: MockedServer, api: Api, auth_config: ChangeConfig
) -> None:
    issuer = Issuer(server, path="/realms/main", key=SIGNING_KEY)
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    keys = in_json({"keys": [issuer.key.jwk]})
    pause = Pause()
    server.respond(dataclasses.replace(keys, before=pause), path=issuer.keys_path)
    signed_in = factories.make_session()
    body = {"id_token": issuer.token(), "provider": "keycloak", "link_identity": True}

    def sign_in() -> ApiResponse:
        return api.post("/token?grant_type=id_token", body, bearer=signed_in.access_token)

    with ThreadPoolExecutor(1) as threads:
        signing_in = threads.submit(run_in_own_connection, sign_in)
        with pause:
            assert fetch_rows(_BUSY, []) == []
            ENDINGS[ending](signed_in)
        response = signing_in.result()

    assert (response.status_code, response.json()["error_code"]) == error
    assert not Identity.objects.filter(provider="keycloak").exists()
    assert not Session.objects.exclude(id=signed_in.session.id).exists()


def test_no_transaction_is_open_during_calls_to_the_provider(github: GitHub, browser: Browser) -> None:
    documents: dict[str, Any] = {
        TOKEN_PATH: {"access_token": "gho_x"}, USER_PATH: ADA, EMAILS_PATH: [address("ada@example.com")],
    }  # fmt: skip
    pauses = [Pause() for _ in documents]
    for (path, document), pause in zip(documents.items(), pauses, strict=True):
        github.server.respond(dataclasses.replace(in_json(document), before=pause), path=path)
    state = browser.start()
    statements: list[list[tuple[str]]] = []

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run_in_own_connection, lambda: browser.callback(state))
        for pause in pauses:
            with pause:
                statements.append(fetch_rows(_BUSY, []))
        location = running.result().headers["Location"]

    assert "#access_token=" in location
    assert statements == [[], [], []]
