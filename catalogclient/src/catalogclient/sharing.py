"""What a catalog and its siblings with other credentials have in common: connections and the server's configuration."""

from __future__ import annotations

import threading

from catalogclient.config import Route
from catalogclient.errors import ClientClosedError
from catalogclient.options import RestCatalogOptions
from catalogclient.single_flight import SingleFlight
from catalogclient.transport import Settings, Transport


class Shared:
    """Lives until the last catalog that uses it is closed."""

    def __init__(self, options: RestCatalogOptions) -> None:
        self.options = options
        self.settings = Settings(
            proxies=options.proxies,
            verify=options.verify,
            cert=options.cert,
            trust_env=options.trust_env,
            pool_maxsize=options.pool_maxsize,
            max_response_bytes=options.max_response_bytes,
            session=options.session,
        )
        self.transport = Transport(self.settings)
        self.route: Route | None = None
        self.flight: SingleFlight[Route] = SingleFlight()
        self._users = 1
        self._lock = threading.Lock()

    def join(self) -> None:
        """One more catalog uses it."""
        with self._lock:
            if not self._users:
                raise ClientClosedError("the catalog is closed")
            self._users += 1

    def leave(self) -> None:
        """One catalog fewer."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self.transport.close()
