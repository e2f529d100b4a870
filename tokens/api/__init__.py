"""The token endpoint, logout, JWKS and request authentication."""
