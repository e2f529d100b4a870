"""Django app of sign-in with external providers."""

from __future__ import annotations

from django.apps import AppConfig


class OAuthProvidersConfig(AppConfig):
    name = "oauthproviders"

    def ready(self) -> None:
        from accounts.pages import registry
        from authsvc.diagnostics.registry import diagnostics
        from oauthproviders.diagnostics import ProviderDiagnostic
        from oauthproviders.flow.id_token import IdTokenGrant
        from oauthproviders.flow.page_providers import PageProviders
        from oauthproviders.wallets.sign_in import WalletGrant
        from tokens.api import grants

        grants.register("id_token", IdTokenGrant(), position=4)
        grants.register("web3", WalletGrant(), position=5)
        diagnostics.append(ProviderDiagnostic())
        registry.providers = PageProviders()
