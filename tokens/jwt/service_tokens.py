"""Tokens that programs of an operator call this service, or others that trust its keys, with."""

from __future__ import annotations

from datetime import datetime, timedelta

import orjson

from authsvc import conf
from tokens.jwt import signing_keys


def issue(*, role: str, life: timedelta, at: datetime) -> str:
    """A token that says `role` until `life` has passed, signed with the present signing key.

    No user and no session stand behind it: it holds until it expires or its key is no longer trusted.
    """
    config = conf.current().jwt
    claims: dict[str, object] = {"role": role}
    if config.issuer:
        claims["iss"] = config.issuer
    claims |= {"iat": int(at.timestamp()), "exp": int((at + life).timestamp())}
    return signing_keys.current().signing.sign(orjson.dumps(claims))
