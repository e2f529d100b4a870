"""Serves the checked-in OpenAPI document and an HTML page of it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.safestring import mark_safe

from authsvc import conf
from authsvc.api.openapi import page
from authsvc.api.openapi.document import ResponseDoc, document
from authsvc.api.renderers import NO_STORE
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import NotFound

FILE = Path(__file__).with_name("openapi.json")
_CACHE_CONTROL = "public, max-age=600"
# No scripts; the digest permits the one inline style sheet.
_POLICY = "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class OpenapiView(Endpoint):
    """Serves the document; no SQL statement, no rate limit."""

    @document(
        responses={
            200: ResponseDoc("The document.", dict[str, Any], headers=("ETag",)),
            304: ResponseDoc("The client has the current document (`If-None-Match`)."),
        }
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish this description of the API (OpenAPI 3.1)."""
        content, etag = _document()
        full_response = HttpResponse(
            content, content_type="application/json", headers={"Cache-Control": _CACHE_CONTROL, "ETag": etag}
        )
        response = get_conditional_response(request.http, etag=etag, response=full_response)
        assert response is not None  # noqa: S101  (None only where no response is given)
        return response


class DocsView(Endpoint):
    @document(responses={200: ResponseDoc("The page.", media_type="text/html")}, errors=(NotFound,))
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Show this description of the API as a page.

        Available if `AUTH_API_DOCS_ENABLED` is set or the development inbox is enabled.
        """
        if not conf.current().has_api_page:
            raise NotFound
        text, policy = _page()
        headers = {
            "Cache-Control": NO_STORE,
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Robots-Tag": "noindex",
        }
        return HttpResponse(text, headers=headers)


@cache
def _document() -> tuple[bytes, str]:
    """The bytes of the document, and their ETag."""
    content = FILE.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@cache
def _page() -> tuple[str, str]:
    """The page and its Content-Security-Policy."""
    style = (Path(settings.BASE_DIR) / "templates" / "openapi" / "style.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    values = page.context(orjson.loads(_document()[0]))
    text = render_to_string("openapi/page.html", {**values, "style": mark_safe(style)})  # noqa: S308  (ours)
    return text, _POLICY.format(digest=digest)
