"""Validates authorization requests (OAuth 2.1 §4.1.1, OpenID Connect Core §3.1.2.1) and stores them.

Also decides which pages may show a request, by their origin.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import ada_url
from django.db import DatabaseError

from authsvc import conf
from authsvc.api import exception_handler
from authsvc.errors import ValidationFailed
from authsvc.security import redirects
from oauthserver import id_token_hints, resources, scopes
from oauthserver.authorization import authorizations, responses
from oauthserver.clients import clients
from oauthserver.clients.redirect_uris import is_registered
from oauthserver.errors import UnknownClient
from oauthserver.id_token_hints import IdTokenHintInvalid
from oauthserver.models import OAuthAuthorization, OAuthClient
from tokens.models import ChallengeMethod
from tokens.sessions.users import SignedInUser

_MIN_CHALLENGE, _MAX_CHALLENGE = 43, 128
_MAX_LENGTHS = {
    "state": 4096, "scope": 4096, "nonce": 255, "resource": resources.MAX_LENGTH, "login_hint": 255, "acr_values": 255,
}  # fmt: skip
_ID_BYTES = 20
CONSENT_PATH = "oauth/consent"
"""Path of the hosted consent page."""
_NONE = "none"
PROMPTS = (_NONE, "login", "consent", "select_account")
"""Supported values of `prompt`."""
_MAX_AGE_DIGITS = 10

Parameters = Callable[[str], str]
"""Name → first value (all values of `resource`, separated by spaces) in the query or form, empty without one."""


class RequestRefused(Exception):
    """The error of a request whose redirect URI is valid, so that the client receives the error."""

    def __init__(self, error: str, description: str) -> None:
        self.error = error
        self.description = description
        super().__init__(f"{error}: {description}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """The client of a request, and the redirect URI that it has named and registered."""

    client_id: UUID
    redirect_uri: str
    state: str
    requires_push: bool = False
    """True if the client sends requests only to `/oauth/par`, and this one came otherwise."""

    def refused(self, error: RequestRefused) -> str:
        """The redirect to the client with an error."""
        return responses.error_url(
            self.redirect_uri, error=error.error, description=error.description, state=self.state
        )


class StartedRequest(NamedTuple):
    """A stored request that waits for the user."""

    authorization_id: str
    prompt: str


def find_target(parameter: Parameters) -> RequestTarget:
    """The checks whose failure must not redirect. One statement.

    Raises ValidationFailed for a missing or unregistered redirect URI, and UnknownClient.
    """
    client_id = parameter("client_id")
    if not client_id:
        raise ValidationFailed("client_id is required")
    if not parameter("redirect_uri"):
        raise ValidationFailed("redirect_uri is required")
    try:
        parsed_id = UUID(client_id)
    except ValueError:
        raise UnknownClient("invalid client_id format") from None
    client = clients.find_existing(parsed_id)
    if client is None:
        raise UnknownClient
    return check_redirect_uri(client, parameter)


def check_redirect_uri(client: OAuthClient, parameter: Parameters) -> RequestTarget:
    """The target of a request of the client. Raises ValidationFailed for a missing or unregistered redirect URI."""
    redirect_uri = parameter("redirect_uri")
    if not redirect_uri:
        raise ValidationFailed("redirect_uri is required")
    if not is_registered(redirect_uri, client.redirect_uri_list):
        raise ValidationFailed("invalid redirect_uri")
    return RequestTarget(
        client_id=client.id,
        redirect_uri=redirect_uri,
        state=parameter("state"),
        requires_push=client.require_pushed_authorization_requests,
    )


def start(
    target: RequestTarget, parameter: Parameters, *, at: datetime, find_signed_in: Callable[[], SignedInUser | None]
) -> str:
    """Store a request and return the URL of the consent page. One statement. Raises RequestRefused.

    The hosted consent page and this endpoint have the same cookies. `prompt=none` is answered at once then, for the
    user whom `find_signed_in` returns, and the URL is that of the client.
    """
    if target.requires_push:
        raise RequestRefused("invalid_request", "the client must push authorization requests")
    authorization = validate(target, parameter, at=at)
    page = _consent_page()
    silent_user = _find_silent_user(authorization.prompt, find_signed_in)
    store(authorization)
    return _proceed(authorization.authorization_id, page=page, silent_user=silent_user, at=at)


def resume(started: StartedRequest, *, at: datetime, find_signed_in: Callable[[], SignedInUser | None]) -> str:
    """As `start`, for a request that is stored. Raises RequestRefused."""
    page = _consent_page()
    silent_user = _find_silent_user(started.prompt, find_signed_in)
    return _proceed(started.authorization_id, page=page, silent_user=silent_user, at=at)


def validate(target: RequestTarget, parameter: Parameters, *, at: datetime) -> OAuthAuthorization:
    """A request that is not stored yet. Raises RequestRefused."""
    for name in ("request", "request_uri"):
        if parameter(name):
            raise RequestRefused(f"{name}_not_supported", "request objects are not supported")
    if parameter("response_type") not in ("", "code"):
        raise RequestRefused("invalid_request", "only response_type=code is supported")
    scope = parse_scope(parameter("scope"))
    check_resource(parameter("resource"))
    challenge, method = parameter("code_challenge"), parameter("code_challenge_method")
    _check_challenge(challenge, method)
    prompt, max_age = _prompt(parameter("prompt")), parse_max_age(parameter("max_age"))
    texts = {name: parameter(name) for name in ("state", "nonce", "resource", "login_hint", "acr_values")}
    check_lengths({**texts, "scope": scope})
    hinted_user_id = _hinted_user_id(parameter("id_token_hint"))
    return OAuthAuthorization(
        id=uuid4(),
        authorization_id=base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower(),
        client_id=target.client_id,
        redirect_uri=target.redirect_uri,
        scope=scope,
        code_challenge=challenge,
        code_challenge_method=method.lower(),
        prompt=prompt or None,
        max_age=max_age,
        hinted_user_id=hinted_user_id,
        created_at=at,
        expires_at=at + conf.current().oauth_server.authorization_ttl,
        **{name: text or None for name, text in texts.items()},
    )


def store(authorization: OAuthAuthorization) -> None:
    """Store a request. One statement. Raises RequestRefused, and the error of an unavailable database."""
    try:
        authorization.save(force_insert=True)
    except DatabaseError as error:
        if exception_handler.is_unavailable(error):
            raise
        raise RequestRefused("server_error", "error creating authorization") from error


def _find_silent_user(prompt: str | None, find_signed_in: Callable[[], SignedInUser | None]) -> SignedInUser | None:
    """The user for whom `prompt=none` is answered without a page. Raises RequestRefused if no user is signed in."""
    if prompt != _NONE or not has_hosted_consent_page():
        return None
    signed_in = find_signed_in()
    if signed_in is None:
        raise RequestRefused("login_required", "The user is not signed in")
    return signed_in


def _proceed(authorization_id: str, *, page: str, silent_user: SignedInUser | None, at: datetime) -> str:
    if silent_user is not None:
        redirect_url = authorizations.show(authorization_id, signed_in=silent_user, at=at)
        assert isinstance(redirect_url, str)  # noqa: S101  (with `prompt=none`, no decision of the user is needed)
        return redirect_url
    return f"{page}{'&' if '?' in page else '?'}authorization_id={authorization_id}"


def has_hosted_consent_page() -> bool:
    """True if the consent page is that of this service, not one of the site."""
    config = conf.current()
    return config.oauth_server.enabled and config.pages.enabled and not config.oauth_server.authorization_path


def _consent_page() -> str:
    """The URL of the page that shows a request to the user. Raises RequestRefused if there is none."""
    config = conf.current()
    if has_hosted_consent_page():
        return f"{config.api.external_url.rstrip('/')}/{CONSENT_PATH}"
    path = config.oauth_server.authorization_path
    if not path:
        raise RequestRefused("server_error", "oauth authorization path not configured")
    return f"{config.site.url.rstrip('/')}/{path.lstrip('/')}"


def check_lengths(texts: Mapping[str, str]) -> None:
    """Raises RequestRefused for a parameter that is too long to be stored, or has a null character."""
    if any(len(text) > _MAX_LENGTHS[name] or "\0" in text for name, text in texts.items()):
        raise RequestRefused("server_error", "error creating authorization")


def parse_scope(scope: str) -> str:
    """The requested scope, or the default one. Raises RequestRefused."""
    scope = scope or conf.current().oauth_server.default_scope
    if not scope:
        raise RequestRefused("invalid_request", "scope parameter is required")
    requested = scopes.parse(scope)
    if not requested:
        raise RequestRefused("invalid_request", "scope parameter cannot be empty")
    for name in requested:
        if name not in conf.OAUTH_SCOPES:
            raise RequestRefused("invalid_request", f"unsupported scope: {name}")
    if scopes.OPENID in requested and not scopes.can_issue_id_tokens():
        raise RequestRefused("invalid_scope", "openid scope requires an asymmetric signing key")
    return scope


def check_resource(resource: str) -> None:
    """Check the resources of a request (RFC 8707 §2). Raises RequestRefused."""
    if len(resource) > resources.MAX_LENGTH:  # first, because a body of 1 MiB can name 250,000 of them
        raise RequestRefused("server_error", "error creating authorization")
    for uri in resources.parse(resource):
        if reason := resources.find_refusal(uri):
            raise RequestRefused("invalid_request", reason)


def _check_challenge(challenge: str, method: str) -> None:
    """RFC 7636 §4.3."""
    if not challenge or not method:
        raise RequestRefused("invalid_request", "PKCE flow requires both code_challenge and code_challenge_method")
    if not conf.current().oauth_server.allow_plain_pkce and method.lower() == ChallengeMethod.PLAIN:
        raise RequestRefused("invalid_request", "code_challenge_method must be 'S256'")
    if method.lower() not in ChallengeMethod.values:
        raise RequestRefused("invalid_request", "code_challenge_method must be 'S256' or 'plain'")
    if not _MIN_CHALLENGE <= len(challenge.encode(errors="replace")) <= _MAX_CHALLENGE or "\0" in challenge:
        raise RequestRefused(
            "invalid_request",
            f"code_challenge must be between {_MIN_CHALLENGE} and {_MAX_CHALLENGE} characters",
        )


def _prompt(prompt: str) -> str:
    """The known values of `prompt`; others are ignored."""
    values = [value for value in scopes.parse(prompt) if value in PROMPTS]
    if _NONE in values and len(values) > 1:
        raise RequestRefused("invalid_request", "prompt=none cannot be combined with other values")
    return " ".join(values)


def _hinted_user_id(token: str) -> UUID | None:
    """The user of the ID token that the client has sent; None without one."""
    try:
        return UUID(str(id_token_hints.read(token).get("sub"))) if token else None
    except (IdTokenHintInvalid, ValueError):
        raise RequestRefused("invalid_request", "id_token_hint is not an ID token of this service") from None


def parse_max_age(max_age: str) -> int | None:
    """The seconds of `max_age`; None without it. Raises RequestRefused."""
    if not max_age:
        return None
    if not (max_age.isascii() and max_age.isdecimal() and len(max_age) <= _MAX_AGE_DIGITS):
        raise RequestRefused("invalid_request", "max_age must be a number of seconds")
    return int(max_age)


def is_permitted_origin(origin: str) -> bool:
    """True if a page with this `Origin` may show requests and send decisions; programs send none.

    Permitted are the origin of SITE_URL, loopback IP addresses, and origins that the allow list matches.
    """
    if not origin:
        return True
    if origin == "null" or not _is_serialized_origin(origin):
        return False
    return _is_loopback_ip(origin) or redirects.is_permitted(origin) or redirects.is_permitted(f"{origin}/")


def _is_serialized_origin(text: str) -> bool:
    """True for an http(s) origin as browsers write it (RFC 6454 §6.2)."""
    try:
        parsed = ada_url.URL(text)
    except ValueError:
        return False
    return parsed.protocol in ("http:", "https:") and parsed.origin == text


def _is_loopback_ip(origin: str) -> bool:
    try:
        return ip_address(urlsplit(origin).hostname or "").is_loopback
    except ValueError:
        return False
