"""Runs several servers on a replicated PostgreSQL under load, and breaks parts of it."""
