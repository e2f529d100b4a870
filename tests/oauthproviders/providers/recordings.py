"""Recorded sign-ins: the URLs and documents of each provider in `recorded/`, and the expected profile.

Members of a file: the URLs `authorize` and `token`; `scope`; `documents` by URL; the expected `identity_data` and
`addresses`; `subject`, the path of the subject in one of the documents (an empty URL is the token response).
Optional members: `url`, the setting if it is required; `issuer` and `id_token`, its claims; `token_response`, members
of the token response besides the token; `request_token` (OAuth 1.0a); `callback`, parameters of the callback;
`moved_paths`, paths that differ when the provider has a configured URL.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from authsvc import conf
from tests.fakes.http_peer import Response, in_json
from tests.fakes.issuer import SigningKey

_FOLDER = Path(__file__).parent / "recorded"
_KEY = SigningKey(kid="k")

SECRET = "s-e-c"
CALLBACK = "http://127.0.0.1:8081/callback"
TOKEN = {"access_token": "t", "expires_in": 100000, "refresh_token": "r"}


def signed(claims: Mapping[str, Any]) -> str:
    """A signed ID token that is valid now, unless `claims` change this."""
    now = int(time.time())
    return _KEY.sign({"iat": now, "exp": now + 600, **claims})


@dataclass(frozen=True, kw_only=True)
class Recording:
    """With `base_url`, scheme and host, all URLs are at this server instead of the provider's own."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    base_url: str = ""

    @property
    def is_oauth1(self) -> bool:
        return "request_token" in self.data

    @property
    def issuer(self) -> str:
        return self._url(self.data.get("issuer", ""))

    @property
    def authorize(self) -> str:
        return self._url(self.data["authorize"])

    @property
    def config(self) -> conf.Provider:
        url = self._url(self.data["url"]) if "url" in self.data else self.base_url
        return conf.Provider(
            enabled=True,
            client_ids=("cid", "cid-of-an-app"),
            secret=conf.Secret(SECRET),
            redirect_uri=CALLBACK,
            url=url,
        )

    @property
    def identity_data(self) -> dict[str, Any]:
        """The expected identity data; without `iss`, which may be a URL, if there is a `base_url`."""
        expected = dict(self.data["identity_data"])
        if self.base_url:
            del expected["iss"]
        return expected

    def at_server(self, base_url: str) -> Recording:
        return replace(self, base_url=base_url)

    def with_data(self, **data: Any) -> Recording:
        return replace(self, data={**self.data, **data})

    def with_value(self, path: Sequence[str | int], value: Any) -> Recording:
        """`path` begins with the URL of a document, with "" for the token response, or with "id_token"."""
        data = copy.deepcopy(dict(self.data))
        first, *middle, last = path
        roots: dict[str | int, Any] = {
            **data["documents"],
            "": data.get("token_response"),
            "id_token": data.get("id_token"),
        }
        parent = roots[first]
        for step in middle:
            parent = parent[step]
        if value is ABSENT:
            del parent[last]
        else:
            parent[last] = value
        return replace(self, data=data)

    @property
    def subject(self) -> Sequence[str | int]:
        return ["id_token", "sub"] if "id_token" in self.data else self.data["subject"]

    def documents(self) -> dict[str, Response]:
        """URL without a query → response."""
        return {
            **{self._url(url): in_json(document) for url, document in self.data["documents"].items()},
            **self._of_issuer(),
            **self._of_tokens(),
        }

    def token_response(self) -> dict[str, Any]:
        response = {**TOKEN, **self.data.get("token_response", {})}
        if "id_token" in self.data:
            claims = self.data["id_token"]
            response["id_token"] = signed({**claims, "iss": self.issuer} if self.base_url else claims)
        return response

    def _of_tokens(self) -> dict[str, Response]:
        token = self._url(self.data["token"])
        if not self.is_oauth1:
            return {token: in_json(self.token_response())}
        request_token = {"oauth_token": "a", "oauth_token_secret": "b", "oauth_callback_confirmed": "true"}
        return {
            self._url(self.data["request_token"]): Response(body=urlencode(request_token).encode()),
            token: Response(body=urlencode({"oauth_token": "t", "oauth_token_secret": "c"}).encode()),
        }

    def _of_issuer(self) -> dict[str, Response]:
        if not self.issuer:
            return {}
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": self.authorize,
            "token_endpoint": self._url(self.data["token"]),
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return {
            f"{self.issuer}/.well-known/openid-configuration": in_json(document),
            f"{self.issuer}/keys": in_json({"keys": [_KEY.jwk]}),
        }

    def _url(self, url: str) -> str:
        if not (self.base_url and url):
            return url
        return self.base_url + (self.data.get("moved_paths", {}).get(url) or urlsplit(url).path)


ABSENT = object()

ALL = {
    path.stem: Recording(name=path.stem, data=json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(_FOLDER.glob("*.json"))
}
