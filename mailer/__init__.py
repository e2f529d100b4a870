"""Delivery of emails and SMS: receives messages from signals, stores them encrypted in the job queue and sends them.

Imports only `authsvc`; no app imports it. Without it in INSTALLED_APPS the service works and sends nothing.
"""
