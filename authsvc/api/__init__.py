"""The web kit: endpoints and what surrounds them."""
