"""The settings of one provider and the parameters of one request, as social-auth-core asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from social_core.strategy import BaseStrategy


class ProviderStrategy(BaseStrategy[Any]):
    """No storage, no session, no Django settings: what is not given here, a backend does not have."""

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
