"""Describes the cost of a bulk message to the operator."""

from __future__ import annotations

from datetime import datetime, timedelta

from accounts.administration.bulk_messages import Cost, Schedule
from authsvc import conf
from authsvc.console import formatting

_NOW = "All are sent now, after the other messages that wait in the queue."


def describe_cost(cost: Cost, *, at: datetime) -> list[tuple[str, str]]:
    """Labels and texts for the confirmation page."""
    facts = [("Recipients", _recipients(cost))]
    if cost.skipped:
        reasons = "; ".join(f"{number:,} × {reason}" for reason, number in sorted(cost.skipped.items()))
        facts.append(("Skipped", f"{sum(cost.skipped.values()):,}: {reasons}"))
    facts.append(("Quota of operators", _quota(cost.left, cost.rate, cost.waiting)))
    facts.append(("Time to deliver", _time(cost, at=at)))
    return facts


def describe_invitations(number: int, schedule: Schedule) -> list[tuple[str, str]]:
    """Labels and texts about invitations, which are sent at once."""
    level = schedule.level
    facts = [("Recipients", f"{number:,} by email"), ("Quota of operators", _quota(level.left, level.rate))]
    if number > level.left:
        time = f" ({formatting.datetime_text(level.full_at)} UTC)" if level.full_at else ""
        text = f"The quota permits {level.left:,} now. Invite the others when it permits more{time}."
    else:
        text = _NOW
    return [*facts, ("Time to deliver", text)]


def _quota(left: int, rate: conf.Rate, waiting: int = 0) -> str:
    queued = f", {waiting:,} earlier messages are waiting" if waiting else ""
    limit = f"The limit is {formatting.rate_text(rate)}; the quotas of clients are not used."
    return f"{left:,} left now{queued}. {limit}"


def _recipients(cost: Cost) -> str:
    if not cost.sms:
        return f"{cost.emails:,} by email"
    return f"{cost.recipients:,}: {cost.emails:,} by email, {cost.sms:,} by SMS"


def _time(cost: Cost, *, at: datetime) -> str:
    if not cost.recipients:
        return "No message is sent."
    if not cost.rate.events:
        return "The quota permits no message: AUTH_RATE_LIMIT_OPERATOR_MESSAGES is 0."
    if cost.last_at is None:
        return _NOW
    minutes = max(1, round((cost.last_at - at) / timedelta(minutes=1)))
    hours = f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} hours"
    return (
        f"The quota permits {cost.left:,} now, the others follow as it permits: the last one in about {hours},"
        f" at {formatting.datetime_text(cost.last_at)} (UTC)."
    )
