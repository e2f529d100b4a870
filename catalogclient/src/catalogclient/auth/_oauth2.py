"""OAuth 2.0 managers: client credentials (RFC 6749 §4.4) and token exchange (RFC 8693)."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack
from urllib.parse import urljoin

from catalogclient import _call_scope, _redact, _urls
from catalogclient._lazy_transport import LazyTransport
from catalogclient._log import AUTH
from catalogclient._options import DEFAULT_TIMEOUT, RestCatalogOptions, RetryPolicy, Timeout, TimeoutLike
from catalogclient._single_flight import SingleFlight, UnsharedError
from catalogclient.auth import _token_endpoint
from catalogclient.auth._base import TokenAuth
from catalogclient.auth._token_endpoint import Token
from catalogclient.errors import CatalogError, InvalidArgumentError

ClientAuth = Literal["auto", "post", "basic"]
_OWN_ENDPOINT = "/v1/oauth/tokens"
_TYPE_PREFIX = "urn:ietf:params:oauth:token-type:"
_TYPES = tuple(
    f"{_TYPE_PREFIX}{name}" for name in ("access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt")
)
ACCESS_TOKEN_TYPE = _TYPES[0]
_EARLY_RENEWAL_TIMEOUT = 3.0
"""Seconds for the renewal of a token that is still valid."""
_EARLY_RENEWAL_PAUSE = 15.0
"""Seconds without a renewal after one that failed."""


class TokenRequestOptions(TypedDict, total=False):
    """Options of both OAuth 2.0 managers."""

    token_url: str | None
    """Token endpoint, absolute or relative to the base URL. The default is that of the catalog, which is deprecated."""
    client_auth: ClientAuth
    """Sends the client credentials in the form (`post`) or in the header (`basic`). The default `auto` uses `post` for
    the endpoint of the catalog and `basic` for others."""
    refresh_margin: float
    """Seconds before its expiry at which a token is renewed. The default is 60. A renewal may take 3 seconds for
    each address of the host, besides the look-up of its name. If it fails, the token is used until its expiry and the
    renewal is repeated after 15 seconds. Calls with less than 6 seconds left do not renew a valid token."""
    default_expires_in: float | None
    """Lifetime in seconds of a token without an expiry. The default None means that it is not renewed early."""
    timeout: TimeoutLike
    """Timeout of token requests, 10 seconds for the connection and 60 for the response by default."""


class _OAuth2(TokenAuth):
    """Requests a token on demand, shares it between threads and renews it before it expires."""

    def __init__(
        self,
        client_id: str | None,
        client_secret: str | None,
        parameters: Mapping[str, str | None],
        /,
        *,
        token_url: str | None = None,
        client_auth: ClientAuth = "auto",
        refresh_margin: float = 60.0,
        default_expires_in: float | None = None,
        timeout: TimeoutLike = DEFAULT_TIMEOUT,
    ) -> None:
        if client_auth not in ("auto", "post", "basic"):
            raise InvalidArgumentError("client_auth must be 'auto', 'post' or 'basic'")
        self._client_id = client_id
        self._client_secret = client_secret
        self._form = {name: value for name, value in parameters.items() if value}
        self._token_url = token_url
        self._client_auth = client_auth
        self._margin = refresh_margin
        self._default_expires_in = default_expires_in
        self._timeout = Timeout.parse(timeout)
        self._retry: RetryPolicy | None = RetryPolicy()
        self._url = ""
        self._is_own_endpoint = False
        self._transport: LazyTransport | None = None
        self._known: Token | None = None
        self._flight: SingleFlight[Token] = SingleFlight()
        self._attaching = threading.Lock()
        if token_url is not None and "://" in token_url:
            _urls.check(token_url, name="token_url")

    def attach(self, options: RestCatalogOptions) -> None:
        with self._attaching:
            if self._transport is not None:
                return
            base = _urls.root(options.base_url)
            own = f"{base}{_OWN_ENDPOINT}"
            if self._token_url is None:
                warnings.warn(
                    "the token endpoint of the catalog is deprecated; set token_url to that of an identity provider",
                    DeprecationWarning,
                    stacklevel=4,
                )
            self._url = own if self._token_url is None else urljoin(f"{base}/", self._token_url)
            self._is_own_endpoint = self._url == own
            _urls.check(self._url, name="token_url")
            if self._url.startswith("http://") and not _urls.is_loopback(self._url):
                AUTH.warning("client credentials are sent to the token endpoint without TLS")
            self._retry = options.retry
            self._transport = LazyTransport(options)

    def may_block(self) -> bool:
        known = self._known
        return known is None or time.monotonic() >= known.refresh_at

    def token(self) -> str:
        usable = self._usable()
        if usable is not None and time.monotonic() >= usable.refresh_at and not self._flight.is_busy:
            self._renew_early(usable)
            usable = self._usable()
        return (usable or self._flight.run(self._fetch, unless=self._usable)).token

    def renew(self, *, rejected: str | None) -> str:
        def newer() -> Token | None:
            known = self._known
            return known if known is not None and known.token != rejected else None

        return self._flight.run(self._fetch, unless=newer).token

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _usable(self) -> Token | None:
        known = self._known
        return known if known is not None and time.monotonic() < known.expires_at else None

    def _renew_early(self, known: Token) -> None:
        scope = _call_scope.current()
        remaining = scope.remaining() if scope is not None else None
        if remaining is not None and remaining < 2 * _EARLY_RENEWAL_TIMEOUT:
            # The call itself needs time too.
            return

        def fetch() -> Token:
            try:
                return self._fetch(_EARLY_RENEWAL_TIMEOUT)
            except CatalogError as error:
                AUTH.warning("renewing a token before its expiry failed: %s", type(error).__name__)
                # A second before the expiry, `may_block` announces the renewal that blocks.
                pause_ends = min(time.monotonic() + _EARLY_RENEWAL_PAUSE, known.expires_at - 1.0)
                self._known = dataclasses.replace(known, refresh_at=pause_ends)
                # Callers that need another token have waited for this one. They try again, with more time.
                raise UnsharedError from error

        with contextlib.suppress(CatalogError, UnsharedError):
            self._flight.run(fetch, unless=lambda: self._known if self._known is not known else None)

    def _fetch(self, total_timeout: float = _token_endpoint.TOTAL_TIMEOUT) -> Token:
        if self._transport is None:
            raise InvalidArgumentError("the auth manager is not attached to a catalog")
        self._known = token = _token_endpoint.request_token(
            self._transport.get(),
            self._url,
            self._form,
            client=(self._client_id, self._client_secret),
            in_header=self._client_auth == "basic" or (self._client_auth == "auto" and not self._is_own_endpoint),
            timeout=self._timeout,
            total_timeout=total_timeout,
            retry=self._retry,
            margin=self._margin,
            default_expires_in=self._default_expires_in,
        )
        return token

    def __repr__(self) -> str:
        url = _redact.url_without_secrets(self._url or self._token_url or "")
        return f"{type(self).__name__}(client_id={self._client_id!r}, token_url={url!r})"


class OAuth2ClientCredentials(_OAuth2):
    """Client credentials grant (RFC 6749 §4.4)."""

    def __init__(
        self,
        client_id: str | None,
        client_secret: str,
        *,
        scope: str = "catalog",
        audience: str | None = None,
        resource: str | None = None,
        extra: Mapping[str, str] | None = None,
        **options: Unpack[TokenRequestOptions],
    ) -> None:
        parameters = {"grant_type": "client_credentials", "scope": scope, "audience": audience, "resource": resource}
        super().__init__(client_id, client_secret, {**parameters, **(extra or {})}, **options)


class OAuth2TokenExchange(_OAuth2):
    """Token exchange grant (RFC 8693). Token types are `urn:ietf:params:oauth:token-type:...`."""

    def __init__(
        self,
        subject_token: str,
        *,
        subject_token_type: str = ACCESS_TOKEN_TYPE,
        actor_token: str | None = None,
        actor_token_type: str | None = None,
        requested_token_type: str | None = None,
        scope: str = "catalog",
        client_id: str | None = None,
        client_secret: str | None = None,
        **options: Unpack[TokenRequestOptions],
    ) -> None:
        for kind in (subject_token_type, actor_token_type, requested_token_type):
            if kind is not None and kind not in _TYPES:
                raise InvalidArgumentError("unknown token type")
        if actor_token is not None and actor_token_type is None:
            raise InvalidArgumentError("actor_token requires actor_token_type")
        parameters = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": subject_token,
            "subject_token_type": subject_token_type,
            "actor_token": actor_token,
            "actor_token_type": actor_token_type,
            "requested_token_type": requested_token_type,
            "scope": scope,
        }
        super().__init__(client_id, client_secret, parameters, **options)
