"""Errors that come together, for the declarations of endpoints."""

from __future__ import annotations

from tokens import errors

PKCE = (
    errors.IncompletePkceParameters,
    errors.ChallengeMethodNotKnown,
    errors.CodeChallengeLength,
    errors.CodeChallengeCharacters,
)
"""Of a challenge (RFC 7636 §4.3) that a flow is to begin with."""
