"""The template language of mails and text messages: the subset of Go's template syntax that operators' templates use.

A template is written by the operator and trusted; the values put into it are not. Values are looked up in JSON-like
data only (mappings, lists, strings, numbers, booleans, None), never as attributes of Python objects, and the work of
one rendering is bounded. What Go refuses only when it meets the data (a list index out of range, a comparison of a
number with a text) yields nothing, or false, here: no user can make a message fail by what they call themselves.

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
    """Values are escaped by the place they stand in: text, attribute, link, style, script."""
    TEXT = "text"
    """Values are inserted as they are."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; may be rendered any number of times and by several threads at once."""

    _program: tree.Program

    def render(self, variables: Mapping[str, Any], *, mode: Mode) -> str:
        """The text with the values of `variables` in it; unknown names render as nothing.

        Raises TemplateRenderError when the work or the text grows beyond what a message can need.
        """
        html = contexts.HtmlWriter() if mode is Mode.HTML else None
        return rendering.Rendering(self._program, variables, html).text()


def compile(source: str) -> Template:  # named like re.compile and used as syntax.compile
    """Parse a template. Raises TemplateSyntaxError for everything the accepted language does not have."""
    return Template(parser.parse(source))
