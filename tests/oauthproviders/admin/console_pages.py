"""Console pages of custom providers: their paths, forms and audit entries."""

from __future__ import annotations

from typing import Any

from authsvc.models import AuditLogEntry
from oauthproviders.models import CustomProvider
from tests.authsvc.console.conftest import START, Console, fields_of
from tests.conftest import ApiResponse
from tests.page_browser import read_text

LIST = f"{START}oauthproviders/customprovider/"
BUILT_IN = f"{LIST}built-in/"
CREATE_OIDC, CREATE_OAUTH2 = f"{LIST}create/oidc/", f"{LIST}create/oauth2/"
SECRET = "the secret of the client"
PUBLIC = "https://8.8.8.8"
ADDRESSES = {"authorization_url": f"{PUBLIC}/a", "token_url": f"{PUBLIC}/t", "userinfo_url": f"{PUBLIC}/u"}
ACME = {"identifier": "custom:acme", "name": "Acme", "client_id": "i", "client_secret": SECRET, **ADDRESSES}
ROLES = {"helpdesk": "support", "auditor": "viewer"}


def page_of(row: CustomProvider) -> str:
    return f"{LIST}{row.pk}/change/"


def edit_page(row: CustomProvider) -> str:
    return f"{LIST}{row.pk}/edit/"


def text_after(console: Console, response: ApiResponse) -> str:
    assert response.status_code == 302, response.content
    return read_text(console.get(response.headers["Location"]))


def edit(console: Console, row: CustomProvider, *, without: str = "", **fields: str) -> ApiResponse:
    """Change fields of the form; the others are sent as the page contains them."""
    form = fields_of(console.text(edit_page(row))) | fields
    form.pop(without, None)
    return console.submit(edit_page(row), **form)


def run(console: Console, row: CustomProvider, action: str, **fields: str) -> ApiResponse:
    form = {"action": action, "_selected_action": str(row.pk), "source_row": str(row.pk), **fields}
    return console.submit(START, to=LIST, **form)


def last_entry() -> dict[str, Any]:
    entry = AuditLogEntry.objects.order_by("created_at").last()
    assert entry is not None
    assert entry.payload is not None
    return dict(entry.payload)
