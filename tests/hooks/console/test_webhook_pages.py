"""Pages of webhooks in the console: endpoints, their actions, deliveries, and the operators who may change them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.audit.models import AuditLogEntry
from authsvc.conf.sections.hooks import Hook
from authsvc.conf.types import Secret
from authsvc.events import EventType
from hooks.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from hooks.webhooks import queries
from tests import factories
from tests.authsvc.console.conftest import START, Console, page_of
from tests.conftest import ChangeConfig
from tests.hooks.conftest import SetHook
from tests.hooks.webhooks.deliveries import make_endpoint, record

pytestmark = pytest.mark.django_db

ENDPOINTS = "/operator/hooks/webhookendpoint/"
DELIVERIES = "/operator/hooks/webhookdelivery/"
URL = "https://app.example.com/hooks/path-secret?key=query-secret"


@pytest.fixture(autouse=True)
def _enabled(auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"enabled": True}, console={"roles": {"helper": "support", "reader": "viewer"}})


def enter(role: str = "svc_admin") -> Console:
    console = Console()
    factories.make_user(email=f"{role}@example.com", role=role)
    console.sign_in(f"{role}@example.com")
    assert console.is_in
    return console


def endpoint() -> WebhookEndpoint:
    return make_endpoint(URL).endpoint


def act(console: Console, row: Any, name: str, **fields: str) -> str:
    page = f"{DELIVERIES if isinstance(row, WebhookDelivery) else ENDPOINTS}{row.pk}/change/"
    to = DELIVERIES if isinstance(row, WebhookDelivery) else ENDPOINTS
    response = console.submit(page, to=to, action=name, _selected_action=str(row.pk), confirmed="yes", **fields)
    return response.content.decode()


def test_an_endpoint_is_created_and_its_secret_shown_once() -> None:
    console = enter()
    page = console.submit(f"{ENDPOINTS}create/", url=URL, event_types="user.*\nsession.revoked", description="App")
    text = page.content.decode()
    [secret] = re.findall(r'value="(whsec_[^"]+)"', text)
    row = WebhookEndpoint.objects.get()
    assert (row.url, row.event_types, row.description) == (URL, ["user.*", "session.revoked"], "App")
    for path in (ENDPOINTS, f"{ENDPOINTS}{row.pk}/change/"):
        shown = console.text(path)
        assert "https://app.example.com" in shown
        assert secret not in shown
        assert "path-secret" not in shown
        assert "query-secret" not in shown
    entry = AuditLogEntry.objects.filter(payload__action="webhook_endpoint_created").get()
    assert entry.payload["actor_username"] == "svc_admin@example.com"


@pytest.mark.parametrize(
    "fields",
    [{"url": "http://app.example.com/"}, {"url": "https://a b/<script>"}, {"event_types": "user.unknown"}],
)
def test_refused_values(fields: dict[str, str]) -> None:
    values = {"url": URL, "event_types": "*", "description": "", **fields}
    response = enter().submit(f"{ENDPOINTS}create/", **values)
    assert response.status_code == 400
    assert b"<script>" not in response.content
    assert not WebhookEndpoint.objects.exists()


def test_an_endpoint_is_edited() -> None:
    row = endpoint()
    console = enter()
    console.submit(f"{ENDPOINTS}{row.pk}/edit/", url="https://new.example.com/", event_types="*", description="New")
    assert "Changed: https://new.example.com" in console.text(f"{ENDPOINTS}{row.pk}/change/")
    row.refresh_from_db()
    assert (row.url, row.event_types, row.description) == ("https://new.example.com/", ["*"], "New")


def test_disabling_and_enabling() -> None:
    console, row = enter(), endpoint()
    act(console, row, "disable")
    row.refresh_from_db()
    assert row.disabled_reason == "manual"
    assert "disabled by an administrator" in console.text(ENDPOINTS)
    act(console, row, "enable")
    row.refresh_from_db()
    assert row.disabled_at is None


def test_the_secret_is_replaced() -> None:
    console, row = enter(), endpoint()
    assert re.search(r'value="whsec_[^"]+"', act(console, row, "rotate_secret"))
    row.refresh_from_db()
    assert row.previous_secret_until is not None


def test_a_test_event() -> None:
    act(enter(), endpoint(), "ping")
    assert WebhookDelivery.objects.get().type == EventType.WEBHOOK_PING


def test_deletion() -> None:
    console, row = enter(), endpoint()
    act(console, row, "delete")
    console.text(ENDPOINTS)  # shows the message
    assert "https://app.example.com" not in console.text(ENDPOINTS)


@pytest.fixture
def delivery() -> WebhookDelivery:
    endpoint()
    user = factories.make_user(email="ada@example.com")
    record(user_id=user.id, name="document-secret")
    queries.fan_out(limit=10, at=timezone.now())
    row = WebhookDelivery.objects.get(type="user.updated")
    WebhookDelivery.objects.exclude(id=row.id).delete()
    WebhookDelivery.objects.update(status=DeliveryStatus.FAILED, next_attempt_at=None, last_status=500, attempts=1)
    WebhookAttempt.objects.create(
        delivery=row,
        attempt=1,
        started_at=timezone.now(),
        duration_ms=12,
        status=500,
        error="status <b>500</b>",
        response_head="<h1>Out of\x1b order</h1>",
    )
    return row


def test_a_delivery_is_shown_without_its_document(delivery: WebhookDelivery) -> None:
    console = enter()
    listed = console.text(DELIVERIES)
    assert "user.updated" in listed
    assert "Failed" in listed
    page = console.text(f"{DELIVERIES}{delivery.pk}/change/")
    assert "status &lt;b&gt;500&lt;/b&gt;" in page
    assert "12 ms" in page
    assert "&lt;h1&gt;Out of\N{REPLACEMENT CHARACTER} order&lt;/h1&gt;" in page
    assert "Out of" not in enter("reader").text(f"{DELIVERIES}{delivery.pk}/change/")
    assert "document-secret" not in page


def test_deliveries_are_searched_and_filtered(delivery: WebhookDelivery) -> None:
    console, link = enter(), f"{DELIVERIES}{delivery.pk}/change/"
    found = (
        f"q={delivery.pk}", f"q=evt_{delivery.event_id}", f"q={delivery.endpoint_id}", f"q={delivery.user_id}",
        "status=failed", f"endpoint={delivery.endpoint_id}", "type=user.updated", "created=1",
    )  # fmt: skip
    missed = ("q=ada", f"q={uuid4()}", "status=succeeded", "type=user.created")
    assert [query for query in found if link not in console.text(f"{DELIVERIES}?{query}")] == []
    assert [query for query in missed if link in console.text(f"{DELIVERIES}?{query}")] == []
    for query in ("status=x", f"endpoint={uuid4()}", "type=x"):
        assert console.get(f"{DELIVERIES}?{query}").headers["Location"].endswith("?e=1")


def test_old_pending_deliveries_alarm(delivery: WebhookDelivery) -> None:
    console, alarm = enter(), r'class="alarming"><a href="[^"]*status=pending"><strong>1</strong> Webhooks pending'
    WebhookDelivery.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert not re.search(alarm, console.text(START))
    WebhookDelivery.objects.filter(pk=delivery.pk).update(status=DeliveryStatus.PENDING)
    assert re.search(alarm, console.text(START))
    assert re.search(r'field-pending">1<', console.text(ENDPOINTS))
    WebhookDelivery.objects.update(created_at=timezone.now())
    assert not re.search(alarm, console.text(START))


def test_link_from_the_page_of_a_user(delivery: WebhookDelivery, auth_config: ChangeConfig) -> None:
    console, link = enter(), f"{DELIVERIES}?q={delivery.user_id}"
    page = page_of(User.objects.get(email="ada@example.com"))
    assert link in console.text(page)
    auth_config(webhooks={"enabled": False})
    assert link not in console.text(page)


def test_page_of_hooks(set_hook: SetHook) -> None:
    secrets = (Secret("v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"),)
    set_hook(Hook.SEND_SMS, uri="https://user:key1@sms.example.com/<b>?k=key2", secrets=secrets, on_failure="open")
    console = enter("reader")
    assert f"{ENDPOINTS}hooks/" in console.text(ENDPOINTS)
    text = console.text(f"{ENDPOINTS}hooks/")
    assert [hook.name for hook in Hook if hook.name not in text] == []
    for shown in ("https://sms.example.com/&lt;b&gt;?…", "HTTP", "the request goes on", "30s", "by a job after"):
        assert shown in text
    assert not any(hidden in text for hidden in ("key1", "key2", "whsec_"))


def test_a_delivery_is_repeated(delivery: WebhookDelivery) -> None:
    act(enter(), delivery, "retry")
    delivery.refresh_from_db()
    assert delivery.status == DeliveryStatus.PENDING


def test_deliveries_of_a_day_are_repeated(delivery: WebhookDelivery) -> None:
    console = enter()
    act(console, delivery.endpoint, "replay", **{"action-hours": "24"})
    assert "Repeated: 1 delivery<" in console.text(ENDPOINTS)
    delivery.refresh_from_db()
    assert delivery.status == DeliveryStatus.PENDING


@pytest.mark.parametrize("role", ["helper", "reader"])
def test_other_operators_change_nothing(delivery: WebhookDelivery, role: str) -> None:
    console, row = enter(role), delivery.endpoint
    assert console.get(f"{ENDPOINTS}create/").status_code == 403
    assert console.get(f"{ENDPOINTS}{row.pk}/edit/").status_code == 403
    assert "Replace secret" not in console.text(f"{ENDPOINTS}{row.pk}/change/")
    assert "Repeat" not in console.text(f"{DELIVERIES}{delivery.pk}/change/")
    assert console.submit(ENDPOINTS, action="disable", _selected_action=str(row.pk)).status_code == 403
    row.refresh_from_db()
    assert row.disabled_at is None


@pytest.mark.parametrize("role", ["svc_admin", "reader"])
@pytest.mark.parametrize("column", ["url", "secret", "previous_secret"])
def test_hidden_columns_are_no_filters(column: str, role: str) -> None:
    endpoint()
    assert enter(role).get(f"{ENDPOINTS}?{column}__startswith=https://app.example.com/hooks/p").status_code == 400


@pytest.mark.parametrize(
    "path", ["endpoint__url__startswith=h", "endpoint__secret__startswith=h", "event__body__contains=a"]
)
def test_hidden_columns_of_other_tables_are_no_filters(path: str) -> None:
    assert enter("reader").get(f"{DELIVERIES}?{path}").status_code == 400


def test_disabled_webhooks(auth_config: ChangeConfig) -> None:
    console, row = enter(), endpoint()
    auth_config(webhooks={"enabled": False})
    assert "webhooks are disabled" in console.text(ENDPOINTS)
    assert console.get(f"{ENDPOINTS}create/").status_code == 404
    act(console, row, "disable")
    row.refresh_from_db()
    assert row.disabled_at is None
    assert User.objects.exists()
