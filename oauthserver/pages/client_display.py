"""Clients and scopes in the words of the pages. Clients, who may be hostile, choose their names, URLs and logos."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

import ada_url
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from authsvc import conf
from oauthserver import resources, scopes
from oauthserver.clients.client_summary import ClientSummary

_MAX_NAME_LENGTH = 60
_MAX_MARKS = 2
"""Combining marks in a row; more of them would cover the text above and below."""
_WHITE_SPACE = re.compile(r"\s+")
_WEB_PROTOCOLS = ("https:", "http:")
# A host may contain `;`, which would begin another directive of a Content-Security-Policy.
_SOURCE = re.compile(r"https?://[a-z0-9.:\[\]_-]+")
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_SCOPES: dict[str, Promise] = {
    scopes.OPENID: _("Sign you in with your account"),
    scopes.PROFILE: _("See your name, your picture and the rest of your profile"),
    scopes.EMAIL: _("See your email address"),
    scopes.PHONE: _("See your phone number"),
    scopes.OFFLINE_ACCESS: _("Keep this access while you are away"),
}
_ACTS_FOR_USER = _("Act for you: see and change everything in your account")


@dataclass(frozen=True)
class ShownClient:
    """A client as a page shows it."""

    client: ClientSummary

    @cached_property
    def name(self) -> str:
        """One short line without invisible characters, and without marks that change the direction of the text."""
        return clean_name(self.client.name or "") or gettext("Application without a name")

    @property
    def is_unverified(self) -> bool:
        """True if the client has chosen its name and logo without an administrator."""
        return self.client.is_self_registered

    @cached_property
    def home_page(self) -> str:
        """An http(s) URL; empty for none."""
        url = _parse(self.client.uri or "")
        return url.href if url and url.protocol in _WEB_PROTOCOLS else ""

    @property
    def home_host(self) -> str:
        return target_of(self.home_page)

    @cached_property
    def logo(self) -> str:
        """An http(s) URL; empty for none, and for a logo that no administrator has seen."""
        url = _parse(self.client.logo_uri or "")
        return url.href if url and _SOURCE.fullmatch(url.origin) and not self.is_unverified else ""

    @property
    def logo_origin(self) -> str:
        """The source for a Content-Security-Policy; empty for none."""
        url = _parse(self.logo)
        return url.origin if url else ""


def clean_name(name: str) -> str:
    """A name in one short line, without control characters, invisible characters and stacked marks."""
    text, marks = "", 0
    for character in unicodedata.normalize("NFC", _WHITE_SPACE.sub(" ", name)):
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if not category.startswith("C") and marks <= _MAX_MARKS:
            text += character
    text = _WHITE_SPACE.sub(" ", text).strip()
    return text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1].rstrip()}…"


def target_of(uri: str) -> str:
    """The host of a URL, in ASCII so that letters of other alphabets show; of an app's URI its scheme, too.

    The host is never cut, because its end says to whom it belongs.
    """
    url = _parse(uri)
    if url is None:
        return uri
    return url.host if url.protocol in _WEB_PROTOCOLS else f"{url.protocol}//{url.host}"


def is_on_this_device(uri: str) -> bool:
    """True for the redirect URI of a program on the user's own device."""
    url = _parse(uri)
    return url is not None and (url.protocol not in _WEB_PROTOCOLS or url.hostname in _LOOPBACK_HOSTS)


def describe_access(scope: str, resource: str | None) -> list[Promise | str]:
    """The permissions that scopes and resources give to a client, in the words of users."""
    apis = [gettext("Use %(api)s on your behalf") % {"api": _name_of_api(uri)} for uri in resources.parse(resource)]
    described = [*(_SCOPES.get(name, name) for name in scopes.parse(scope)), *apis]
    if not conf.current().oauth_server.restrict_client_tokens:
        described.append(_ACTS_FOR_USER)
    return described


def _name_of_api(resource: str) -> str:
    """The host of an API with its path, because one host can serve several APIs; of another URI its beginning."""
    url = _parse(resource)
    if url is None or url.protocol not in _WEB_PROTOCOLS:
        return clean_name(resource)
    return url.host + clean_name(url.pathname.rstrip("/"))


def _parse(uri: str) -> ada_url.URL | None:
    try:
        return ada_url.URL(uri)
    except ValueError:
        return None
