"""/admin/webhooks: endpoints, deliveries and events."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import orjson
from django.http import HttpResponse, QueryDict
from django.utils import timezone
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authsvc import conf, events
from authsvc.api import pagination, parsing
from authsvc.api.openapi.document import PAGE, PER_PAGE, TOTALS, Parameter, ResponseDoc, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.conf import durations
from hooks.models import DeliveryStatus
from hooks.webhooks import deliveries, endpoints, errors, schemas
from hooks.webhooks.deliveries import DeliveryFilter
from hooks.webhooks.endpoints import DEFAULT_GRACE
from tokens.api import authentication
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

MAX_PAGE_SIZE = 200
_FILTERS = ("endpoint_id", "event_id", "status", "type", "since", "until", "page", "per_page")


class WebhooksEnabled(BasePermission):
    """Webhooks are enabled; listed after the permissions that check the caller."""

    documented_errors = (errors.WebhooksDisabled,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not conf.current().webhooks.enabled:
            raise errors.WebhooksDisabled
        return True


class WebhookView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin, WebhooksEnabled)


class EventTypesView(WebhookView):
    @document(responses={200: schemas.EventTypeList})
    def get(self, _request: ServiceRequest) -> HttpResponse:
        """List the types of events."""
        return Response({"event_types": endpoints.known_event_types()})


class EndpointsView(WebhookView):
    @document(responses={200: schemas.EndpointList})
    def get(self, _request: ServiceRequest) -> HttpResponse:
        """List the endpoints of webhooks, newest first."""
        at = timezone.now()
        return Response({"endpoints": [schemas.endpoint_json(endpoint, at=at) for endpoint in endpoints.list_all()]})

    @document(
        body=schemas.NewEndpointInput,
        responses={201: schemas.EndpointDescriptionWithSecret},
        errors=(errors.EndpointInvalid, errors.EndpointQuotaExceeded),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create an endpoint. The response contains the secret that signs its webhooks."""
        body = parsing.parse_body(request, schemas.NewEndpointInput)
        at = timezone.now()
        created = endpoints.create(
            url=body.url,
            event_types=body.event_types,
            description=body.description,
            secret=body.secret,
            disabled=body.disabled,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=at,
        )
        return Response(schemas.new_endpoint_json(created, at=at), status=201)


