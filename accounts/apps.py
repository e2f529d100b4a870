"""Django app of users, identities and factors."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts.sign_in.password import PasswordGrant
        from accounts.users.personal_data import Account
        from accounts.users.queries import AccountUsers
        from authsvc import personal_data
        from tokens.api import grants
        from tokens.sessions.users import user_source

        user_source.register(AccountUsers())
        grants.register("password", PasswordGrant(), order=10)
        personal_data.register(Account(), order=10)
