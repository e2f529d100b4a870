"""An OpenTelemetry collector on loopback, over HTTP or gRPC, that records its requests."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import grpc  # type: ignore[import-untyped]  # it ships no types
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

TIMEOUT_SECONDS = 60


class Span:
    """A received span with the attributes of its resource."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.id: str = span.span_id.hex()
        self.parent_id: str = span.parent_span_id.hex()
        self.attributes = _plain(span.attributes)
        self.resource = resource


class Collector:
    """Runs while its `with` block does; `protocol` is `http/protobuf` or `grpc`."""

    def __init__(self, protocol: str = "http/protobuf") -> None:
        self.protocol = protocol
        self.port = 0
        self.spans: list[Span] = []
        self.metrics: dict[str, Any] = {}
        """Name → newest metric."""
        self.resources: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        """Every received message."""
        self._changed = threading.Condition()
        self._stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make a server export to this collector without delay."""
        return {
            "OTEL_EXPORTER_OTLP_PROTOCOL": self.protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
        }

    def take_traces(self, message: Any) -> None:
        with self._changed:
            self.raw.append(message.SerializeToString())
            for group in message.resource_spans:
                resource = _plain(group.resource.attributes)
                self.spans += [Span(span, resource) for scope in group.scope_spans for span in scope.spans]
            self._changed.notify_all()

    def take_metrics(self, message: Any) -> None:
        with self._changed:
            self.raw.append(message.SerializeToString())
            for group in message.resource_metrics:
                self.resources.append(_plain(group.resource.attributes))
                self.metrics |= {metric.name: metric for scope in group.scope_metrics for metric in scope.metrics}
            self._changed.notify_all()

    def wait_for_span(self, fits: Callable[[Span], bool]) -> Span:
        """Return the first span that `fits`; raise AssertionError after TIMEOUT_SECONDS."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with self._changed:
            while not (matching := [span for span in self.spans if fits(span)]):
                remaining = deadline - time.monotonic()
                assert remaining > 0, f"no such span among {[(s.name, s.attributes) for s in self.spans]}"
                self._changed.wait(remaining)
        return matching[0]

    def wait(self, holds: Callable[[], object]) -> None:
        """Wait until `holds` returns true after a message; raise AssertionError after TIMEOUT_SECONDS."""
        with self._changed:
            assert self._changed.wait_for(holds, TIMEOUT_SECONDS), "condition not met in time"

    def wait_for_metric(self, name: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with self._changed:
            while name not in self.metrics or not fits(self.metrics[name]):
                remaining = deadline - time.monotonic()
                assert remaining > 0, f"no such metric among {sorted(self.metrics)}"
                self._changed.wait(remaining)
            return self.metrics[name]

    def __enter__(self) -> Self:
        if self.protocol == "grpc":
            self._serve_grpc()
        else:
            self._serve_http()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stop()

    def _serve_grpc(self) -> None:
        server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), server)  # type: ignore[no-untyped-call]
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), server)  # type: ignore[no-untyped-call]
        self.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self._stop = lambda: server.stop(0).wait()

    def _serve_http(self) -> None:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.take_traces(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                else:
                    collector.take_metrics(metrics_service_pb2.ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

        def stop() -> None:
            server.shutdown()
            server.server_close()

        self._stop = stop


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  (the protocol's name)
        self._collector.take_traces(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  (the protocol's name)
        self._collector.take_metrics(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


def _plain(attributes: Any) -> dict[str, Any]:
    def pairs() -> Iterator[tuple[str, Any]]:
        for attribute in attributes:
            yield attribute.key, getattr(attribute.value, attribute.value.WhichOneof("value") or "string_value")

    return dict(pairs())
