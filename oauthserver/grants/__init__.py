"""Grants that users have given to clients."""
