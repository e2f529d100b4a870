"""Settings of the hosted pages."""

from __future__ import annotations

from dataclasses import dataclass

from authsvc.conf.declaration import setting
from authsvc.conf.value_types import BOOLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of this service below `/account/`."""

    enabled: bool = setting(
        "AUTH_PAGES_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Serve pages for users below `/account/`: sign-in, sign-up, recovery, second factor and the account.",
    )
    account_deletion_enabled: bool = setting(
        "AUTH_PAGES_ACCOUNT_DELETION_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Let users delete their account on its pages.",
    )
