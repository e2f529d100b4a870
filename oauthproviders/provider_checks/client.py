"""Checks of the endpoints of a provider, and of the client ID and secret."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import parse_qsl

import orjson

from authsvc.outgoing import http
from authsvc.security import crypto
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import ProviderUnreachable
from oauthproviders.provider_checks.provider_requests import REDIRECTS, Rules, request
from oauthproviders.provider_checks.steps import Problem, StepResult, Steps, quoted, remedy_of

_MAX_PAGE_BYTES = 65_536
# RFC 6749 §5.2, and the codes of GitHub.
_CODE_REFUSED = frozenset({"invalid_grant", "bad_verification_code"})
_CLIENT_REFUSED = frozenset({"invalid_client", "incorrect_client_credentials"})


def check_endpoint(steps: Steps, subject: str, url: str, rules: Rules, *, is_called: bool) -> None:
    """Check that a server answers. `is_called`: this service calls it, not only browsers."""

    def check() -> StepResult[bool]:
        rules.check(url)
        try:
            response = request(url, rules, max_bytes=_MAX_PAGE_BYTES, truncate=True)
        except ProviderUnreachable as error:
            if is_called or isinstance(error.failure, http.TlsFailed):
                raise
            message = f"this server cannot reach it: {error}"
            remedy = f"Only browsers open it, so a sign-in may work nevertheless. {remedy_of(error.failure)}"
            return StepResult(value=True, message=message, remedy=remedy)
        message = f"{quoted(url)} answers with status {response.status}"
        remedy = ""
        if response.status >= 500:
            remedy = "Try again later, or ask the operator of the provider."
        elif response.status in (404, 410):
            remedy = "Check the path of the URL: nothing seems to be there."
        elif is_called and response.status in REDIRECTS:
            remedy = "Enter the final URL: redirects are not followed."
        return StepResult(value=True, message=message, remedy=remedy)

    steps.run(subject, check)


def check_client(steps: Steps, url: str, rules: Rules, make: Callable[[], OAuth2], sends_secret: bool) -> None:
    """Check the client at the token endpoint. The step is skipped without a URL, and without `sends_secret`."""
    subject = "Token endpoint and client"
    if not url:
        steps.skip("no token endpoint is known", subject)
    elif not sends_secret:
        steps.skip("the stored secret is not sent to changed URLs; enter the client secret to test it", subject)
    else:
        steps.run(subject, lambda: _try_client(make(), url, rules))


def _try_client(backend: OAuth2, url: str, rules: Rules) -> StepResult[bool]:
    """Send a token request with an invalid code: the error tells whether the provider accepts the client."""
    rules.check(url)
    form = {
        "grant_type": "authorization_code",
        "code": f"connection-test-{secrets.token_urlsafe(8)}",
        "redirect_uri": backend.config.redirect_uri,
        **({"code_verifier": crypto.generate_key()} if backend.requires_pkce else {}),
        **backend.token_form(),
    }
    refused = []
    for in_body in (True,) if backend.client_in_body else (False, True):
        response = backend.send_token_request(url, form, in_body=in_body)
        code = _token_error(response)
        if code in _CODE_REFUSED:
            style = "in the body" if in_body else "by HTTP Basic"
            return StepResult(value=True, message=f"the provider accepts the client ID and secret ({style})")
        described = f"status {response.status}, error {quoted(code or 'none')}"
        if code not in _CLIENT_REFUSED and response.status != 401:
            return _unclear_response(response.status, code, described, redirect_uri=backend.config.redirect_uri)
        refused.append(described)
    raise Problem(
        f"the provider refuses the client: {refused[-1]}",
        "Compare the client ID and the client secret with the registration at the provider.",
    )


def _unclear_response(status: int, code: str, described: str, *, redirect_uri: str) -> StepResult[bool]:
    """A response that neither accepts nor refuses the client."""
    if code in ("unauthorized_client", "unsupported_grant_type"):
        raise Problem(
            f"the client must not use the authorization code flow: {described}",
            "Enable the authorization code flow for the client at the provider.",
        )
    if status >= 500:
        raise Problem(described, "Try again later, or ask the operator of the provider.")
    if status in (404, 405, 410):
        raise Problem(described, "Check the path of the URL: no token endpoint seems to be there.")
    if status in REDIRECTS:
        raise Problem(described, "Enter the final URL: redirects are not followed.")
    remedy = (
        f"The response does not show whether the provider knows the client. Check that {redirect_uri} is registered"
        " there, and sign in once."
    )
    return StepResult(value=True, message=described, remedy=remedy)


def _token_error(response: http.Response) -> str:
    """The error code in a token response (RFC 6749 §5.2), in JSON or as a form; empty without one."""
    try:
        document = orjson.loads(response.body)
    except ValueError:
        document = dict(parse_qsl(response.body.decode(errors="replace")[:_MAX_PAGE_BYTES]))
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, str) else ""
