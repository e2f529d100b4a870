"""OpenID Connect: discovery, key sets and ID token verification."""
