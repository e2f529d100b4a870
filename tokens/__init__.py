"""Access and refresh tokens, sessions, one-time tokens and PKCE flows; depends on no other app."""
