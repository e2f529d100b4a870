"""Derives root URL, prefix, separator, header fields and page size from the options and the server's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import quote

from catalogclient import _endpoints, _headers, _urls
from catalogclient._endpoints import Operation
from catalogclient._log import CONFIG
from catalogclient._options import RestCatalogOptions, Snapshots
from catalogclient._results import CatalogConfig
from catalogclient._urls import UNIT_SEPARATOR, Separator
from catalogclient.errors import CatalogError

_LACKING = (404, 405, 410, 501)
_NO_SUCH_WAREHOUSE = "NoSuchWarehouseException"
"""The type of a 404 by which a configuration endpoint answers; a missing route has other types, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Settings for the requests that follow the configuration request."""

    root: str
    prefix: str = ""
    separator: Separator = UNIT_SEPARATOR
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Header fields that the server's configuration requests."""
    page_size: int | None = None
    """Default page size of iterators."""
    snapshots: Snapshots | None = None
    """Default of `snapshots` for loads."""
    config: CatalogConfig | None = None
    """None if it was not requested or the server has no configuration endpoint."""
    supported: frozenset[str] = _endpoints.DEFAULT_ENDPOINTS
    lists_endpoints: bool = False

    def lacks(self, operation: Operation) -> bool:
        """Return True if the server lists its endpoints and `operation` is not in the list."""
        return self.lists_endpoints and operation.endpoint not in self.supported

    @property
    def idempotency_key_lifetime(self) -> timedelta | None:
        return self.config.idempotency_key_lifetime if self.config else None


def warehouse(options: RestCatalogOptions) -> str | None:
    return options.warehouse if options.warehouse is not None else options.catalog_name


def initial(options: RestCatalogOptions) -> Route:
    """Return the route of requests that do not depend on the configuration."""
    separator = Separator.parse(options.namespace_separator) if options.namespace_separator else UNIT_SEPARATOR
    return Route(root=_urls.root(options.base_url), separator=separator)


def without_config(options: RestCatalogOptions) -> Route:
    """Return the route for a server without configuration: the warehouse, if set, is a segment of every path."""
    literal = warehouse(options)
    prefix = _urls.prefix(options.prefix) if options.prefix is not None else quote(literal or "", safe="")
    return _with(initial(options), options, {}, prefix=prefix, config=None)


def from_config(options: RestCatalogOptions, config: CatalogConfig) -> Route:
    """Return the route for the server's configuration. Raises InvalidResponseError for an invalid prefix."""
    first = initial(options)
    if options.config_mode == "never":
        # load_config() in this mode is for information and must not change the route.
        return _with(first, options, {}, prefix=without_config(options).prefix, config=config)
    merged = {**config.defaults, **(options.properties or {}), **config.overrides}
    root = _root(first.root, config.overrides.get("uri"), options)
    return _with(
        Route(root=root, separator=_separator(first.separator, merged, options)),
        options,
        merged,
        prefix=_prefix(config, options),
        config=config,
    )


def is_lacking(error: CatalogError, options: RestCatalogOptions) -> bool:
    """Return True if a failed configuration request means that the server has no configuration endpoint."""
    if options.config_fallback == "never":
        return False
    if options.config_fallback == "any":
        return True
    is_unknown_warehouse = error.type == _NO_SUCH_WAREHOUSE
    if options.config_mode == "auto" and warehouse(options) is None and (error.status == 400 or is_unknown_warehouse):
        # The server requires a warehouse. The other requests work with a prefix from the options.
        return True
    return error.status in _LACKING and not is_unknown_warehouse


def _with(
    route: Route, options: RestCatalogOptions, merged: Mapping[str, str], *, prefix: str, config: CatalogConfig | None
) -> Route:
    properties = merged or options.properties or {}
    endpoints = config.endpoints if config else None
    assumed: frozenset[str] = _endpoints.DEFAULT_ENDPOINTS
    if properties.get("view-endpoints-supported", "").lower() == "true":
        assumed |= _endpoints.VIEW_ENDPOINTS
    return Route(
        root=route.root,
        prefix=prefix,
        separator=route.separator,
        headers=_header_fields(config) if config and options.config_mode != "never" else {},
        page_size=_page_size(properties.get("rest-page-size")),
        snapshots=_snapshots(properties.get("snapshot-loading-mode")) if options.properties is not None else None,
        config=config,
        supported=endpoints or assumed,
        lists_endpoints=endpoints is not None,
    )


def _prefix(config: CatalogConfig, options: RestCatalogOptions) -> str:
    if options.prefix is not None:
        return _urls.prefix(options.prefix)
    return _urls.prefix(config.overrides.get("prefix") or config.defaults.get("prefix") or "")


def _root(root: str, uri: str | None, options: RestCatalogOptions) -> str:
    if not uri or options.config_uri == "never":
        return root
    try:
        new_root = _urls.root(uri)
    except CatalogError:
        CONFIG.warning("ignored the configuration key uri: it is not an http or https URL")
        return root
    origin, new_origin = _urls.origin(root), _urls.origin(new_root)
    if new_origin == origin or (options.config_uri == "always" and new_origin[0] in ("https", origin[0])):
        return new_root
    CONFIG.warning("ignored the configuration key uri: it has another origin than base_url")
    return root


def _separator(default: Separator, merged: Mapping[str, str], options: RestCatalogOptions) -> Separator:
    text = merged.get("namespace-separator")
    if options.namespace_separator or text is None:
        return default
    if not text:
        CONFIG.warning("ignored the configuration key namespace-separator: it is empty")
        return default
    return Separator.parse(text)


def _header_fields(config: CatalogConfig) -> dict[str, str]:
    requested = {
        name.removeprefix("header."): value
        for name, value in {**config.defaults, **config.overrides}.items()
        if name.startswith("header.")
    }
    accepted = {name: value for name, value in requested.items() if _headers.is_acceptable(name, value)}
    if len(accepted) < len(requested):
        CONFIG.warning("ignored %d configuration keys header.*: reserved or invalid", len(requested) - len(accepted))
    return accepted


def _snapshots(text: str | None) -> Snapshots | None:
    mode = (text or "").lower()
    return "all" if mode == "all" else "refs" if mode == "refs" else None


def _page_size(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text):
        return int(text)
    CONFIG.warning("ignored the configuration key rest-page-size: it is not a positive integer")
    return None
