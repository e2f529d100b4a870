"""Concurrent uses of one signed message."""

from __future__ import annotations

import pytest

from accounts.models import User
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig
from tests.oauthproviders.wallets.test_sign_in import DOMAIN, send, text_for
from tests.oauthproviders.wallets.wallets import SolanaWallet
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_of_concurrent_uses_signs_in(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(wallets={"solana_enabled": True}, site={"allow_list": (f"https://{DOMAIN}/**",)})
    wallet = SolanaWallet()
    message = text_for(wallet)
    responses = run_concurrently(*[lambda: send(Api(), wallet, message)] * 8)
    assert status_counts(responses) == {200: 1, 400: 7}
    assert Session.objects.count() == User.objects.count() == 1
