"""Django app of the OAuth server."""

from __future__ import annotations

from django.apps import AppConfig


class OAuthServerConfig(AppConfig):
    name = "oauthserver"
    verbose_name = "OAuth server"

    def ready(self) -> None:
        from accounts.pages import registry
        from authsvc import personal_data
        from oauthserver.discovery import metadata
        from oauthserver.pages.applications import ApplicationsSection
        from oauthserver.personal_data import OAuthServerPersonalData
        from tokens.jwt import signing_keys

        signing_keys.authorization_server_metadata = metadata.build
        personal_data.sources.append(OAuthServerPersonalData())
        registry.sections.append(ApplicationsSection())
