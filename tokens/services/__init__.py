"""The journeys of tokens: sessions, refreshing, one-time tokens, PKCE flows."""
