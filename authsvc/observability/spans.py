"""What is told of work inside a request or beside one, for traces; nothing is done until somebody wants them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Call(Protocol):
    """A call to another server."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by which the other server can join the trace."""

    def answered(self, status: int) -> None: ...


class Recorder(Protocol):
    def outgoing(self, *, method: str, host: str) -> AbstractContextManager[Call]:
        """While the call is made. Nothing else of its address is told: paths and queries carry secrets."""

    def job(self, *, name: str) -> AbstractContextManager[object]:
        """While a job is done."""

    def statement(self, text: object) -> AbstractContextManager[object]:
        """While the database is asked; `text` is what psycopg takes, without the arguments."""


class _Untold:
    headers: Mapping[str, str] = {}

    def answered(self, status: int) -> None:
        """Nobody listens."""


UNTOLD: AbstractContextManager[Call] = nullcontext(_Untold())
"""What is nobody's concern."""

_recorder: Recorder | None = None


def tell(recorder: Recorder | None) -> None:
    """Tell `recorder` from now on; with None nobody."""
    global _recorder
    _recorder = recorder


def outgoing(*, method: str, host: str) -> AbstractContextManager[Call]:
    return UNTOLD if _recorder is None else _recorder.outgoing(method=method, host=host)


def job(*, name: str) -> AbstractContextManager[object]:
    return UNTOLD if _recorder is None else _recorder.job(name=name)


def statement(text: object) -> AbstractContextManager[object]:
    return UNTOLD if _recorder is None else _recorder.statement(text)
