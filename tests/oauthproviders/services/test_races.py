"""Callbacks, and what else happens, at the same moment."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.identities import external_sign_in
from accounts.identities.external_identity import Address, ExternalIdentity, ProviderProfile
from accounts.models import Identity, User
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.conf import Provider
from authsvc.db.sql import fetch_rows
from oauthproviders.models import ClientState
from oauthproviders.oidc import openid_connect
from tests import factories
from tests.accounts.administration import admin_requests
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.factories import AUDIENCE, CHALLENGE, SignIn, make_user
from tests.fakes.http_peer import Answer as PeerAnswer
from tests.fakes.http_peer import HttpPeer, in_json
from tests.fakes.issuer import Issuer, SigningKey
from tests.oauthproviders.browser import (
    ADA,
    EMAILS_PATH,
    TOKEN_PATH,
    USER_PATH,
    Browser,
    GitHub,
    address,
    configured,
    link,
    refused_with,
)
from tests.observations import assert_error
from tokens.models import FlowState, Session
from tokens.sessions import revocation

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 8
SIGNING_KEY = SigningKey()

# Other databases of the server belong to other tests.
_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_WAITING = f"SELECT 1 {_OTHERS} AND wait_event_type = 'Lock'"
_BUSY = f"SELECT query {_OTHERS} AND backend_type = 'client backend' AND state <> 'idle'"


def together(*calls: Callable[[], Answer]) -> list[str]:
    """Where all of these requests, made at once by a thread each, are sent to."""
    ready = threading.Barrier(len(calls))

    def run(call: Callable[[], Answer]) -> str:
        try:
            connection.ensure_connection()
            ready.wait(timeout=30)
            return call().headers["Location"]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def somebody_waits() -> bool:
    fetch_rows("SELECT pg_stat_clear_snapshot()", [])  # of what the transaction has seen before
    return bool(fetch_rows(_WAITING, []))


def of_those(locations: list[str], *marks: str) -> list[int]:
    return [sum(mark in location for location in locations) for mark in marks]


def test_of_callbacks_with_one_code_one_signs_in(github: GitHub, browser: Browser) -> None:
    state = browser.depart()

    locations = together(*[lambda: browser.come_back(state)] * MANY)

    assert of_those(locations, "#access_token=", "error_code=bad_oauth_state") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, 1)


def test_of_callbacks_with_one_code_one_gets_the_code_of_pkce(github: GitHub, browser: Browser) -> None:
    make_user(email="ada@example.com")
    state = browser.depart(code_challenge=CHALLENGE, code_challenge_method="s256")

    locations = together(*[lambda: browser.come_back(state)] * MANY)

    assert of_those(locations, "?code=", "error_code=flow_state_already_used") == [1, MANY - 1]
    assert (User.objects.count(), Identity.objects.filter(provider="github").count()) == (1, 1)


def test_many_first_sign_ins_of_one_person_make_one_account(github: GitHub, browser: Browser) -> None:
    states = [browser.depart() for _ in range(MANY)]

    locations = together(*[lambda state=state: browser.come_back(state) for state in states])

    assert of_those(locations, "#access_token=") == [MANY]
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, MANY)


def test_of_two_who_link_one_identity_one_has_it(github: GitHub, browser: Browser, api: Api) -> None:
    states = [link(api, factories.make_session().access_token) for _ in range(2)]

    locations = together(*[lambda state=state: browser.come_back(state) for state in states])

    assert of_those(locations, "#access_token=", "error_code=identity_already_exists") == [1, 1]
    assert Identity.objects.filter(provider="github").count() == 1


def test_somebody_unconfirmed_who_confirms_meanwhile_keeps_the_account(github: GitHub, browser: Browser) -> None:
    user = make_user(email="ada@example.com", confirmed=False)
    state = browser.depart()

    with ThreadPoolExecutor(1) as elsewhere:
        # Confirmed, but not committed yet: what the callback decides on is what it was before.
        with transaction.atomic():
            User.objects.filter(id=user.id).update(email_confirmed_at=timezone.now())
            landing = elsewhere.submit(together, lambda: browser.come_back(state))
            wait_until(somebody_waits)
        (location,) = landing.result()

    password = user.password
    user.refresh_from_db()
    assert "#access_token=" in location
    assert user.password == password
    assert Identity.objects.filter(user=user).count() == 2


def _sign_in_while_the_account_changes(sign_in: Callable[[], Answer], user: User, **changes: Any) -> Answer:
    """Runs `sign_in` while another transaction changes `user`: the sign-in finds the account as it was before."""
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            User.objects.filter(id=user.id).update(**changes)
            signing_in = threads.submit(_in_own_connection, sign_in)
            wait_until(somebody_waits)
        return signing_in.result()


def _in_own_connection(call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    finally:
        connection.close()


def test_a_sign_in_whose_account_changes_sends_the_confirmation_email_of_the_new_account(
    github: GitHub, browser: Browser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=60)})
    user = make_user(email="work@example.com")
    github.is_visited_by(
        address("ada@example.com", verified=False), address("work@example.com", verified=True, primary=False)
    )
    state = browser.depart()

    answer = _sign_in_while_the_account_changes(lambda: browser.come_back(state), user, email="other@example.com")

    refused_with(
        answer,
        "access_denied",
        "provider_email_needs_verification",
        "Unverified email with github. A confirmation email has been sent to your github email",
    )
    assert [email.to for email in mailbox.emails] == ["ada@example.com"]
    assert Identity.objects.get(provider="github").user_id != user.id


def test_a_sign_in_with_an_id_token_whose_account_changes_creates_another_account(
    peer: HttpPeer, api: Api, auth_config: ChangeConfig
) -> None:
    issuer = Issuer(peer, path="/realms/main", key=SIGNING_KEY)
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    openid_connect.clear_caches()
    user = make_user(email="ada@example.com")
    body = {"id_token": issuer.token(), "provider": "keycloak"}

    answer = _sign_in_while_the_account_changes(
        lambda: api.post("/token?grant_type=id_token", body), user, email="other@example.com"
    )

    assert answer.status_code == 200, answer.content
    assert answer.json()["user"]["email"] == "ada@example.com"
    assert answer.json()["user"]["id"] != str(user.id)


def log_out(signed_in: SignIn) -> None:
    assert Api().post("/logout", bearer=signed_in.access_token).status_code == 204


def ban(signed_in: SignIn) -> None:
    admin_requests.done(Api(), "PUT", f"/admin/users/{signed_in.user.id}", {"ban_duration": "1h"})


def evict(signed_in: SignIn) -> None:
    actor, caller = Administrator(role="svc_admin"), Caller(audience=AUDIENCE)
    revocation.revoke_session_as_operator(signed_in.session.id, actor=actor, caller=caller, at=timezone.now())


ENDINGS = {"logout": log_out, "ban": ban, "eviction": evict}


@pytest.mark.parametrize(
    ("ending", "mark"),
    [("logout", "bad_oauth_state"), ("eviction", "bad_oauth_state"), ("ban", "user_banned")],
)
@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
def test_what_ends_while_the_provider_is_asked_links_nothing(
    verified: bool, ending: str, mark: str, github: GitHub, browser: Browser, api: Api
) -> None:
    signed_in = factories.make_session(make_user(email="", is_anonymous=True))
    known = in_json([address("ada@example.com", verified=verified)])
    github.peer.answer(dataclasses.replace(known, delay=0.5), path=EMAILS_PATH)
    state = link(api, signed_in.access_token)

    with ThreadPoolExecutor(1) as elsewhere:
        landing = elsewhere.submit(together, lambda: browser.come_back(state))
        wait_until(lambda: any(each.path == EMAILS_PATH for each in github.peer.received))
        ENDINGS[ending](signed_in)
        (location,) = landing.result()

    assert of_those([location], "#access_token=", f"error_code={mark}") == [0, 1]
    signed_in.user.refresh_from_db()
    assert signed_in.user.email is None
    assert not Identity.objects.filter(provider="github").exists()


@pytest.mark.parametrize("ending", ["logout", "eviction"])
def test_what_ends_before_somebody_is_sent_to_a_provider_begins_no_linking(
    ending: str, peer: HttpPeer, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"manual_linking_enabled": True}, providers={"twitter": configured(url=peer.url)})
    token = PeerAnswer(body=b"oauth_token=t&oauth_token_secret=s&oauth_callback_confirmed=true", delay=0.5)
    peer.answer(token, path="/oauth/request_token")
    signed_in = factories.make_session()

    def set_out() -> Answer:
        try:
            return api.get("/user/identities/authorize?provider=twitter", bearer=signed_in.access_token)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as elsewhere:
        setting_out = elsewhere.submit(set_out)
        wait_until(lambda: len(peer.received) == 1)
        ENDINGS[ending](signed_in)
        answer = setting_out.result()

    assert_error(answer, 403, "session_not_found", "Session from session_id claim in JWT does not exist")
    assert not FlowState.objects.exists()
    assert not ClientState.objects.exists()


@pytest.mark.parametrize(
    ("ending", "refusal"),
    [
        ("logout", (403, "session_not_found")),
        ("eviction", (403, "session_not_found")),
        ("ban", (403, "user_banned")),
    ],
)
def test_what_ends_while_an_issuer_is_asked_links_nothing(
    ending: str, refusal: tuple[int, str], peer: HttpPeer, api: Api, auth_config: ChangeConfig
) -> None:
    issuer = Issuer(peer, path="/realms/main", key=SIGNING_KEY)
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    openid_connect.clear_caches()
    published = in_json({"keys": [issuer.key.jwk]})
    peer.answer(dataclasses.replace(published, delay=0.5), path=issuer.keys_path)
    signed_in = factories.make_session()
    body = {"id_token": issuer.token(), "provider": "keycloak", "link_identity": True}

    def present() -> Answer:
        try:
            return api.post("/token?grant_type=id_token", body, bearer=signed_in.access_token)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as elsewhere:
        presenting = elsewhere.submit(present)
        wait_until(lambda: issuer.request_count(issuer.keys_path) > 0)
        assert fetch_rows(_BUSY, []) == []
        ENDINGS[ending](signed_in)
        answer = presenting.result()

    assert (answer.status_code, answer.json()["error_code"]) == refusal
    assert not Identity.objects.filter(provider="keycloak").exists()
    assert not Session.objects.exclude(id=signed_in.session.id).exists()


def test_nothing_of_the_database_is_held_while_the_provider_is_asked(github: GitHub, browser: Browser) -> None:
    for path, answer in [
        (TOKEN_PATH, {"access_token": "gho_x"}), (USER_PATH, ADA), (EMAILS_PATH, [address("ada@example.com")]),
    ]:  # fmt: skip
        github.peer.answer(dataclasses.replace(in_json(answer), delay=1), path=path)
    state = browser.depart()
    seen: list[list[tuple[str]]] = []

    with ThreadPoolExecutor(1) as elsewhere:
        landing = elsewhere.submit(together, lambda: browser.come_back(state))
        for number in (1, 2, 3):
            wait_until(lambda number=number: len(github.peer.received) == number)  # type: ignore[misc]
            seen.append(fetch_rows(_BUSY, []))
        (location,) = landing.result()

    assert "#access_token=" in location
    assert seen == [[], [], []]


def test_subjects_that_differ_in_case_are_different_people() -> None:
    users = [_come(subject) for subject in ("abc", "ABC", "abc")]

    assert users[0] == users[2] != users[1]


def _come(subject: str) -> User:
    email = "lower@example.com" if subject.islower() else "upper@example.com"
    profile = ProviderProfile(claims={"sub": subject}, addresses=(Address(email=email, verified=True, primary=True),))
    identity = ExternalIdentity.from_profile(profile, provider="custom:any", email_optional=False)
    match = external_sign_in.prepare(identity, audience=AUDIENCE, at=timezone.now())
    with transaction.atomic():
        signed_in = external_sign_in.sign_in(
            match, starts_session=False, redirect_to="", caller=Caller(audience=AUDIENCE), at=timezone.now()
        )
    return User.objects.get(id=signed_in.user.id)
