"""Date formats of the console: Django expects one package per language here."""
