"""Previews of emails: the configured template, fetched now and rendered with sample values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authsvc import conf, languages
from authsvc.messaging import EmailType
from mailer import gotemplate
from mailer.rendering import message_types, renderer, template_sources

EMAIL_TYPES: Mapping[str, EmailType] = {entry.key: type for type, entry in message_types.EMAIL_DEFINITIONS.items()}
"""Email types by their settings key."""

_LINK_TYPES = {EmailType.CONFIRMATION: "signup", EmailType.MAGIC_LINK: "magiclink"}
_TOKEN = "0" * 56


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    key: str
    url: str
    """URL of the configured template; empty for the built-in body."""
    subject: str
    html: str
    text: str
    problem: str
    """The reason for a fallback to the built-in body; empty without an error."""


def render_preview(key: str, language: str = "") -> Preview:
    """Render the preview of an email type in `language`, or else in the default language.

    Uses the built-in template if the configured one fails.

    Raises KeyError for an unknown key.
    """
    type = EMAIL_TYPES[key]
    config = template_sources.template_config(type, languages.select(language))
    problem = ""
    try:
        templates = template_sources.load_templates(type, config)
    except template_sources.TemplateLoadError as error:
        problem = f"The template cannot be used: {error}. This is the built-in body."
        templates = template_sources.built_in_templates(type, config)
    try:
        rendered = renderer.render_templates(templates, type, sample_variables(type))
    except gotemplate.TemplateRenderError as error:
        problem = f"The template cannot be rendered: {error}."
        rendered = renderer.Rendered(subject="", html="", text="")
    return Preview(
        key=key, url=config.url, subject=rendered.subject, html=rendered.html, text=rendered.text, problem=problem
    )


def sample_variables(type: EmailType) -> dict[str, Any]:
    """Sample values of all template variables. The link is not valid."""
    config = conf.current()
    link_type = _LINK_TYPES.get(type, type.value)
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
