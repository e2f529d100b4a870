"""Verification by one-time codes and links (`/verify`, `/resend`), and pending email and phone changes."""
