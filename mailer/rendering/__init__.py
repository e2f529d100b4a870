"""Rendering of messages: types and variables, templates and their cache, HTML and plain text."""
