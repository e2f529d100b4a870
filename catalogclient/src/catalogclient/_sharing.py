"""State shared by a catalog and its siblings from `with_auth`: connections and the server's configuration."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalogclient import _lazy_transport
from catalogclient._options import RestCatalogOptions
from catalogclient._routing import Route
from catalogclient._single_flight import SingleFlight

if TYPE_CHECKING:
    from catalogclient._transport import Transport


class Shared:
    """Shared state. It is closed with the last catalog that uses it."""

    def __init__(self, options: RestCatalogOptions) -> None:
        self.transport: Transport = _lazy_transport.create_transport(options)
        self.route: Route | None = None
        self.flight: SingleFlight[Route] = SingleFlight()
        self._users: set[object] = set()
        self._lock = threading.Lock()

    def join(self, user: object) -> None:
        """Registers a catalog."""
        with self._lock:
            self._users.add(user)

    def leave(self, user: object) -> None:
        """Removes a catalog. Closes the connections after the last one."""
        with self._lock:
            self._users.discard(user)
            last = not self._users
        if last:
            self.transport.close()
