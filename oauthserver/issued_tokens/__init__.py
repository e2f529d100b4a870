"""Revocation and introspection of the tokens of clients."""
