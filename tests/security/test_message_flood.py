"""Clients flood a recipient with messages, or use up the quota of messages of all others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from authsvc.conf import Rate, Secret, Vonage
from tests import factories
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.observations import backdate_rate_limits

pytestmark = pytest.mark.django_db

VICTIM = "victim@example.com"
PHONE = "15551234567"
PASSWORD = factories.PASSWORD
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def small_quotas(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"phone_enabled": True},
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
        limits={"otp": 100_000, "factors": 100_000, "email_sent": Rate(events=40), "sms_sent": Rate(events=3)},
    )


def client(number: int) -> dict[str, str]:
    """The header of a request from another address."""
    return {"X-Forwarded-For": f"198.51.{number // 250}.{number % 250 + 1}"}


def is_message_refused(response: ApiResponse) -> bool:
    return response.status_code == 429 and "send_rate_limit" in response.json()["error_code"]


# A quota of three SMS


def challenge_new_factor(api: Api, bearer: str, number: int, **options: Any) -> ApiResponse:
    body = {"factor_type": "phone", "phone": f"+1555000{number:04}", "friendly_name": f"phone {number}"}
    factor = api.post("/factors", body, bearer=bearer).json()
    response = api.post(f"/factors/{factor['id']}/challenge", {}, bearer=bearer, **options)
    api.delete(f"/factors/{factor['id']}", bearer=bearer)
    return response


def test_enrolments_of_phones_count_against_the_sms_quota(api: Api, mailbox: Mailbox) -> None:
    users = [factories.make_session().access_token for _ in range(8)]

    responses = [
        challenge_new_factor(api, users[number % 8], number, headers=client(number % 8)) for number in range(40)
    ]

    assert len(mailbox.sms) == 3
    assert sum(is_message_refused(response) for response in responses) == 37


def test_one_user_cannot_use_up_the_sms_quota_of_others(api: Api, mailbox: Mailbox) -> None:
    attacker, owner = factories.make_session().access_token, factories.make_session().access_token
    for number in range(20):
        challenge_new_factor(api, attacker, number, headers=client(number))
    assert len(mailbox.sms) == 1

    assert challenge_new_factor(api, owner, 100).status_code == 200
    assert len(mailbox.sms) == 2


def test_every_kind_of_text_message_counts(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(sms={"autoconfirm": True})
    factories.make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    assert challenge_new_factor(api, factories.make_session().access_token, 1, headers=client(1)).status_code == 200
    assert api.post("/otp", {"phone": PHONE}, headers=client(2)).status_code == 200
    by_phone = factories.make_session(
        factories.make_user(email="", phone="15557654321", phone_confirmed_at=timezone.now())
    )
    assert api.get("/reauthenticate", bearer=by_phone.access_token, headers=client(3)).status_code == 200

    assert is_message_refused(api.post("/otp", {"phone": "+15559999999"}, headers=client(4)))
    assert len(mailbox.sms) == 3


# One recipient


def test_a_change_to_one_address_is_mailed_once_per_interval(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    sessions = [factories.make_session() for _ in range(15)]

    responses = [
        api.put("/user", {"email": VICTIM}, bearer=session.access_token, headers=client(number))
        for number, session in enumerate(sessions)
    ]

    assert [response.status_code for response in responses] == [200] + [429] * 14
    assert [email.to for email in mailbox.emails] == [VICTIM]
    backdate_rate_limits(MINUTE)
    assert api.put("/user", {"email": VICTIM}, bearer=sessions[1].access_token).status_code == 200


def all_requests() -> list[tuple[str, str, dict[str, Any]]]:
    """Requests that send messages of every kind to the victim, or would if it had an account."""
    return [
        ("POST", "/signup", {"email": VICTIM, "password": PASSWORD}),
        ("POST", "/otp", {"email": VICTIM}),
        ("POST", "/magiclink", {"email": VICTIM}),
        ("POST", "/recover", {"email": VICTIM}),
        ("POST", "/resend", {"email": VICTIM, "type": "signup"}),
        ("PUT", "/user", {"email": VICTIM}),
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_kinds_and_senders_do_not_multiply_the_messages_to_an_address(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, is_known: bool
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False}, limits={"email_sent": Rate(events=100_000)})
    if is_known:
        factories.make_user(email=VICTIM, confirmed=False)
    minutes = 20

    for minute in range(minutes):
        for number, (method, path, body) in enumerate(all_requests()):
            bearer = factories.make_session().access_token if path == "/user" else ""
            api.request(method, path, body, bearer=bearer, headers=client(10 * minute + number))
        backdate_rate_limits(MINUTE)

    assert sum(email.to == VICTIM for email in mailbox.emails) <= minutes + 3
    assert api.post("/recover", {"email": VICTIM}).status_code == 200


def test_kinds_and_senders_do_not_multiply_the_messages_to_a_phone(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(limits={"sms_sent": Rate(events=100_000)})
    minutes = 10

    for minute in range(minutes):
        tokens = [factories.make_session().access_token for _ in range(2)]
        for number, bearer in enumerate(tokens):
            api.put("/user", {"phone": PHONE}, bearer=bearer, headers=client(10 * minute + number))
            factor = api.post("/factors", {"factor_type": "phone", "phone": PHONE}, bearer=bearer).json()
            api.post(f"/factors/{factor['id']}/challenge", {}, bearer=bearer, headers=client(10 * minute + number))
        api.post("/otp", {"phone": PHONE}, headers=client(10 * minute + 2))
        api.post("/signup", {"phone": PHONE, "password": PASSWORD}, headers=client(10 * minute + 3))
        backdate_rate_limits(MINUTE)

    assert len(mailbox.sms) <= minutes + 3


@pytest.mark.parametrize("second", ["factor", "change"])
def test_a_phone_gets_one_message_of_a_kind_per_interval_whichever_account_sends_it(
    api: Api, mailbox: Mailbox, second: str
) -> None:
    def send(bearer: str, number: int) -> ApiResponse:
        if second == "change":
            return api.put("/user", {"phone": PHONE}, bearer=bearer, headers=client(number))
        factor = api.post("/factors", {"factor_type": "phone", "phone": PHONE}, bearer=bearer).json()
        return api.post(f"/factors/{factor['id']}/challenge", {}, bearer=bearer, headers=client(number))

    assert send(factories.make_session().access_token, 1).status_code == 200
    assert is_message_refused(send(factories.make_session().access_token, 2))
    assert len(mailbox.sms) == 1


def test_a_client_without_quota_does_not_silence_an_address(api: Api, mailbox: Mailbox) -> None:
    for number in range(4):
        assert api.post("/recover", {"email": f"user{number}@example.com"}, headers=client(1)).status_code == 200
    factories.make_user(email=VICTIM)
    assert is_message_refused(api.post("/recover", {"email": VICTIM}, headers=client(1)))

    assert api.post("/recover", {"email": VICTIM}, headers=client(2)).status_code == 200
    assert [email.to for email in mailbox.emails] == [VICTIM]


# The quota of all


def test_one_client_uses_at_most_a_tenth_of_the_quota(api: Api, mailbox: Mailbox) -> None:
    for number in range(40):
        api.post("/signup", {"email": f"user{number}@example.com", "password": PASSWORD}, headers=client(1))
    assert len(mailbox.emails) == 4

    responses = [api.post("/otp", {"email": f"other{number}@example.com"}, headers=client(2)) for number in range(4)]
    assert [response.status_code for response in responses] == [200] * 4


def test_addresses_of_one_network_share_the_tenth(api: Api, mailbox: Mailbox) -> None:
    for number in range(40):
        body = {"email": f"user{number}@example.com", "password": PASSWORD}
        api.post("/signup", body, headers={"X-Forwarded-For": f"2001:db8::{number:x}"})
    assert len(mailbox.emails) == 4


@pytest.mark.parametrize("is_known", [True, False])
def test_the_share_does_not_reveal_accounts(api: Api, is_known: bool) -> None:
    if is_known:
        for number in range(4):
            factories.make_user(email=f"user{number}@example.com")
    statuses = [api.post("/recover", {"email": f"user{number}@example.com"}).status_code for number in range(5)]
    assert statuses == [200] * 4 + [429]


@pytest.mark.parametrize("events", [1, 3, 9])
def test_a_small_quota_is_usable(api: Api, mailbox: Mailbox, auth_config: ChangeConfig, events: int) -> None:
    auth_config(limits={"email_sent": Rate(events=events)})
    for number in range(events):
        assert api.post("/otp", {"email": f"user{number}@example.com"}, headers=client(number)).status_code == 200
    assert is_message_refused(api.post("/otp", {"email": VICTIM}, headers=client(events)))


def test_administrators_have_their_own_quota(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=2)})
    for number in range(10):
        api.post("/otp", {"email": f"user{number}@example.com"}, headers=client(number))
    assert len(mailbox.emails) == 2

    token = admin_requests.token()
    invited = [api.post("/invite", {"email": f"invited{number}@example.com"}, bearer=token) for number in range(3)]
    assert [response.status_code for response in invited] == [200, 200, 429]


# Auto-confirm


PATHS = ["/invite", "/magiclink", "/recover", "/otp", "/user"]


@pytest.mark.parametrize(
    ("path", "autoconfirm"),
    # A sign-up that is confirmed at once sends no email.
    [("/signup", False), *((path, autoconfirm) for path in PATHS for autoconfirm in (True, False))],
)
def test_the_quota_counts_on_every_endpoint_whatever_is_auto_confirmed(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, path: str, autoconfirm: bool
) -> None:
    auth_config(
        mailer={"autoconfirm": autoconfirm, "secure_email_change_enabled": False}, limits={"email_sent": Rate(events=1)}
    )
    statuses = []
    for number in range(2):
        address = f"user{number}@example.com"
        if path == "/recover":
            factories.make_user(email=address)
        body = {"email": address, "password": PASSWORD} if path == "/signup" else {"email": address}
        bearer = {"/invite": admin_requests.token, "/user": lambda: factories.make_session().access_token}.get(
            path, str
        )()
        method = "PUT" if path == "/user" else "POST"
        statuses.append(api.request(method, path, body, bearer=bearer, headers=client(number)).status_code)

    assert statuses == [200, 429]
    assert len(mailbox.emails) == 1
