"""The requests of the steps, with the client, limits and deadline of a sign-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import orjson

from authsvc.outgoing import bulkhead, connections, http
from oauthproviders.base import deadline, profiles
from oauthproviders.base.contract import ProviderUnreachable
from oauthproviders.custom import safe_urls
from oauthproviders.provider_checks.steps import MAX_ITEMS, SERVER_REMEDY, Problem, StepResult, quoted

T = TypeVar("T")

REDIRECTS = range(300, 400)
_MAX_DOCUMENT_BYTES = 1_048_576
_MAX_DNS_SECONDS = 5.0
_DNS_REMEDY = "Check the spelling of the host name, and the DNS of this server."
_PRIVATE_SETTING = "AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the addresses of a provider."""

    is_custom: bool
    public_only: bool

    def check_syntax(self, url: str) -> None:
        """Addresses of custom providers are https URLs; a setting may contain an http URL."""
        if self.is_custom or url.startswith("https:"):
            check_url(url, private_allowed=True)
        elif not url.startswith("http:") or not host_of(url):
            raise Problem(f"{quoted(url)} is not an http(s) URL", "Correct the URL.")

    def check_addresses(self, url: str) -> str:
        if not self.public_only:
            setting = f"{_PRIVATE_SETTING} permits private networks" if self.is_custom else "the URL is trusted"
            return f"permitted: {setting}"
        check_url(url, private_allowed=False)
        return "permitted: all addresses are public"

    def check(self, url: str) -> None:
        self.check_syntax(url)
        self.check_addresses(url)


def check_url(url: str, *, private_allowed: bool) -> None:
    """Raises Problem for a URL that custom providers must not have."""
    try:
        safe_urls.check(url, private_allowed=private_allowed)
    except safe_urls.UnsafeUrl as error:
        remedy = "Check the spelling of the URL."
        if isinstance(error, safe_urls.NotPublicUrl):
            remedy = f"Use a public address. For a provider in your own network set {_PRIVATE_SETTING}=true."
        elif isinstance(error, safe_urls.Unresolvable):
            remedy = _DNS_REMEDY
        raise Problem(f"{error}: {quoted(url)}", remedy) from None


def look_up(url: str, rules: Rules) -> StepResult[bool]:
    """Look up the host of a URL, unless a proxy does. Raises Problem without an address."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not rules.public_only and http.proxy(url):
        return StepResult(value=True, message="the proxy of the environment resolves the name")
    try:
        seconds = min(_MAX_DNS_SECONDS, deadline.remaining().total_seconds())
        with bulkhead.wait_for("dns"):
            found = connections.look_up(host, parts.port or 443, seconds=seconds)
    except TimeoutError:
        raise Problem("the DNS did not answer in time", "Check the DNS of this server.") from None
    except (OSError, UnicodeError):
        raise Problem(f"{quoted(host)} has no address", _DNS_REMEDY) from None
    addresses = dict.fromkeys(address[0] for _family, address in found)
    return StepResult(value=True, message=f"{quoted(host)}: {', '.join(list(addresses)[:MAX_ITEMS])}")


def request(url: str, rules: Rules, *, max_bytes: int = _MAX_DOCUMENT_BYTES, truncate: bool = False) -> http.Response:
    """Send a GET request; any status counts. Raises ProviderUnreachable without a response."""
    try:
        return http.send(
            "GET",
            url,
            timeout=deadline.remaining(),
            max_bytes=max_bytes,
            truncate=truncate,
            headers={"Accept": "application/json"},
            public_only=rules.public_only,
        )
    except http.Unreachable as error:
        raise ProviderUnreachable(error) from None


def check_status(response: http.Response) -> StepResult[http.Response]:
    """The result for a response with status 2xx. Raises Problem for any other."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0]
    described = f"status {response.status}, {quoted(media_type) if media_type else 'no media type'}"
    if response.status in REDIRECTS:
        location = quoted(response.headers.get("Location", ""))
        raise Problem(f"{described}, redirect to {location}", "Enter the final URL: redirects are not followed.")
    if not 200 <= response.status <= 299:
        remedy = "Check the path of the URL." if response.status in (404, 410) else SERVER_REMEDY
        raise Problem(described, remedy)
    return StepResult(value=response, message=f"{described}, {len(response.body):,} bytes")


def parse(response: http.Response, schema: type[T]) -> T:
    """The body as `schema`. Raises Problem for another document."""
    try:
        document = orjson.loads(response.body)
        profiles.check_storable(document)
        return msgspec.convert(document, type=schema)
    except msgspec.ValidationError as error:
        raise Problem(f"a value has the wrong type: {error}", SERVER_REMEDY) from None
    except (ValueError, RecursionError):
        raise Problem("the response is not JSON", "Check that the URL is that of the document.") from None


def host_of(url: str) -> str:
    """The host of a URL; empty for an invalid one."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        return ""
