"""Verification of one-time codes and links: `/verify` and `/resend`."""
