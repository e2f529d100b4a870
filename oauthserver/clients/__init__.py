"""Clients: registration, administration and redirect URIs."""
