"""Sign-in through others as a Django app."""

from django.apps import AppConfig


class OAuthProvidersConfig(AppConfig):
    name = "oauthproviders"
