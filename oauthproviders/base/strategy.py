"""The strategy that passes settings and request parameters to social-auth-core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from social_core.strategy import BaseStrategy


class ProviderStrategy(BaseStrategy[Any]):
    """Without storage, session and Django settings: a backend has only the given settings and data."""

    def __init__(self, *, settings: Mapping[str, Any], data: Mapping[str, str]) -> None:
        super().__init__(storage=None)
        self._settings = settings
        self._data = dict(data)

    def get_setting(self, name: str) -> Any:
        return self._settings[name]

    def get_request_data(self, merge: bool = True) -> dict[str, Any]:
        return self._data

    def build_absolute_uri(self, path: str | None = None) -> str:
        return path or ""
