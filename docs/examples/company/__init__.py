"""Hooks of a company that run in the process of the service."""