class EndpointView(WebhookView):
    @document(responses={200: schemas.EndpointDescription}, errors=(errors.EndpointNotFound,))
    def get(self, _request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Return an endpoint."""
        return Response(schemas.endpoint_json(endpoints.find(endpoint_id), at=timezone.now()))

    @document(
        body=schemas.EndpointChanges,
        responses={200: schemas.EndpointDescription},
        errors=(errors.EndpointNotFound, errors.EndpointInvalid),
    )
    def put(self, request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Change an endpoint. Disabling it cancels its pending deliveries."""
        body = parsing.parse_body(request, schemas.EndpointChanges)
        at = timezone.now()
        endpoint = endpoints.update(
            endpoint_id,
            url=body.url,
            event_types=body.event_types,
            description=body.description,
            disabled=body.disabled,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=at,
        )
        return Response(schemas.endpoint_json(endpoint, at=at))

    @document(responses={204: None}, errors=(errors.EndpointNotFound,))
    def delete(self, request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Delete an endpoint with its deliveries."""
        actor = authentication.get_admin(request).actor
        endpoints.delete(endpoint_id, actor=actor, caller=request.caller, at=timezone.now())
        return Response(status=204)


class SecretView(WebhookView):
    @document(
        body=schemas.RotationInput,
        body_optional=True,
        responses={200: schemas.EndpointDescriptionWithSecret},
        errors=(errors.EndpointNotFound, errors.EndpointInvalid),
    )
    def post(self, request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Replace the secret of an endpoint. Both secrets sign until the grace period ends. The body is optional.

        A secret that was replaced before ends at once, although its grace period has not ended.
        """
        content = parsing.read_body(request.http)
        body = parsing.parse_body(request, schemas.RotationInput) if content else schemas.RotationInput()
        try:
            grace = DEFAULT_GRACE if body.grace is None else durations.parse(body.grace)
        except ValueError:
            raise errors.EndpointInvalid(endpoints.GRACE_INVALID) from None
        at = timezone.now()
        rotated = endpoints.rotate_secret(
            endpoint_id,
            grace=grace,
            secret=body.secret,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=at,
        )
        return Response(schemas.new_endpoint_json(rotated, at=at))


class PingView(WebhookView):
    @document(responses={202: schemas.PingResponse}, errors=(errors.EndpointNotFound, errors.EndpointIsDisabled))
    def post(self, request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Send the event `webhook.ping` to an endpoint."""
        admin = authentication.get_admin(request).actor
        caller = request.caller
        ping = deliveries.ping(
            endpoint_id,
            actor=events.EventActor(type=events.ActorType.ADMIN, id=admin.user_id, role=admin.role),
            request=events.RequestInfo(id=caller.request_id, ip_address=caller.address, user_agent=caller.user_agent),
            at=timezone.now(),
        )
        return Response({"event_id": f"evt_{ping.event_id}", "delivery_id": str(ping.delivery_id)}, status=202)


class ReplayView(WebhookView):
    @document(
        body=schemas.ReplayInput,
        responses={202: schemas.ReplayResponse},
        errors=(errors.EndpointNotFound, errors.EndpointIsDisabled, errors.ReplayInvalid),
    )
    def post(self, request: ServiceRequest, endpoint_id: str) -> HttpResponse:
        """Repeat deliveries of an endpoint, at most 10,000 at once."""
        body = parsing.parse_body(request, schemas.ReplayInput)
        count = deliveries.replay(
            endpoint_id,
            since=_with_zone(body.since),
            until=_with_zone(body.until),
            event_types=body.event_types,
            statuses=deliveries.REPLAYED_BY_DEFAULT if body.status is None else body.status,
            include_unsubscribed=bool(body.include_unsubscribed),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({"count": count}, status=202)


class DeliveriesView(WebhookView):
    @document(
        query=(
            PAGE,
            PER_PAGE,
            Parameter("endpoint_id", "The id of an endpoint."),
            Parameter("event_id", "The id of an event."),
            Parameter("status", "The status.", tuple(DeliveryStatus.values)),
            Parameter("type", "The exact type of the events."),
            Parameter("since", "The earliest time of creation (RFC 3339)."),
            Parameter("until", "The end of the times of creation, exclusive."),
        ),
        responses={200: ResponseDoc("Deliveries, newest first.", schemas.DeliveryList, headers=TOTALS)},
        errors=(pagination.ListParameterInvalid, pagination.PaginationInvalid, errors.DeliveryFilterInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List deliveries, newest first, at most 200 per page. All conditions must match."""
        parameters = request.http.GET
        pagination.refuse_unknown(parameters, _FILTERS)
        page = pagination.parse(parameters)
        page = pagination.PageRequest(number=page.number, size=min(page.size, MAX_PAGE_SIZE))
        rows, total = deliveries.list_deliveries(_parse_filter(parameters), limit=page.limit, offset=page.offset)
        response = Response({"deliveries": [schemas.delivery_json(delivery) for delivery in rows]})
        response["X-Total-Count"] = str(total)
        response["Link"] = pagination.links(request.http.path, parameters, page=page, total=total)
        return response


class DeliveryView(WebhookView):
    @document(responses={200: schemas.DeliveryWithAttempts}, errors=(errors.DeliveryNotFound,))
    def get(self, request: ServiceRequest, delivery_id: str) -> HttpResponse:
        """Return a delivery with its attempts and its event. The audit trail records the view."""
        actor = authentication.get_admin(request).actor
        details = deliveries.view(delivery_id, actor=actor, caller=request.caller, at=timezone.now())
        return Response(schemas.details_json(details))


class RetryView(WebhookView):
    @document(responses={202: schemas.DeliveryDescription}, errors=(errors.DeliveryNotFound, errors.EndpointIsDisabled))
    def post(self, request: ServiceRequest, delivery_id: str) -> HttpResponse:
        """Repeat a delivery. Its schedule of retries begins again."""
        actor = authentication.get_admin(request).actor
        delivery = deliveries.retry(delivery_id, actor=actor, caller=request.caller, at=timezone.now())
        return Response(schemas.delivery_json(delivery), status=202)


class EventView(WebhookView):
    @document(responses={200: schemas.EventPayload}, errors=(errors.EventNotFound,))
    def get(self, request: ServiceRequest, event_id: str) -> HttpResponse:
        """Return an event as endpoints receive it. The audit trail records the view."""
        actor = authentication.get_admin(request).actor
        body = deliveries.view_event(event_id, actor=actor, caller=request.caller, at=timezone.now())
        return Response(orjson.Fragment(body))


def _parse_filter(parameters: QueryDict) -> DeliveryFilter:
    """The conditions in a query string. Raises DeliveryFilterInvalid."""
    texts = {name: pagination.first(parameters, name) for name in _FILTERS}
    status = texts["status"]
    if status and status not in DeliveryStatus.values:
        raise errors.DeliveryFilterInvalid(f"status must be one of {', '.join(DeliveryStatus.values)}")
    return DeliveryFilter(
        endpoint_id=_parse_id("endpoint_id", texts["endpoint_id"]),
        event_id=_parse_id("event_id", texts["event_id"].removeprefix("evt_")),
        status=status or None,
        type=texts["type"] or None,
        since=_parse_time("since", texts["since"]),
        until=_parse_time("until", texts["until"]),
    )


def _parse_id(name: str, text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise errors.DeliveryFilterInvalid(f"{name} must be a UUID") from None


def _parse_time(name: str, text: str) -> datetime | None:
    try:
        return _with_zone(datetime.fromisoformat(text)) if text else None
    except ValueError:
        raise errors.DeliveryFilterInvalid(f"{name} must be a time of RFC 3339") from None


def _with_zone(moment: datetime | None) -> datetime | None:
    """A time without an offset is in UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
