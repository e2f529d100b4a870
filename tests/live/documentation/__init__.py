"""Checks links, names and commands in the documents."""
