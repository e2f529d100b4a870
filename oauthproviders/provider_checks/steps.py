"""The steps of a provider's check, and their results.

Texts of the other server are shortened and free of control characters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from authsvc.diagnostics.registry import CheckResult, failure, ok, unused, warning
from authsvc.display_text import short_text
from authsvc.errors import ServiceBusy
from authsvc.outgoing import http
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable, ProviderUnreachable

T = TypeVar("T")

SERVER_REMEDY = "Correct the configuration of the provider, or ask its operator."
_TIMEOUT_REMEDY = (
    "All steps share the time of one sign-in request (AUTH_INTERNAL_HTTP_TIMEOUT, and four fifths of"
    " AUTH_API_MAX_REQUEST_DURATION). Check the network to the provider, and the load of its server."
)
MAX_ITEMS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    result: CheckResult
    seconds: float | None = None
    """Duration; None for a step that was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult(Generic[T]):
    """The result of a successful step; with a remedy it is a warning."""

    value: T
    message: str
    remedy: str = ""


class Problem(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class Steps:
    """Runs steps and keeps their results."""

    def __init__(self) -> None:
        self.results: list[Step] = []

    def run(self, subject: str, work: Callable[[], StepResult[T]]) -> T | None:
        """The value of a step; None if it failed."""
        started = time.monotonic()
        value: T | None = None
        try:
            found = work()
        except Problem as problem:
            result = failure(subject, problem.message, problem.remedy)
        except ProviderUnreachable as error:
            result = failure(subject, str(error), remedy_of(error.failure))
        except InvalidProviderResponse as error:
            result = failure(subject, str(error), SERVER_REMEDY)
        except ProviderUnavailable as error:
            result = failure(subject, str(error), "Correct the values of the provider.")
        except ServiceBusy:
            result = failure(subject, "too many requests wait for other servers", "Try again in a few seconds.")
        else:
            value = found.value
            has_remedy = bool(found.remedy)
            result = warning(subject, found.message, found.remedy) if has_remedy else ok(subject, found.message)
        self.results.append(Step(result=result, seconds=time.monotonic() - started))
        return value

    def skip(self, reason: str, *subjects: str) -> None:
        self.results += [Step(result=unused(subject, reason)) for subject in subjects]


def remedy_of(reason: http.Unreachable) -> str:
    """The operator's next step after a failed request."""
    if isinstance(reason, http.TlsFailed):
        return (
            "Check the host name, expiry and chain of the certificate. For an authority of your own set"
            " REQUESTS_CA_BUNDLE."
        )
    if isinstance(reason, http.TimedOut):
        return _TIMEOUT_REMEDY
    if isinstance(reason, http.ResponseTooLarge):
        return "Check that the URL is that of the document."
    return "Check the host, the port, and the firewall between this server and the provider."


def quoted(value: object) -> str:
    return f"“{short_text(value)}”"


def joined(values: Iterable[str]) -> str:
    return ", ".join(short_text(value) for value in list(values)[:MAX_ITEMS])
