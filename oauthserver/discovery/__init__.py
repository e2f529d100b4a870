"""Metadata of the authorization server."""
