"""Extension hooks: the service asks other programs during a request. Public names are in `hooks.api`."""
