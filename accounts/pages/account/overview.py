"""The overview of the account."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from accounts.mfa import recovery_codes
from accounts.mfa.code_form import verified_factors
from accounts.pages.account.account_page import AccountPage
from accounts.passkeys import form as passkey_form
from accounts.passkeys import management
from accounts.profile import proofs
from authsvc import conf
from tokens.sessions import listing


class OverviewPage(AccountPage):
    template = "pages/account/overview.html"
    title = _("Your account")

    def get_context(self) -> dict[str, Any]:
        verified = verified_factors(self.user)
        has_codes = conf.current().mfa.recovery_codes_enabled and bool(verified)
        return {
            **super().get_context(),
            "account": self.user,
            "name": self.user.full_name if isinstance(self.user.full_name, str) else self.user.name,
            "has_password": proofs.has_password(self.user),
            "factors": len(verified),
            "passkeys": len(management.list_passkeys(self.user)) if passkey_form.is_enabled() else None,
            "codes": recovery_codes.count_remaining(self.user) if has_codes else None,
            "session_count": len(listing.list_sessions(self.user, at=self.at)),
        }
