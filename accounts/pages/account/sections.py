"""The entries of the account pages in their navigation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.passkeys import form as passkey_form
from authsvc import conf
from tokens.sessions.users import SignedInUser


@dataclass(frozen=True, slots=True)
class AccountSection:
    route: str
    title: Promise
    position: int
    condition: Callable[[SignedInUser], bool] = lambda _: True

    def is_available(self, current: SignedInUser) -> bool:
        return self.condition(current)


def _has_phone(current: SignedInUser) -> bool:
    return conf.current().signup.phone_enabled or bool(current.user.phone)


SECTIONS = (
    AccountSection("pages:profile", _("Profile"), 10),
    AccountSection("pages:email", _("Email"), 20),
    AccountSection("pages:phone", _("Phone"), 30, _has_phone),
    AccountSection("pages:password", _("Password"), 40, lambda current: not current.user.is_sso_user),
    AccountSection("pages:factors", _("Second factors"), 50),
    AccountSection("pages:passkeys", _("Passkeys"), 60, lambda _: passkey_form.is_enabled()),
    AccountSection("pages:identities", _("Linked accounts"), 70),
    AccountSection("pages:sessions", _("Sessions"), 80),
    AccountSection("pages:data", _("Your data"), 100),
)
