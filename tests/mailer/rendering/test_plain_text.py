"""Plain text derived from the HTML of an email."""

from __future__ import annotations

import pytest

from mailer.rendering import plain_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("Hi", "Hi\n"),
        ("<p>One\n  two</p><p>three</p>", "One two\n\nthree\n"),
        ("<h1>Hello <b>Ada</b>!</h1>\n<p>a<br>b<br><br>c</p>", "Hello Ada!\n\na\nb\n\nc\n"),
        ("<div>a</div><div>b</div>", "a\nb\n"),
        ("<ul><li>a</li><li> b </li></ul>", "- a\n- b\n"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc\n"),
        ("1 &lt; 2 &amp;&#43;&nbsp;ü", "1 < 2 &+ ü\n"),
        ("<head><title>T</title><style>p{}</style></head><p>a</p><script>alert('<p>')</script>", "a\n"),
        ("<!DOCTYPE html><![if !mso]>a<![endif]><![nonsense]>b", "ab\n"),
        ('<img alt="Logo" src="x"> <img src="y">', "Logo\n"),
        ("a < b <", "a < b <\n"),
    ],
)
def test_text_follows_the_visible_layout(html: str, text: str) -> None:
    assert plain_text.from_html(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            '<p>Please <a href="https://x/v?a=1&amp;b=2">confirm</a>, now.</p>',
            "Please confirm <https://x/v?a=1&b=2>, now.",
        ),
        ('<a href="https://x"><b>Go</b> on</a>', "Go on <https://x>"),
        ('<a href="https://x">https://x</a>', "https://x"),
        ('<a href="https://x"><img src="button.png"></a>', "<https://x>"),
        ('<a href="mailto:help@example.com">help@example.com</a>', "help@example.com"),
        ('<a href="#top">up</a> <a href="javascript:x()">do</a> <a>none</a> <a href>empty</a>', "up do none empty"),
        ('<a href="https://x">never closed', "never closed <https://x>"),
        ("no link</a>", "no link"),
    ],
)
def test_links_are_written_out(html: str, text: str) -> None:
    assert plain_text.from_html(html) == f"{text}\n"
