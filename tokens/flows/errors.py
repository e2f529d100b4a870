"""Errors of PKCE parameters, flow states and their codes."""

from __future__ import annotations

from authsvc.errors import ApiError


class IncompletePkceParameters(ApiError):
    """Challenge or method is missing, or the method is unknown."""

    status = 400
    error_code = "validation_failed"
    message = "PKCE flow requires code_challenge_method and code_challenge"


class ChallengeMethodNotKnown(IncompletePkceParameters):
    """A separate class because /authorize reports it with another message."""


class CodeChallengeLength(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "code challenge has to be between 43 and 128 characters"


class CodeChallengeCharacters(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes"


class FlowStateNotFound(ApiError):
    status = 404
    error_code = "flow_state_not_found"
    message = "invalid flow state, no valid flow state found"


class FlowStateExpired(ApiError):
    status = 422
    error_code = "flow_state_expired"
    message = "invalid flow state, flow state has expired"


class BadCodeVerifier(ApiError):
    status = 400
    error_code = "bad_code_verifier"
    message = "code challenge does not match previously saved code verifier"


class UnknownChallengeMethod(ApiError):
    """The stored flow has an unknown challenge method."""

    status = 400
    error_code = "bad_code_verifier"
    message = "code challenge method not supported"


class NoFlowForLink(ApiError):
    """The flow of a PKCE link no longer exists."""

    status = 400
    error_code = "flow_state_not_found"
    message = "No associated flow state found. no flow of this user and method is open"


PKCE_ERRORS = (IncompletePkceParameters, ChallengeMethodNotKnown, CodeChallengeLength, CodeChallengeCharacters)
"""Errors of the PKCE parameters that start a flow (RFC 7636 §4.3)."""
