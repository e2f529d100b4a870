"""Authenticator assurance level (AAL) and `amr` claim of a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions import aal, lifecycle

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([], "aal1"),
        (["password"], "aal1"),
        (["passkey"], "aal1"),
        (["sso/saml", "otp", "oauth"], "aal1"),
        (["password", "totp"], "aal2"),
        (["mfa/phone"], "aal2"),
        (["oauth", "mfa/webauthn"], "aal2"),
    ],
)
def test_aal2_requires_a_second_factor(methods: list[str], expected: str) -> None:
    assert aal.aal_of(methods) == expected
    assert aal.aal_of(iter(methods)) == expected


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (["otp"], True),
        (["magiclink", "totp"], True),
        (["recovery"], True),
        (["password", "totp"], False),
        (["invite"], False),
        ([], False),
    ],
)
def test_session_started_by_email_or_sms_code_is_a_recovery(methods: list[str], expected: bool) -> None:
    assert aal.is_recovery(methods) is expected


def test_amr_claim_lists_most_recent_method_first() -> None:
    entries = [
        AmrEntry("password", AT),
        AmrEntry("totp", AT + timedelta(seconds=90.7)),
        AmrEntry("sso/saml", AT + timedelta(seconds=30), provider="8d4c1d0e-5a0f-4f6a-9d1c-0f6a6f4b2c11"),
    ]
    assert lifecycle.amr_claim(entries) == [
        {"method": "totp", "timestamp": 1767225690},
        {"method": "sso/saml", "timestamp": 1767225630, "provider": "8d4c1d0e-5a0f-4f6a-9d1c-0f6a6f4b2c11"},
        {"method": "password", "timestamp": 1767225600},
    ]


@pytest.mark.parametrize(("enrolled", "expected"), [(True, "aal2"), (False, "aal1")])
def test_highest_aal_depends_on_verified_factor(enrolled: bool, expected: str) -> None:
    assert aal.highest_aal(SimpleNamespace(has_verified_factor=enrolled)) == expected
