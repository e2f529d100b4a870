"""How the console writes dates: Django looks for one package for each language here."""
