"""Uses the files in `deploy/` with a real server: proxies, pooler, units and images."""
