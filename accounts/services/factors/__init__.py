"""Journeys of second factors: enrolled, challenged, verified, taken away; and the codes for when one is lost."""
