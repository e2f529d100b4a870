"""Providers as they answer, each recorded in a file of `recorded/`: addresses, documents, and what is to come of them.

A file says `authorize`, `token` and `scope`; `documents` by address; `identity_data` and `addresses`, the profile that
is wanted; `subject`, the way to the subject in one of the documents (an empty address: in the answer of `token`).
Where they apply: `url`, the setting without which the provider has no address; `issuer` and `id_token`, its claims;
`token_answer`, what is in that answer beside a token; `request_token` (OAuth 1.0a); `callback`, parameters that the
browser brings; `moved`, paths that are others where the provider has an address of its own.
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
from tests.fakes.http_peer import Answer, in_json
from tests.fakes.issuer import SigningKey

_FOLDER = Path(__file__).parent / "recorded"
_KEY = SigningKey(kid="k")

SECRET = "s-e-c"
CALLBACK = "http://127.0.0.1:8081/callback"
TOKEN = {"access_token": "t", "expires_in": 100000, "refresh_token": "r"}


def signed(claims: Mapping[str, Any]) -> str:
    """An ID token that was issued a moment ago; `claims` win."""
    now = int(time.time())
    return _KEY.sign({"iat": now, "exp": now + 600, **claims})


@dataclass(frozen=True, kw_only=True)
class Recording:
    """With `home`, an address without a path, everything is there instead of where the provider has it."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    home: str = ""

    @property
    def is_oauth1(self) -> bool:
        return "request_token" in self.data

    @property
    def issuer(self) -> str:
        return self._at(self.data.get("issuer", ""))

    @property
    def authorize(self) -> str:
        return self._at(self.data["authorize"])

    @property
    def config(self) -> conf.Provider:
        url = self._at(self.data["url"]) if "url" in self.data else self.home
        return conf.Provider(
            enabled=True,
            client_ids=("cid", "cid-of-an-app"),
            secret=conf.Secret(SECRET),
            redirect_uri=CALLBACK,
            url=url,
        )

    @property
    def identity_data(self) -> dict[str, Any]:
        """Without `iss` where that may be an address of the provider."""
        wanted = dict(self.data["identity_data"])
        if self.home:
            del wanted["iss"]
        return wanted

    def there(self, home: str) -> Recording:
        return replace(self, home=home)

    def changed(self, **data: Any) -> Recording:
        return replace(self, data={**self.data, **data})

    def with_value(self, way: Sequence[str | int], value: Any) -> Recording:
        """`way` begins with the address of a document, with "" for the answer of `token`, or with "id_token"."""
        data = copy.deepcopy(dict(self.data))
        first, *middle, last = way
        roots: dict[str | int, Any] = {
            **data["documents"],
            "": data.get("token_answer"),
            "id_token": data.get("id_token"),
        }
        found = roots[first]
        for step in middle:
            found = found[step]
        if value is ABSENT:
            del found[last]
        else:
            found[last] = value
        return replace(self, data=data)

    @property
    def subject(self) -> Sequence[str | int]:
        return ["id_token", "sub"] if "id_token" in self.data else self.data["subject"]

    def answers(self) -> dict[str, Answer]:
        """Address without a query → what is to be had there."""
        return {
            **{self._at(address): in_json(document) for address, document in self.data["documents"].items()},
            **self._of_issuer(),
            **self._of_tokens(),
        }

    def token_answer(self) -> dict[str, Any]:
        answer = {**TOKEN, **self.data.get("token_answer", {})}
        if "id_token" in self.data:
            said = self.data["id_token"]
            answer["id_token"] = signed({**said, "iss": self.issuer} if self.home else said)
        return answer

    def _of_tokens(self) -> dict[str, Answer]:
        token = self._at(self.data["token"])
        if not self.is_oauth1:
            return {token: in_json(self.token_answer())}
        first = {"oauth_token": "a", "oauth_token_secret": "b", "oauth_callback_confirmed": "true"}
        return {
            self._at(self.data["request_token"]): Answer(body=urlencode(first).encode()),
            token: Answer(body=urlencode({"oauth_token": "t", "oauth_token_secret": "c"}).encode()),
        }

    def _of_issuer(self) -> dict[str, Answer]:
        if not self.issuer:
            return {}
        discovered = {
            "issuer": self.issuer,
            "authorization_endpoint": self.authorize,
            "token_endpoint": self._at(self.data["token"]),
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return {
            f"{self.issuer}/.well-known/openid-configuration": in_json(discovered),
            f"{self.issuer}/keys": in_json({"keys": [_KEY.jwk]}),
        }

    def _at(self, address: str) -> str:
        if not (self.home and address):
            return address
        return self.home + (self.data.get("moved", {}).get(address) or urlsplit(address).path)


ABSENT = object()

ALL = {
    path.stem: Recording(name=path.stem, data=json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(_FOLDER.glob("*.json"))
}
