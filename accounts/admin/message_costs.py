"""Describes the cost of a bulk message to the operator."""

from __future__ import annotations

from datetime import datetime, timedelta

from accounts.administration.bulk_messages import Cost
from authsvc.console import formatting


def describe_cost(cost: Cost, *, at: datetime) -> list[tuple[str, str]]:
    """Labels and texts for the confirmation page."""
    facts = [("Recipients", _recipients(cost))]
    if cost.skipped:
        reasons = "; ".join(f"{number:,} × {reason}" for reason, number in sorted(cost.skipped.items()))
        facts.append(("Skipped", f"{sum(cost.skipped.values()):,}: {reasons}"))
    waiting = f", {cost.waiting:,} earlier messages are waiting" if cost.waiting else ""
    limit = f"The limit is {formatting.rate_text(cost.rate)}; the quotas of clients are not used."
    facts.append(("Quota of operators", f"{cost.left:,} left now{waiting}. {limit}"))
    facts.append(("Time to deliver", _time(cost, at=at)))
    return facts


def _recipients(cost: Cost) -> str:
    if not cost.texts:
        return f"{cost.emails:,} by email"
    return f"{cost.recipients:,}: {cost.emails:,} by email, {cost.texts:,} by text message"


def _time(cost: Cost, *, at: datetime) -> str:
    if not cost.recipients:
        return "No message is sent."
    if not cost.rate.events:
        return "The quota permits no message: AUTH_RATE_LIMIT_OPERATOR_MESSAGES is 0."
    if cost.last_at is None:
        return "All are sent now, after the other messages that wait in the queue."
    now = f"{cost.left:,} are sent now, the others" if cost.left else "The messages are sent"
    minutes = max(1, round((cost.last_at - at) / timedelta(minutes=1)))
    hours = f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} hours"
    return (
        f"{now} as the quota permits: the last one in about {hours}, at {formatting.datetime_text(cost.last_at)} (UTC)."
    )
