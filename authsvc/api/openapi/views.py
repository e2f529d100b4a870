"""Serves the checked-in OpenAPI document, and Swagger UI."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import drf_spectacular_sidecar
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response

from authsvc import conf
from authsvc.api.openapi.document import ResponseDoc, document
from authsvc.api.renderers import NO_STORE
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import NotFound

FILE = Path(__file__).with_name("openapi.json")
_CACHE_CONTROL = "public, max-age=600"
# No inline scripts or styles, no other server. The style sheet of Swagger UI contains its icons as `data:` URLs.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)


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
        """Show this description of the API as a page that sends requests too.

        Available if `AUTH_API_DOCS_ENABLED` is set or the development inbox is enabled.
        """
        if not conf.current().has_api_page:
            raise NotFound
        headers = {
            "Cache-Control": NO_STORE,
            "Content-Security-Policy": _POLICY,
            "Referrer-Policy": "no-referrer",
            "X-Robots-Tag": "noindex",
        }
        return HttpResponse(render_to_string("openapi/page.html", {"digest": _assets()[0]}), headers=headers)


def serve_asset(request: HttpRequest, digest: str, name: str) -> HttpResponse:
    """A style sheet or script of the page, of this version of the service; browsers keep it."""
    current, files = _assets()
    if not conf.current().has_api_page or digest != current or name not in files:
        raise Http404
    content_type = "text/css" if name.endswith(".css") else "text/javascript"
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return HttpResponse(files[name].read_bytes(), content_type=f"{content_type}; charset=utf-8", headers=headers)


@cache
def _document() -> tuple[bytes, str]:
    """The bytes of the document, and their ETag."""
    content = FILE.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@cache
def _assets() -> tuple[str, dict[str, Path]]:
    """A digest of the files of the page, and these files by name."""
    templates = Path(settings.BASE_DIR) / "templates" / "openapi"
    swagger = Path(drf_spectacular_sidecar.__file__).parent / "static" / "drf_spectacular_sidecar" / "swagger-ui-dist"
    files = {
        "swagger-ui.css": swagger / "swagger-ui.css",
        "swagger-ui-bundle.js": swagger / "swagger-ui-bundle.js",
        "page.css": templates / "page.css",
        "page.js": templates / "page.js",
    }
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files.values()))
    return digest.hexdigest()[:12], files
