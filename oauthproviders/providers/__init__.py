"""One file for each provider: where it is, what differs there, and what its profile says in our words."""
