"""The page about webhooks names each event."""

from __future__ import annotations

import re

from authsvc.events import EventType
from tests.live.documentation import pages


def test_the_page_lists_every_event_that_is_recorded() -> None:
    page = (pages.DOCS / "how-to" / "webhooks.md").read_text()
    listed = set(re.findall(r"`([a-z]+\.[a-z_]+)`", page.partition("## Events")[2].partition("## Operate")[0]))
    assert listed == {str(event_type) for event_type in EventType}
