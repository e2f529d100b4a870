"""Requests that run while their user is deleted: they get the response of a later request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accounts.models import PasskeyChallenge
from tests.accounts.administration import admin_requests
from tests.concurrency import run_in_order
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import SignIn, make_session, make_user
from tests.observations import assert_error
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db(transaction=True)

EMAIL = "ann@example.com"
Attempt = Callable[[], ApiResponse]


@pytest.fixture(autouse=True)
def settings(auth_config: ChangeConfig) -> None:
    auth_config(
        passkeys={"enabled": True},
        webauthn={"rp_id": "localhost", "rp_display_name": "Example", "rp_origins": ("http://localhost:3000",)},
        mailer={"worker_enabled": False},
    )


def passkey(api: Api, owner: SignIn) -> Attempt:
    return lambda: api.post("/passkeys/registration/options", {}, bearer=owner.access_token)


def reauthentication(api: Api, owner: SignIn) -> Attempt:
    return lambda: api.get("/reauthenticate", bearer=owner.access_token)


def factor(api: Api, owner: SignIn) -> Attempt:
    return lambda: api.post("/factors", {"factor_type": "totp"}, bearer=owner.access_token)


def change(api: Api, owner: SignIn) -> Attempt:
    return lambda: api.put("/user", {"email": "new@example.com"}, bearer=owner.access_token)


def link(**body: str) -> Callable[[Api, SignIn], Attempt]:
    return lambda api, owner: lambda: admin_requests.ask(api, "POST", "/admin/generate_link", {"email": EMAIL, **body})


LINKS = [link(type="recovery"), link(type="magiclink"), link(type="email_change_new", new_email="b@c.de")]
GONE = (403, "user_not_found", "User from sub claim in JWT does not exist")
SESSION_GONE = (403, "session_not_found", "Session from session_id claim in JWT does not exist")
UNKNOWN = (404, "user_not_found", "User with this email not found")


@pytest.mark.parametrize(
    ("prepare", "soft", "refusal"),
    [
        (passkey, False, GONE),
        *((prepare, False, GONE) for prepare in (reauthentication, factor, change)),
        *((prepare, True, SESSION_GONE) for prepare in (factor, change)),
        (reauthentication, True, GONE),
        *((prepare, soft, UNKNOWN) for prepare in LINKS for soft in (False, True)),
    ],
)
def test_a_user_is_deleted_before_a_request(
    api: Api, prepare: Callable[[Api, SignIn], Attempt], soft: bool, refusal: tuple[int, str, str]
) -> None:
    owner = make_session(make_user(email=EMAIL))
    path, body = f"/admin/users/{owner.user.id}", {"should_soft_delete": soft}

    deleted, refused = run_in_order(
        owner.user.pk, lambda: admin_requests.ask(api, "DELETE", path, body), prepare(api, owner)
    )

    assert deleted.status_code == 200
    assert_error(refused, *refusal)
    assert not OneTimeToken.objects.exists()
    assert not PasskeyChallenge.objects.exists()
