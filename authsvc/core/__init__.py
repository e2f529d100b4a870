"""The base kit every app stands on; it knows none of them.

May import: nothing of ours outside this package. Start reading at `web/views.py` (how a request is treated),
`errors.py` and `messaging.py` (what an app raises and announces).
"""
