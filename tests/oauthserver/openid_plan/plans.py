"""The modules of each test plan, and the mark of the test that stands for a module."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

_ATTRIBUTE = "openid_module"


class Result(Enum):
    """The result of a module."""

    PASSED = "passed"
    SKIPPED = "skipped"
    """The module concerns an optional feature that the metadata does not offer."""
    DIFFERS = "differs"
    """The module expects another behaviour than this service documents."""


class Module(NamedTuple):
    name: str
    result: Result


def module(name: str, result: Result = Result.PASSED) -> Callable[[Test], Test]:
    """Mark the test that stands for a module."""

    def mark(test: Test) -> Test:
        test.__dict__[_ATTRIBUTE] = Module(name, result)
        return test

    return mark


def module_of(test: object) -> Module | None:
    """The module for which a test stands."""
    found: Module | None = getattr(test, _ATTRIBUTE, None)
    return found


PLANS: dict[str, tuple[str, ...]] = {
    "oidcc-basic-certification-test-plan": (
        "oidcc-server",
        "oidcc-response-type-missing",
        "oidcc-idtoken-signature",
        "oidcc-idtoken-unsigned",
        "oidcc-userinfo-get",
        "oidcc-userinfo-post-header",
        "oidcc-userinfo-post-body",
        "oidcc-ensure-request-without-nonce-succeeds-for-code-flow",
        "oidcc-scope-profile",
        "oidcc-scope-email",
        "oidcc-scope-address",
        "oidcc-scope-phone",
        "oidcc-scope-all",
        "oidcc-ensure-other-scope-order-succeeds",
        "oidcc-alternate-happy-flow",
        "oidcc-display-page",
        "oidcc-display-popup",
        "oidcc-prompt-login",
        "oidcc-prompt-none-not-logged-in",
        "oidcc-prompt-none-logged-in",
        "oidcc-max-age-1",
        "oidcc-max-age-10000",
        "oidcc-ensure-request-with-unknown-parameter-succeeds",
        "oidcc-id-token-hint",
        "oidcc-login-hint",
        "oidcc-ui-locales",
        "oidcc-claims-locales",
        "oidcc-claims-essential",
        "oidcc-ensure-request-with-acr-values-succeeds",
        "oidcc-codereuse",
        "oidcc-codereuse-30seconds",
        "oidcc-ensure-registered-redirect-uri",
        "oidcc-ensure-post-request-succeeds",
        "oidcc-server-client-secret-post",
        "oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported",
        "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported",
        "oidcc-ensure-request-object-with-redirect-uri",
        "oidcc-refresh-token",
        "oidcc-ensure-request-with-valid-pkce-succeeds",
    ),
    "oidcc-config-certification-test-plan": ("oidcc-discovery-endpoint-verification",),
    "oidcc-dynamic-certification-test-plan": (
        "oidcc-discovery-endpoint-verification",
        "oidcc-server",
        "oidcc-idtoken-rs256",
        "oidcc-idtoken-unsigned",
        "oidcc-userinfo-rs256",
        "oidcc-redirect-uri-query-OK",
        "oidcc-redirect-uri-query-added",
        "oidcc-redirect-uri-query-mismatch",
        "oidcc-redirect-uri-regfrag",
        "oidcc-ensure-redirect-uri-in-authorization-request",
        "oidcc-ensure-request-object-with-redirect-uri",
        "oidcc-ensure-client-assertion-with-iss-aud-succeeds",
        "oidcc-refresh-token",
        "oidcc-refresh-token-rp-key-rotation",
        "oidcc-registration-jwks-uri",
        "oidcc-registration-logo-uri",
        "oidcc-registration-policy-uri",
        "oidcc-registration-tos-uri",
        "oidcc-registration-sector-bad",
        "oidcc-registration-sector-uri",
        "oidcc-request-uri-signed-rs256",
        "oidcc-request-uri-unsigned",
        "oidcc-server-rotate-keys",
    ),
    "oidcc-rp-initiated-logout-certification-test-plan": (
        "oidcc-rp-initiated-logout-discovery-endpoint-verification",
        "oidcc-rp-initiated-logout",
        "oidcc-rp-initiated-logout-bad-post-logout-redirect-uri",
        "oidcc-rp-initiated-logout-modified-id-token-hint",
        "oidcc-rp-initiated-logout-bad-id-token-hint",
        "oidcc-rp-initiated-logout-no-id-token-hint",
        "oidcc-rp-initiated-logout-no-params",
        "oidcc-rp-initiated-logout-no-post-logout-redirect-uri",
        "oidcc-rp-initiated-logout-no-state",
        "oidcc-rp-initiated-logout-only-state",
        "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
    ),
    "oidcc-backchannel-rp-initiated-logout-certification-test-plan": (
        "oidcc-backchannel-logout-discovery-endpoint-verification",
        "oidcc-backchannel-rp-initiated-logout",
    ),
}
"""Test plan → its modules, for the response type `code`."""
