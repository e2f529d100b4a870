"""Access tokens and signing keys."""
