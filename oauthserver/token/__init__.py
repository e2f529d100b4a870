"""Tokens of clients: the grants that issue them, revocation and introspection."""
