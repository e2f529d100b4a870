"""Version of the library, used by the package metadata and the User-Agent header."""

__version__ = "1.1.0"
