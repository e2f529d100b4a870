"""The template language of emails and SMS: a subset of Go's template syntax. See README.md.

Templates are trusted, their values are not. Values are looked up in JSON-like data only (mappings, lists, strings,
numbers, booleans, None), never as attributes of Python objects, and the work of one rendering is limited. Operations
that Go rejects at run time, such as an index out of range, yield an empty value or false.

>>> compile("Hi {{ .Data.name }}").render({"Data": {"name": "<b>"}}, mode=Mode.HTML)
'Hi &lt;b&gt;'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mailer.gotemplate import contexts, parser, rendering, tree
from mailer.gotemplate.lexer import TemplateSyntaxError
from mailer.gotemplate.rendering import TemplateRenderError

__all__ = ["Mode", "Template", "TemplateRenderError", "TemplateSyntaxError", "compile"]


class Mode(Enum):
    HTML = "html"
    """Values are escaped for their position: text, attribute, link, style or script."""
    TEXT = "text"
    """Values are inserted unchanged."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. It can be rendered repeatedly and by several threads at once."""

    _program: tree.Program

    def render(self, variables: Mapping[str, Any], *, mode: Mode) -> str:
        """Render the template; unknown variables yield an empty string.

        Raises TemplateRenderError if the work or the text exceeds the limits of `rendering`.
        """
        html = contexts.HtmlWriter() if mode is Mode.HTML else None
        return rendering.Rendering(self._program, variables, html).text()


def compile(source: str) -> Template:  # named like re.compile
    """Parse a template. Raises TemplateSyntaxError for syntax outside of the supported language."""
    return Template(parser.parse(source))
