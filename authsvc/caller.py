"""Who is calling: what a service may know of the request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`address` is the client's address, `""` when unknown; `audience` the one users are looked up in."""

    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    audience: str = ""
    link_base: str = ""
    """The address of this service as the caller reached it, for links in mails."""
    authorization: str = field(default="", repr=False)
    """The header of that name, not looked at yet; `""` when there is none."""
