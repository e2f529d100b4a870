"""English, the console's only language."""
