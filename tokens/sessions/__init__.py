"""Sessions: start, refresh, revocation, step-up."""
