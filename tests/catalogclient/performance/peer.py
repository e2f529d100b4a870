"""Fake catalog in a separate process, so that only the client is measured."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGES = 100
PAGE_SIZE = 1_000
SNAPSHOT = {
    "snapshot-id": 4_000_000_000_000_000_000,
    "timestamp-ms": 1_760_000_000_000,
    "summary": {"operation": "append", "added-records": "1000", "spark.app.id": "application-1"},
    "manifest-list": "s3://warehouse/sales/orders/metadata/snap-4000000000000000000-1-00000000.avro",
    "schema-id": 0,
}


def table(snapshots: int) -> dict[str, Any]:
    """Return the load result of a table with that many snapshots."""
    history = [{**SNAPSHOT, "snapshot-id": SNAPSHOT["snapshot-id"] + number} for number in range(snapshots)]  # type: ignore[operator]
    metadata = {
        "format-version": 2,
        "table-uuid": "0b1c7c2e-52d4-4f0e-9a51-0d7c1d1c9b11",
        "location": "s3://warehouse/sales/orders",
        "last-updated-ms": 1_760_000_000_000,
        "last-sequence-number": 0,
        "last-column-id": 1,
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": True}]}
        ],
        "properties": {"owner": "shop"},
        "snapshots": history,
    }
    return {"metadata-location": "s3://warehouse/sales/orders/metadata/v1.json", "metadata": metadata, "config": {}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body are sent in one segment, to avoid a delayed acknowledgement.
    wbufsize = -1
    bodies: dict[int, bytes]

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        if address.path == "/v1/config":
            body = b"{}"
        elif address.path.endswith("/tables"):
            body = self._page(int(query.get("pageToken", ["0"])[0] or 0))
        else:
            body = self._table(int(address.path.rpartition("/t")[2]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _page(self, number: int) -> bytes:
        first = number * PAGE_SIZE
        names = [{"namespace": ["a"], "name": f"table-{first + index:06}"} for index in range(PAGE_SIZE)]
        return json.dumps(
            {"identifiers": names, "next-page-token": str(number + 1) if number + 1 < PAGES else None}
        ).encode()

    def _table(self, snapshots: int) -> bytes:
        if snapshots not in self.bodies:
            self.bodies[snapshots] = json.dumps(table(snapshots)).encode()
        return self.bodies[snapshots]

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Run the server inside the block and yield its base URL."""
    process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


if __name__ == "__main__":
    _Handler.bodies = {}
    server = _Server(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
