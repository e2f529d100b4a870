"""Journeys of passkeys: registered, used to sign in, renamed, removed."""
