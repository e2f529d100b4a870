"""New settings while the service runs: from the configuration directory, checked as at a start, for requests to come.

Start reading at `watcher.py`, which says when; `swap.py` checks and puts in what was found, `present.py` keeps running
requests on what they began with and `room.py` within the connections there may be; `folder.py` sees changes. Without
`--config-dir` none of it does anything.
"""

from __future__ import annotations

from authsvc.reloading.watcher import around, prepare, start

__all__ = ["around", "prepare", "start"]
