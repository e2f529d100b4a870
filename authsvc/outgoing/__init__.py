"""Outgoing HTTP with deadlines and size limits."""
