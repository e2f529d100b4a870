"""The built-in providers by name, and the look-up of built-in and custom providers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from authsvc import conf
from oauthproviders.base.backends import Backend
from oauthproviders.base.contract import Provider, ProviderUnavailable
from oauthproviders.custom import provider
from oauthproviders.providers import (
    apple,
    azure,
    bitbucket,
    discord,
    facebook,
    figma,
    fly,
    github,
    gitlab,
    google,
    kakao,
    keycloak,
    linkedin,
    linkedin_oidc,
    notion,
    slack,
    slack_oidc,
    snapchat,
    spotify,
    twitch,
    twitter,
    vercel_marketplace,
    workos,
    x,
    zoom,
)

PROVIDERS: Mapping[str, type[Backend]] = {
    "apple": apple.Apple,
    "azure": azure.Azure,
    "bitbucket": bitbucket.Bitbucket,
    "discord": discord.Discord,
    "facebook": facebook.Facebook,
    "figma": figma.Figma,
    "fly": fly.Fly,
    "github": github.GitHub,
    "gitlab": gitlab.GitLab,
    "google": google.Google,
    "kakao": kakao.Kakao,
    "keycloak": keycloak.Keycloak,
    "linkedin": linkedin.LinkedIn,
    "linkedin_oidc": linkedin_oidc.LinkedInOpenId,
    "notion": notion.Notion,
    "slack": slack.Slack,
    "slack_oidc": slack_oidc.SlackOpenId,
    "snapchat": snapchat.Snapchat,
    "spotify": spotify.Spotify,
    "twitch": twitch.Twitch,
    "twitter": twitter.Twitter,
    "vercel_marketplace": vercel_marketplace.VercelMarketplace,
    "workos": workos.WorkOS,
    "x": x.X,
    "zoom": zoom.Zoom,
}


def find(name: str, *, data: Mapping[str, str]) -> Provider:
    """The provider with this name, in lower case, for a request with these parameters. Raises ProviderUnavailable."""
    if name.startswith(provider.PREFIX):
        return provider.find(name, data=data)
    backend = PROVIDERS.get(name)
    if backend is None:
        raise ProviderUnavailable(f"Provider {name} could not be found")
    config = conf.current().providers[name]
    if error := configuration_error(name, config):
        raise ProviderUnavailable(error)
    return backend.make(config, data=data)  # type: ignore[return-value]  # the subclasses have the methods of Provider


def configuration_error(name: str, config: conf.Provider) -> str:
    """The reason why a built-in provider cannot be used; empty when it can."""
    required = (
        ("provider is not enabled", config.enabled),
        ("missing OAuth client ID", config.client_ids and config.client_ids[0]),
        ("missing OAuth secret", config.secret),
        ("missing redirect URI", config.redirect_uri),
        ("unable to find URL for the Keycloak provider", config.url or name != "keycloak"),
    )
    return next((error for error, is_present in required if not is_present), "")


def callback_url() -> str:
    """The redirect URI that is registered with built-in providers."""
    return f"{conf.current().api.external_url.rstrip('/')}/callback"


def sign_in_url(name: str) -> str:
    """The URL that starts a sign-in through a provider."""
    parameters = urlencode({"provider": name}, safe=":")
    return f"{conf.current().api.external_url.rstrip('/')}/authorize?{parameters}"


def is_oauth1(name: str) -> bool:
    """True if a provider uses OAuth 1.0a, whose callbacks have no code."""
    backend = PROVIDERS.get(name)
    return backend is not None and backend.is_oauth1
