"""`python -m catalogclient`: the command line of the extra `cli`."""

from __future__ import annotations

import sys

try:
    from catalogclient._cli.run import main
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "rich":
        raise
    sys.exit("The command line needs one more package: pip install 'catalogclient[cli]'")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
