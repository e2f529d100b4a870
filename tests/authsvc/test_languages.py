"""The choice of a language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import translation

from authsvc import conf, languages
from authsvc.conf.sections.languages import installed
from tests.authsvc.conf.variables import REQUIRED
from tests.conftest import ChangeConfig

OFFERED = ("en", "de", "pt-br", "zh-hant")


@pytest.fixture(autouse=True)
def _offered(auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": OFFERED})


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("en;q=0.5, de;q=0.9", "de"),
        ("fr, de;q=0.3", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("*, de;q=0.5", "de"),
        ("pt", "pt-br"),
        ("pt-PT", "en"),
        ("zh-Hant-TW", "zh-hant"),
        ("de;q=0", "en"),
        ("de;q=nonsense", "en"),
        ("d\x00e", "en"),
        ("de," * 5000, "de"),
        ("x" * 100_000, "en"),
    ],
)
def test_the_language_of_a_header(header: str, language: str) -> None:
    assert languages.accepted(header) == language


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"locale": "de"}, "de"),
        ({"locale": "de-CH"}, "de"),
        ({"locale": "DE_ch"}, "de"),
        ({"locale": "en-GB"}, "en"),
        ({"locale": "fr"}, ""),
        ({"locale": ""}, ""),
        ({"locale": "-"}, ""),
        ({"locale": None}, ""),
        ({"locale": ["de"]}, ""),
        ({"locale": {"language": "de"}}, ""),
        ({"locale": "../../de"}, ""),
        ({"locale": "d" * 1_000_000}, ""),
        ({}, ""),
    ],
)
def test_the_language_of_a_user(metadata: dict[str, Any], language: str) -> None:
    assert languages.of_user(metadata) == language


def test_only_english_is_offered_by_default_and_all_languages_with_pages(auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ()})
    assert languages.offered() == ("en",)
    assert (languages.accepted("de"), languages.of_user({"locale": "de"})) == ("en", "")
    auth_config(pages={"enabled": True})
    assert languages.offered() == ("en", "de")
    assert languages.names() == {"en": "English", "de": "Deutsch"}


def test_the_first_language_is_the_default(auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("de", "en")})
    assert languages.default() == languages.accepted("fr") == languages.select("") == "de"


def test_a_language_is_active_only_inside_the_block() -> None:
    before = translation.get_language()
    with languages.use("de"):
        assert (languages.of_request(), translation.get_language()) == ("de", "de")
    assert (languages.of_request(), translation.get_language()) == ("en", before)


def test_a_folder_adds_languages(tmp_path: Path) -> None:
    folder = tmp_path / "pt_BR" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "django.mo").write_bytes(b"")
    (tmp_path / "fr" / "LC_MESSAGES").mkdir(parents=True)
    variables = REQUIRED | {"AUTH_LANGUAGES_FOLDER": str(tmp_path), "AUTH_LANGUAGES": "pt_BR, de,pt-br"}
    config = conf.load_merged(variables)
    assert config.languages.offered == ("pt-br", "de")
    assert installed(config.languages) == ("en", "de", "pt-br")
    with pytest.raises(ImproperlyConfigured, match="no texts for fr; there are en, de, pt-br"):
        conf.load_merged(variables | {"AUTH_LANGUAGES": "fr"})


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("AUTH_LANGUAGES", "en,../de", '"../de" is not a language'),
        ("AUTH_LANGUAGES", "german", '"german" is not a language'),
        ("AUTH_LANGUAGES_FOLDER", "/no/such/folder", '"/no/such/folder" is not a folder'),
    ],
)
def test_invalid_settings(variable: str, value: str, problem: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=problem):
        conf.load_merged(REQUIRED | {variable: value})
