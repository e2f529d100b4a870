"""Attack: a link in a mailbox sets the first password of a user with a verified factor, without the factor."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.models import User
from tests.accounts.administration import admin_requests
from tests.conftest import Api
from tests.factories import PASSWORD, make_factor, make_one_time_token, make_user
from tokens.models import TokenType

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]

EMAIL = "ada@example.com"


@pytest.mark.parametrize("type", ["signup", "invite"])
@pytest.mark.parametrize("by_code", [False, True])
def test_link_sets_no_password_for_a_user_with_a_factor(type: str, by_code: bool, api: Api) -> None:
    for status, sets_password in (("unverified", True), ("verified", False)):
        User.objects.all().delete()
        # A provider account has no password, and got its factor after a sign-in at the provider.
        user = make_user(email=EMAIL, confirmed=False, password="", invited_at=timezone.now())
        make_factor(user, status=status)
        secret = make_one_time_token(user, TokenType.CONFIRMATION)
        proof = {"token": secret.code, "email": EMAIL} if by_code else {"token_hash": secret.link_token}
        response = api.post("/verify", {"type": type, "password": PASSWORD, **proof})
        assert response.status_code == 200
        assert admin_requests.can_sign_in(api, PASSWORD, email=EMAIL) is sets_password
