"""What measures and traces requests; in the list of middleware only while it is asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module

from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from authsvc import conf
from authsvc.api import routes
from authsvc.observability import metrics

Respond = Callable[[HttpRequest], HttpResponse]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "_OTHER"

logger = logging.getLogger(__name__)


def traced(get_response: Respond) -> Respond:
    """One span for each request that is sampled. Not used where the libraries for it are missing or do not fit."""
    # Before the libraries are loaded: some variables they read then and never again.
    conf.export_variables(conf.current().telemetry.variables)
    try:
        request_spans = import_module("authsvc.observability.telemetry.request_spans")
        middleware: Respond = request_spans.RequestSpans(get_response)
    except ModuleNotFoundError:
        # Told when tracing is started.
        raise MiddlewareNotUsed from None
    except Exception:
        logger.exception("unable to trace requests")
        raise MiddlewareNotUsed from None
    return middleware


def measured(get_response: Respond) -> Respond:
    """Counts every request and what it took."""

    def respond(request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = get_response(request)
        took = time.perf_counter() - started
        method = request.method if request.method in _METHODS else _OTHER
        labels = (method or _OTHER, str(response.status_code), routes.route_template(request))
        told: list[metrics.Event] = [
            (metrics.RESPONSES, labels[1:], 1),
            (metrics.REQUEST_SECONDS, labels, took),
        ]
        if sent := _number(request.META.get("CONTENT_LENGTH", "")):
            told.append((metrics.REQUEST_BYTES, labels, sent))
        if not response.streaming:
            told.append((metrics.RESPONSE_BYTES, labels, len(response.content)))
        metrics.record(*told)
        return response

    return respond


def _number(text: str) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0
