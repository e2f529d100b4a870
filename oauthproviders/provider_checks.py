"""Checks a provider in steps: addresses, discovery document, keys and client credentials.

The steps send the requests of a sign-in, with the same client, limits and deadline. Texts of the other server are
shortened and free of control characters.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec
import orjson

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.console.formatting import short_text
from authsvc.diagnostics.registry import CheckResult, Outcome, failure, ok, unused, warning
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead, connections, http
from authsvc.security import crypto
from oauthproviders import registry
from oauthproviders.base import deadline, profiles
from oauthproviders.base.backends import OAuth2
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.custom import provider, safe_urls
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import openid_connect
from oauthproviders.oidc.openid_connect import Discovery, Issuer
from tokens.jwt import published_keys

T = TypeVar("T")

_MAX_DOCUMENT_BYTES = 1_048_576
_MAX_PAGE_BYTES = 65_536
_MAX_ITEMS = 12
_MAX_DNS_SECONDS = 5.0
_REDIRECTS = range(300, 400)
_REQUIRED_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
# RFC 6749 §5.2, and the codes of GitHub.
_CODE_REFUSED = frozenset({"invalid_grant", "bad_verification_code"})
_CLIENT_REFUSED = frozenset({"invalid_client", "incorrect_client_credentials"})
_PRIVATE_SETTING = "AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED"
_SERVER_REMEDY = "Correct the configuration of the provider, or ask its operator."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    result: CheckResult
    seconds: float | None = None
    """Duration; None for a step that was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding(Generic[T]):
    """The result of a successful step; with a remedy it is a warning."""

    value: T
    message: str
    remedy: str = ""


