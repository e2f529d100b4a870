"""Answers read as what the interface promises, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalogclient._messages import Reply
from catalogclient._results import SecretDict, StorageCredential
from catalogclient.errors import InvalidResponseError

_PEEK = 64


def nothing(_reply: Reply) -> None:
    """For operations whose status says everything."""


def document(reply: Reply) -> dict[str, Any]:
    """The body as a JSON object. Raises InvalidResponseError when it is none."""
    if not looks_like_json(reply):
        raise InvalidResponseError("the answer is no JSON document", status=reply.status)
    try:
        found = reply.document()
    except (ValueError, RecursionError) as error:
        # The parser's own error quotes the document, and may so hold a credential.
        raise InvalidResponseError(f"the answer cannot be read: {type(error).__name__}", status=reply.status) from None
    if not isinstance(found, dict):
        raise InvalidResponseError("the answer is no JSON object", status=reply.status)
    return found


def looks_like_json(reply: Reply) -> bool:
    """Whether there is a body that is declared as JSON, or begins like an object."""
    start = reply.start(_PEEK).removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(start) and ("json" in reply.headers.get("Content-Type", "").lower() or start.startswith(b"{"))


def items(body: Mapping[str, Any], key: str) -> list[Any]:
    """The list at `key`; missing or null is empty. Raises InvalidResponseError when it is something else."""
    found = body.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidResponseError(f"{key} in the answer is no list")
    return found


def objects(body: Mapping[str, Any], key: str) -> list[Any]:
    """The list of objects at `key`; missing or null is empty."""
    found = items(body, key)
    if not all(isinstance(each, dict) for each in found):
        raise InvalidResponseError(f"{key} in the answer is no list of objects")
    return found


def texts(body: Mapping[str, Any], key: str) -> list[str]:
    """The list of texts at `key`; missing or null is empty."""
    found = items(body, key)
    if not all(isinstance(each, str) for each in found):
        raise InvalidResponseError(f"{key} in the answer is no list of texts")
    return found


def levels(found: Any) -> tuple[str, ...]:
    """An identifier's levels. Raises InvalidResponseError when they are none."""
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidResponseError("an identifier in the answer is no list of texts")
    return tuple(found)


def token(body: Mapping[str, Any]) -> str | None:
    """Where the next page begins; None, and the empty token, mean nowhere."""
    found = body.get("next-page-token")
    if found is not None and not isinstance(found, str):
        raise InvalidResponseError("next-page-token in the answer is no text")
    return found or None


def mapping(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object at `key`. Raises InvalidResponseError when there is none."""
    found = body.get(key)
    if not isinstance(found, dict):
        raise InvalidResponseError(f"the answer has no {key}")
    return found


def text(body: Mapping[str, Any], key: str) -> str:
    """The text at `key`. Raises InvalidResponseError when there is none."""
    found = body.get(key)
    if not isinstance(found, str):
        raise InvalidResponseError(f"the answer has no {key}")
    return found


def optional_text(body: Mapping[str, Any], key: str) -> str | None:
    found = body.get(key)
    return found if isinstance(found, str) else None


def optional_object(body: Mapping[str, Any], key: str) -> Any:
    found = body.get(key)
    return found if isinstance(found, dict) else None


def secrets(body: dict[str, Any], key: str) -> SecretDict:
    """The texts at `key`, which are from then on hidden in `body` as well; missing or null is empty."""
    found = body.get(key)
    if found is None:
        return SecretDict()
    if not isinstance(found, dict):
        raise InvalidResponseError(f"{key} in the answer is no object")
    body[key] = hidden = SecretDict({name: value for name, value in found.items() if isinstance(value, str)})
    return hidden


def credentials(body: dict[str, Any]) -> list[StorageCredential]:
    """The storage credentials, hidden in `body` as well."""
    found = objects(body, "storage-credentials")
    return [StorageCredential(text(each, "prefix"), secrets(each, "config")) for each in found]


def etag(reply: Reply) -> str | None:
    """The tag of the answer as it came, for the server to recognise.

    But for one thing: a server that compresses may mark the tag (`--gzip`), and would not know it again like that.
    """
    tag = reply.headers.get("ETag")
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    if not tag or not encoding:
        return tag
    quote = '"' if tag.endswith('"') else ""
    return tag.removesuffix(quote).removesuffix(f"--{encoding}") + quote
