"""Builds the documentation site strictly and checks that it is complete, loads no third-party resources and works from file://."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.live.browser import chromium
from tests.live.documentation import pages

_LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as built by `make docs`, which fails on broken links and on pages missing from the menu."""
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=pages.PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder


class _Loads(HTMLParser):
    """Collects addresses that a browser loads automatically for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.addresses.append(values.get("src") or "")
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(values.get("href") or "")


def _loaded(site: Path) -> Iterator[tuple[str, str]]:
    for page in site.rglob("*.html"):
        parser = _Loads()
        parser.feed(page.read_text())
        yield from ((page.name, address) for address in parser.addresses)
    for sheet in site.rglob("*.css"):
        yield from ((sheet.name, address) for address in re.findall(r"url\(([^)]*)\)", sheet.read_text()))


def test_site_contains_every_page(site: Path) -> None:
    written = {page.relative_to(pages.DOCS).with_suffix(".html") for page in pages.DOCS.rglob("*.md")}
    assert len(written) > 15
    assert {page for page in written if not (site / page).exists()} == set()


def test_pages_load_no_external_resources(site: Path) -> None:
    loaded = set(_loaded(site))
    assert any(address.endswith(".js") for _, address in loaded)
    assert {(page, address) for page, address in loaded if re.match(r"""["']?(https?:)?//""", address)} == set()


def test_pages_link_to_the_previous_and_the_next_page(site: Path) -> None:
    page = (site / "how-to" / "monitoring.html").read_text()
    assert re.search(r'<a href="operations.html" class="md-footer__link md-footer__link--prev"', page)
    assert re.search(r'<a href="backups.html" class="md-footer__link md-footer__link--next"', page)


def test_search_works_from_the_file_system(site: Path, tmp_path: Path) -> None:
    program = chromium.find()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium is installed")
    with chromium.Chromium(program=program, folder=tmp_path) as browser, browser.profile():
        browser.resize(width=1280, height=800, mobile=False)
        browser.open((site / "how-to" / "monitoring.html").as_uri())
        browser.click(".md-search__input")
        browser.insert_text("django-prometheus")
        links = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"
        found = browser.wait_for(f"{links}.length > 1 && {links}", seconds=60)
        assert any(link.startswith((site / "how-to" / "monitoring.html").as_uri()) for link in found)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_to_repository_files_are_valid(name: str) -> None:
    targets = [link for link in _LINK.findall((pages.PROJECT / name).read_text()) if "://" not in link]
    assert {target for target in targets if not (pages.PROJECT / target).exists()} == set()
