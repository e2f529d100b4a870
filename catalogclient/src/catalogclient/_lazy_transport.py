"""Creates the transport on first use, so that importing the library does not import `requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalogclient._options import RestCatalogOptions

if TYPE_CHECKING:
    from catalogclient._transport import Transport


def create_transport(options: RestCatalogOptions) -> Transport:
    """Creates a transport for `options`."""
    # Importing requests takes longer than importing this whole library.
    from catalogclient import _transport  # noqa: PLC0415

    return _transport.Transport(options)
