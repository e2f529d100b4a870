"""What turns a backend of social-auth-core into a provider of ours: our flow state, our door for calls, both styles of
client authentication (RFC 6749 §2.3.1), an authorize URL that nothing can be smuggled into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit
from uuid import UUID

import msgspec
import orjson
from social_core.backends.base import BaseAuth
from social_core.backends.oauth import BaseOAuth2

from authsvc import conf
from authsvc.outgoing import http
from authsvc.security import crypto
from oauthproviders.base import claims, deadline
from oauthproviders.base.contract import Outset, Token
from oauthproviders.base.strategy import ProviderStrategy
from oauthproviders.errors import Unusable

Shape = TypeVar("Shape")

_LONGEST_ANSWER = 1_048_576
_FORMS = frozenset({"application/x-www-form-urlencoded", "text/plain"})
_MOST_STYLES = 1000

# Token URL and client id → whether the client is told in the body; what a provider has taken once, it takes again.
_in_body: dict[tuple[str, str], bool] = {}


@dataclass(frozen=True, slots=True)
class Answer:
    """As much of a response of `requests` as social-auth-core looks at."""

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


class Backend(BaseAuth[Any]):
    """Settings and calls, for OAuth 2.0 and 1.0a alike."""

    config: conf.Provider
    is_oauth1: ClassVar[bool] = False
    public_only: bool = False
    """Whether calls go to public addresses alone: its addresses come from data and not from an operator."""

    @classmethod
    def make(cls, config: conf.Provider, *, data: Mapping[str, str]) -> Self:
        """The provider for one request with these parameters."""
        known = {"KEY": config.client_ids[0], "SECRET": config.secret.reveal()}
        made = cls(ProviderStrategy(settings=known, data=data), redirect_uri=config.redirect_uri)
        made.config = config
        return made

    def place(self, url: str) -> str:
        """`url` at the address an operator has set for this provider, whose path parts are the same."""
        if not self.config.url:
            return url
        parts = urlsplit(url)
        return f"{self.config.url}{parts.path}{f'?{parts.query}' if parts.query else ''}"

    def request(  # type: ignore[override]  # what its callers read of a response, Answer has
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        auth: Any = None,
        params: Mapping[str, str] | None = None,
        **_: Any,
    ) -> Answer:
        """The calls that stock classes make. Raises Unusable for any status but a good one."""
        if params:
            url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
        sent = {name: value if isinstance(value, str) else value.decode() for name, value in (headers or {}).items()}
        if hasattr(auth, "client"):  # OAuth 1.0a signs the request in a header (RFC 5849 §3.5.1)
            url, sent, _body = auth.client.sign(url, http_method=method, headers=sent)
            auth = None
        reply = self.call(method, url, headers=sent, form=data, auth=auth)
        if not 200 <= reply.status <= 299:
            raise Unusable(f"status {reply.status}")
        return Answer(reply.status, reply.headers, reply.body)

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> http.Reply:
        """One call, whatever its status. Raises Unusable when no answer came."""
        try:
            return http.send(
                method,
                url,
                timeout=deadline.left(),
                max_bytes=_LONGEST_ANSWER,
                headers={"Accept": "application/json", **(headers or {})},
                form=form,
                auth=auth,
                public_only=self.public_only,
            )
        except http.Unreachable as error:
            raise Unusable(str(error)) from None

    def read(self, token: Token, url: str, shape: type[Shape], *, headers: Mapping[str, str] | None = None) -> Shape:
        """The JSON document at `url`, shown to whoever has the token, as `shape`. Raises Unusable."""
        bearer = token.token_type if token.token_type.lower() != "bearer" else "Bearer"
        sent = {"Authorization": f"{bearer} {token.access_token}", **(headers or {})}
        return document(self.request(url, headers=sent).content, shape)


class OAuth2(Backend, BaseOAuth2[Any]):
    """An OAuth 2.0 provider, to be put before the stock class: `class GitHub(OAuth2, GithubOAuth2[Any])`.

    A subclass defines `profile`, and differs in attributes where it can.
    """

    default_scopes: ClassVar[tuple[str, ...]] = ()
    ignores_scopes: ClassVar[bool] = False
    forwards_extra: ClassVar[bool] = True
    requires_pkce: bool = False
    client_in_body: ClassVar[bool] = False
    """Whether the provider knows no client authentication but that in the body."""
    further_parameters: ClassVar[Mapping[str, str]] = {}
    """Of the authorize URL; they win over those of a client."""

    def begin(self, *, flow_id: UUID, scopes: str, extra: Mapping[str, str]) -> Outset:
        wanted = self.scopes(scopes)
        parameters = {
            **({"scope": " ".join(wanted)} if wanted else {}),
            **(extra if self.forwards_extra else {}),
            **self.further_parameters,
            "client_id": self.config.client_ids[0],
            "redirect_uri": self.config.redirect_uri,
            "response_type": "code",
            "state": str(flow_id),
        }
        verifier = crypto.generate_key() if self.requires_pkce else ""
        if verifier:
            digest = hashlib.sha256(verifier.encode()).digest()
            parameters |= {"code_challenge": crypto.base64url_encode(digest), "code_challenge_method": "S256"}
        address = self.authorization_url()
        return Outset(url=f"{address}{'&' if '?' in address else '?'}{self.encode(parameters)}", secret=verifier)

    def scopes(self, asked: str) -> list[str]:
        """What is asked of the provider for a client's wish."""
        further = asked.split(",") if asked and not self.ignores_scopes else []
        return [*self.default_scopes, *further]

    def encode(self, parameters: Mapping[str, str]) -> str:
        return urlencode(sorted(parameters.items()))

    def authorization_url(self) -> str:
        return self.place(super().authorization_url())

    def access_token_url(self) -> str:
        return self.place(super().access_token_url())

    def token_form(self) -> Mapping[str, str]:
        """Further keys of the token request."""
        return {}

    def exchange(self, *, code: str, secret: str) -> Token:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.config.redirect_uri,
            **({"code_verifier": secret} if secret else {}),
            **self.token_form(),
        }
        url = self.access_token_url()
        client = (url, self.config.client_ids[0])
        in_body = True if self.client_in_body else _in_body.get(client)
        if in_body is not None:
            return self._ask_for_token(url, form, in_body=in_body)
        try:
            token = self._ask_for_token(url, form, in_body=False)
        except Unusable:
            in_body = True
            token = self._ask_for_token(url, form, in_body=True)
        if len(_in_body) >= _MOST_STYLES:
            _in_body.clear()
        _in_body[client] = bool(in_body)
        return token

    def _ask_for_token(self, url: str, form: Mapping[str, str], *, in_body: bool) -> Token:
        client_id, secret = self.config.client_ids[0], self.config.secret.reveal()
        if in_body:
            reply = self.call("POST", url, form={**form, "client_id": client_id, "client_secret": secret})
        else:
            reply = self.call("POST", url, form=form, auth=(quote_plus(client_id), quote_plus(secret)))
        if not 200 <= reply.status <= 299:
            raise Unusable(f"status {reply.status}")
        return token_in(reply)


def document(body: bytes, shape: type[Shape]) -> Shape:
    """A JSON text as `shape`. Raises Unusable for any other, and for what could not be kept."""
    try:
        claims.checked(orjson.loads(body))
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # The parser's words may quote what somebody is called.
        raise Unusable("the answer is not of the form that was expected") from None


def token_in(reply: http.Reply) -> Token:
    """The token of a token response (RFC 6749 §5.1), in JSON or as a form. Raises Unusable when there is none."""
    media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type in _FORMS:
        answer: dict[str, Any] = dict(parse_qsl(reply.body.decode(errors="replace")))
        claims.checked(answer)
    else:
        answer = document(reply.body, dict[str, Any])
    if answer.get("error"):
        raise Unusable("the token response is an error")
    texts = {name: _text(answer, name) for name in ("access_token", "token_type", "refresh_token", "id_token")}
    if not texts["access_token"]:
        raise Unusable("the token response has no access token")
    texts["token_type"] = texts["token_type"] or "Bearer"
    return Token(document=answer, **texts)


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value if isinstance(value, str) else ""
