"""The access to the operator console that the roles of users give."""

from __future__ import annotations

from enum import IntEnum

from authsvc import conf


class Access(IntEnum):
    """The actions that an operator may run in the console; each level includes those before it."""

    VIEWER = 1
    """Reads. Personal data is hidden until the operator asks for it, which the audit trail records."""
    SUPPORT = 2
    """Helps ordinary users: no deletion, no roles, no configuration."""
    ADMIN = 3


def access_of(role: str | None) -> Access | None:
    """The access of a user's role; None for a role without access to the console."""
    config = conf.current()
    if not role:
        return None
    if role in config.jwt.admin_roles:
        return Access.ADMIN
    # A wrong setting must not give every user access.
    name = None if role == config.jwt.default_group_name else config.console.roles.get(role)
    return Access[name.upper()] if name else None


def roles() -> tuple[str, ...]:
    """All roles with access to the console."""
    config = conf.current()
    named = [role for role in config.console.roles if access_of(role) is not None]
    return tuple(dict.fromkeys([*config.jwt.admin_roles, *named]))
