"""The token endpoint: client authentication, grants and ID tokens."""
