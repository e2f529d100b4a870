"""Runs the command line with `python -m catalogclient`. Requires the extra `cli`."""

from __future__ import annotations

import sys

try:
    from catalogclient._cli.run import main
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "rich":
        raise
    sys.exit("The command line requires the extra cli. Run: pip install 'catalogclient[cli]'")


def script() -> None:
    """Run the console script."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    script()
