"""Messages in the console: those that are not out, to be tried again, and what became of all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.messages import constants as levels
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from authsvc import audit, clock
from authsvc.console import filters, formatting, model_admin
from authsvc.console.formatting import EMPTY, Tone
from authsvc.console.model_admin import ActionContext, DashboardStat, OperatorAdmin
from authsvc.console.user_panels import MAX_PANEL_ROWS, Panel, PanelRow
from authsvc.jobs.queued_jobs import Status
from authsvc.messaging import Email, EmailKind, Sms, SmsKind
from mailer.delivery import undelivered
from mailer.models import Attempt, Message, Outcome

_TONES = {
    Outcome.DELIVERED: Tone.GOOD, Outcome.RETRY: Tone.WAITING, Outcome.FAILED: Tone.BAD,
    Status.TODO: Tone.WAITING, Status.DOING: Tone.WAITING,
}  # fmt: skip
_OUTCOMES = {Outcome.DELIVERED: "delivered", Outcome.RETRY: "to be tried again", Outcome.FAILED: "failed"}
_CHANNELS = {"email": "Email", "sms": "Text message", "whatsapp": "WhatsApp"}


_KINDS: Mapping[str, str] = {
    EmailKind.REAUTHENTICATION: "Reauthentication",
    SmsKind.REAUTHENTICATION: "Reauthentication by text",
    EmailKind.FACTOR_ENROLLED: "Factor added",
    EmailKind.FACTOR_UNENROLLED: "Factor removed",
}


def _kind(name: str) -> str:
    if name in _KINDS:
        return _KINDS[name]
    return name.replace("_", " ").removesuffix(" notification").capitalize()


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


class StatusFilter(filters.ChoiceFilter):
    title = "status"
    parameter_name = "status"
    options = tuple((status.value, status.label.capitalize()) for status in (Status.FAILED, Status.TODO, Status.DOING))


class KindFilter(filters.ChoiceFilter):
    title = "kind"
    parameter_name = "kind"
    options = tuple((name, _kind(name)) for name in dict.fromkeys([*map(str, EmailKind), *map(str, SmsKind)]))


class KindInQueueFilter(KindFilter):
    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(args__kind=value)


class OutcomeFilter(filters.ChoiceFilter):
    title = "outcome"
    parameter_name = "outcome"
    options = tuple((outcome.value, _OUTCOMES[outcome].capitalize()) for outcome in Outcome)


@admin.register(Message)
class MessageAdmin(OperatorAdmin):
    """Neither the code nor the link in a message is ever shown; for whom it is, on these pages only."""

    list_display = ("kind", "recipient", "channel", "progress", "tries", "last_error", "accepted", "next_attempt")
    list_filter = (StatusFilter, KindInQueueFilter)
    search_fields = ("id",)  # shows the box
    search_help_text = "Part of the recipient's address or number, or the message's id"
    ordering = ("-id",)
    sortable_by = ()
    change_list_template = "operator/messages.html"
    fields = (
        "kind", "recipient", "user", "channel", "progress", "tries", "last_error", "last_attempt", "accepted",
        "next_attempt", "expires", "message_id",
    )  # fmt: skip
    actions = ("retry",)
    row_actions = ("retry",)

    class Media:
        css = {"all": ("operator/content.css",)}

    @model_admin.action(label="Try again", success_message="Will be tried again now")
    def retry(self, row: Message, context: ActionContext) -> str | None:
        undelivered.retry(row.pk, actor=context.actor, at=context.at)
        return None

    def available_actions(self, row: Message) -> Iterable[str]:
        return self.row_actions if row.status == Status.FAILED else ()

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        for status, label in ((Status.FAILED, "Failed messages"), (Status.TODO, "Messages waiting")):
            yield DashboardStat(
                label=label,
                count=model_admin.bounded_count(undelivered.messages().filter(status=status)),
                url=self.list_url(status=status.value),
                is_alarming=status == Status.FAILED,
            )

    def display_name(self, row: Message) -> str:
        return f"{self.kind(row)} for {self.recipient(row)}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # The arguments are read to be opened, not to be shown.
        return undelivered.messages()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        if message_id := _uuid(search_term):
            return queryset.filter(args__message_id=str(message_id)), False
        return queryset.filter(pk__in=undelivered.addressed_to(search_term)), False

    def get_urls(self) -> list[URLPattern]:
        every = path("retry/", self.admin_site.admin_view(self.retry_failed), name="mailer_message_retry")
        return [every, *super().get_urls()]

    def retry_failed(self, request: HttpRequest) -> HttpResponse:
        """The page that asks whether all failed messages are to be tried again, and doing so."""
        if request.method == "POST":
            actor = audit.Administrator(role=model_admin.operator_of(request).role)
            done = undelivered.retry_failed(actor=actor, at=clock.now())
            left = f" {done.hopeless} cannot be: expired, or not to be opened any more." if done.hopeless else ""
            level = levels.SUCCESS if done.retried else levels.WARNING
            self.message_user(request, f"{done.retried} messages will be tried again now.{left}", level)
            return HttpResponseRedirect(self.list_url())
        failed = model_admin.bounded_count(undelivered.messages().filter(status=Status.FAILED))
        context = {
            **self.admin_site.each_context(request),
            "title": "Try all failed messages again",
            "opts": self.opts,
            "failed": failed,
            "most": undelivered.MOST_RETRIED,
            "back_url": self.list_url(),
        }
        return TemplateResponse(request, "operator/retry_failed.html", context)

    @admin.display(description="message")
    def kind(self, row: Message) -> str:
        return _kind(row.args["kind"])

    @admin.display(description="recipient")
    def recipient(self, row: Message) -> str:
        content = self._opened(row)
        if content is None:
            return "cannot be opened"
        return content.to if isinstance(content, Email) else f"+{content.to}"

    @admin.display(description="user")
    def user(self, row: Message) -> SafeString | str:
        content = self._opened(row)
        return formatting.user_link(content.user_id) if content else EMPTY

    @admin.display(description="channel")
    def channel(self, row: Message) -> str:
        return _CHANNELS.get(row.args["channel"], str(row.args["channel"]))

    @admin.display(description="status")
    def progress(self, row: Message) -> SafeString:
        return formatting.badge(Status(row.status).label, _TONES.get(Status(row.status), Tone.BAD))

    @admin.display(description="attempts")
    def tries(self, row: Any) -> int:
        return int(row.tries or 0)

    @admin.display(description="last error")
    def last_error(self, row: Any) -> str:
        return str(row.last_error or EMPTY)

    @admin.display(description="last attempt")
    def last_attempt(self, row: Any) -> str:
        return formatting.datetime_text(row.last_at)

    @admin.display(description="accepted")
    def accepted(self, row: Any) -> str:
        return formatting.datetime_text(row.accepted_at)

    @admin.display(description="next attempt")
    def next_attempt(self, row: Message) -> str:
        if row.status != Status.TODO:
            return EMPTY
        return formatting.datetime_text(row.scheduled_at) if row.scheduled_at else "now"

    @admin.display(description="expires")
    def expires(self, row: Message) -> str:
        content = self._opened(row)
        return formatting.datetime_text(content.expires_at if content else None)

    @admin.display(description="message id")
    def message_id(self, row: Message) -> SafeString | str:
        return formatting.code(row.args["message_id"])

    def _opened(self, row: Any) -> Email | Sms | None:
        if not hasattr(row, "opened"):
            row.opened = undelivered.opened(row)
        return row.opened  # type: ignore[no-any-return]


@admin.register(Attempt)
class AttemptAdmin(OperatorAdmin):
    list_display = ("created_at", "message", "channel_name", "result", "attempt", "said", "user")
    list_filter = (OutcomeFilter, KindFilter, filters.DayFilter)
    search_fields = ("id",)  # shows the box
    search_help_text = "The id of a message or of a user"
    ordering = ("-created_at", "-id")
    sortable_by = ()
    fields = ("created_at", "message", "channel_name", "result", "attempt", "error", "gateway_id", "user", "number")

    class Media:
        css = {"all": ("operator/content.css",)}

    def user_panel(self, user_id: UUID) -> Panel:
        newest = Attempt.objects.filter(user_id=user_id).order_by("-created_at", "-id")
        found = list(newest[: MAX_PANEL_ROWS + 1])
        return Panel(
            title="Messages",
            columns=("Message", "Channel", "Sent", "Outcome", "Attempt", "Gateway's answer or error"),
            rows=[
                PanelRow(
                    cells=(
                        self.message(each), self.channel_name(each), each.created_at, self.result(each), each.attempt,
                        self.said(each),
                    ),
                    url=self.row_url(each),
                )
                for each in found[:MAX_PANEL_ROWS]
            ],
            empty_text="None has been sent yet.",
            more_url=self.list_url(q=user_id) if len(found) > MAX_PANEL_ROWS else "",
            position=40,
        )  # fmt: skip

    def display_name(self, row: Attempt) -> str:
        return f"{self.message(row)}, attempt {row.attempt}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        wanted = _uuid(search_term)
        if wanted is None:
            return queryset.none(), False
        of_message, of_user = queryset.filter(message_id=wanted), queryset.filter(user_id=wanted)
        return (of_message if of_message.exists() else of_user), False

    @admin.display(description="message")
    def message(self, row: Attempt) -> str:
        return _kind(row.kind)

    @admin.display(description="channel")
    def channel_name(self, row: Attempt) -> str:
        return _CHANNELS.get(row.channel, row.channel)

    @admin.display(description="outcome")
    def result(self, row: Attempt) -> SafeString:
        outcome = Outcome(row.outcome)
        return formatting.badge(_OUTCOMES[outcome], _TONES[outcome])

    @admin.display(description="gateway's answer or error")
    def said(self, row: Attempt) -> str:
        return row.error or row.gateway_id or EMPTY

    @admin.display(description="user")
    def user(self, row: Attempt) -> SafeString | str:
        return formatting.user_link(row.user_id)

    @admin.display(description="message id")
    def number(self, row: Attempt) -> SafeString:
        url = reverse("admin:mailer_attempt_changelist", query={"q": str(row.message_id)})
        return formatting.link(url, row.message_id)
