"""Logout: requests of clients (RP-initiated), and logout tokens for clients whose sessions end (back-channel)."""
