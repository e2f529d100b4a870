"""Command line: tables on a terminal, JSON for programs, and exit statuses."""
