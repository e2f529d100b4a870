"""The command line: tables on a terminal, JSON for programs, and an exit status that tells what went wrong."""
