"""One module per provider: its endpoints, its differences, and the conversion of its profile."""
