"""Extension hooks, which other programs answer during a request, and lifecycle webhooks.

Public names are in `hooks.api` and `hooks.testing`.
"""
