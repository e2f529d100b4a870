"""Sets of errors, for the documentation of endpoints."""

from __future__ import annotations

from tokens import errors

PKCE = (
    errors.IncompletePkceParameters,
    errors.ChallengeMethodNotKnown,
    errors.CodeChallengeLength,
    errors.CodeChallengeCharacters,
)
"""Errors of the PKCE parameters that start a flow (RFC 7636 §4.3)."""
