"""Sign-in by password, magic link and one-time code."""
