"""The overview of the account."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from accounts.pages.page import Page


class AccountPage(Page):
    template = "pages/account.html"
    title = _("Your account")
    requires_user = True
