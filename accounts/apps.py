"""Django app of users, identities and factors."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts.pages import registry
        from accounts.pages.account.sections import SECTIONS
        from accounts.sign_in.password import PasswordGrant
        from accounts.users.personal_data import AccountPersonalData
        from accounts.users.queries import AccountUsers
        from authsvc import personal_data
        from tokens.api import grants
        from tokens.sessions import users

        users.user_source = AccountUsers()
        grants.register("password", PasswordGrant(), position=1)
        personal_data.sources.append(AccountPersonalData())
        registry.sections.extend(SECTIONS)
