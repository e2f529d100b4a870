"""Sign-ins that are prepared before an attack; each function returns the call that sends the last request."""

from __future__ import annotations

from collections.abc import Callable

from accounts.models import User
from tests import factories
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD
from tests.oauthproviders.browser import Browser, start_link_flow
from tests.tokens.token_requests import exchange_code, refresh
from tokens.models import TokenType

EMAIL = "ada@example.com"
PHONE = "15551234567"
CODE = "123456"
"""The code of the fixture `sign_in_methods`."""

Attempt = Callable[[], ApiResponse]
Prepare = Callable[[Api, User], Attempt]


def by_password(api: Api, user: User) -> Attempt:
    return lambda: api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD})


def by_link(type: str, token_type: TokenType = TokenType.RECOVERY) -> Prepare:
    def prepare(api: Api, user: User) -> Attempt:
        if token_type is TokenType.CONFIRMATION:
            User.objects.filter(id=user.id).update(email_confirmed_at=None)
        secret = factories.make_one_time_token(user, token_type)
        return lambda: api.post("/verify", {"type": type, "token_hash": secret.link_token})

    return prepare


def by_opened_link(api: Api, user: User) -> Attempt:
    secret = factories.make_one_time_token(user)
    return lambda: api.get(f"/verify?type=magiclink&token={secret.link_token}")


def by_email_code(api: Api, user: User) -> Attempt:
    secret = factories.make_one_time_token(user)
    return lambda: api.post("/verify", {"type": "email", "email": EMAIL, "token": secret.code})


def by_sms_code(api: Api, user: User) -> Attempt:
    return lambda: api.post("/verify", {"type": "sms", "phone": PHONE, "token": CODE})


def by_flow(api: Api, user: User) -> Attempt:
    flow = factories.make_flow(user)
    return lambda: exchange_code(api, flow.auth_code)


def by_provider(api: Api, user: User) -> Attempt:
    browser = Browser()
    assert "access_token" in browser.sign_in().headers["Location"]
    state = browser.start()
    return lambda: browser.callback(state)


def by_linking(api: Api, user: User) -> Attempt:
    state = start_link_flow(api, factories.make_session(user).access_token)
    return lambda: Browser().callback(state)


def by_refresh(api: Api, user: User) -> Attempt:
    token = factories.make_session(user).refresh_token
    return lambda: refresh(api, token)
