"""Console pages of waiting and failed messages, and of delivery attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.messages import constants as levels
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from authsvc.console import filters, formatting, operators, personal_data
from authsvc.console.actions import ActionContext, action, create_context, form_page
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import DashboardStat, OperatorAdmin, bounded_count
from authsvc.console.timeline import Kind, Position, TimelineEvent
from authsvc.display_text import EMPTY, short_text
from authsvc.jobs.queued_jobs import JobStatus
from authsvc.messaging import Email, EmailType, Sms, SmsType
from authsvc.operator_access import Access
from mailer.delivery import undelivered_messages
from mailer.models import Attempt, AttemptOutcome, Message

_TONES = {
    AttemptOutcome.DELIVERED: Tone.GOOD, AttemptOutcome.RETRY: Tone.WAITING, AttemptOutcome.FAILED: Tone.BAD,
    JobStatus.TODO: Tone.WAITING, JobStatus.DOING: Tone.WAITING,
}  # fmt: skip
_OUTCOMES = {
    AttemptOutcome.DELIVERED: "delivered",
    AttemptOutcome.RETRY: "to be retried",
    AttemptOutcome.FAILED: "failed",
}
_CHANNELS = {"email": "Email", "sms": "SMS", "whatsapp": "WhatsApp"}
_RETRY_FAILED = "Retry all failed messages"
_TYPE_LABELS: Mapping[str, str] = {
    EmailType.REAUTHENTICATION: "Reauthentication",
    SmsType.REAUTHENTICATION: "Reauthentication by SMS",
    SmsType.FACTOR: "MFA code",
    EmailType.RECOVERY_CODE_USED: "MFA recovery code used",
    EmailType.FACTOR_ENROLLED: "Factor added",
    EmailType.FACTOR_UNENROLLED: "Factor removed",
}


def _type_label(name: str) -> str:
    if name in _TYPE_LABELS:
        return _TYPE_LABELS[name]
    return name.replace("_", " ").removesuffix(" notification").capitalize()


def _event_title(message_type: str, channel: str, state: SafeString) -> SafeString:
    text = short_text(f"{_CHANNELS.get(channel, channel)}: {_type_label(message_type)}")
    return format_html("{} {}", text, state)


class StatusFilter(filters.ChoiceFilter):
    title = "status"
    parameter_name = "status"
    options = tuple(
        (status.value, status.label.capitalize()) for status in (JobStatus.FAILED, JobStatus.TODO, JobStatus.DOING)
    )


class MessageTypeFilter(filters.ChoiceFilter):
    title = "type"
    parameter_name = "kind"
    options = tuple((name, _type_label(name)) for name in dict.fromkeys([*map(str, EmailType), *map(str, SmsType)]))


class QueuedMessageTypeFilter(MessageTypeFilter):
    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(args__kind=value)


class OutcomeFilter(filters.ChoiceFilter):
    title = "outcome"
    parameter_name = "outcome"
    options = tuple((outcome.value, _OUTCOMES[outcome].capitalize()) for outcome in AttemptOutcome)


@admin.register(Message)
class MessageAdmin(OperatorAdmin):
    """Shows the recipient, but never the code and the link of a message."""

    list_display = (
        "kind",
        "recipient",
        "channel",
        "progress",
        "attempt_count",
        "last_error",
        "accepted",
        "next_attempt",
    )
    list_filter = (StatusFilter, QueuedMessageTypeFilter)
    search_fields = ("id",)  # enables the search box
    search_help_text = "Part of the recipient's address or phone number, or the message ID"
    ordering = ("-id",)
    indexed_columns = frozenset({"id"})
    fields = (
        "kind", "recipient", "user", "channel", "progress", "attempt_count", "last_error", "last_attempt", "accepted",
        "next_attempt", "expires", "message_id",
    )  # fmt: skip
    actions = ("retry",)
    row_actions = ("retry",)
    personal_columns = frozenset({"last_error"})

    @action(label="Retry", success_message="Retrying now", access=Access.SUPPORT)
    def retry(self, row: Message, context: ActionContext) -> str | None:
        undelivered_messages.retry_message(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return None

    def available_actions(self, row: Message) -> Iterable[str]:
        return self.row_actions if row.status == JobStatus.FAILED else ()

    def timeline_events(
        self, request: HttpRequest, user_id: UUID, *, kinds: Collection[Kind], before: Position, limit: int
    ) -> Iterator[TimelineEvent]:
        """Messages without a delivery attempt. An attempt is an event of its own."""
        if Kind.MESSAGE not in kinds:
            return
        newest = self.get_queryset(request).filter(
            pk__in=undelivered_messages.find_by_user(user_id), attempt_count=None
        )
        newest = newest.exclude(accepted_at=None)
        for message in newest.order_by("-id"):  # all of them, because the position is not a column
            position = Position(message.accepted_at, UUID(message.args["message_id"]))
            if position < before:
                yield TimelineEvent(
                    at=position.at,
                    id=position.id,
                    title=_event_title(message.args["kind"], message.args["channel"], self.progress(message)),
                    url=self.row_url(message),
                )

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        for status, label in ((JobStatus.FAILED, "Failed messages"), (JobStatus.TODO, "Messages waiting")):
            yield DashboardStat(
                label=label,
                count=bounded_count(undelivered_messages.messages().filter(status=status)),
                url=self.list_url(status=status.value),
                is_alarming=status == JobStatus.FAILED,
            )

    def hide_personal_data(self, row: Any) -> None:
        content = self._content(row)
        if content is not None:
            row.content = replace(content, to=personal_data.mask_address(content.to))
        row.last_error = personal_data.mask_text(row.last_error)

    def display_name(self, row: Message) -> str:
        return f"{self.kind(row)} for {self.recipient(row)}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Includes the secret column `args`, which is decrypted and never shown.
        return undelivered_messages.messages()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        if message_id := filters.parse_id(search_term):
            return queryset.filter(args__message_id=str(message_id)), False
        if personal_data.is_hidden(request):  # a match would reveal the text
            return queryset.none(), False
        return queryset.filter(pk__in=undelivered_messages.find_by_recipient(search_term)), False

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        can_retry = operators.operator_of(request).access >= Access.SUPPORT
        return [(_RETRY_FAILED, reverse("admin:mailer_message_retry"))] if can_retry else []

    def get_urls(self) -> list[URLPattern]:
        retry_page = path("retry/", self.admin_site.admin_view(self.retry_failed), name="mailer_message_retry")
        return [retry_page, *super().get_urls()]

    def retry_failed(self, request: HttpRequest) -> HttpResponse:
        """The page that retries all failed messages after confirmation."""
        operators.require(request, Access.SUPPORT)
        if request.method == "POST":
            context = create_context(request)
            result = undelivered_messages.retry_failed(actor=context.actor, caller=context.caller, at=context.at)
            skipped = f" Skipped {result.not_retryable}: expired or undecryptable." if result.not_retryable else ""
            level = levels.SUCCESS if result.retried else levels.WARNING
            noun = "message" if result.retried == 1 else "messages"
            self.message_user(request, f"Retrying {result.retried} {noun}.{skipped}", level)
            return HttpResponseRedirect(self.list_url())
        return form_page(
            self,
            request,
            "operator/retry_failed.html",
            title=_RETRY_FAILED,
            failed=bounded_count(undelivered_messages.messages().filter(status=JobStatus.FAILED)),
            max_retried=undelivered_messages.MAX_RETRIED,
        )

    @admin.display(description="message")
    def kind(self, row: Message) -> str:
        return _type_label(row.args["kind"])

    @admin.display(description="recipient")
    def recipient(self, row: Message) -> str:
        content = self._content(row)
        if content is None:
            return "cannot be decrypted"
        return content.to if isinstance(content, Email) else f"+{content.to}"

    @admin.display(description="user")
    def user(self, row: Message) -> SafeString | str:
        content = self._content(row)
        return formatting.user_link(content.user_id) if content else EMPTY

    @admin.display(description="channel")
    def channel(self, row: Message) -> str:
        return _CHANNELS.get(row.args["channel"], str(row.args["channel"]))

    @admin.display(description="status", ordering="status")
    def progress(self, row: Message) -> SafeString:
        return formatting.badge(JobStatus(row.status).label, _TONES.get(JobStatus(row.status), Tone.BAD))

    @admin.display(description="attempts")
    def attempt_count(self, row: Any) -> int:
        return int(row.attempt_count or 0)

    @admin.display(description="last error")
    def last_error(self, row: Any) -> str:
        return str(row.last_error or EMPTY)

    @admin.display(description="last attempt")
    def last_attempt(self, row: Any) -> str:
        return formatting.datetime_text(row.last_at)

    @admin.display(description="accepted", ordering="id")
    def accepted(self, row: Any) -> str:
        return formatting.datetime_text(row.accepted_at)

    @admin.display(description="next attempt", ordering="scheduled_at")
    def next_attempt(self, row: Message) -> str:
        if row.status != JobStatus.TODO:
            return EMPTY
        return formatting.datetime_text(row.scheduled_at) if row.scheduled_at else "now"

    @admin.display(description="expires")
    def expires(self, row: Message) -> str:
        content = self._content(row)
        return formatting.datetime_text(content.expires_at if content else None)

    @admin.display(description="message ID")
    def message_id(self, row: Message) -> SafeString | str:
        return formatting.code(row.args["message_id"])

    def _content(self, row: Any) -> Email | Sms | None:
        if not hasattr(row, "content"):
            row.content = undelivered_messages.decrypt_message(row)
        return row.content  # type: ignore[no-any-return]  # an annotated row


@admin.register(Attempt)
class AttemptAdmin(OperatorAdmin):
    list_display = ("created_at", "message", "channel_name", "result", "attempt", "response", "user")
    list_filter = (OutcomeFilter, MessageTypeFilter, filters.DayFilter)
    search_fields = ("id",)  # enables the search box
    search_help_text = "A message ID or a user ID"
    ordering = ("-created_at", "-id")
    fields = (
        "created_at",
        "message",
        "channel_name",
        "result",
        "attempt",
        "error",
        "gateway_id",
        "user",
        "message_link",
    )
    personal_columns = frozenset({"error", "gateway_id"})

    def hide_personal_data(self, row: Attempt) -> None:
        row.error = personal_data.mask_text(row.error)
        row.gateway_id = personal_data.mask_text(row.gateway_id)

    def timeline_events(
        self, request: HttpRequest, user_id: UUID, *, kinds: Collection[Kind], before: Position, limit: int
    ) -> Iterator[TimelineEvent]:
        if Kind.MESSAGE not in kinds:
            return
        attempts = Attempt.objects.filter(before.follower, user_id=user_id).order_by("-created_at", "-id")
        is_hidden = personal_data.is_hidden(request)
        for attempt in attempts[:limit]:
            if is_hidden:
                self.hide_personal_data(attempt)
            number = f"attempt {attempt.attempt}" if attempt.attempt > 1 else ""
            response = short_text(self.response(attempt))
            yield TimelineEvent(
                at=attempt.created_at,
                id=attempt.id,
                title=_event_title(attempt.kind, attempt.channel, self.result(attempt)),
                details="\n".join(filter(None, [number, response])),
                url=self.row_url(attempt),
            )

    def display_name(self, row: Attempt) -> str:
        return f"{self.message(row)}, attempt {row.attempt}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        searched_id = filters.parse_id(search_term)
        if searched_id is None:
            return queryset.none(), False
        of_message, of_user = queryset.filter(message_id=searched_id), queryset.filter(user_id=searched_id)
        return (of_message if of_message.exists() else of_user), False

    @admin.display(description="message", ordering="kind")
    def message(self, row: Attempt) -> str:
        return _type_label(row.kind)

    @admin.display(description="channel", ordering="channel")
    def channel_name(self, row: Attempt) -> str:
        return _CHANNELS.get(row.channel, row.channel)

    @admin.display(description="outcome", ordering="outcome")
    def result(self, row: Attempt) -> SafeString:
        outcome = AttemptOutcome(row.outcome)
        return formatting.badge(_OUTCOMES[outcome], _TONES[outcome])

    @admin.display(description="gateway's response or error")
    def response(self, row: Attempt) -> str:
        return row.error or row.gateway_id or EMPTY

    @admin.display(description="user")
    def user(self, row: Attempt) -> SafeString | str:
        return formatting.user_link(row.user_id)

    @admin.display(description="message ID")
    def message_link(self, row: Attempt) -> SafeString:
        url = reverse("admin:mailer_attempt_changelist", query={"q": str(row.message_id)})
        return formatting.link(url, row.message_id)
