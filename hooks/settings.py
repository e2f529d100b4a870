"""The settings of each hook."""

from __future__ import annotations

from authsvc import conf
from authsvc.conf.sections.hooks import Hook, HookSettings


def get(hook: Hook) -> HookSettings:
    return conf.current().hooks[hook.name.lower()]
