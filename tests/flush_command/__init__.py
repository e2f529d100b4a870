"""A Django app that replaces the command `flush`, which empties the tables after tests that commit."""
