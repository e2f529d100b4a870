"""Where a browser may be sent: the rule for `redirect_to`, and the Location that carries an outcome.

Targets are read with a WHATWG URL parser, because it is a browser that follows them: what a browser makes of
backslashes, tabs, `0x7f.1` or a user name before the host is what the rule has to judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from operator import itemgetter
from urllib.parse import parse_qsl, quote, urlencode

import ada_url

from authsvc import conf
from authsvc.conf import url_patterns

_FORBIDDEN_PROTOCOLS = frozenset({"javascript:", "data:", "vbscript:", "blob:", "file:"})
_WEB_PROTOCOLS = frozenset({"http:", "https:"})
_WEB_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
# What a parser drops without a word (tab, LF, CR) is left to it; the other controls have no place in a URL.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DROPPED = str.maketrans("", "", "\t\n\r")
# A scheme and an authority with no path after it; possessive, so that the authority is never cut short.
_PATHLESS = re.compile(r"[^:/\\?#]++:[/\\]*+[^/\\?#]++(?![/\\])")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_ONLY_IN_FRAGMENT = "sb"


@dataclass(frozen=True, slots=True)
class _Rules:
    host: str
    protocols: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]


def is_permitted(url: str) -> bool:
    """Whether `url`, read as a browser reads it, is a place SITE_URL or URI_ALLOW_LIST lets us send people to."""
    return _permitted(url) is not None


def resolve(*, header: str | None, query: str | None, referer: str | None) -> str:
    """The target of a request: the first permitted candidate, else SITE_URL verbatim.

    `header` is the request header `redirect_to`, which hides the query parameter when it is there. A permitted
    candidate comes back as given where parsing changed nothing that matters, else in the parser's form.
    """
    for candidate in (header or query, referer):
        if candidate and (target := _permitted(candidate)) is not None:
            return target
    return conf.current().site.url


def with_fragment(target: str, values: Mapping[str, str]) -> str:
    """`target` with `#` and `values` in key order as a form; a fragment it already has stays in front of that."""
    return f"{_ascii(target)}#{_form(values)}"


def with_query(target: str, values: Mapping[str, str]) -> str:
    """`target` with `values` set in its query, which is written anew in key order; its fragment stays."""
    url, mark, fragment = _ascii(target).partition("#")
    address, _, query = url.partition("?")
    # Octets that are no UTF-8 go through unchanged.
    kept = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    pairs = [pair for pair in kept if pair[0] not in values] + list(values.items())
    encoded = urlencode(sorted(pairs, key=itemgetter(0)), errors="surrogateescape")
    return f"{address}?{encoded}{mark}{fragment}"


def with_error(target: str, values: Mapping[str, str], *, in_query: bool) -> str:
    """`target` with its fragment replaced by `values` and the empty `sb`; with `in_query` also set in the query.

    `sb` tells clients that the fragment is ours, and stands nowhere else.
    """
    address = _ascii(target).partition("#")[0]
    if in_query:
        address = with_query(address, {key: value for key, value in values.items() if key != _ONLY_IN_FRAGMENT})
    return with_fragment(address, {**values, _ONLY_IN_FRAGMENT: ""})


def _permitted(given: str) -> str | None:
    """The text to send a browser to, or None."""
    if _CONTROLS.search(given):
        return None
    try:
        url = ada_url.URL(given)
    except ValueError:
        return None
    return _target(given, url) if _is_valid(given, url, _rules(conf.current().site)) else None


def _is_valid(given: str, url: ada_url.URL, rules: _Rules) -> bool:
    host, protocol = url.hostname, url.protocol
    if protocol in _FORBIDDEN_PROTOCOLS or url.username or url.password:
        return False
    if host and host.lower() == rules.host and protocol in rules.protocols:
        return True
    if host.isdecimal():
        return False
    if protocol in _WEB_PROTOCOLS:
        if url.host_type != ada_url.HostType.DEFAULT:
            return _is_loopback(host)
        if not _WEB_HOST.fullmatch(host):
            return False
    text = _matched_text(given, url)
    return any(pattern.fullmatch(text) for pattern in rules.patterns)


def _matched_text(given: str, url: ada_url.URL) -> str:
    """What the allow list is compared with: the parsed form without fragment.

    The slash that the parser gives to a bare `http://host` is taken off again, so that `http://host/*` does not
    match it and `http://host` does; before a query it stays, or `http://evil?.host/x` would match `http://*.host/*`.
    """
    text = url.href.partition("#")[0]
    if text.endswith("/") and not url.search and _gained_slash(given, url):
        return text[:-1]
    return text


def _target(given: str, url: ada_url.URL) -> str:
    """The given text, if a parser adds no more than escapes and the slash of an empty path; else the parsed form."""
    text = _ascii(given)
    if text == url.href:
        return text
    bare = _PATHLESS.match(text)
    if bare and f"{bare[0]}/{text[bare.end() :]}" == url.href:
        return text
    return url.href


def _gained_slash(given: str, url: ada_url.URL) -> bool:
    special = url.scheme_type != ada_url.SchemeType.NOT_SPECIAL
    return special and _PATHLESS.match(given.translate(_DROPPED).strip(" ")) is not None


def _is_loopback(host: str) -> bool:
    address = ip_address(host.strip("[]"))
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


@lru_cache(maxsize=8)
def _rules(site: conf.Site) -> _Rules:
    patterns = tuple(url_patterns.compile_pattern(entry) for entry in site.allow_list)
    try:
        url = ada_url.URL(site.url)
    except ValueError:
        return _Rules("", _WEB_PROTOCOLS, patterns)
    return _Rules(url.hostname.lower(), _WEB_PROTOCOLS | {url.protocol}, patterns)


def _form(values: Mapping[str, str]) -> str:
    """`application/x-www-form-urlencoded` in key order, blanks as `+`."""
    return urlencode(sorted(values.items()))


def _ascii(url: str) -> str:
    """`url` fit for a header: every blank, control and non-ASCII character is percent-encoded, nothing else is."""
    return quote(url, safe=_PRINTABLE)
