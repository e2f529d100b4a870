"""PKCE and provider flow states."""