class _Problem(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class _Steps:
    """Runs steps and keeps their results."""

    def __init__(self) -> None:
        self.results: list[Step] = []

    def run(self, subject: str, work: Callable[[], _Finding[T]]) -> T | None:
        """The value of a step; None if it failed."""
        started = time.monotonic()
        value: T | None = None
        try:
            finding = work()
        except _Problem as problem:
            result = failure(subject, problem.message, problem.remedy)
        except InvalidProviderResponse as error:
            result = failure(subject, str(error), _timeout_remedy() if str(error) == "timed out" else _SERVER_REMEDY)
        except ProviderUnavailable as error:
            result = failure(subject, str(error), "Correct the values of the provider.")
        except ServiceBusy:
            result = failure(subject, "too many requests wait for other servers", "Try again in a few seconds.")
        else:
            value = finding.value
            has_remedy = bool(finding.remedy)
            result = warning(subject, finding.message, finding.remedy) if has_remedy else ok(subject, finding.message)
        self.results.append(Step(result=result, seconds=time.monotonic() - started))
        return value

    def skip(self, reason: str, *subjects: str) -> None:
        self.results += [Step(result=unused(subject, reason)) for subject in subjects]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The rules for the addresses of a provider."""

    is_custom: bool
    public_only: bool

    def check_syntax(self, url: str) -> None:
        """Addresses of custom providers are https URLs; a setting may contain an http URL."""
        if self.is_custom or url.startswith("https:"):
            _check_url(url, private_allowed=True)
        elif not url.startswith("http:") or not _host(url):
            raise _Problem(f"{_quoted(url)} is not an http(s) URL", "Correct the URL.")

    def check_addresses(self, url: str) -> str:
        if not self.public_only:
            setting = f"{_PRIVATE_SETTING} permits private networks" if self.is_custom else "the URL is trusted"
            return f"permitted: {setting}"
        _check_url(url, private_allowed=False)
        return "permitted: all addresses are public"

    def check(self, url: str) -> None:
        self.check_syntax(url)
        self.check_addresses(url)


def check_custom_provider(
    row: CustomProvider, *, sends_secret: bool, actor: audit.Administrator, caller: Caller, at: datetime
) -> list[Step]:
    """Check a custom provider, which may be unsaved, and record it. `sends_secret`: try the client secret too."""
    steps = custom_provider_steps(row, sends_secret=sends_secret)
    _record(row.identifier, row.issuer or row.token_url, steps, actor=actor, caller=caller, at=at)
    return steps


def check_built_in_provider(name: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> list[Step]:
    """Check a built-in provider with its settings, and record it."""
    steps = built_in_provider_steps(name)
    _record(name, None, steps, actor=actor, caller=caller, at=at)
    return steps


@deadline.shared()
def custom_provider_steps(row: CustomProvider, *, sends_secret: bool) -> list[Step]:
    steps = _Steps()
    rules = _Rules(is_custom=True, public_only=provider.is_public_only())
    if row.provider_type == ProviderType.OIDC:
        document = _check_discovery(steps, provider.issuer_of(row), rules)
        _check_features(steps, document, scopes=row.scopes, pkce=row.pkce_enabled)
        token_url = str(document.get("token_endpoint") or "")
    else:
        for subject, url in (
            ("Authorization endpoint", row.authorization_url),
            ("User info endpoint", row.userinfo_url),
        ):
            _check_endpoint(steps, subject, url or "", rules, is_called=subject != "Authorization endpoint")
        token_url = row.token_url or ""
    _check_client(steps, token_url, rules, lambda: provider.CustomOAuthProvider.of(row, data={}), sends_secret)
    return steps.results


@deadline.shared()
def built_in_provider_steps(name: str) -> list[Step]:
    steps = _Steps()
    config = conf.current().providers[name]
    if steps.run("Settings", lambda: _check_settings(name, config)) is None:
        return steps.results
    backend: Any = registry.PROVIDERS[name].make(config, data={})
    rules = _Rules(is_custom=False, public_only=False)
    issuer = backend.openid_issuer
    if not issuer:
        _check_endpoint(steps, "Authorization endpoint", backend.authorization_url(), rules, is_called=False)
        _check_endpoint(steps, "Token endpoint", backend.access_token_url(), rules, is_called=True)
        return steps.results
    document = _check_discovery(steps, Issuer(name=issuer), rules)
    _check_features(steps, document, scopes=backend.scopes(""), pkce=backend.requires_pkce)
    _check_client(steps, str(document.get("token_endpoint") or ""), rules, lambda: backend, sends_secret=True)
    return steps.results


def _record(
    name: str,
    address: str | None,
    steps: list[Step],
    *,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> None:
    failed = [step.result.subject for step in steps if step.result.outcome == Outcome.FAILURE]
    traits: dict[str, Any] = {"identifier": name, "result": "failed" if failed else "passed", "failed_steps": failed}
    if host := _host(address or ""):
        traits["host"] = short_text(host)
    audit.record(audit.Action.PROVIDER_TESTED, actor=actor, caller=caller, at=at, traits=traits)


def _check_settings(name: str, config: conf.Provider) -> _Finding[bool]:
    variable = f"AUTH_EXTERNAL_{name.upper()}"
    if error := registry.configuration_error(name, config):
        raise _Problem(error, f"Complete the settings that begin with {variable}_.")
    expected = registry.callback_url()
    if config.redirect_uri != expected:
        remedy = f"Register {expected} with the provider and set {variable}_REDIRECT_URI to it."
        return _Finding(value=True, message=f"the redirect URI is {config.redirect_uri}, not {expected}", remedy=remedy)
    return _Finding(value=True, message="complete")


# Requests


def _check_url(url: str, *, private_allowed: bool) -> None:
    try:
        safe_urls.check(url, private_allowed=private_allowed)
    except safe_urls.UnsafeUrl as error:
        text = str(error)
        remedy = "Check the spelling of the URL."
        if "point to" in text or "resolve to" in text:
            remedy = f"Use a public address. For a provider in your own network set {_PRIVATE_SETTING}=true."
        elif "resolve hostname" in text:
            remedy = "Check the spelling of the host name, and the DNS of this server."
        raise _Problem(f"{text}: {_quoted(url)}", remedy) from None


def _look_up(url: str, rules: _Rules) -> _Finding[bool]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not rules.public_only and http.proxy(url):
        return _Finding(value=True, message="the proxy of the environment resolves the name")
    try:
        seconds = min(_MAX_DNS_SECONDS, deadline.remaining().total_seconds())
        with bulkhead.wait_for("dns"):
            found = connections.look_up(host, parts.port or 443, seconds=seconds)
    except TimeoutError:
        raise _Problem("the DNS did not answer in time", "Check the DNS of this server.") from None
    except (OSError, UnicodeError):
        raise _Problem(
            f"{_quoted(host)} has no address", "Check the spelling of the host name, and the DNS of this server."
        ) from None
    addresses = dict.fromkeys(address[0] for _family, address in found)
    return _Finding(value=True, message=f"{_quoted(host)}: {', '.join(list(addresses)[:_MAX_ITEMS])}")


def _request(url: str, rules: _Rules, *, max_bytes: int = _MAX_DOCUMENT_BYTES, truncate: bool = False) -> http.Reply:
    """Raises _Problem without a response."""
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
        raise _Problem(str(error), _remedy_of(str(error))) from None


def _remedy_of(reason: str) -> str:
    if reason.startswith("TLS"):
        return (
            "Check the host name, expiry and chain of the certificate. For an authority of your own set"
            " REQUESTS_CA_BUNDLE."
        )
    if reason == "timed out":
        return _timeout_remedy()
    if "too long" in reason:
        return "Check that the URL is that of the document."
    return "Check the host, the port, and the firewall between this server and the provider."


def _timeout_remedy() -> str:
    return (
        "All steps share the time of one sign-in request (AUTH_INTERNAL_HTTP_TIMEOUT, and four fifths of"
        " AUTH_API_MAX_REQUEST_DURATION). Check the network to the provider, and the load of its server."
    )


def _check_status(reply: http.Reply) -> _Finding[http.Reply]:
    """Raises _Problem for a status other than 2xx."""
    media_type = reply.headers.get("Content-Type", "").partition(";")[0]
    described = f"status {reply.status}, {_quoted(media_type) if media_type else 'no media type'}"
    if reply.status in _REDIRECTS:
        location = _quoted(reply.headers.get("Location", ""))
        raise _Problem(f"{described}, redirect to {location}", "Enter the final URL: redirects are not followed.")
    if not 200 <= reply.status <= 299:
        remedy = "Check the path of the URL." if reply.status in (404, 410) else _SERVER_REMEDY
        raise _Problem(described, remedy)
    return _Finding(value=reply, message=f"{described}, {len(reply.body):,} bytes")


def _parse(reply: http.Reply, schema: type[T]) -> T:
    """Raises _Problem for another document."""
    try:
        document = orjson.loads(reply.body)
        profiles.check_storable(document)
        return msgspec.convert(document, type=schema)
    except msgspec.ValidationError as error:
        raise _Problem(f"a value has the wrong type: {error}", _SERVER_REMEDY) from None
    except (ValueError, RecursionError):
        raise _Problem("the response is not JSON", "Check that the URL is that of the document.") from None


# OpenID Connect


_DISCOVERY_STEPS = (
    "URL", "DNS", "Outgoing rules", "Connection and TLS", "HTTP response", "Discovery document", "Issuer", "Endpoints",
    "Signing algorithms", "Keys", "Client features",
)  # fmt: skip


def _check_discovery(steps: _Steps, issuer: Issuer, rules: _Rules) -> Mapping[str, Any]:
    """Check the discovery document and the keys; returns the document, empty if it cannot be read."""
    url = issuer.discovery_url
    reply = _fetch(steps, url, rules, issuer=issuer.name)
    document = None if reply is None else steps.run("Discovery document", lambda: _parse_discovery(reply))
    if document is None:
        run = {step.result.subject for step in steps.results}
        steps.skip("an earlier step failed", *(name for name in _DISCOVERY_STEPS if name not in run))
        return {}
    typed = msgspec.convert(document, type=Discovery)
    steps.run("Issuer", lambda: _check_issuer(typed, issuer))
    steps.run("Endpoints", lambda: _check_endpoints(typed, issuer, rules))
    algorithms = steps.run("Signing algorithms", lambda: _check_algorithms(typed)) or []
    steps.run("Keys", lambda: _check_keys(typed.jwks_uri, algorithms, rules))
    return document


def _fetch(steps: _Steps, url: str, rules: _Rules, *, issuer: str) -> http.Reply | None:
    """The response to a request, in steps; None if one failed. The rules apply to the issuer too."""

    def check_syntax() -> _Finding[bool]:
        rules.check_syntax(url)
        rules.check_syntax(issuer)
        return _Finding(value=True, message=_quoted(url))

    def check_rules() -> _Finding[bool]:
        rules.check_addresses(issuer)
        return _Finding(value=True, message=rules.check_addresses(url))

    def connect() -> _Finding[http.Reply]:
        reply = _request(url, rules)
        is_tls = url.startswith("https:")
        return _Finding(value=reply, message="the certificate is valid" if is_tls else "connected, without TLS")

    if (
        steps.run("URL", check_syntax)
        and steps.run("DNS", lambda: _look_up(url, rules))
        and steps.run("Outgoing rules", check_rules)
        and (reply := steps.run("Connection and TLS", connect))
    ):
        return steps.run("HTTP response", lambda: _check_status(reply))
    return None


def _parse_discovery(reply: http.Reply) -> _Finding[dict[str, Any]]:
    document = _parse(reply, dict[str, Any])
    _parse(reply, Discovery)
    return _Finding(value=document, message=f"JSON with {len(document)} values")


def _check_issuer(document: Discovery, issuer: Issuer) -> _Finding[bool]:
    if not document.issuer:
        raise _Problem("the document names no issuer", _SERVER_REMEDY)
    if not openid_connect.is_same_issuer(document.issuer, issuer.name):
        raise _Problem(
            f"the document names {_quoted(document.issuer)}, but the issuer of the provider is {_quoted(issuer.name)}",
            "If this is the expected server, set the issuer to the exact text of the document; a slash at its end"
            " counts.",
        )
    return _Finding(value=True, message=_quoted(document.issuer))


def _check_endpoints(document: Discovery, issuer: Issuer, rules: _Rules) -> _Finding[bool]:
    problems = [f"{name} is missing" for name in _REQUIRED_ENDPOINTS if not getattr(document, name)]
    names = (*_REQUIRED_ENDPOINTS, "userinfo_endpoint")
    present = {name: url for name in names if (url := getattr(document, name))}
    needs_tls = issuer.discovery_url.startswith("https:")
    for name, url in present.items():
        try:
            if needs_tls or url.startswith("https:"):
                _check_url(url, private_allowed=not rules.public_only)
            else:
                rules.check_syntax(url)
        except _Problem as problem:
            problems.append(f"{name}: {problem.message}")
    if problems:
        raise _Problem("; ".join(problems), _SERVER_REMEDY)
    return _Finding(value=True, message="; ".join(f"{name} {_quoted(url)}" for name, url in present.items()))


def _check_algorithms(document: Discovery) -> _Finding[list[str]]:
    listed = document.id_token_signing_alg_values_supported
    offered = listed or ("RS256",)
    usable = [name for name in offered if name in published_keys.ALGORITHMS]
    if not usable:
        raise _Problem(
            f"the provider signs ID tokens with {_list(offered)} only",
            f"Select one of these at the provider: {', '.join(sorted(published_keys.ALGORITHMS))}.",
        )
    rest = [name for name in offered if name not in usable]
    message = _list(usable) + (f"; never accepted: {_list(rest)}" if rest else "")
    return _Finding(value=usable, message=message if listed else "none listed, so RS256 applies")


def _check_keys(url: str, algorithms: list[str], rules: _Rules) -> _Finding[bool]:
    if not url:
        raise _Problem("the document has no jwks_uri", _SERVER_REMEDY)
    rules.check(url)
    keys = _parse(_check_status(_request(url, rules)).value, dict[str, Any]).get("keys")
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise _Problem("the document has no list of keys", _SERVER_REMEDY)
    described = []
    has_usable = False
    for key in keys[:_MAX_ITEMS]:
        usable = published_keys.usable_algorithms(key, algorithms)
        has_usable = has_usable or bool(usable)
        name = f"{_quoted(key.get('kid') or 'no key ID')} ({short_text(key.get('kty'))})"
        described.append(f"{name} for {', '.join(usable)}" if usable else f"{name} not usable")
    message = f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}: {'; '.join(described)}"
    if not has_usable:
        raise _Problem(
            f"no key verifies a signature by {_list(algorithms) or 'a supported algorithm'}; {message}",
            "Publish a signing key at the provider.",
        )
    return _Finding(value=True, message=message)


def _check_features(steps: _Steps, document: Mapping[str, Any], *, scopes: list[str], pkce: bool) -> None:
    """Compare the lists of the discovery document with the requests of this service; absent lists are permitted."""

    def check() -> _Finding[bool]:
        methods = _texts(document, "token_endpoint_auth_methods_supported")
        if methods and not {"client_secret_basic", "client_secret_post"} & set(methods):
            raise _Problem(
                f"the token endpoint supports only {_list(methods)}",
                "Select authentication by client secret (client_secret_basic or client_secret_post) at the provider.",
            )
        types = _texts(document, "response_types_supported")
        if types and "code" not in types:
            raise _Problem(
                f"the provider supports only {_list(types)}", "Enable the authorization code flow at the provider."
            )
        problems = []
        offered = _texts(document, "scopes_supported")
        unknown = [scope for scope in scopes if offered and scope not in offered]
        if unknown:
            problems.append(f"the provider does not list the scopes {_list(unknown)}, only {_list(offered)}")
        challenges = _texts(document, "code_challenge_methods_supported")
        if pkce and challenges and "S256" not in challenges:
            problems.append("the provider does not list PKCE by S256")
        if problems:
            remedy = "Compare the scopes and PKCE with the documents of the provider."
            return _Finding(value=True, message="; ".join(problems), remedy=remedy)
        return _Finding(value=True, message="authorization code, client secret, scopes and PKCE fit")

    if document:
        steps.run("Client features", check)


# Endpoints and client


def _check_endpoint(steps: _Steps, subject: str, url: str, rules: _Rules, *, is_called: bool) -> None:
    """Check that a server answers. `is_called`: this service calls it, not only browsers."""

    def check() -> _Finding[bool]:
        rules.check(url)
        try:
            reply = _request(url, rules, max_bytes=_MAX_PAGE_BYTES, truncate=True)
        except _Problem as problem:
            if is_called or problem.message.startswith("TLS"):
                raise
            message = f"this server cannot reach it: {problem.message}"
            remedy = f"Only browsers open it, so a sign-in may work nevertheless. {problem.remedy}"
            return _Finding(value=True, message=message, remedy=remedy)
        message = f"{_quoted(url)} answers with status {reply.status}"
        remedy = ""
        if reply.status >= 500:
            remedy = "Try again later, or ask the operator of the provider."
        elif reply.status in (404, 410):
            remedy = "Check the path of the URL: nothing seems to be there."
        elif is_called and reply.status in _REDIRECTS:
            remedy = "Enter the final URL: redirects are not followed."
        return _Finding(value=True, message=message, remedy=remedy)

    steps.run(subject, check)


def _check_client(steps: _Steps, url: str, rules: _Rules, make: Callable[[], OAuth2], sends_secret: bool) -> None:
    subject = "Token endpoint and client"
    if not url:
        steps.skip("no token endpoint is known", subject)
    elif not sends_secret:
        steps.skip("the stored secret is not sent to changed addresses; enter the client secret to test it", subject)
    else:
        steps.run(subject, lambda: _try_client(make(), url, rules))


def _try_client(backend: OAuth2, url: str, rules: _Rules) -> _Finding[bool]:
    """Send a token request with an invalid code: the error tells whether the provider accepts the client."""
    rules.check(url)
    form = {
        "grant_type": "authorization_code",
        "code": f"connection-test-{secrets.token_urlsafe(8)}",
        "redirect_uri": backend.config.redirect_uri,
        **({"code_verifier": crypto.generate_key()} if backend.requires_pkce else {}),
        **backend.token_form(),
    }
    refused = []
    for in_body in (True,) if backend.client_in_body else (False, True):
        try:
            reply = backend.send_token_request(url, form, in_body=in_body)
        except InvalidProviderResponse as error:
            raise _Problem(str(error), _remedy_of(str(error))) from None
        code = _token_error(reply)
        if code in _CODE_REFUSED:
            way = "in the body" if in_body else "by HTTP Basic"
            return _Finding(value=True, message=f"the provider accepts the client ID and secret ({way})")
        described = f"status {reply.status}, error {_quoted(code or 'none')}"
        if code not in _CLIENT_REFUSED and reply.status != 401:
            return _unclear_response(reply.status, code, described, redirect_uri=backend.config.redirect_uri)
        refused.append(described)
    raise _Problem(
        f"the provider refuses the client: {refused[-1]}",
        "Compare the client ID and the client secret with the registration at the provider.",
    )


def _unclear_response(status: int, code: str, described: str, *, redirect_uri: str) -> _Finding[bool]:
    """A response that neither accepts nor refuses the client."""
    if code in ("unauthorized_client", "unsupported_grant_type"):
        raise _Problem(
            f"the client must not use the authorization code flow: {described}",
            "Enable the authorization code flow for the client at the provider.",
        )
    if status >= 500:
        raise _Problem(described, "Try again later, or ask the operator of the provider.")
    if status in (404, 405, 410):
        raise _Problem(described, "Check the path of the URL: no token endpoint seems to be there.")
    if status in _REDIRECTS:
        raise _Problem(described, "Enter the final URL: redirects are not followed.")
    remedy = (
        f"The response does not show whether the provider knows the client. Check that {redirect_uri} is registered"
        " there, and sign in once."
    )
    return _Finding(value=True, message=described, remedy=remedy)


def _host(url: str) -> str:
    """The host of a URL; empty for an invalid one."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        return ""


def _token_error(reply: http.Reply) -> str:
    """The error code in a token response (RFC 6749 §5.2), in JSON or as a form; empty without one."""
    try:
        document = orjson.loads(reply.body)
    except ValueError:
        document = dict(parse_qsl(reply.body.decode(errors="replace")[:_MAX_PAGE_BYTES]))
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, str) else ""


# Texts of the other server


def _quoted(value: object) -> str:
    return f"“{short_text(value)}”"


def _list(values: Iterable[str]) -> str:
    return ", ".join(short_text(value) for value in list(values)[:_MAX_ITEMS])


def _texts(document: Mapping[str, Any], key: str) -> list[str]:
    values = document.get(key)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
