"""Base classes that turn a backend of social-auth-core into a Provider.

They use the flow state and HTTP client of this service, try both styles of client authentication (RFC 6749 §2.3.1),
and build authorization URLs in which a client cannot override protocol parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit
from uuid import UUID

import msgspec
import orjson
from social_core.backends.base import BaseAuth
from social_core.backends.oauth import BaseOAuth2
from social_core.strategy import BaseStrategy

from authsvc import conf
from authsvc.outgoing import http
from authsvc.security import crypto
from oauthproviders.base import deadline, profiles
from oauthproviders.base.contract import (
    AuthorizationRequest,
    InvalidProviderResponse,
    ProviderToken,
    ProviderUnreachable,
)

T = TypeVar("T")

_MAX_RESPONSE_BYTES = 1_048_576
_FORMS = frozenset({"application/x-www-form-urlencoded", "text/plain"})
_AUTH_STYLE_CACHE_SIZE = 1000

# Token URL and client id → whether the client authenticates in the body; the style that succeeded is reused.
sends_credentials_in_body: dict[tuple[str, str], bool] = {}


@dataclass(frozen=True, slots=True)
class LibraryResponse:
    """The attributes of a `requests` response that social-auth-core reads."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    encoding: str = "utf-8"
    apparent_encoding: str = "utf-8"

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        return orjson.loads(self.content)


class ProviderStrategy(BaseStrategy[Any]):
    """Passes settings and request parameters to social-auth-core, without storage, session and Django settings."""

    def __init__(self, *, settings: Mapping[str, Any], data: Mapping[str, str]) -> None:
        super().__init__(storage=None)
        self._settings = settings
        self._data = dict(data)

    def get_setting(self, name: str) -> Any:
        return self._settings[name]

    def get_request_data(self, merge: bool = True) -> dict[str, Any]:
        return self._data

    def build_absolute_uri(self, path: str | None = None) -> str:
        return path or ""


class Backend(BaseAuth[Any]):
    """Settings and HTTP calls of OAuth 2.0 and 1.0a backends."""

    config: conf.Provider
    is_oauth1: ClassVar[bool] = False
    issuer: ClassVar[str] = ""
    public_only: bool = False
    """True if only public addresses are called, for URLs that come from the database instead of the operator."""

    @classmethod
    def make(cls, config: conf.Provider, *, data: Mapping[str, str]) -> Self:
        """The provider for one request with these parameters."""
        settings = {"KEY": config.client_ids[0], "SECRET": config.secret.reveal()}
        backend = cls(ProviderStrategy(settings=settings, data=data), redirect_uri=config.redirect_uri)
        backend.config = config
        return backend

    @property
    def openid_issuer(self) -> str:
        """The issuer whose discovery document describes the provider; `""` if there is none."""
        return self.issuer

    def with_base_url(self, url: str) -> str:
        """`url` with the scheme and host of the URL that the operator has configured for this provider."""
        if not self.config.url:
            return url
        parts = urlsplit(url)
        return f"{self.config.url}{parts.path}{f'?{parts.query}' if parts.query else ''}"

    def request(  # type: ignore[override]  # LibraryResponse has what its callers read
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        auth: Any = None,
        params: Mapping[str, str] | None = None,
        **_: Any,
    ) -> LibraryResponse:
        """Send the requests of social-auth-core. Raises InvalidProviderResponse unless the status is 2xx."""
        if params:
            url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
        sent = {name: value if isinstance(value, str) else value.decode() for name, value in (headers or {}).items()}
        if hasattr(auth, "client"):  # OAuth 1.0a signs the request in a header (RFC 5849 §3.5.1)
            url, sent, _body = auth.client.sign(url, http_method=method, headers=sent)
            auth = None
        response = self.call(method, url, headers=sent, form=data, auth=auth)
        if not 200 <= response.status <= 299:
            raise InvalidProviderResponse(f"status {response.status}")
        return LibraryResponse(response.status, response.headers, response.body)

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> http.Response:
        """Send a request; return any status. Raises ProviderUnreachable without a response."""
        try:
            return http.send(
                method,
                url,
                timeout=deadline.remaining(),
                max_bytes=_MAX_RESPONSE_BYTES,
                headers={"Accept": "application/json", **(headers or {})},
                form=form,
                auth=auth,
                public_only=self.public_only,
            )
        except http.Unreachable as error:
            raise ProviderUnreachable(error) from None

    def fetch_document(
        self, token: ProviderToken, url: str, schema: type[T], *, headers: Mapping[str, str] | None = None
    ) -> T:
        """The JSON document at `url`, requested with the token, as `schema`. Raises InvalidProviderResponse."""
        bearer = token.token_type if token.token_type.lower() != "bearer" else "Bearer"
        sent = {"Authorization": f"{bearer} {token.access_token}", **(headers or {})}
        return parse_document(self.request(url, headers=sent).content, schema)


