"""The documents are true: their links, names and commands."""
