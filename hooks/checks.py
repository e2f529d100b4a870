"""System check of Python hooks: a function that cannot be called prevents the start."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from authsvc import conf
from hooks.invocation import python_function


@register(Tags.compatibility)
def check_python_hooks(**_: Any) -> list[CheckMessage]:
    problems: list[CheckMessage] = []
    for name, hook in conf.current().hooks.items():
        if hook.transport != "python":
            continue
        try:
            python_function.resolve(hook.uri)
        except python_function.InvalidFunction as error:
            problems.append(Error(f"conf: AUTH_HOOK_{name.upper()}_URI: {error}", id="hooks.E001"))
    return problems
