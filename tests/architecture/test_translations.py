"""The German texts are complete, compiled, and fit the English ones."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from django.utils.translation.template import templatize

from authsvc import conf
from authsvc.messaging import EmailType, SmsType
from mailer.rendering import message_types, renderer
from tests.conftest import ChangeConfig
from tests.mailer.rendering.test_built_in_templates import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
GERMAN = ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po"
PACKAGES = ("accounts", "authsvc", "hooks", "mailer", "oauthproviders", "oauthserver", "tokens")
FUNCTIONS = {"_": 1, "gettext": 1, "gettext_lazy": 1, "gettext_noop": 1, "ngettext": 2, "ngettext_lazy": 2}
CONTEXT_FUNCTIONS = {"pgettext": 1, "pgettext_lazy": 1, "npgettext": 2, "npgettext_lazy": 2}
VARIABLE = re.compile(r"%\(\w+\)[sd]|\{\{.*?\}\}|\{\w*\}|</?\w+>")
Key = tuple[str | None, tuple[str, ...]]
"""Context, and the text with its plural."""


def keys_of_module(source: str) -> Iterator[Key]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        texts = [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]
        if name in FUNCTIONS and texts:
            yield None, tuple(texts[: FUNCTIONS[name]])
        elif name in CONTEXT_FUNCTIONS and texts:
            yield texts[0], tuple(texts[1 : 1 + CONTEXT_FUNCTIONS[name]])


def keys_of_template(source: str) -> Iterator[Key]:
    """Django writes the texts of a template as calls, each on a line between placeholders."""
    for call in re.findall(r" ((?:n?p?gettext|_)\(.*?\)) (?=[^,)]|$)", templatize(source)):
        yield from keys_of_module(call)


def used_keys() -> set[Key]:
    modules = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    templates = (file for extension in ("html", "txt") for file in (ROOT / "templates").rglob(f"*.{extension}"))
    sources = (source for file in modules if "gettext" in (source := file.read_text(encoding="utf-8")))
    used = {key for source in sources for key in keys_of_module(source)}
    return used | {key for file in templates for key in keys_of_template(file.read_text(encoding="utf-8"))}


def texts_of(message: Message) -> tuple[str, ...]:
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def translations_of(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


@pytest.fixture(scope="module")
def german() -> Catalog:
    with GERMAN.open("rb") as file:
        return read_po(file, locale="de")


@pytest.fixture(scope="module")
def entries(german: Catalog) -> list[Message]:
    return [message for message in german if message.id]


def test_every_text_has_a_german_entry_and_no_entry_is_unused(entries: list[Message]) -> None:
    listed = {(message.context, texts_of(message)) for message in entries}
    used = used_keys()
    assert used - listed == set(), "run make messages, and translate these texts"
    assert listed - used == set(), "run make messages"


def test_the_search_for_texts_finds_all_forms() -> None:
    module = 'gettext("a"); _("b"); ngettext("c", "d", n); x.gettext_noop("e"); pgettext("in", "f"); _(name)'
    assert set(keys_of_module(module)) == {
        (None, ("a",)), (None, ("b",)), (None, ("c", "d")), (None, ("e",)), ("in", ("f",)),
    }  # fmt: skip
    template = (
        '{% load i18n %}<p>{% translate "a (b)" %}</p> {% translate "it\'s" as t %}{% translate "c" context "in" %}'
        '{% blocktranslate with n=x %}d {{ n }}{% endblocktranslate %}{{ y|default:_("e") }}'
        "{% blocktranslate count n=x %}one{% plural %}{{ n }}{% endblocktranslate %}"
    )
    assert set(keys_of_template(template)) == {
        (None, ("a (b)",)), (None, ("it's",)), ("in", ("c",)), (None, ("d %(n)s",)), (None, ("e",)),
        (None, ("one", "%(n)s")),
    }  # fmt: skip


def test_every_entry_is_translated(entries: list[Message]) -> None:
    assert [message.id for message in entries if message.fuzzy or not all(translations_of(message))] == []
    assert [message.id for message in entries if len(translations_of(message)) != len(texts_of(message))] == []


def test_the_compiled_file_has_the_same_texts(entries: list[Message]) -> None:
    with GERMAN.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for message in entries:
        texts, found = texts_of(message), translations_of(message)
        if len(texts) == 1:
            lookup = compiled.pgettext(message.context, texts[0]) if message.context else compiled.gettext(texts[0])
            assert lookup == found[0]
        else:
            assert tuple(compiled.ngettext(texts[0], texts[1], number) for number in (1, 2)) == found
    assert len([key for key in compiled._catalog if key]) == sum(len(texts_of(message)) for message in entries)  # type: ignore[attr-defined]


def test_translations_keep_the_variables_and_tags(entries: list[Message]) -> None:
    for message in entries:
        # A singular may leave out the number.
        expected = sorted(VARIABLE.findall(texts_of(message)[-1]))
        assert sorted(VARIABLE.findall(translations_of(message)[-1])) == expected, message.id


@pytest.mark.parametrize("kind", EmailType)
def test_every_email_has_german_texts(kind: EmailType, auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("en", "de")})
    english, german = renderer.render(kind, VARIABLES), renderer.render(kind, VARIABLES, language="de")
    assert german.subject != english.subject
    assert '<html lang="de">' in german.html
    for value in ("{{", "{%", "ZgotmplZ"):
        assert value not in german.subject + german.html + german.text
    for part, english_part in ((german.text, english.text), (german.html, english.html)):
        values = [value for value in map(str, VARIABLES.values()) if value in english_part]
        assert [value for value in values if value not in part] == []
    assert "<strong>" not in german.text
    # No sentence is left in English.
    lines = {line for line in english.text.splitlines() if " " in line and not line.startswith("http")}
    assert lines & set(german.text.splitlines()) == set()


def test_an_sms_has_a_german_text(auth_config: ChangeConfig) -> None:
    auth_config(languages={"offered": ("en", "de")})
    assert message_types.SMS_TEXT == conf.Sms().template == conf.Mfa().phone_template
    for kind in SmsType:
        assert renderer.render_sms(kind, {"Code": "123456"}, language="de") == "Ihr Code lautet 123456"
