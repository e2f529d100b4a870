"""Delivery of queued messages. `receivers` enqueues, `tasks` runs an `attempt`, `undelivered_messages` retries."""
