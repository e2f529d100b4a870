"""What the gateways share: a message is one call, and every answer becomes an id or a NotDelivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from authsvc import conf
from authsvc.outgoing import http
from mailer.errors import NotDelivered

_MAX_ANSWER = 65_536
# The account is in trouble, or the gateway is: the same request may be taken once that is over.
_PASSING = frozenset({401, 402, 403, 408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text message as it goes out."""

    to: str
    """Digits of the number, without `+`."""
    channel: str
    """`sms` or `whatsapp`."""
    body: str = field(repr=False)
    code: str = field(repr=False)


class Gateway(Protocol):
    """Somebody who carries text messages."""

    def send(self, text: Text) -> str:
        """Hand one message over and return what the gateway calls it, empty when it gives no name.

        Raises NotDelivered, permanent when the same message would be refused again.
        """

    def try_out(self) -> None:
        """Have the credentials checked by a call that sends nothing. Raises NotDelivered when they are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a gateway said: status and JSON document."""

    status: int
    document: Any = field(repr=False)

    @property
    def is_final(self) -> bool:
        """Whether the status says that the request itself is wrong."""
        return 400 <= self.status < 500 and self.status not in _PASSING

    def value(self, *path: str | int) -> Any:
        """The member at the end of a path of names and indexes; None where there is no such way."""
        found = self.document
        for step in path:
            try:
                found = found[step]
            except (TypeError, LookupError):
                return None
        return found

    def text(self, *path: str | int) -> str:
        """The string or number at the end of a path on one line, empty for anything else."""
        found = self.value(*path)
        return " ".join(str(found).split()) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def post(
    url: str,
    *,
    gateway: str,
    form: Mapping[str, str],
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a form. Raises NotDelivered when nothing comes back or no JSON; `gateway` is its name in that text."""
    return _call("POST", url, gateway=gateway, form=form, auth=auth, headers=headers)


def get(
    url: str,
    *,
    gateway: str,
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Ask for something. Raises NotDelivered as `post` does, and when the status is none of success."""
    answer = _call("GET", url, gateway=gateway, form=None, auth=auth, headers=headers)
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"{gateway} error: status {answer.status}", permanent=answer.is_final)
    return answer


def _call(
    method: str,
    url: str,
    *,
    gateway: str,
    form: Mapping[str, str] | None,
    auth: tuple[str, str] | None,
    headers: Mapping[str, str] | None,
) -> Answer:
    try:
        reply = http.send(
            method,
            url,
            form=form,
            auth=auth,
            headers=headers,
            timeout=conf.current().api.internal_http_timeout,
            max_bytes=_MAX_ANSWER,
        )
    except http.Unreachable as error:
        raise NotDelivered(f"{gateway} error: {error}") from error
    try:
        return Answer(status=reply.status, document=reply.json())
    except ValueError:
        unread = Answer(status=reply.status, document=None)
        raise NotDelivered(
            f"{gateway} error: the answer of status {reply.status} is not JSON", permanent=unread.is_final
        ) from None


def refuse_whatsapp(text: Text, *, gateway: str) -> None:
    """For gateways that only know text messages proper. Raises NotDelivered."""
    if text.channel == "whatsapp":
        raise NotDelivered(f'channel type "whatsapp" is not supported for {gateway}', permanent=True)
