"""The hook that customizes the claims of access tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from authsvc.conf.sections.hooks import Hook
from hooks.errors import ClaimsMissing, HookFailed, InvalidClaims, InvalidHookResponse
from hooks.invocation import concurrency, invocation
from hooks.invocation.invocation import NO_RESPONSE

_HOOK = Hook.CUSTOM_ACCESS_TOKEN

_REQUIRED = ("aud", "exp", "iat", "sub", "email", "phone", "role", "aal", "session_id", "is_anonymous")
_TYPES = {
    "aud": ("string", "array"),
    **dict.fromkeys(("exp", "iat", "nbf"), ("integer",)),
    **dict.fromkeys(
        ("iss", "jti", "sub", "email", "phone", "role", "aal", "session_id", "client_id"),
        ("string",),
    ),
    **dict.fromkeys(("app_metadata", "user_metadata"), ("object",)),
    "amr": ("array",),
}
"""The JSON types of the known claims; `is_anonymous` has none, and other claims are free."""
_AMR_TYPES = ("string", "object")
_TYPE_NAMES = {type(None): "null", bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}

_KEPT = ("client_id", "act")
"""Claims that show for whom a token acts. A hook that leaves them out does so without intent, so they are put back."""
_FIXED = ("iss", "sub", "iat", "session_id", *_KEPT)
"""A hook may not change the value of these claims."""


class AccessTokenHook:
    """Implements `tokens.sessions.issuing.ClaimsHook`."""

    def is_enabled(self) -> bool:
        return invocation.is_enabled(_HOOK)

    @contextmanager
    def reserve(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(concurrency.reserve(_HOOK))
            except HookFailed as error:
                if not invocation.tolerates(_HOOK, error):
                    raise
            yield

    def customize(self, claims: Mapping[str, Any], *, user_id: UUID, method: str, address: str) -> dict[str, Any]:
        payload = {"user_id": str(user_id), "claims": claims, "authentication_method": method}
        try:
            return invocation.invoke(_HOOK, payload, read=partial(read_claims, issued=claims), address=address)
        except HookFailed as error:
            if not invocation.tolerates(_HOOK, error):
                raise
            return dict(claims)


def read_claims(response: Any, *, issued: Mapping[str, Any]) -> dict[str, Any]:
    """The claims to sign, from the response of the hook to the claims `issued`.

    Raises ClaimsMissing, InvalidHookResponse, or InvalidClaims with a line per violation.
    """
    if response is not NO_RESPONSE and "claims" not in (response or {}):
        raise ClaimsMissing
    claims = None if response is NO_RESPONSE else response["claims"]
    if claims is None:
        raise InvalidClaims([_wrong_type("(root)", ("object",), None)])
    if not isinstance(claims, dict):
        raise InvalidHookResponse
    if violations := list(_schema_violations(claims)):
        raise InvalidClaims(violations)
    kept = {name: issued[name] for name in _KEPT if name in issued and name not in claims}
    if violations := list(_fixed_violations(claims, issued)):
        raise InvalidClaims(violations)
    return {**claims, **kept}


def _schema_violations(claims: Mapping[str, Any]) -> Iterator[str]:
    """The lines are those of the JSON Schema validator that clients of other servers know."""
    for name in _REQUIRED:
        if name not in claims:
            yield f"(root): {name} is required"
    for name, types in _TYPES.items():
        if name in claims and _type_of(claims[name]) not in types:
            yield _wrong_type(name, types, claims[name])
    amr = claims.get("amr")
    for index, entry in enumerate(amr if isinstance(amr, list) else ()):
        if _type_of(entry) not in _AMR_TYPES:
            yield f"amr.{index}: Must validate at least one schema (anyOf)"
            yield _wrong_type(f"amr.{index}", _AMR_TYPES[:1], entry)


def _fixed_violations(claims: Mapping[str, Any], issued: Mapping[str, Any]) -> Iterator[str]:
    if "iss" in claims and "iss" not in issued:
        yield "(root): Additional property iss is not allowed"
    for name in _FIXED:
        if name in claims and name in issued and claims[name] != issued[name]:
            yield f"{name}: {name} does not match: {orjson.dumps(issued[name]).decode()}"
    if claims["exp"] > issued["exp"]:
        yield f"exp: Must be less than or equal to {issued['exp']}"


def _wrong_type(path: str, expected: tuple[str, ...], value: Any) -> str:
    types = expected[0] if len(expected) == 1 else f"[{','.join(expected)}]"
    return f"{path}: Invalid type. Expected: {types}, given: {_type_of(value)}"


def _type_of(value: Any) -> str:
    """The JSON type; a number without a fraction is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_NAMES[type(value)]
