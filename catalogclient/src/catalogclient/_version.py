"""The version of the library, as package metadata and the headers of requests say it."""

__version__ = "1.0.0"
