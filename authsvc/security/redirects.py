"""Validates `redirect_to` against the allow list, and builds redirect URLs with results or errors.

Permitted are targets with the origin of SITE_URL, targets that an entry of URI_ALLOW_LIST matches, and loopback targets
if SITE_URL itself is a loopback address.

Targets are parsed with a WHATWG URL parser, because browsers follow them: the validation has to see backslashes, tabs,
`0x7f.1` and user names before the host as a browser does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from operator import itemgetter
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode, urlsplit

import ada_url

from authsvc import conf
from authsvc.conf import url_patterns
from authsvc.conf.url_patterns import UrlPattern

MAX_TARGET_LENGTH = 2048
"""Longest target in bytes."""
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")

PAGES_PATH = "/account/"
"""The path of the hosted pages, below that of this service."""
_CONFIRMATION_PATH = f"{PAGES_PATH}confirm"

_FORBIDDEN_PROTOCOLS = frozenset({"javascript:", "data:", "vbscript:", "blob:", "file:"})
_WEB_PROTOCOLS = frozenset({"http:", "https:"})
_LOOPBACK_NAME = "localhost"
_WEB_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
# The parser drops tab, LF and CR; every other control character is rejected.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DROPPED_CHARACTERS = str.maketrans("", "", "\t\n\r")
# A scheme and an authority without a path; possessive, so that the authority is never truncated.
_PATHLESS = re.compile(r"[^:/\\?#]++:[/\\]*+[^/\\?#]++(?![/\\])")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_FRAGMENT_MARK = "sb"


@dataclass(frozen=True, slots=True)
class _Rules:
    site: tuple[str, str, str] | None
    """Origin of SITE_URL."""
    permits_loopback: bool
    patterns: tuple[UrlPattern, ...]


def is_permitted(url: str) -> bool:
    """True if SITE_URL or URI_ALLOW_LIST permits a redirect to `url`, parsed as a browser does."""
    return _permitted_target(url) is not None


def is_page(url: str) -> bool:
    """True if `url` is that of a hosted page, at one of the hosts of this service."""
    return _base_of_page(url) is not None


def confirmation_page(url: str) -> str:
    """The hosted page that redeems a link of an email and continues at `url`; empty if `url` is no hosted page.

    No other page reads the token of the link, which would stay in its URL.
    """
    base = _base_of_page(url)
    if base is None:
        return ""
    page = url[len(base) :].partition("#")[0]
    if page.partition("?")[0].rstrip("/") == _CONFIRMATION_PATH:
        return url
    return with_query(base + _CONFIRMATION_PATH, {"next": urlsplit(base).path + page})


def resolve(*, header: str | None, query: str | None, referer: str | None) -> str:
    """The target of a request: the first permitted candidate, else SITE_URL verbatim.

    `header` is the request header `redirect_to`; it takes precedence over the query parameter. A permitted candidate is
    returned unchanged if parsing changes nothing significant, else in the normalized form of the parser.
    """
    for candidate in (header or query, referer):
        if candidate and (target := _permitted_target(candidate)) is not None:
            return target
    return conf.current().site.url


def own_path(text: str) -> str:
    """The path and query of this server that a browser opens for `text`; empty for any other text."""
    if not text.startswith("/") or text.startswith("//") or _UNSAFE.search(text) or len(text) > MAX_TARGET_LENGTH:
        return ""
    try:
        url = ada_url.URL(text, base=conf.origin(conf.current()))
    except ValueError:
        return ""
    path = url.pathname + url.search
    # Escapes make it longer; the cookie of the pages, which can hold it, must stay below 4 KB.
    return "" if path.startswith("//") or len(path) > MAX_TARGET_LENGTH else path


def with_fragment(target: str, values: Mapping[str, str]) -> str:
    """`target` with `values` form-encoded in key order in its fragment, after the fragment that it has, if any.

    Applications with routes in the fragment read both, because `&` separates them.
    """
    address, _, fragment = _encode_non_ascii(target).partition("#")
    # Parameters that a client has put there must not stand for those of this service.
    kept = [part for part in fragment.split("&") if part and unquote_plus(part.partition("=")[0]) not in values]
    return f"{address}#{'&'.join([*kept, _form_encode(values)])}"


def with_query(target: str, values: Mapping[str, str]) -> str:
    """`target` with `values` set in its query, which is rewritten in key order; the fragment is kept."""
    url, hash_sign, fragment = _encode_non_ascii(target).partition("#")
    address, _, query = url.partition("?")
    # Bytes that are not UTF-8 are passed through.
    old_pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    pairs = [pair for pair in old_pairs if pair[0] not in values] + list(values.items())
    encoded = urlencode(sorted(pairs, key=itemgetter(0)), errors="surrogateescape")
    return f"{address}?{encoded}{hash_sign}{fragment}"


def with_error(target: str, values: Mapping[str, str], *, in_query: bool) -> str:
    """`target` with `values` and the empty `sb` in its fragment; with `in_query` also set in the query.

    `sb` marks the fragment as one of this service; it is never part of the query.
    """
    if in_query:
        target = with_query(target, {key: value for key, value in values.items() if key != _FRAGMENT_MARK})
    return with_fragment(target, {**values, _FRAGMENT_MARK: ""})


def _base_of_page(url: str) -> str | None:
    """The URL of this service at the beginning of that of a hosted page; None for other URLs."""
    if not conf.current().pages.enabled:
        return None
    bases = [conf.current().api.external_url.rstrip("/")]
    for host in conf.current().mailer.external_hosts:
        bases += [f"https://{host}", *(["http://localhost"] if host == "localhost" else [])]
    return next((base for base in bases if url.startswith(base + PAGES_PATH)), None)


def _permitted_target(original: str) -> str | None:
    """The URL to redirect to, None if it is not permitted."""
    if len(original) > MAX_TARGET_LENGTH or len(original.encode(errors="replace")) > MAX_TARGET_LENGTH:
        return None
    if _CONTROL_CHARACTERS.search(original):
        return None
    try:
        parsed = ada_url.URL(original)
    except ValueError:
        return None
    return _normalize(original, parsed) if _is_allowed(original, parsed, _compile_rules(conf.current().site)) else None


def _is_allowed(original: str, parsed: ada_url.URL, rules: _Rules) -> bool:
    host, protocol = parsed.hostname, parsed.protocol
    if protocol in _FORBIDDEN_PROTOCOLS or parsed.username or parsed.password:
        return False
    if host and _origin(parsed) == rules.site:
        return True
    if host.isdecimal():
        return False
    if protocol in _WEB_PROTOCOLS:
        if _is_loopback(parsed):
            if rules.permits_loopback:
                return True
        elif parsed.host_type != ada_url.HostType.DEFAULT or not _WEB_HOST.fullmatch(host):
            return False
    text = _matched_text(original, parsed)
    return any(pattern.matches(text) for pattern in rules.patterns)


def _matched_text(original: str, parsed: ada_url.URL) -> str:
    """The text that the allow list is matched against: the parsed URL without fragment.

    The slash that the parser adds to a bare `http://host` is removed, so that `http://host/*` does not match it and
    `http://host` does. Before a query it is kept; otherwise `http://evil?.host/x` would match `http://*.host/*`.
    """
    text = parsed.href.partition("#")[0]
    if text.endswith("/") and not parsed.search and _has_added_slash(original, parsed):
        return text[:-1]
    return text


def _normalize(original: str, parsed: ada_url.URL) -> str:
    """The original text if the parser adds only escapes and the slash of an empty path, else the parsed form."""
    text = _encode_non_ascii(original)
    if text == parsed.href:
        return text
    pathless = _PATHLESS.match(text)
    if pathless and f"{pathless[0]}/{text[pathless.end() :]}" == parsed.href:
        return text
    return parsed.href


def _has_added_slash(original: str, parsed: ada_url.URL) -> bool:
    special = parsed.scheme_type != ada_url.SchemeType.NOT_SPECIAL
    return special and _PATHLESS.match(original.translate(_DROPPED_CHARACTERS).strip(" ")) is not None


def _origin(url: ada_url.URL) -> tuple[str, str, str]:
    """Protocol, host and port; the port is empty for the default one."""
    return url.protocol, url.hostname.lower(), url.port


def _is_loopback(url: ada_url.URL) -> bool:
    if url.host_type == ada_url.HostType.DEFAULT:
        return url.hostname.lower() == _LOOPBACK_NAME
    address = ip_address(url.hostname.strip("[]"))
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


@lru_cache(maxsize=8)
def _compile_rules(site: conf.Site) -> _Rules:
    patterns = tuple(url_patterns.compile_pattern(entry) for entry in site.allow_list)
    try:
        url = ada_url.URL(site.url)
    except ValueError:
        return _Rules(None, False, patterns)
    return _Rules(_origin(url), url.protocol in _WEB_PROTOCOLS and _is_loopback(url), patterns)


def _form_encode(values: Mapping[str, str]) -> str:
    """`application/x-www-form-urlencoded` in key order, spaces as `+`."""
    return urlencode(sorted(values.items()))


def _encode_non_ascii(url: str) -> str:
    """`url` for a header: only spaces, control and non-ASCII characters are percent-encoded."""
    return quote(url, safe=_PRINTABLE)
