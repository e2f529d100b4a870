"""What the service hands out and takes back: access and refresh tokens, sessions, one-time tokens, PKCE flows.

Imports `authsvc.core` only; a user is known here as a `subjects.Subject`. Start reading at `access_tokens` for what a
token says, at `refresh_tokens` and `services/refreshing` for how a sign-in lives on.
"""
