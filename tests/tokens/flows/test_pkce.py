"""PKCE parameters and the verification of code verifiers."""

from __future__ import annotations

import pytest

from authsvc.errors import ApiError
from tokens.flows import pkce
from tokens.flows.errors import UnknownChallengeMethod

VERIFIER = "4a9505b9-0857-42bb-ab3c-098b4d28ddc2"
S256 = "UKwdQNKF35xN-bd8EWuVCSHHEA2ew0BQkEPdmM6wEFM"


@pytest.mark.parametrize(("challenge", "method"), [(None, None), ("", ""), (None, ""), ("", None)])
def test_request_without_both_parameters_has_no_challenge(challenge: str | None, method: str | None) -> None:
    assert pkce.parse_challenge(challenge=challenge, method=method) is None


@pytest.mark.parametrize(
    ("challenge", "method", "expected"),
    [
        (S256, "s256", pkce.Challenge(S256, "s256")),
        (S256, "S256", pkce.Challenge(S256, "s256")),
        ("a" * 128, "Plain", pkce.Challenge("a" * 128, "plain")),
        ("aZ09._~-" * 6, "plain", pkce.Challenge("aZ09._~-" * 6, "plain")),
    ],
)
def test_challenge_method_is_lowercased(challenge: str, method: str, expected: pkce.Challenge) -> None:
    assert pkce.parse_challenge(challenge=challenge, method=method) == expected


@pytest.mark.parametrize(
    ("challenge", "method", "message"),
    [
        (S256, None, "PKCE flow requires code_challenge_method and code_challenge"),
        (S256, "", "PKCE flow requires code_challenge_method and code_challenge"),
        (None, "s256", "PKCE flow requires code_challenge_method and code_challenge"),
        (S256, "s512", "PKCE flow requires code_challenge_method and code_challenge"),
        ("a" * 42, "s256", "code challenge has to be between 43 and 128 characters"),
        ("a" * 129, "s256", "code challenge has to be between 43 and 128 characters"),
        (
            "a" * 42 + "+",
            "s256",
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ),
        (
            "a" * 43 + "\n",
            "s256",
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ),
        (
            "ä" * 43,
            "s512",
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ),
    ],
)
def test_invalid_parameters_are_rejected_with_first_error(
    challenge: str | None, method: str | None, message: str
) -> None:
    with pytest.raises(ApiError) as raised:
        pkce.parse_challenge(challenge=challenge, method=method)
    assert (raised.value.status, raised.value.error_code, raised.value.message) == (400, "validation_failed", message)


@pytest.mark.parametrize(
    ("challenge", "method", "verifier", "expected"),
    [
        (S256, "s256", VERIFIER, True),
        (
            "zdH8oy_fcSZW5ByRDVKp1nieEW2ziYWUK6hqvYkAtSk",
            "s256",
            "ktPNXpR65N6JtgzQA8_5HHtH6PBSAahMNoLKRzQEa0Tzgl.vdV",
            True,
        ),
        # RFC 7636 appendix B
        ("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "s256", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", True),
        (S256, "s256", VERIFIER + "x", False),
        (S256, "s256", "", False),
        (S256, "s256", S256, False),
        ("a" * 43, "plain", "a" * 43, True),
        ("a" * 43, "plain", "a" * 42, False),
        (S256, "plain", VERIFIER, False),
    ],
)
def test_verifier_must_match_challenge(challenge: str, method: str, verifier: str, expected: bool) -> None:
    assert pkce.matches(challenge=challenge, method=method, verifier=verifier) is expected


def test_unknown_stored_method_is_rejected() -> None:
    with pytest.raises(UnknownChallengeMethod) as raised:
        pkce.matches(challenge=S256, method="s512", verifier=VERIFIER)
    assert (raised.value.status, raised.value.error_code) == (400, "bad_code_verifier")
    assert raised.value.message == "code challenge method not supported"
