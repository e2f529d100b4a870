"""Passkeys: registration, authentication and management."""
