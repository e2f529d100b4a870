"""Delivery of queued messages: job encryption, attempts, failed messages."""
