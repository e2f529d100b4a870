"""Name, logo, color, note and links of the pages by settings."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from accounts.pages import theme
from authsvc import conf
from tests.authsvc.conf.variables import REQUIRED
from tests.conftest import ChangeConfig
from tests.page_browser import SIGN_IN, PageBrowser

pytestmark = pytest.mark.django_db


def test_without_settings_the_name_is_the_host_of_the_site(browser: PageBrowser) -> None:
    page = browser.text(SIGN_IN)
    assert '<span class="site-name">localhost</span>' in page
    assert "<style>" not in page
    assert "<img" not in page


def test_a_complete_theme(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(
        pages={
            "name": "Ada & Söhne <b>",
            "logo": "https://cdn.example.com/logo.svg?a=1&b=2",
            "color": "#facc15",
            "sign_in_text": "Use <i>your</i> account.",
            "links": {
                "imprint": "https://example.com/imprint",
                "terms": "/terms",
                "support": "mailto:help@example.com",
            },
        }
    )
    response = browser.get(SIGN_IN)
    page = response.content.decode()
    assert '<img src="https://cdn.example.com/logo.svg?a=1&amp;b=2" alt="Ada &amp; Söhne &lt;b&gt;">' in page
    assert "– Ada &amp; Söhne &lt;b&gt;</title>" in page
    assert "Use &lt;i&gt;your&lt;/i&gt; account." in page
    links = re.findall(r'<a href="([^"]*)">(Terms of service|Privacy|Support|Imprint)</a>', page)
    assert links == [
        ("/terms", "Terms of service"),
        ("mailto:help@example.com", "Support"),
        ("https://example.com/imprint", "Imprint"),
    ]
    [style] = re.findall(r"<style>(.*?)</style>", page)
    assert "--accent: #facc15; --accent-text: #000000;" in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = response.headers["Content-Security-Policy"]
    assert f"style-src 'self' 'sha256-{digest}';" in policy
    assert "img-src 'self' data: https://cdn.example.com;" in policy


def test_text_and_links_are_readable_with_every_color() -> None:
    random.seed(18)
    colors = ["#000000", "#ffffff", "#777777", "#facc15", "#ff0000", "#00ff00", "#0000ff"]
    colors += [f"#{random.randrange(256**3):06x}" for _ in range(300)]
    for color in colors:
        style, _ = theme.color_style(color)
        accent, accent_text = re.findall(r"--accent(?:-text)?: (#[0-9a-f]{6})", style)
        assert accent == color
        assert theme.contrast(accent, accent_text) >= 4.5
        light, dark = re.findall(r"--link: light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", style)[0]
        for background in ("#ffffff", "#f3f4f6"):
            assert theme.contrast(light, background) >= 4.5
        for background in ("#111a2b", "#0b1220"):
            assert theme.contrast(dark, background) >= 4.5


def test_the_contrast_is_that_of_the_standard() -> None:
    assert theme.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert theme.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AUTH_PAGES_COLOR", "red"),
        ("AUTH_PAGES_COLOR", "#fff"),
        ("AUTH_PAGES_COLOR", "#12345g"),
        ("AUTH_PAGES_COLOR", "#123456; } body { display: none"),
        ("AUTH_PAGES_COLOR", "#123456\n</style>"),
        *(
            (variable, value)
            for variable in ("AUTH_PAGES_LOGO_URL", "AUTH_PAGES_TERMS_URL")
            for value in (
                "javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)",
                "data:image/svg+xml,<svg/>", "//evil.example/x", "/\\evil.example", "logo.svg", "https:logo.svg",
                "https://", "https://a;b", "https://x.example; script-src *", "https://x.example,*/a", "https://*/a",
                "https://user@example.com/", "https://example.com/\"onerror=alert(1)", "https://[::1", "vbscript:x",
            )
        ),
        ("AUTH_PAGES_LOGO_URL", "http://example.com/logo.svg"),
        ("AUTH_PAGES_LOGO_URL", "mailto:a@example.com"),
        ("AUTH_PAGES_SUPPORT_URL", "mailto:nobody"),
        ("AUTH_PAGES_TEMPLATES_FOLDER", "/no/such/folder"),
    ],
)  # fmt: skip
def test_other_values_are_refused(variable: str, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=variable):
        conf.load_merged(REQUIRED | {variable: value})


def test_permitted_values() -> None:
    config = conf.load_merged(
        REQUIRED
        | {
            "AUTH_PAGES_COLOR": " #0F766E ",
            "AUTH_PAGES_LOGO_URL": "/brand/logo.svg",
            "AUTH_PAGES_PRIVACY_URL": "https://example.com:8443/privacy?a=1#b",
            "AUTH_PAGES_SUPPORT_URL": "mailto:help@example.com?subject=Help",
            "AUTH_PAGES_IMPRINT_URL": "http://[::1]:3000/",
        }
    )
    assert (config.pages.color, config.pages.logo) == ("#0f766e", "/brand/logo.svg")
    assert set(config.pages.links) == {"privacy", "support", "imprint"}


def test_templates_of_a_folder_extend_those_of_the_pages(browser: PageBrowser, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "sign_in.html").write_text(
        '{% extends "pages/sign_in.html" %}{% block after_form %}<p>{{ theme.name }} says hello</p>{% endblock %}'
    )
    options: Any = settings.TEMPLATES[0]
    with override_settings(TEMPLATES=[{**options, "DIRS": [str(tmp_path), *options["DIRS"]]}]):
        page = browser.text(SIGN_IN)
    assert "<p>localhost says hello</p>" in page
    assert 'type="password"' in page


def test_the_documented_blocks_are_those_of_the_templates() -> None:
    root = Path(settings.BASE_DIR)
    sources = [(root / "templates" / "pages" / name).read_text() for name in ("base.html", "form_page.html")]
    blocks = {name for source in sources for name in re.findall(r"{% block (\w+) %}", source)}
    guide = (root / "docs" / "how-to" / "theme-and-languages.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", guide.partition("| Block |")[2].partition("\n\n")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == blocks
