"""Thin endpoints for administrators."""
