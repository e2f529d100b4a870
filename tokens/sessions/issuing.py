"""The claims hook, and the transactions in which access tokens are issued, because the hook is called inside them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol
from uuid import UUID

import orjson
from django.db import transaction

from authsvc.caller import Caller
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead
from tokens.sessions.users import TokenUser

TOKEN_REFRESH = "token_refresh"
"""The authentication method in the hook's payload at a refresh."""


class ClaimsHook(Protocol):
    """Customizes the claims of each access token, if the operator has enabled it."""

    def is_enabled(self) -> bool:
        """True if the hook is to be called. Runs no statement."""

    def reserve(self) -> AbstractContextManager[None]:
        """Reserve a call for the block. Call it before the transaction.

        Raises an ApiError if no call is free in time.
        """

    def customize(self, claims: Mapping[str, Any], *, user_id: UUID, method: str, address: str) -> dict[str, Any]:
        """The claims to sign. `method` is the authentication method, or `token_refresh`.

        Runs inside the transaction that issues the token. Raises the ApiError of a hook that refuses or fails.
        """


claims_hook: ClaimsHook | None = None
"""Set by `AppConfig.ready()` of the hooks."""

_is_reserved: ContextVar[bool] = ContextVar("authsvc_claims_hook_reserved", default=False)


def token_transaction(caller: Caller, *, issues_token: bool = True) -> AbstractContextManager[None]:
    """A durable transaction that issues an access token for `caller`. Raises the error of a hook without a free call.

    It reserves the call of the claims hook before it begins, so that a request that waits for a call has neither a slot
    nor a connection. A hook that refuses rolls everything back. `issues_token` is False for a request of the same kind
    that ends without a token.
    """
    hook = claims_hook
    if hook is None or not issues_token or not _is_hooked(hook, caller):
        return transaction.atomic(durable=True)
    return _hooked_transaction(hook, caller)


@contextmanager
def _hooked_transaction(hook: ClaimsHook, caller: Caller) -> Iterator[None]:
    session_id = caller.audit.session_id
    with hook.reserve():
        token = _is_reserved.set(True)
        try:
            with transaction.atomic(durable=True):
                yield
        except BaseException:
            # A session that the transaction has started does not exist.
            caller.audit.session_id, caller.audit.next_session_id = session_id, None
            raise
        finally:
            _is_reserved.reset(token)


def customize(claims: dict[str, Any], *, user: TokenUser, method: str, caller: Caller) -> dict[str, Any]:
    """The claims to sign: those of the hook if it is enabled, else `claims`.

    Pages of this service discard the tokens of their sessions, so the hook is not called for them. Raises RuntimeError
    outside of `token_transaction`.
    """
    hook = claims_hook
    if hook is None or not _is_hooked(hook, caller):
        return claims
    if not _is_reserved.get():
        raise RuntimeError("with a claims hook, tokens must be issued inside token_transaction")
    metadata = {
        "app_metadata": orjson.loads(user.app_metadata_json),
        "user_metadata": orjson.loads(user.user_metadata_json),
    }
    return hook.customize(claims | metadata, user_id=user.id, method=method, address=caller.address)


def wait_for_lock(seconds: float) -> bool:
    """Sleep until another request may have released a session; False if too many requests wait.

    While that request may be calling the hook, the sleep leaves the request's slot to others.
    """
    if claims_hook is None or not claims_hook.is_enabled():
        time.sleep(seconds)
        return True
    try:
        with bulkhead.wait_for("locked sessions"):
            time.sleep(seconds)
    except ServiceBusy:
        return False
    return True


def _is_hooked(hook: ClaimsHook, caller: Caller) -> bool:
    return caller.receives_tokens and hook.is_enabled()
