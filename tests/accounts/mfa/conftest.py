"""Settings of the tests of second factors."""

from __future__ import annotations

import pytest

from authsvc.conf import Secret, Twilio
from tests.conftest import ChangeConfig


@pytest.fixture
def phone_factors(auth_config: ChangeConfig, no_request_limits: None) -> None:
    twilio = Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")
    auth_config(
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "twilio", "twilio": twilio},
        mailer={"worker_enabled": False},
    )
