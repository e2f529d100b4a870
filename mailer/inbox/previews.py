"""What a mail of a kind would look like: rendered with made-up values from the configured template as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authsvc import conf
from authsvc.messaging import EmailKind
from mailer import gotemplate
from mailer.rendering import message_types, renderer, template_sources

KINDS: Mapping[str, EmailKind] = {entry.key: kind for kind, entry in message_types.EMAILS.items()}
"""By the names that settings use."""

_LINK_TYPES = {EmailKind.CONFIRMATION: "signup", EmailKind.MAGIC_LINK: "magiclink"}
_TOKEN = "0" * 56


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    key: str
    url: str
    """Of the configured template; empty when the built-in body is."""
    subject: str
    html: str
    text: str
    problem: str
    """Why it is not what is configured; empty when it is."""


def of(key: str) -> Preview:
    """The preview of a kind, from a template fetched now, or from the built-in one when that fails.

    Raises KeyError for a name that is none.
    """
    kind = KINDS[key]
    origin = template_sources.origin(kind)
    problem = ""
    try:
        source = template_sources.load(kind, origin)
    except template_sources.TemplateUnusable as error:
        problem = f"The template cannot be used: {error}. This is the built-in body."
        source = template_sources.built_in(kind, origin)
    try:
        rendered = renderer.fill(source, kind, variables_of(kind))
    except gotemplate.TemplateRenderError as error:
        problem = f"The template cannot be rendered: {error}."
        rendered = renderer.Rendered(subject="", html="", text="")
    return Preview(
        key=key, url=origin.url, subject=rendered.subject, html=rendered.html, text=rendered.text, problem=problem
    )


def variables_of(kind: EmailKind) -> dict[str, Any]:
    """Values as they could be; the link is none that anybody has been sent."""
    config = conf.current()
    link_type = _LINK_TYPES.get(kind, kind.value)
    return {
        "SiteURL": config.site.url,
        "Email": "ada@example.com",
        "ConfirmationURL": f"{config.api.external_url}/verify?token={_TOKEN}&type={link_type}"
        f"&redirect_to={config.site.url}",
        "NewEmail": "ada.lovelace@example.com",
        "SendingTo": "ada.lovelace@example.com",
        "OldEmail": "a.byron@example.com",
        "Phone": "442079460018",
        "OldPhone": "442079460123",
        "Provider": "google",
        "FactorType": "totp",
        "Token": "123456",
        "TokenHash": _TOKEN,
        "RedirectTo": config.site.url,
        "Data": {"name": "Ada Lovelace", "full_name": "Ada Lovelace"},
    }