class OAuth2(Backend, BaseOAuth2[Any]):
    """An OAuth 2.0 provider; the first base class: `class GitHub(OAuth2, GithubOAuth2[Any])`.

    A subclass defines `profile` and sets attributes.
    """

    default_scopes: ClassVar[tuple[str, ...]] = ()
    ignores_scopes: ClassVar[bool] = False
    forwards_extra: ClassVar[bool] = True
    requires_pkce: bool = False
    client_in_body: ClassVar[bool] = False
    """True if the provider supports client authentication in the body only."""
    extra_parameters: ClassVar[Mapping[str, str]] = {}
    """Parameters of the authorization URL; they override those of a client."""

    def authorization_request(self, *, state: UUID, scopes: str, extra: Mapping[str, str]) -> AuthorizationRequest:
        requested = self.scopes(scopes)
        parameters = {
            **({"scope": " ".join(requested)} if requested else {}),
            **(extra if self.forwards_extra else {}),
            **self.extra_parameters,
            "client_id": self.config.client_ids[0],
            "redirect_uri": self.config.redirect_uri,
            "response_type": "code",
            "state": str(state),
        }
        verifier = crypto.generate_key() if self.requires_pkce else ""
        if verifier:
            digest = hashlib.sha256(verifier.encode()).digest()
            parameters |= {"code_challenge": crypto.base64url_encode(digest), "code_challenge_method": "S256"}
        address = self.authorization_url()
        return AuthorizationRequest(
            url=f"{address}{'&' if '?' in address else '?'}{self.encode(parameters)}", secret=verifier
        )

    def scopes(self, requested: str) -> list[str]:
        """The scopes to request from the provider for the `scopes` parameter of the client."""
        additional = requested.split(",") if requested and not self.ignores_scopes else []
        return [*self.default_scopes, *additional]

    def encode(self, parameters: Mapping[str, str]) -> str:
        return urlencode(sorted(parameters.items()))

    def authorization_url(self) -> str:
        return self.with_base_url(super().authorization_url())

    def access_token_url(self) -> str:
        return self.with_base_url(super().access_token_url())

    def token_form(self) -> Mapping[str, str]:
        """Additional keys of the token request."""
        return {}

    def exchange(self, *, code: str, secret: str) -> ProviderToken:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.config.redirect_uri,
            **({"code_verifier": secret} if secret else {}),
            **self.token_form(),
        }
        url = self.access_token_url()
        client = (url, self.config.client_ids[0])
        in_body = True if self.client_in_body else sends_credentials_in_body.get(client)
        if in_body is not None:
            return self._request_token(url, form, in_body=in_body)
        try:
            token = self._request_token(url, form, in_body=False)
        except InvalidProviderResponse:
            in_body = True
            token = self._request_token(url, form, in_body=True)
        if len(sends_credentials_in_body) >= _AUTH_STYLE_CACHE_SIZE:
            sends_credentials_in_body.clear()
        sends_credentials_in_body[client] = bool(in_body)
        return token

    def send_token_request(self, url: str, form: Mapping[str, str], *, in_body: bool) -> http.Response:
        """Send a token request with the client authentication; return any status.

        Raises ProviderUnreachable without a response.
        """
        client_id, secret = self.config.client_ids[0], self.config.secret.reveal()
        if in_body:
            return self.call("POST", url, form={**form, "client_id": client_id, "client_secret": secret})
        return self.call("POST", url, form=form, auth=(quote_plus(client_id), quote_plus(secret)))

    def _request_token(self, url: str, form: Mapping[str, str], *, in_body: bool) -> ProviderToken:
        response = self.send_token_request(url, form, in_body=in_body)
        if response.status == HTTPStatus.UNAUTHORIZED:  # a failed client authentication (RFC 6749 §5.2)
            # The operator may have changed the style at the provider. The next request tries both.
            sends_credentials_in_body.pop((url, self.config.client_ids[0]), None)
        if not 200 <= response.status <= 299:
            raise InvalidProviderResponse(f"status {response.status}")
        return parse_token_response(response)


def parse_document(body: bytes, schema: type[T]) -> T:
    """Parse JSON as `schema`. Raises InvalidProviderResponse, also for values that cannot be stored."""
    try:
        profiles.check_storable(orjson.loads(body))
        return msgspec.json.decode(body, type=schema)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # The text of the parser's error may contain personal data.
        raise InvalidProviderResponse("the response does not have the expected schema") from None


def parse_token_response(response: http.Response) -> ProviderToken:
    """Parse a token response (RFC 6749 §5.1), as JSON or as a form. Raises InvalidProviderResponse without a token."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type in _FORMS:
        document: dict[str, Any] = dict(parse_qsl(response.body.decode(errors="replace")))
        profiles.check_storable(document)
    else:
        document = parse_document(response.body, dict[str, Any])
    if document.get("error"):
        raise InvalidProviderResponse("the token response is an error")
    texts = {name: _text(document, name) for name in ("access_token", "token_type", "refresh_token", "id_token")}
    if not texts["access_token"]:
        raise InvalidProviderResponse("the token response has no access token")
    texts["token_type"] = texts["token_type"] or "Bearer"
    return ProviderToken(document=document, **texts)


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
