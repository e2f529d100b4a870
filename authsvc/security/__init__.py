"""Encryption, digests, rate limits and redirect validation."""
