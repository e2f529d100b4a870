"""Custom providers, defined through the administration API."""
