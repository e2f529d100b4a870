"""The admin API of webhooks."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.utils import timezone

from authsvc.conf import Secret
from authsvc.events import EventType
from authsvc.jobs import cleanup
from authsvc.security import encrypted_columns, encryption
from hooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookEvent
from hooks.webhooks import subscriptions
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig, read_success
from tests.factories import make_session
from tests.fakes.http_peer import HttpPeer, Response
from tests.hooks.webhooks.deliveries import (
    SECRET,
    backdate,
    deliver,
    make_endpoint,
    numbers,
    record,
    rows,
    signature,
    statuses,
)
from tests.observations import assert_error, audit_trail

pytestmark = pytest.mark.django_db

PATH = "/admin/webhooks"
ENDPOINTS = f"{PATH}/endpoints"
URL = "https://hooks.example.com/auth"
DISABLED = (404, "feature_disabled", "Webhooks are disabled")
NO_ENDPOINT = (404, "webhook_endpoint_not_found", "Webhook endpoint not found")
NO_DELIVERY = (404, "webhook_delivery_not_found", "Webhook delivery not found")
NO_EVENT = (404, "webhook_event_not_found", "Webhook event not found")
INACTIVE = (400, "validation_failed", "Webhook endpoint is disabled")


def ask(api: Api, method: str, path: str, body: Any = None) -> ApiResponse:
    response = admin_requests.ask(api, method, f"{PATH}/{path}", body)
    subscriptions.cache.clear()  # no commit in tests
    return response


def expect_success(api: Api, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    return read_success(ask(api, method, path, body), status=status)


class TestAccess:
    ROUTES = (
        ("GET", "event_types"), ("GET", "endpoints"), ("POST", "endpoints"), ("GET", "endpoints/x"),
        ("PUT", "endpoints/x"), ("DELETE", "endpoints/x"), ("POST", "endpoints/x/rotate_secret"),
        ("POST", "endpoints/x/ping"), ("POST", "endpoints/x/replay"), ("GET", "deliveries"), ("GET", "deliveries/x"),
        ("POST", "deliveries/x/retry"), ("GET", "events/x"),
    )  # fmt: skip

    @pytest.mark.parametrize(("method", "path"), ROUTES)
    def test_disabled(self, method: str, path: str, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"enabled": False})
        assert api.request(method, f"{PATH}/{path}").status_code == 401
        assert_error(ask(api, method, path), *DISABLED)

    def test_users_have_no_access(self, api: Api) -> None:
        assert api.get(ENDPOINTS, bearer=make_session().access_token).status_code == 403

    @pytest.mark.parametrize("endpoint_id", ["x", "11111111-1111-4111-8111-111111111111"])
    def test_unknown_endpoint(self, endpoint_id: str, api: Api) -> None:
        path = f"endpoints/{endpoint_id}"
        assert_error(ask(api, "GET", path), *NO_ENDPOINT)
        assert_error(ask(api, "PUT", path, {"disabled": True}), *NO_ENDPOINT)
        assert_error(ask(api, "DELETE", path), *NO_ENDPOINT)
        assert_error(ask(api, "POST", f"{path}/rotate_secret"), *NO_ENDPOINT)
        assert_error(ask(api, "POST", f"{path}/ping"), *NO_ENDPOINT)
        assert_error(ask(api, "POST", f"{path}/replay", {"since": "2026-01-01T00:00:00Z"}), *NO_ENDPOINT)
        assert_error(ask(api, "GET", f"deliveries/{endpoint_id}"), *NO_DELIVERY)
        assert_error(ask(api, "POST", f"deliveries/{endpoint_id}/retry"), *NO_DELIVERY)
        assert_error(ask(api, "GET", f"events/{endpoint_id}"), *NO_EVENT)


class TestEndpoints:
    def test_creation(self, api: Api) -> None:
        body = {"url": URL, "event_types": ["user.*", "session.revoked"], "description": "CRM"}
        created = expect_success(api, "POST", "endpoints", body, status=201)

        secret = created.pop("secret")
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
        row = WebhookEndpoint.objects.get()
        assert secret not in row.secret
        assert encryption.decrypt(row.secret, bound_to=row.id) == secret
        times = {name: created.pop(name) for name in ("created_at", "updated_at")}
        assert times["created_at"] == times["updated_at"]
        assert created == {
            "id": str(row.id), **body, "disabled": False, "disabled_reason": None, "failing_since": None,
            "has_previous_secret": False,
        }  # fmt: skip
        shown = expect_success(api, "GET", f"endpoints/{row.id}")
        assert shown == {**created, **times}
        assert expect_success(api, "GET", "endpoints") == {"endpoints": [shown]}
        ((action, traits),) = audit_trail()
        assert (action, traits and traits["endpoint_id"]) == ("webhook_endpoint_created", str(row.id))
        assert URL not in str(traits)

    def test_every_type_by_default(self, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"allow_private_networks": False})
        created = expect_success(api, "POST", "endpoints", {"url": URL, "secret": SECRET, "disabled": True}, status=201)
        assert (created["event_types"], created["secret"]) == (["*"], SECRET)
        assert (created["disabled"], created["disabled_reason"]) == (True, "manual")

    @pytest.mark.parametrize(
        "url",
        [
            "http://hooks.example.com/", "hooks.example.com", "/hooks", "https://", "https://user@example.com/",
            "https://u:p@example.com/", "https://example.com/#f", "https://example.com:0/", "https://example.com:x/",
            "https://[::1/", "ftp://example.com/", "https://exa mple.com/", "https://example.com/\n", "https://ex\u00e4.com/",
            "https://example.com/" + "x" * 2048, "https://example.com\\@evil.example/", "javascript:alert(1)",
        ],
    )  # fmt: skip
    def test_url(self, url: str, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"allow_private_networks": False})
        error = (400, "validation_failed", "url must be an absolute https URL")
        assert_error(ask(api, "POST", "endpoints", {"url": url}), *error)

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({}, "url is required"),
            ({"url": ""}, "url is required"),
            ({"url": URL, "event_types": []}, "event_types must contain known event types"),
            ({"url": URL, "event_types": ["user.*", "user.x"]}, "event_types must contain known event types"),
            ({"url": URL, "event_types": ["use.*"]}, "event_types must contain known event types"),
            ({"url": URL, "secret": ""}, "invalid secret format"),
            ({"url": URL, "secret": "whsec_AAAA"}, "invalid secret format"),
            ({"url": URL, "secret": SECRET.removeprefix("whsec_")}, "invalid secret format"),
            ({"url": URL, "secret": f"whsec_{'-' * 32}"}, "invalid secret format"),
            ({"url": URL, "secret": f"whsec_{'A' * 88}"}, "invalid secret format"),
            ({"url": URL, "description": "x" * 201}, "description must be at most 200 characters"),
        ],
    )
    def test_invalid_values(self, body: dict[str, Any], message: str, api: Api) -> None:
        assert_error(ask(api, "POST", "endpoints", body), 400, "validation_failed", message)

    def test_quota(self, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"max_endpoints": 2})
        endpoint_id = make_endpoint(URL).endpoint.id
        make_endpoint(URL)
        error = (400, "over_webhook_endpoint_quota", "Maximum number of webhook endpoints reached")
        assert_error(ask(api, "POST", "endpoints", {"url": URL}), *error)
        assert ask(api, "DELETE", f"endpoints/{endpoint_id}").status_code == 204
        expect_success(api, "POST", "endpoints", {"url": URL}, status=201)

    def test_changes(self, api: Api) -> None:
        endpoint_id = make_endpoint(URL).endpoint.id
        path = f"endpoints/{endpoint_id}"
        assert_error(ask(api, "PUT", path, {}), 400, "validation_failed", "No fields provided for update")
        assert expect_success(api, "PUT", path, {"description": "New"})["url"] == URL
        changed = expect_success(api, "PUT", path, {"event_types": ["user.created"], "disabled": True})
        assert (changed["description"], changed["event_types"]) == ("New", ["user.created"])
        assert (changed["disabled"], changed["disabled_reason"]) == (True, "manual")
        assert_error(ask(api, "POST", f"{path}/ping"), *INACTIVE)
        WebhookEndpoint.objects.update(disabled_reason="failing", failing_since=timezone.now())
        enabled = expect_success(api, "PUT", path, {"disabled": False})
        assert (enabled["disabled"], enabled["disabled_reason"], enabled["failing_since"]) == (False, None, None)
        assert [action for action, _ in audit_trail()] == ["webhook_endpoint_created"] + [
            "webhook_endpoint_updated"
        ] * 3

    def test_the_deliveries_of_a_disabled_endpoint_are_cancelled(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        receiver.respond(Response(status=500))
        record()
        deliver()
        expect_success(api, "PUT", f"endpoints/{endpoint_id}", {"disabled": True})
        deliver()
        assert statuses() == ["cancelled"]

    def test_deletion(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        record()
        deliver()
        delivery_id = rows()[0].id

        response = ask(api, "DELETE", f"endpoints/{endpoint_id}")

        assert (response.status_code, response.content) == (204, b"")
        assert_error(ask(api, "GET", f"endpoints/{endpoint_id}"), *NO_ENDPOINT)
        assert_error(ask(api, "GET", f"deliveries/{delivery_id}"), *NO_DELIVERY)
        assert expect_success(api, "GET", "deliveries") == {"deliveries": []}
        cleanup.run(at=timezone.now(), only_mandatory=True)
        assert (WebhookEndpoint.objects.count(), WebhookDelivery.objects.count()) == (0, 0)
        assert audit_trail()[-1][0] == "webhook_endpoint_deleted"

    def test_event_types(self, api: Api) -> None:
        assert expect_success(api, "GET", "event_types") == {"event_types": [member.value for member in EventType]}


class TestSecrets:
    def test_both_secrets_sign_during_the_grace_period(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        rotated = expect_success(api, "POST", f"endpoints/{endpoint_id}/rotate_secret", {"grace": "1h"})
        assert rotated["has_previous_secret"] is True
        assert rotated["secret"] != SECRET
        record()
        deliver()
        backdate(timedelta(hours=2))
        record()
        deliver()

        first, second = receiver.received
        assert first.headers["webhook-signature"] == f"{signature(first, rotated['secret'])} {signature(first)}"
        assert second.headers["webhook-signature"] == signature(second, rotated["secret"])
        assert expect_success(api, "GET", f"endpoints/{endpoint_id}")["has_previous_secret"] is False
        assert audit_trail()[-1] == ("webhook_endpoint_secret_rotated", {"endpoint_id": str(endpoint_id)})

    def test_a_former_secret_that_cannot_be_read_does_not_sign(
        self, receiver: HttpPeer, api: Api, auth_config: ChangeConfig
    ) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        auth_config(jwt={"secret": Secret("another-secret-of-at-least-32-characters")})
        rotated = expect_success(api, "POST", f"endpoints/{endpoint_id}/rotate_secret")
        subscriptions.cache.clear()
        record()

        deliver()

        [request] = receiver.received
        assert request.headers["webhook-signature"] == signature(request, rotated["secret"])

    def test_the_former_secret_ends_at_once_without_grace(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        new = "whsec_" + base64.b64encode(bytes(range(32))).decode()
        rotated = expect_success(api, "POST", f"endpoints/{endpoint_id}/rotate_secret", {"grace": "0", "secret": new})
        assert (rotated["secret"], rotated["has_previous_secret"]) == (new, False)
        record()
        deliver()
        assert receiver.received[0].headers["webhook-signature"] == signature(receiver.received[0], new)

    @pytest.mark.parametrize("grace", ["169h", "-1h", "tomorrow", ""])
    def test_grace(self, grace: str, api: Api) -> None:
        endpoint_id = make_endpoint(URL).endpoint.id
        error = (400, "validation_failed", "grace must be a duration from 0 to 168h")
        assert_error(ask(api, "POST", f"endpoints/{endpoint_id}/rotate_secret", {"grace": grace}), *error)

    def test_secrets_are_encrypted_again(self, api: Api) -> None:
        endpoint = make_endpoint(URL).endpoint
        WebhookEndpoint.objects.update(secret=SECRET)  # as before encryption
        (column,) = [one for one in encrypted_columns.columns() if str(one) == "webhook_endpoints.secret"]
        result = encrypted_columns.reencrypt(column, report_progress=lambda _: None)
        stored = WebhookEndpoint.objects.get().secret
        assert result.reencrypted == 1
        assert SECRET not in stored
        assert encryption.decrypt(stored, bound_to=endpoint.id) == SECRET


class TestDeliveries:
    def test_ping_reaches_one_endpoint(self, receiver: HttpPeer, api: Api) -> None:
        make_endpoint(f"{receiver.url}/all")
        endpoint_id = make_endpoint(f"{receiver.url}/users", "user.*").endpoint.id
        response = expect_success(api, "POST", f"endpoints/{endpoint_id}/ping", status=202)

        deliver()

        (request,) = receiver.received
        assert (request.path, request.json()["id"]) == ("/users", response["event_id"])
        assert request.json()["type"] == "webhook.ping"
        assert request.json()["data"] == {"endpoint_id": str(endpoint_id)}
        assert request.json()["actor"] == {"type": "admin", "id": None, "role": "service_role"}
        assert request.json()["request"]["id"]
        assert str(rows()[0].id) == response["delivery_id"]

    def test_details(self, receiver: HttpPeer, api: Api) -> None:
        make_endpoint(receiver.url)
        user_id = uuid4()
        receiver.respond(Response(status=500, body=b"no such table"))
        record(user_id=user_id)
        deliver()
        (row,) = rows()

        details = expect_success(api, "GET", f"deliveries/{row.id}")

        assert details["event"]["data"]["user"]["email"] == "user@example.com"
        (attempt,) = details["attempts_log"]
        assert (attempt["attempt"], attempt["status"], attempt["response_head"]) == (1, 500, "no such table")
        event_id = f"evt_{row.event_id}"
        viewed = {"event_id": event_id, "event_type": "user.updated", "user_id": str(user_id)}
        assert audit_trail()[-1] == ("webhook_event_viewed", viewed)
        assert expect_success(api, "GET", f"events/{event_id}") == details["event"]
        assert expect_success(api, "GET", f"events/{row.event_id}") == details["event"]
        assert [action for action, _ in audit_trail()].count("webhook_event_viewed") == 3

    def test_list(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        receiver.respond(Response(status=500), Response(status=200))
        for event_type in (EventType.USER_CREATED, EventType.USER_UPDATED, EventType.SESSION_STARTED):
            record(event_type)
            deliver()
        created, updated, started = (str(row.id) for row in rows())

        def found(**parameters: str) -> list[str]:
            listed = expect_success(api, "GET", f"deliveries?{urlencode(parameters)}")["deliveries"]
            return [delivery["id"] for delivery in listed]

        assert found() == [started, updated, created]
        assert found(status="pending") == [created]
        assert found(type="user.updated") == [updated]
        assert found(endpoint_id=str(endpoint_id), event_id=f"evt_{rows()[2].event_id}") == [started]
        assert found(endpoint_id=str(uuid4())) == []
        assert found(since="2099-01-01T00:00:00Z") == found(until="2020-01-01") == []
        assert found(since="2020-01-01T00:00:00+01:00", until="2099-01-01T00:00:00Z") == [started, updated, created]
        page = ask(api, "GET", "deliveries?per_page=2")
        assert page.headers["X-Total-Count"] == "3"
        assert 'rel="next"' in page.headers["Link"]
        assert found(per_page="2", page="2") == [created]
        delivery = page.json()["deliveries"][0]
        assert (delivery["type"], delivery["status"], delivery["last_status"]) == ("session.started", "succeeded", 200)
        assert "event" not in delivery

    @pytest.mark.parametrize(
        ("parameter", "message"),
        [
            ("status=done", "status must be one of pending, succeeded, failed, cancelled"),
            ("endpoint_id=x", "endpoint_id must be a UUID"),
            ("event_id=evt_x", "event_id must be a UUID"),
            ("since=yesterday", "since must be a time of RFC 3339"),
            ("until=0", "until must be a time of RFC 3339"),
            ("state=pending", "Unknown parameter: state"),
        ],
    )
    def test_invalid_conditions(self, parameter: str, message: str, api: Api) -> None:
        assert_error(ask(api, "GET", f"deliveries?{parameter}"), 400, "validation_failed", message)

    def test_retry_begins_the_schedule_again(self, receiver: HttpPeer, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"retry_schedule": (timedelta(hours=1),)})
        make_endpoint(receiver.url)
        receiver.respond(Response(status=500))
        record()
        deliver()
        backdate(timedelta(hours=2))
        deliver()
        assert statuses() == ["failed"]

        shown = expect_success(api, "POST", f"deliveries/{rows()[0].id}/retry", status=202)

        assert (shown["status"], shown["attempts"]) == ("pending", 2)
        deliver()
        (row,) = rows()
        assert (row.status, row.attempts) == ("pending", 3)
        assert receiver.received[-1].headers["webhook-attempt"] == "3"
        assert audit_trail()[-1][0] == "webhook_replayed"

    def test_a_repeated_delivery_precedes_later_ones(
        self, receiver: HttpPeer, api: Api, auth_config: ChangeConfig
    ) -> None:
        auth_config(webhooks={"retry_schedule": ()})
        make_endpoint(receiver.url)
        receiver.respond(Response(status=500))
        user_id = uuid4()
        record(user_id=user_id, number=1)
        deliver()
        auth_config(webhooks={"retry_schedule": (timedelta(minutes=1),)})
        record(user_id=user_id, number=2)
        deliver()
        assert statuses() == ["failed", "pending"]
        receiver.respond(Response(status=200))

        expect_success(api, "POST", f"deliveries/{rows()[0].id}/retry", status=202)
        deliver()

        assert numbers(receiver.received) == [1, 2, 1, 2]

    def test_a_disabled_endpoint_is_not_repeated(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        record()
        deliver()
        expect_success(api, "PUT", f"endpoints/{endpoint_id}", {"disabled": True})
        assert_error(ask(api, "POST", f"deliveries/{rows()[0].id}/retry"), *INACTIVE)
        since = {"since": "2020-01-01T00:00:00Z"}
        assert_error(ask(api, "POST", f"endpoints/{endpoint_id}/replay", since), *INACTIVE)


class TestReplay:
    def replay(self, api: Api, endpoint_id: Any, **body: Any) -> int:
        body = {"since": "2020-01-01T00:00:00Z", **body}
        return int(expect_success(api, "POST", f"endpoints/{endpoint_id}/replay", body, status=202)["count"])

    def test_failed_deliveries_are_repeated(self, receiver: HttpPeer, api: Api, auth_config: ChangeConfig) -> None:
        auth_config(webhooks={"retry_schedule": ()})
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        receiver.respond(Response(status=500), Response(status=500), Response(status=500), Response(status=200))
        user_id = uuid4()
        for number in range(4):
            record(user_id=user_id, number=number)
        deliver()
        assert statuses() == ["failed", "failed", "failed", "succeeded"]
        ids = [request.headers["webhook-id"] for request in receiver.received]

        assert self.replay(api, endpoint_id) == 3
        deliver()

        assert numbers(receiver.received[4:]) == [0, 1, 2]
        assert [request.headers["webhook-id"] for request in receiver.received[4:]] == ids[:3]
        assert set(statuses()) == {"succeeded"}
        assert WebhookAttempt.objects.count() == 7
        assert self.replay(api, endpoint_id) == 0
        assert self.replay(api, endpoint_id, status=["succeeded"]) == 4

    def test_conditions(self, receiver: HttpPeer, api: Api) -> None:
        endpoint_id = make_endpoint(receiver.url).endpoint.id
        record(EventType.USER_CREATED)
        record(EventType.SESSION_STARTED)
        deliver()
        everything = {"status": ["succeeded"]}
        assert self.replay(api, endpoint_id, **everything, since="2099-01-01T00:00:00Z") == 0
        assert self.replay(api, endpoint_id, **everything, until="2020-01-02T00:00:00Z") == 0
        assert self.replay(api, endpoint_id, **everything, event_types=["user.*"]) == 1
        assert self.replay(api, endpoint_id, **everything, event_types=["session.started"]) == 1

    def test_events_before_the_subscription(self, receiver: HttpPeer, api: Api) -> None:
        make_endpoint(f"{receiver.url}/first")
        record(number=1)
        deliver()
        endpoint_id = make_endpoint(f"{receiver.url}/second", "session.*").endpoint.id
        assert self.replay(api, endpoint_id) == 0
        assert self.replay(api, endpoint_id, include_unsubscribed=True) == 1
        deliver()
        assert [request.path for request in receiver.received] == ["/first", "/second"]

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({}, "since is required"),
            ({"since": "2020-01-01T00:00:00Z", "status": []}, "status must be failed, cancelled or succeeded"),
            ({"since": "2020-01-01T00:00:00Z", "status": ["pending"]}, "status must be failed, cancelled or succeeded"),
            ({"since": "2020-01-01T00:00:00Z", "event_types": ["x"]}, "event_types must contain known event types"),
        ],
    )
    def test_invalid_values(self, body: dict[str, Any], message: str, api: Api) -> None:
        endpoint_id = make_endpoint(URL).endpoint.id
        response = ask(api, "POST", f"endpoints/{endpoint_id}/replay", body)
        assert_error(response, 400, "validation_failed", message)

    def test_since_is_a_time(self, api: Api) -> None:
        endpoint_id = make_endpoint(URL).endpoint.id
        response = ask(api, "POST", f"endpoints/{endpoint_id}/replay", {"since": "yesterday"})
        assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_old_events_are_deleted_unless_a_delivery_is_pending(receiver: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(webhooks={"retention": timedelta(hours=1)})
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500), Response(status=200))
    record()
    deliver()
    record()
    deliver()
    cleanup.run(at=timezone.now(), only_mandatory=True)
    assert WebhookEvent.objects.count() == 2

    cleanup.run(at=timezone.now() + timedelta(hours=2), only_mandatory=True)

    assert statuses() == ["pending"]
    assert WebhookEvent.objects.count() == 1


def test_events_that_are_no_longer_delivered_are_deleted_after_the_last_one_is_old(
    receiver: HttpPeer, auth_config: ChangeConfig
) -> None:
    hour = timedelta(hours=1)
    auth_config(webhooks={"retention": hour})
    make_endpoint(receiver.url)
    receiver.respond(Response(status=500))
    record()
    record()
    deliver()
    auth_config(webhooks={"enabled": False})
    older = WebhookEvent.objects.earliest("sequence")
    WebhookEvent.objects.filter(id=older.id).update(created_at=older.created_at - hour)
    WebhookDelivery.objects.filter(event=older).update(created_at=older.created_at - hour)

    cleanup.run(at=timezone.now() + hour / 2, only_mandatory=True)
    assert statuses() == ["pending", "pending"]

    cleanup.run(at=timezone.now() + 2 * hour, only_mandatory=True)
    assert statuses() == []
    assert not WebhookEvent.objects.exists()
