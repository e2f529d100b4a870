"""The template language: accepted syntax, output, rejected syntax and limits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mailer import gotemplate

DATA: dict[str, Any] = {
    "Name": "Ada",
    "Markup": "<b>\"x\" & 'y'</b>",
    "Empty": "",
    "Zero": 0,
    "One": 1,
    "Half": 1.5,
    "Whole": 2.0,
    "Yes": True,
    "No": False,
    "Null": None,
    "List": ["a", "b", "c"],
    "Nothing": [],
    "Map": {"b": 2, "a": 1},
    "Data": {"name": "Ada", "address": {"city": "Aachen"}, "tags": ["x", {"y": "z"}]},
    "URL": "https://h/verify?token=T&type=signup&redirect_to=https://example.com",
}


ESCAPED = "&lt;b&gt;&#34;x&#34; &amp; &#39;y&#39;&lt;/b&gt;"
ESCAPED_URL = "https://h/verify?token=T&amp;type=signup&amp;redirect_to=https://example.com"


def rendered(source: str, mode: gotemplate.Mode = gotemplate.Mode.TEXT, **variables: Any) -> str:
    return gotemplate.compile(source).render(DATA | variables, mode=mode)


def as_html(source: str, **variables: Any) -> str:
    return rendered(source, gotemplate.Mode.HTML, **variables)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", ""),
        ("plain } text {", "plain } text {"),
        ("{{ .Name }}", "Ada"),
        ("{{.Name}}", "Ada"),
        ("{{\n.Name\n}}", "Ada"),
        ("{{ .Nope }}|{{ .Nope.deeper.still }}|{{ .Name.deeper }}|{{ .Null }}", "|||"),
        ("{{ .Data.address.city }}", "Aachen"),
        ("{{ $.Data.name }}", "Ada"),
        ("{{ .Zero }} {{ .Half }} {{ .Whole }} {{ .Yes }} {{ .No }}", "0 1.5 2 true false"),
        ("{{ .List }} {{ .Map }} {{ .Data.tags }}", "[a b c] map[a:1 b:2] [x map[y:z]]"),
        # white space
        ("a  {{- .Name -}}  b", "aAdab"),
        ("a \n\t{{- /* gone */ -}} \r\n b", "ab"),
        ("a {{/* gone }} */}} b", "a  b"),
        ("a {{- 3 }}{{ -3 }}", "a3-3"),
        ("{{ if .Yes -}}\n yes\n{{- end }}", "yes"),
        # literals
        (r'{{ "a\tb\"c\u00e9\x41\101\\" }}', 'a\tb"céAA\\'),
        ("{{ `raw \\n \"{{x}}\"` }}", 'raw \\n "{{x}}"'),
        ('{{ "}}" }}', "}}"),
        ("{{ 42 }} {{ -1 }} {{ 1.50 }} {{ 0x1F }} {{ 1e3 }}", "42 -1 1.5 31 1000"),
        ("{{ true }} {{ false }}", "true false"),
        ("{{ eq .Null nil }}", "true"),
        # conditions
        ("{{ if .Name }}y{{ end }}", "y"),
        ("{{ if .Empty }}y{{ else }}n{{ end }}", "n"),
        ("{{ if .Zero }}y{{ else if .One }}one{{ else }}n{{ end }}", "one"),
        ("{{ if .Zero }}y{{ else if .No }}one{{ else }}n{{ end }}", "n"),
        ("{{ if .Nothing }}y{{ end }}{{ if .Null }}y{{ end }}{{ if .Nope }}y{{ end }}", ""),
        ("{{ if .Map }}y{{ end }}{{ if .List }}y{{ end }}{{ if not .Half }}n{{ end }}", "yy"),
        ("{{ if and .Name (eq .One 1) (not .No) }}y{{ end }}", "y"),
        # rebinding
        ("{{ with .Data.address }}{{ .city }} {{ $.Name }}{{ end }}", "Aachen Ada"),
        ("{{ with .Nope }}y{{ else }}{{ .Name }}{{ end }}", "Ada"),
        ("{{ with .Nope }}y{{ else with .Name }}{{ . }}{{ end }}", "Ada"),
        ("{{ with $x := .Name }}{{ $x }}{{ . }}{{ end }}", "AdaAda"),
        ("{{ range .List }}{{ . }},{{ end }}", "a,b,c,"),
        ("{{ range .Nothing }}x{{ else }}none{{ end }}", "none"),
        ("{{ range .Nope }}x{{ else }}none{{ end }}{{ range .Name }}x{{ else }}none{{ end }}", "nonenone"),
        ("{{ range $i, $v := .List }}{{ $i }}{{ $v }}{{ end }}", "0a1b2c"),
        ("{{ range $k, $v := .Map }}{{ $k }}={{ $v }};{{ end }}", "a=1;b=2;"),
        ("{{ range $v := .List }}{{ $v }}{{ . }}{{ end }}", "aabbcc"),
        ("{{ range .Data.tags }}{{ .y }}{{ end }}", "z"),
        # variables
        ("{{ $x := .Name }}{{ $x }}", "Ada"),
        ("{{ $x := 1 }}{{ if .Yes }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if .Yes }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
        ('{{ $last := "" }}{{ range .List }}{{ $last = . }}{{ end }}{{ $last }}', "c"),
        ("{{ $d := .Data }}{{ $d.address.city }}", "Aachen"),
        # pipelines and functions
        ("{{ .Name | len }}", "3"),
        ('{{ .Name | printf "%s-%s" "x" }}', "x-Ada"),
        ('{{ (index .Data "address").city }}', "Aachen"),
        ('{{ index .List 1 }}{{ index .Data "tags" 1 "y" }}{{ index .List 9 }}{{ index .Map "q" }}', "bz"),
        ("{{ len .List }} {{ len .Map }} {{ len .Nope }}", "3 2 0"),
        ("{{ slice .Name 1 }} {{ slice .Name 0 2 }} {{ slice .List 1 }} {{ slice .Name 9 }}", "da Ad [b c] "),
        ("{{ and .Name .Empty .Nope }}|{{ and .Name .One }}", "|1"),
        ("{{ or .Empty .Zero .Name }}|{{ or .Empty .Zero }}", "Ada|0"),
        ('{{ eq .Name "Ada" }} {{ eq .One 2 3 1 }} {{ eq .One "1" }} {{ eq .Whole 2 }}', "true true false true"),
        ("{{ ne .One 1 }} {{ lt 1 2 }} {{ le 2 2 }} {{ gt 1 2 }} {{ ge 2.5 2 }}", "false true true false true"),
        ('{{ lt "a" "b" }} {{ gt .Nope 18 }} {{ lt .Name 1 }} {{ ge .List .List }}', "true false false false"),
        ('{{ print "a" 1 2 "b" }} {{ print 1 2 }}', "a1 2b 1 2"),
        ('{{ println "a" 1 }}', "a 1\n"),
        ('{{ printf "%d|%5d|%05d|%-4d|%%" 42 42 42 42 }}', "42|   42|00042|42  |%"),
        ('{{ printf "%x|%X|%b|%c|%t" 255 255 5 65 true }}', "ff|FF|101|A|true"),
        ('{{ printf "%s|%5s|%-5s|%.2s|%q|%v" "abc" "abc" "abc" "abc" "a\\"b" 1.5 }}', 'abc|  abc|abc  |ab|"a\\"b"|1.5'),
        ('{{ printf "%.2f|%6.1f|%x" 1.234 2.5 "hi" }}', "1.23|   2.5|6869"),
        ('{{ printf "%d %s %z" "text" }}', "text  "),
        ('{{ html "<a href=\\"x\\">" }}', "&lt;a href=&#34;x&#34;&gt;"),
        ("{{ js `it's <b>` }}", r"it\'s \u003Cb\u003E"),
        ('{{ urlquery "a b&c=ü" }}', "a+b%26c%3D%C3%BC"),
        # named templates
        ('{{ define "x" }}[{{ . }}]{{ end }}{{ template "x" .Name }}{{ template "x" }}', "[Ada][]"),
        ('{{ block "x" .Name }}({{ . }}){{ end }}', "(Ada)"),
        ('{{ block "x" .Name }}default{{ end }}{{ define "x" }}mine: {{ . }}{{ end }}', "mine: Ada"),
        ('{{ define "x" }}{{ $.city }}{{ end }}{{ template "x" .Data.address }}', "Aachen"),
    ],
)  # fmt: skip
def test_templates_render(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ .Name",
        "{{ }}",
        "{{ .Name }",
        "{{ if .Name }}",
        "{{ if }}x{{ end }}",
        "{{ end }}",
        "{{ else }}",
        "{{ if .A }}{{ else }}{{ else }}{{ end }}",
        "{{ range .A }}{{ else if .B }}{{ end }}",
        "{{ nope .Name }}",
        "{{ call .Name }}",
        "{{ .Name | .Name }}",
        "{{ .Name | nope }}",
        "{{ .Name .Name }}",
        "{{ .Name | }}",
        "{{ (len .Name }}",
        "{{ len .Name) }}",
        "{{ len }}",
        "{{ not 1 2 }}",
        "{{ .Name | not 1 }}",
        "{{ nil }}",
        "{{ $x }}",
        "{{ $x = 1 }}",
        "{{ if .A }}{{ $x := 1 }}{{ end }}{{ $x }}",
        '{{ define "a" }}{{ $x := 1 }}{{ end }}{{ $x }}',
        '{{ "unclosed }}',
        r'{{ "\q" }}',
        r'{{ "\ud800" }}',
        "{{ 3x }}",
        "{{ .Data.full-name }}",
        "{{ .A; .B }}",
        "{{ a.b() }}",
        "{{/* open }}",
        "{{/* a */ .Name }}",
        '{{ template "missing" }}',
        "{{ template name }}",
        '{{ define "a" }}{{ end }}{{ define "a" }}{{ end }}',
        '{{ if .A }}{{ define "a" }}{{ end }}{{ end }}',
        "{{ " + "(" * 60 + ".A" + ")" * 60 + " }}",
        "{{ if .A }}" * 60 + "{{ end }}" * 60,
        "{{ .A" + "| html" * 60 + " }}",
        "{{ " + "9" * 5000 + " }}",
    ],
)
def test_unsupported_syntax_is_a_syntax_error(source: str) -> None:
    with pytest.raises(gotemplate.TemplateSyntaxError, match=r"^line 1: "):
        gotemplate.compile(source)


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(gotemplate.TemplateSyntaxError, match=r"^line 3: ") as caught:
        gotemplate.compile("a\n{{/* \n */}}{{ nope }}")
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ .Markup }}", ESCAPED),
        ("{{ .Markup | html }}", ESCAPED),
        ("<title>{{ .Markup }}</title>", f"<title>{ESCAPED}</title>"),
        ('<p title="{{ .Markup }}">', f'<p title="{ESCAPED}">'),
        ("<p title={{ .Name }}>{{ .Name }}</p>", "<p title=Ada>Ada</p>"),
        ("<p title={{ .X }}>", "<p title=a&#32;onclick&#61;b>"),
        ("<p title={{ .Empty }} class=c>", "<p title=ZgotmplZ class=c>"),
        ("{{ if .Tag }}Hi {{ .Tag }}{{ else }}Hi{{ end }} {{- .Nope }}", "Hi &lt;/script&gt;"),
        # addresses
        ('<a href="{{ .URL }}">{{ .URL }}</a>', f'<a href="{ESCAPED_URL}">{ESCAPED_URL}</a>'),
        ("<a href='{{ .URL }}'>", f"<a href='{ESCAPED_URL}'>"),
        ('<a href="/c?next={{ .Next }}&x=1">', '<a href="/c?next=https%3A%2F%2Fh%2F%3Fa%3Db%26c%3Dd&x=1">'),
        ('<a href="{{ .Site }}/c?h={{ .X }}">', '<a href="https://s/c?h=a%20onclick%3Db">'),
        ('<a href="?q={{ .X | urlquery }}">', '<a href="?q=a%20onclick%3Db">'),
        ('<a href="{{ .Relative }}">', '<a href="/a%20b/%C3%BC%20%25">'),
        ('<a href="mailto:{{ .Mail }}">', '<a href="mailto:a@b.c">'),
        ('<a href="{{ .MailLink }}">', '<a href="mailto:a@b.c">'),
        ('<a href="myapp://confirm?h={{ .Name }}">', '<a href="myapp://confirm?h=Ada">'),
        ('<a href="{{ .Evil }}">', '<a href="#ZgotmplZ">'),
        ('<a href="{{ .EvilCase }}">', '<a href="#ZgotmplZ">'),
        ('<a href="{{ .EvilBreak }}">', '<a href="#ZgotmplZ">'),
        ('<img src="{{ .EvilData }}">', '<img src="#ZgotmplZ">'),
        ("<a href={{ .Evil }}>", "<a href=#ZgotmplZ>"),
        ('<a HREF = "{{ .Evil }}">', '<a HREF = "#ZgotmplZ">'),
        ('<a xlink:href="{{ .Evil }}">', '<a xlink:href="#ZgotmplZ">'),
        ('<a href="{{ .Java }}{{ .Script }}">', '<a href="java#ZgotmplZ">'),
        ('<a href="{{ .Java }}script:x">', '<a href="java#ZgotmplZscript:x">'),
        ('<a href="javascript:f(\'{{ .Name }}\')">', '<a href="javascript:f(\'ZgotmplZ\')">'),
        ('<img srcset="{{ .URL }} 2x">', '<img srcset="ZgotmplZ 2x">'),
        ('<iframe srcdoc="{{ .Name }}">', '<iframe srcdoc="ZgotmplZ">'),
        # style and script
        ('<p style="color:{{ .Colour }}">', '<p style="color:#ff00aa">'),
        ('<p style="color:{{ .Css }}">', '<p style="color:ZgotmplZ">'),
        ("<style>p { color: {{ .Css }} }</style>{{ .Name }}", "<style>p { color: ZgotmplZ }</style>Ada"),
        ('<script>var a = "{{ .Tag }}";</script>', '<script>var a = "\\u003c\\u002fscript\\u003e";</script>'),
        ('<script>a = "{{ .Quote | js }}", n = {{ .Half }}</script>', '<script>a = "\\u0027\\u0029", n = 1.5</script>'),
        ('<script type="json">{"n":"{{ .Emoji }}"}</script>', '<script type="json">{"n":"\\ud83d\\ude00"}</script>'),
        ("<p onclick=\"f('{{ .Quote }}')\">", "<p onclick=\"f('\\u0027\\u0029')\">"),
        # invalid positions of values
        ("<{{ .Tag }}>", "&lt;&lt;/script&gt;>"),
        ("<p {{ .Handler }}=x>", "<p ZgotmplZ=x>"),
        ("<p on{{ .Name }}='{{ .Quote }}'>", "<p onZgotmplZ='\\u0027\\u0029'>"),
        ("<p {{ .Empty }}class=c>", "<p class=c>"),
        ("<h{{ .One }}>{{ .Name }}", "<hZgotmplZ>Ada"),
        ("<!-- {{ .Markup }} -->{{ .Name }}", "Ada"),
        ("<!--[if mso]><a href='{{ .URL }}'><![endif]-->x", "x"),
        ("<!-->{{ .Markup }}", ESCAPED),
        ("<!DOCTYPE html {{ .Name }}>", "<!DOCTYPE html >"),
        # markup is left alone
        ("1 < 2 > 0 <b>x</b>", "1 &lt; 2 > 0 <b>x</b>"),
        ('<input {{ if .Yes }}checked{{ end }} value="{{ .Name }}"/>', '<input checked value="Ada"/>'),
        ("<textarea><p title='{{ .Quote }}'></textarea>", "<textarea><p title='&#39;)'></textarea>"),
        ("<script>if (a<b) {}</SCRIPT><a title={{ .X }}>", "<script>if (a<b) {}</SCRIPT><a title=a&#32;onclick&#61;b>"),
        ("<a href>{{ .Markup }}", f"<a href>{ESCAPED}"),
    ],
)  # fmt: skip
def test_values_in_html_are_escaped_by_context(source: str, expected: str) -> None:
    hostile = {
        "X": "a onclick=b",
        "Site": "https://s",
        "Next": "https://h/?a=b&c=d",
        "Relative": "/a b/ü%20%",
        "Mail": "a@b.c",
        "MailLink": "mailto:a@b.c",
        "Evil": "javascript:alert(1)",
        "EvilCase": "JavaScript:alert(1)",
        "EvilBreak": "java\nscript:alert(1)",
        "EvilData": "data:text/html,x",
        "Java": "java",
        "Script": "script:alert(1)",
        "Colour": "#ff00aa",
        "Css": "red;background:url(https://evil)",
        "Tag": "</script>",
        "Emoji": "😀",
        "Quote": "')",
        "Handler": "onclick",
    }
    assert as_html(source, **hostile) == expected


def test_values_are_not_interpreted_as_templates() -> None:
    assert as_html("{{ .X }}", X="{{ .Name }}{{ end }}") == "{{ .Name }}{{ end }}"


@pytest.mark.parametrize(
    "source",
    [
        "{{ .Name.__class__ }}",
        "{{ .Name.upper }}",
        "{{ .__class__.__mro__ }}",
        "{{ .Data.keys }}",
        '{{ index .Data "__class__" }}',
        '{{ index . "__init__" }}',
        "{{ .Object.secret }}",
        "{{ .Object }}",
        '{{ printf "%s%v" .Object .Object.secret }}',
    ],
)
def test_python_attributes_are_inaccessible(source: str) -> None:
    class Carrier:
        secret = "secret"

    assert rendered(source, Object=Carrier()) == ""


def test_python_format_strings_are_not_interpreted() -> None:
    assert rendered('{{ printf "{0.__class__} %s" .Name }}') == "{0.__class__} Ada"
    assert rendered("{{ printf .X .Name }}", X="%(x)s {0}") == "%(x)s {0}"


def test_unencodable_characters_are_replaced() -> None:
    assert as_html("{{ .X }}|<a href='{{ .X }}'>", X="\ud800\0") == "?\ufffd|<a href='?%00'>"


def test_deeply_nested_data_is_truncated() -> None:
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    text = rendered("{{ .X }}", X=deep)
    assert "bottom" not in text
    assert len(text) < 200


@pytest.mark.parametrize(
    "source",
    [
        "{{ range .Many }}{{ range $.Many }}{{ range $.Many }}x{{ end }}{{ end }}{{ end }}",
        "{{ range .Many }}{{ $.Long }}{{ end }}",
        "{{ range .Many }}{{ len (print $.Long $.Long) }}{{ end }}",
        '{{ $x := "0123456789" }}{{ range .Many }}{{ $x = print $x $x }}{{ end }}',
        '{{ $x := "<" }}{{ range .Many }}{{ $x = html $x }}{{ end }}',
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        '{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}{{ template "a" }}',
    ],
)
def test_endless_templates_are_stopped(source: str) -> None:
    template = gotemplate.compile(source)
    began = time.thread_time()
    with pytest.raises(gotemplate.TemplateRenderError):
        template.render({"Many": list(range(10_000)), "Long": "x" * 100_000}, mode=gotemplate.Mode.HTML)
    assert time.thread_time() - began < 5


def test_a_template_can_be_rendered_repeatedly() -> None:
    template = gotemplate.compile('<a href="{{ .X }}">{{ $y := .X }}{{ $y }}')
    first = template.render({"X": "1"}, mode=gotemplate.Mode.HTML)
    assert first == template.render({"X": "1"}, mode=gotemplate.Mode.HTML) == '<a href="1">1'
