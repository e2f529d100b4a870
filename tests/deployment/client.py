"""A small asynchronous HTTP client over persistent connections, which costs less CPU time than the servers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes = field(repr=False)

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends one request at a time over one connection, which it opens again after a failure."""

    def __init__(self, port: int, *, seconds: float = 60) -> None:
        self._port = port
        self._seconds = seconds
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, bearer: str = ""
    ) -> Response:
        """Raises OSError, asyncio.IncompleteReadError or TimeoutError."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
        head += "Content-Type: application/json\r\n" if content else ""
        head += f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        try:
            async with asyncio.timeout(self._seconds):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                reader, writer = self._streams
                writer.write(head.encode() + b"\r\n" + content)
                return await self._read(reader)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self.close()
            raise

    async def _read(self, reader: asyncio.StreamReader) -> Response:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        status = int(first.split(" ", 2)[1])
        body = b""
        if "chunked" in headers.get("transfer-encoding", ""):
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        elif length := int(headers.get("content-length", "0")):
            body = await reader.readexactly(length)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Response(status=status, headers=headers, body=body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
