"""The journeys: to the provider, back from it, and with an ID token in hand."""
