"""Logging, metrics, tracing, health and readiness."""
