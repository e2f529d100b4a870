"""The way to the transport, which is loaded with the first catalog that is made and not with the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalogclient.options import RestCatalogOptions

if TYPE_CHECKING:
    from catalogclient.transport import Transport


def transport(options: RestCatalogOptions) -> Transport:
    """Connections as `options` want them."""
    # requests takes longer to import than all of this library, and many programs import more than they use.
    from catalogclient import transport as found  # noqa: PLC0415

    return found.Transport(options)
