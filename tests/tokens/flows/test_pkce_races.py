"""Concurrent uses of one link or one code of a PKCE flow."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import factories
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api
from tests.observations import redirect_query
from tests.tokens.token_requests import audited_actions, exchange_code, verification_result
from tokens.models import FlowState, Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


def test_concurrent_uses_of_pkce_link_yield_one_code(api: Api) -> None:
    user = factories.make_user()
    factories.make_flow(user, method="recovery", auth_code_issued_at=None)
    secret = factories.make_one_time_token(user, pkce=True)

    responses = run_concurrently(*[lambda: api.get(f"/verify?type=recovery&token={secret.link_token}")] * 20)

    assert Counter(verification_result(response) for response in responses) == {"code": 1, "otp_expired": 19}
    assert not Session.objects.exists()
    (code,) = [code for response in responses if (code := redirect_query(response).get("code"))]
    assert exchange_code(api, code).status_code == 200


def test_concurrent_exchanges_of_one_code_start_one_session(api: Api) -> None:
    user = factories.make_user()
    flow = factories.make_flow(user)

    responses = run_concurrently(*[lambda: exchange_code(api, flow.auth_code)] * 20)

    assert status_counts(responses) == {200: 1, 404: 19}
    assert Session.objects.count() == 1
    assert not FlowState.objects.exists()
    assert audited_actions(user) == ["login"]
