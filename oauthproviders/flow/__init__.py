"""Sign-in flows: authorize, callback and the ID token grant."""
