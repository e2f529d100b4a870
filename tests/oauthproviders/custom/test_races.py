"""Concurrent creation of custom providers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from oauthproviders.models import CustomProvider
from tests.conftest import Api, ChangeConfig
from tests.oauthproviders.custom.test_administration import OAUTH2, create, create_provider


@pytest.mark.django_db(transaction=True)
def test_concurrent_creations_respect_the_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"max_providers": 3})
    create_provider(api, OAUTH2)
    ready = threading.Barrier(8)

    def run(number: int) -> int:
        try:
            connection.ensure_connection()
            ready.wait(timeout=30)
            return create(Api(), {**OAUTH2, "identifier": f"custom:n{number}"}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        statuses = sorted(threads.map(run, range(8)))
    assert statuses == [201] * 2 + [400] * 6
    assert CustomProvider.objects.count() == 3
