"""Cleanup of used messages of wallets."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from authsvc.jobs import cleanup
from oauthproviders.models import UsedWalletMessage


@pytest.mark.django_db
def test_messages_that_are_too_old_are_deleted() -> None:
    now = timezone.now()
    for digest, minutes in (("old", -2), ("valid", 1)):
        UsedWalletMessage.objects.create(digest=digest, expires_at=now + timedelta(minutes=minutes))
    cleanup.run(at=now)
    assert list(UsedWalletMessage.objects.values_list("digest", flat=True)) == ["valid"]
