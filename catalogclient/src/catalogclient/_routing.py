"""What the server's configuration means for the requests that follow: root, prefix, separator, header fields, pages."""

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
from catalogclient.errors import CatalogError, NoSuchWarehouseError

_LACKING = (404, 405, 410, 501)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where and how requests are sent."""

    root: str
    prefix: str = ""
    separator: Separator = UNIT_SEPARATOR
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those that the server wants sent."""
    page_size: int | None = None
    """Of iterators, when the caller does not say."""
    snapshots: Snapshots | None = None
    """Of loads, when the caller does not say."""
    config: CatalogConfig | None = None
    """None when it was not asked for, or the server has none."""
    supported: frozenset[str] = _endpoints.DEFAULT_ENDPOINTS
    lists_endpoints: bool = False

    def lacks(self, operation: Operation) -> bool:
        """Whether the server lists its endpoints and this one is not among them."""
        return self.lists_endpoints and operation.listed not in self.supported

    @property
    def idempotency_key_lifetime(self) -> timedelta | None:
        return self.config.idempotency_key_lifetime if self.config else None


def warehouse(options: RestCatalogOptions) -> str | None:
    return options.warehouse if options.warehouse is not None else options.catalog_name


def must_be_asked(options: RestCatalogOptions) -> bool:
    """Whether the first request to a prefixed path needs the server's configuration."""
    if options.config_mode == "auto":
        return warehouse(options) is not None
    return options.config_mode == "always"


def start(options: RestCatalogOptions) -> Route:
    """The route of requests that do not wait for the configuration."""
    separator = Separator.given(options.namespace_separator) if options.namespace_separator else UNIT_SEPARATOR
    return Route(root=_urls.root(options.base_url), separator=separator)


def without(options: RestCatalogOptions) -> Route:
    """The route without any configuration: the warehouse, where there is one, is a segment of every path."""
    literal = warehouse(options)
    prefix = _urls.prefix(options.prefix) if options.prefix is not None else quote(literal or "", safe="")
    return _with(start(options), options, {}, prefix=prefix, config=None)


def settled(options: RestCatalogOptions, config: CatalogConfig) -> Route:
    """The route that the server's configuration leads to. Raises InvalidResponseError for a prefix that cannot be."""
    if not must_be_asked(options):
        # The caller looked at it, and requests must not go elsewhere because of that.
        return _with(start(options), options, {}, prefix=without(options).prefix, config=config)
    merged = {**config.defaults, **(options.properties or {}), **config.overrides}
    begun = start(options)
    root = _root(begun.root, config.overrides.get("uri"), options)
    return _with(
        Route(root=root, separator=_separator(begun.separator, merged, options)),
        options,
        merged,
        prefix=_prefix(config, options),
        config=config,
    )


def is_lacking(error: CatalogError, options: RestCatalogOptions) -> bool:
    """Whether a failed configuration request means that the server has no such endpoint."""
    if options.config_fallback == "never":
        return False
    if options.config_fallback == "any":
        return True
    said_otherwise = isinstance(error, NoSuchWarehouseError) and error.type is not None
    return error.status in _LACKING and not said_otherwise


def _with(
    route: Route, options: RestCatalogOptions, merged: Mapping[str, str], *, prefix: str, config: CatalogConfig | None
) -> Route:
    properties = merged or options.properties or {}
    listed = config.endpoints if config else None
    assumed: frozenset[str] = _endpoints.DEFAULT_ENDPOINTS
    if properties.get("view-endpoints-supported", "").lower() == "true":
        assumed |= _endpoints.VIEW_ENDPOINTS
    return Route(
        root=route.root,
        prefix=prefix,
        separator=route.separator,
        headers=_header_fields(config) if config and must_be_asked(options) else {},
        page_size=_page_size(properties.get("rest-page-size")),
        snapshots=_snapshots(properties.get("snapshot-loading-mode")) if options.properties is not None else None,
        config=config,
        supported=listed or assumed,
        lists_endpoints=listed is not None,
    )


def _prefix(config: CatalogConfig, options: RestCatalogOptions) -> str:
    if options.prefix is not None:
        return _urls.prefix(options.prefix)
    given = config.overrides.get("prefix") or config.defaults.get("prefix")
    if given:
        return _urls.prefix(given)
    literal = warehouse(options)
    # Servers that know no prefix at all are asked with addresses or ARNs as warehouse.
    return literal if options.properties is None and literal and _urls.is_plain_segment(literal) else ""


def _root(root: str, uri: str | None, options: RestCatalogOptions) -> str:
    if not uri or options.config_uri == "never":
        return root
    try:
        other = _urls.root(uri)
    except CatalogError:
        CONFIG.warning("the server's uri is no address and is ignored")
        return root
    here, there = _urls.origin(root), _urls.origin(other)
    if there == here or (options.config_uri == "always" and there[0] in ("https", here[0])):
        return other
    CONFIG.warning("the server's uri leads to another origin and is ignored")
    return root


def _separator(begun: Separator, merged: Mapping[str, str], options: RestCatalogOptions) -> Separator:
    given = merged.get("namespace-separator")
    if options.namespace_separator or given is None:
        return begun
    if not given:
        CONFIG.warning("the server's namespace-separator is empty and is ignored")
        return begun
    return Separator.given(given)


def _header_fields(config: CatalogConfig) -> dict[str, str]:
    wanted = {
        name.removeprefix("header."): value
        for name, value in {**config.defaults, **config.overrides}.items()
        if name.startswith("header.")
    }
    refused = [name for name, value in wanted.items() if not _headers.is_acceptable(name, value)]
    if refused:
        CONFIG.warning("header fields of the server's configuration are ignored: %d", len(refused))
    return {name: value for name, value in wanted.items() if name not in refused}


def _snapshots(text: str | None) -> Snapshots | None:
    mode = (text or "").lower()
    return "all" if mode == "all" else "refs" if mode == "refs" else None


def _page_size(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text):
        return int(text)
    CONFIG.warning("rest-page-size of the configuration is no size and is ignored")
    return None
