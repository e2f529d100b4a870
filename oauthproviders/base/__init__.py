"""The base classes that every provider shares."""
