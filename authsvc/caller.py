"""The part of a request that services may use."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`address` is the client IP address, `""` if unknown; `audience` is the audience of the users to search."""

    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    audience: str = ""
    link_base: str = ""
    """The URL of this service as the client reached it, for links in emails."""
    authorization: str = field(default="", repr=False)
    """The unverified Authorization header, `""` without one."""
