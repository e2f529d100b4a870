"""The files in `deploy/` in use: proxies, pooler, units and images around a real server."""
