"""Action links: where the buttons in mails lead."""

from __future__ import annotations

from urllib.parse import quote_plus, urljoin, urlsplit, urlunsplit

from authsvc import conf

_DEFAULT_PATH = "/verify"


def action_link(*, base: str, purpose: str, token: str, link_type: str, redirect_to: str) -> str:
    """The link of a mail: the path configured for `purpose`, resolved against `base` (RFC 3986 §5), and its query.

    `purpose`: `invite`, `confirmation`, `recovery` (also of magic links) or `email_change`. A query in the configured
    path is dropped, a fragment kept. The redirect target stands as it is unless it would be cut at `&`, `=` or `#`.
    """
    path = conf.current().mailer.url_paths.get(purpose) or _DEFAULT_PATH
    scheme, host, found, _, fragment = urlsplit(urljoin(base, path))
    target = quote_plus(redirect_to) if any(mark in redirect_to for mark in "&=#") else redirect_to
    query = f"token={quote_plus(token)}&type={quote_plus(link_type)}&redirect_to={target}"
    return urlunsplit((scheme, host, found, query, fragment))
