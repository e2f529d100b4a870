"""Which providers there are: a name, the class behind it, and whether it can be used."""

from __future__ import annotations

from collections.abc import Mapping

from authsvc import conf
from oauthproviders.base.backends import Backend
from oauthproviders.base.contract import Provider
from oauthproviders.custom import provider
from oauthproviders.errors import Unsupported
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
    """The provider of that name, in lower case, for a request with these parameters. Raises Unsupported."""
    if name.startswith(provider.PREFIX):
        return provider.find(name, data=data)
    kind = PROVIDERS.get(name)
    if kind is None:
        raise Unsupported(f"Provider {name} could not be found")
    config = conf.current().providers[name]
    if fault := fault_of(name, config):
        raise Unsupported(fault)
    return kind.make(config, data=data)  # type: ignore[return-value]  # the journeys' own methods are the subclasses'


def fault_of(name: str, config: conf.Provider) -> str:
    """Why nobody can sign in through a provider of our own list; empty when everybody can."""
    needed = (
        ("provider is not enabled", config.enabled),
        ("missing OAuth client ID", config.client_ids and config.client_ids[0]),
        ("missing OAuth secret", config.secret),
        ("missing redirect URI", config.redirect_uri),
        ("unable to find URL for the Keycloak provider", config.url or name != "keycloak"),
    )
    return next((fault for fault, is_there in needed if not is_there), "")


def is_oauth1(name: str) -> bool:
    """Whether a provider speaks OAuth 1.0a, in which a callback brings no code."""
    kind = PROVIDERS.get(name)
    return kind is not None and kind.is_oauth1
