"""Calls of hooks: transports, signatures, outcomes."""
