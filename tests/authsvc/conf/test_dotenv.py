"""Parsing of `.env` files."""

from __future__ import annotations

import pytest

from authsvc.conf import dotenv


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KEY=value", "value"),
        ("KEY = value  ", "value"),
        ("KEY: value", "value"),
        ("  KEY=value", "value"),
        ("export KEY=value", "value"),
        ("export\tKEY=value", "value"),
        ("KEY=", ""),
        ("KEY=   ", ""),
        ("KEY=a=b:c", "a=b:c"),
        ("KEY=thud # fred # x", "thud"),
        ("KEY=foo#baz", "foo#baz"),
        ('KEY="foo"#bar', "foo"),
        ("KEY=#bar", "#bar"),
        ("KEY= # nothing but a comment", ""),
        ("KEY=a\t# note", "a"),
        ("KEY=it's", "it's"),
        ("KEY=$HOME", "$HOME"),
        ("KEY=${HOME}", "${HOME}"),
        (r"KEY=\$HOME", "$HOME"),
        (r"KEY=a\nb", r"a\nb"),
        ("KEY='a # b'", "a # b"),
        (r"KEY='a\nb'", r"a\nb"),
        (r"KEY='it\'s'", r"it\'s"),
        ("KEY=''", ""),
        ("KEY='one\ntwo' dropped", "one\ntwo"),
        (r'KEY="a\nb\rc"', "a\nb\rc"),
        (r'KEY="say \"hi\" \\ \q \$x"', r'say "hi" \ q $x'),
        ('KEY="one\r\ntwo" dropped', "one\ntwo"),
        (r'KEY="ends in \\"', "ends in \\"),
        ('KEY="a # b"', "a # b"),
        ("KEY=first\nKEY=second", "second"),
    ],
)
def test_a_value_is_read(text: str, expected: str) -> None:
    assert dotenv.parse(text) == {"KEY": expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n\n  \n", {}),
        ("# A=1\n  # B=2\nC=3", {"C": "3"}),
        ("A=1\r\n\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("exportFOO=2\nexport=3", {"exportFOO": "2", "export": "3"}),
        ("A='x\ny'\nB=2", {"A": "x\ny", "B": "2"}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("a.b_1=2", {"a.b_1": "2"}),
    ],
)
def test_a_file_is_read(text: str, expected: dict[str, str]) -> None:
    assert dotenv.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\nKEY='hunter2", 2),
        ('KEY="hunter2', 1),
        ('KEY="hunter2\\"', 1),
        ("A=1\n\nhunter2-key=1", 3),
        ("hunter2", 1),
        ("hunter2\nA=1", 1),
        ("=hunter2", 1),
        ("A hunter2=1", 1),
        ("export hunter2", 1),
    ],
)
def test_an_error_names_the_line_and_not_its_content(text: str, line: int) -> None:
    with pytest.raises(dotenv.DotenvError, match=f"^line {line}: ") as caught:
        dotenv.parse(text)
    assert "hunter2" not in str(caught.value)
