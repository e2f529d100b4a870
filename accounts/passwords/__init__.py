"""Passwords: policy, hashing and the check against known breaches."""
