"""AWS Signature Version 4 (AWS General Reference, "Signature Version 4 signing process")."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self
from urllib.parse import quote, urlsplit

from catalogclient import _urls
from catalogclient._messages import PreparedRequest
from catalogclient._options import RestCatalogOptions
from catalogclient.auth._base import AuthManager, import_extra
from catalogclient.errors import CatalogError, InvalidArgumentError

Keys = tuple[str, str, str | None]
"""Access key, secret key and session token."""

_ALGORITHM = "AWS4-HMAC-SHA256"


class SigV4Auth(AuthManager):
    """Signs every request. `credentials` replaces fixed keys and is called at every attempt.

    The Authorization header of `delegate` is sent as Original-Authorization and included in the signature. `service`
    is `s3tables`, `glue` or `execute-api`. `clock` replaces the system clock.
    """

    def __init__(
        self,
        region: str,
        *,
        service: str = "execute-api",
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        credentials: Callable[[], Keys] | None = None,
        delegate: AuthManager | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if not region:
            raise InvalidArgumentError("SigV4 needs a region")
        self._region = region
        self._service = service
        self._delegate = delegate
        self._clock = clock or (lambda: datetime.now(UTC))
        self._can_change = credentials is not None
        if credentials is not None:
            self._keys = credentials
        elif access_key and secret_key:
            fixed: Keys = (access_key, secret_key, session_token)
            self._keys = lambda: fixed
        else:
            raise InvalidArgumentError("SigV4 needs access_key and secret_key, or credentials")

    @classmethod
    def from_botocore(cls, region: str, service: str = "execute-api", *, profile: str | None = None) -> Self:
        """Use the credential chain of the AWS tools. Requires the extra `aws`."""
        chain = import_extra("botocore.session", extra="aws").Session(profile=profile).get_credentials()
        if chain is None:
            raise InvalidArgumentError("botocore found no AWS credentials")

        def keys() -> Keys:
            frozen = chain.get_frozen_credentials()
            return frozen.access_key, frozen.secret_key, frozen.token

        return cls(region, service=service, credentials=keys)

    def attach(self, options: RestCatalogOptions) -> None:
        if self._delegate is not None:
            self._delegate.attach(options)

    def may_block(self) -> bool:
        return self._can_change or (self._delegate is not None and self._delegate.may_block())

    def apply(self, request: PreparedRequest) -> None:
        fields = request.headers
        if self._delegate is not None:
            self._delegate.apply(request)
            other = fields.pop("Authorization", None)
            if other is not None:
                fields["Original-Authorization"] = other
        try:
            access_key, secret_key, session_token = self._keys()
        except CatalogError:
            raise
        except Exception as error:
            raise CatalogError(f"the callable for AWS credentials raised {type(error).__name__}") from error
        moment = self._clock().strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(request.body or b"").hexdigest()
        fields["X-Amz-Date"] = moment
        fields["X-Amz-Content-SHA256"] = digest
        if session_token:
            fields["X-Amz-Security-Token"] = session_token
        signed_fields = self._signed_fields(request)
        canonical = "\n".join(
            [
                request.method,
                canonical_path(request.url, service=self._service),
                canonical_query(request.url),
                *(f"{name}:{' '.join(value.split())}" for name, value in signed_fields),
                "",
                ";".join(name for name, _ in signed_fields),
                digest,
            ]
        )
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = _mac(_key(secret_key, moment[:8], self._region, self._service), text).hex()
        names = ";".join(name for name, _ in signed_fields)
        fields["Authorization"] = (
            f"{_ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )

    def refresh(self, *, reason: int) -> bool:
        """Return True if `credentials` is a callable or the delegate has new credentials."""
        renewed = self._delegate.refresh(reason=reason) if self._delegate is not None else False
        return self._can_change or renewed

    def close(self) -> None:
        if self._delegate is not None:
            self._delegate.close()

    def _signed_fields(self, request: PreparedRequest) -> list[tuple[str, str]]:
        fields = {name.lower(): value for name, value in request.headers.items()}
        chosen = {
            name: value
            for name, value in fields.items()
            if name in ("content-type", "original-authorization") or name.startswith("x-amz-")
        }
        return sorted({**chosen, "host": _host(request.url)}.items())

    def __repr__(self) -> str:
        return f"SigV4Auth(region={self._region!r}, service={self._service!r})"


def canonical_path(url: str, *, service: str) -> str:
    """Return the path with every segment encoded again, as all services except S3 require."""
    path = urlsplit(url).path or "/"
    return path if service == "s3" else quote(path, safe="/-._~")


def canonical_query(url: str) -> str:
    """Return the query parameters sorted by name and value."""
    pairs = [part.partition("=") for part in urlsplit(url).query.split("&") if part]
    return "&".join(f"{name}={value}" for name, value in sorted((name, value) for name, _, value in pairs))


def _host(url: str) -> str:
    scheme, host, port = _urls.origin(url)
    name = f"[{host}]" if ":" in host else host
    return name if port == (443 if scheme == "https" else 80) else f"{name}:{port}"


def _key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
