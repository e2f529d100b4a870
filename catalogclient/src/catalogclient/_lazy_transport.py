"""Creates the transport with the first request, so that importing the library does not import `requests`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalogclient._options import RestCatalogOptions

if TYPE_CHECKING:
    from catalogclient._transport import Transport


class LazyTransport:
    """A transport that is created when it is used first."""

    def __init__(self, options: RestCatalogOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def get(self) -> Transport:
        """Return the transport."""
        if self._transport is None:
            # Importing requests takes longer than importing this whole library.
            from catalogclient import _transport  # noqa: PLC0415  (imports requests)

            with self._lock:
                if self._transport is None:
                    self._transport = _transport.Transport(self._options)
        return self._transport
