"""Converts unexpected exceptions, so that every failure of the library is a CatalogError."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from catalogclient.errors import CatalogError, InvalidArgumentError


@contextlib.contextmanager
def convert_errors(
    message: str = "invalid argument", error_class: type[CatalogError] = InvalidArgumentError, *, status: int = 0
) -> Iterator[None]:
    """Raise `error_class` for any exception except CatalogError and MemoryError. Usable as a decorator."""
    try:
        yield
    except (CatalogError, MemoryError):
        raise
    except Exception as error:
        # The text of the exception may contain data of a request or response, such as a credential.
        raise error_class(f"{message}: {type(error).__name__}", status=status) from error


def guard_public_functions(module: dict[str, Any]) -> None:
    """Apply `convert_errors` to the public functions that a module defines. `module` is its `globals()`."""
    for name, value in list(module.items()):
        if isinstance(value, FunctionType) and value.__module__ == module["__name__"] and not name.startswith("_"):
            module[name] = convert_errors()(value)
