"""Identities at external providers: sign-in, account matching, linking and unlinking."""
