"""Makes the images of pages for the documents.

Dates, addresses of the test server and random values are replaced first, so that an image changes only with its page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.live import servers
from tests.live.browser.chromium import Chromium

FOLDER = servers.PROJECT / "docs" / "images"
MAX_BYTES = 150_000
_MAX_HEIGHT = {1280: 1600, 390: 1400}
_SCALE = {1280: 1, 390: 0.5}  # a phone has two pixels for each CSS pixel
_SHOWN_URL = "https://auth.example.com"
# Shifts today to 2026-03-20, and a time of the last or next hours to 14:30.
_STEADY = r"""((origin, shown) => {
    const DAY = 86_400_000, SHOWN_DAY = Date.UTC(2026, 2, 20)
    const now = Date.now(), shift = SHOWN_DAY - Math.floor(now / DAY) * DAY
    const replaceTime = (text, date, time) => {
        const at = Date.parse(`${date}T${time ? time.trim() : '00:00'}Z`)
        if (Number.isNaN(at)) return text
        const isRecent = time && Math.abs(at - now) < DAY / 4
        const iso = new Date(isRecent ? SHOWN_DAY + 14.5 * 3_600_000 : at + shift).toISOString()
        return iso.slice(0, 10) + (time ? text[10] + iso.slice(11, 11 + time.length - 1) : '')
    }
    const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ')
    const MONTHS = 'January February March April May June July August September October November December'.split(' ')
    const replaceName = (text, _, day, month) => {
        const at = new Date(Date.UTC(new Date(now).getUTCFullYear(), MONTHS.indexOf(month), Number(day)) + shift)
        return `${DAYS[at.getUTCDay()]}, ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`
    }
    const replaceShort = (text, day, month, year) => {
        const number = MONTHS.findIndex((name) => name.startsWith(month))
        const thisYear = new Date(now).getUTCFullYear()
        let at = Date.UTC(year ? Number(year) : thisYear, number, Number(day))
        if (!year && at > now + 31 * DAY) at = Date.UTC(thisYear - 1, number, Number(day))
        const moved = new Date(at + shift)
        const shown = `${moved.getUTCDate()} ${MONTHS[moved.getUTCMonth()].slice(0, 3)}`
        return year ? `${shown} ${moved.getUTCFullYear()}` : shown
    }
    const steady = (text) => text
        .replaceAll(origin, shown).replaceAll(location.host, shown.slice('https://'.length))
        .replace(/\b(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d(?::\d\d)?)?/g, replaceTime)
        .replace(/\b([A-Z][a-z]+day), (\d+) ([A-Z][a-z]+)\b/g, replaceName)
        .replace(/\b(\d{1,2}) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?: (\d{4}))?(?=,|$)/g, replaceShort)
        .replace(/^\d+ minutes?$/, '5 minutes').replace(/^\d+ hours?$/, '9 hours')
        .replace(/\b(token(?:_hash)?=)[\w-]+/g, '$1pkce_5ec7e75ec7e75ec7e7')
        .replace(/\b(message ID )[\da-f-]{36}/g, '$15f0c2a1e-7d34-4c0b-9a56-1b6c8e2f4f01')
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        const text = steady(node.data)
        if (text !== node.data) node.data = text
    }
    for (const field of document.querySelectorAll('input, textarea')) {
        if (field.type !== 'hidden') field.value = steady(field.value)
    }
    document.activeElement?.blur()
    scrollTo(0, 0)
})"""

_REPLACE = """((pairs) => {
    const replaced = (text) => pairs.reduce((changed, [real, shown]) => changed.replaceAll(real, shown), text)
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = texts.nextNode(); node; node = texts.nextNode()) node.data = replaced(node.data)
    for (const field of document.querySelectorAll('input')) {
        if (field.type !== 'hidden') field.value = replaced(field.value)
    }
    document.activeElement?.blur()
})"""


def steady(browser: Chromium, *, url: str) -> None:
    """Replace the values on the page that change with each run; `url` is that of the server."""
    browser.evaluate(f"{_STEADY}({json.dumps(url)}, {json.dumps(_SHOWN_URL)})")


def replace(browser: Chromium, shown: Mapping[str, str]) -> None:
    """Show other texts in place of parts of texts and fields that change with each run."""
    browser.evaluate(f"{_REPLACE}({json.dumps(list(shown.items()))})")


def write(browser: Chromium, *, folder: Path, name: str, width: int) -> Path:
    """Write an image of the page, which is shown at this width in pixels."""
    file = folder / f"{name}-{width}.webp"
    file.write_bytes(browser.screenshot(max_height=_MAX_HEIGHT[width], scale=_SCALE[width]))
    return file
