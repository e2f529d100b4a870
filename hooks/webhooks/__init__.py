"""Lifecycle webhooks: events of users and sessions, recorded in the transaction of the change and then delivered."""
