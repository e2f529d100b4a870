"""From a setting to the templates of an email type: fetch, compilation and errors."""

from __future__ import annotations

import pytest

from authsvc.messaging import EmailType
from mailer.rendering import renderer, template_sources
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response, redirect
from tests.mailer.rendering.test_built_in_templates import VARIABLES
from tests.ports import free_port

TYPE = EmailType.CONFIRMATION
HTTP_ERROR = "templatemailer_template_body_http_error"
PARSE_ERROR = "templatemailer_template_body_parse_error"


def loaded(type: EmailType = TYPE) -> renderer.Rendered:
    return renderer.render_templates(
        template_sources.load_templates(type, template_sources.template_config(type)), type, VARIABLES
    )


def fetch_error() -> tuple[str, str]:
    with pytest.raises(template_sources.TemplateLoadError) as caught:
        template_sources.load_templates(TYPE, template_sources.template_config(TYPE))
    return caught.value.event, str(caught.value)


@pytest.mark.parametrize(
    ("site", "setting", "url"),
    [
        ("https://site", "", ""),
        ("https://site", "/t.html", "https://site/t.html"),
        ("https://site/app", "t.html", "https://site/appt.html"),
        ("https://site", "https://other/t.html", "https://other/t.html"),
        ("https://site", "http://other/t.html", "http://other/t.html"),
    ],
)
def test_a_setting_is_a_url_or_a_path_of_the_site(site: str, setting: str, url: str, auth_config: ChangeConfig) -> None:
    auth_config(site={"url": site}, mailer={"templates": {"confirmation": setting}})
    assert template_sources.template_config(TYPE).url == url


def test_the_template_of_a_type_is_fetched_and_rendered(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(body='<p>Grüße, {{ .Data.name }}: <a href="{{ .ConfirmationURL }}">go</a></p>'.encode()))
    auth_config(
        site={"url": peer.url},
        mailer={"templates": {"confirmation": "/t.html"}, "subjects": {"confirmation": "For {{ .Email }}"}},
    )
    rendered = loaded()
    [request] = peer.received
    assert (request.method, request.target) == ("GET", "/t.html")
    assert {"authorization", "cookie", "if-none-match", "if-modified-since"}.isdisjoint(map(str.lower, request.headers))
    assert rendered.subject == "For ada@example.com"
    link = VARIABLES["ConfirmationURL"]
    assert rendered.html == f'<p>Grüße, Ada: <a href="{link.replace("&", "&amp;")}">go</a></p>'
    assert rendered.text == f"Grüße, Ada: go <{link}>\n"


def test_values_are_escaped_and_unknown_names_are_empty(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(body=b"{{ if .Data.name }}Hi {{ .Data.name }}{{ else }}Hi{{ end }} {{- .Nope }}"))
    auth_config(mailer={"templates": {"confirmation": peer.url}})
    source = template_sources.load_templates(TYPE, template_sources.template_config(TYPE))
    assert renderer.render_templates(source, TYPE, {"Data": {"name": "<b>"}}).html == "Hi &lt;b&gt;"
    assert renderer.render_templates(source, TYPE, {"Data": {"name": "<b>"}}).text == "Hi <b>\n"


def test_redirects_are_followed(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(redirect("/b"), path="/a")
    peer.respond(Response(body=b"moved"), path="/b")
    auth_config(mailer={"templates": {"confirmation": f"{peer.url}/a"}})
    assert loaded().html == "moved"


@pytest.mark.parametrize("status", [201, 204, 206, 304, 404, 500])
def test_only_status_200_is_a_template(status: int, peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(status=status, body=b"" if status in (204, 304) else b"text"))
    auth_config(mailer={"templates": {"confirmation": peer.url}})
    assert fetch_error() == (HTTP_ERROR, f"status {status}")


@pytest.mark.parametrize("body", [b"", b" \r\n", b"\xef\xbb\xbf"])
def test_an_empty_response_is_no_template(body: bytes, peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(body=body))
    auth_config(mailer={"templates": {"confirmation": peer.url}})
    assert fetch_error() == (HTTP_ERROR, "the template is empty")


def test_an_unreachable_server_is_reported(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"templates": {"confirmation": f"http://127.0.0.1:{free_port()}/secret"}})
    event, problem = fetch_error()
    assert event == HTTP_ERROR
    assert "refused" in problem
    assert "secret" not in problem


def test_invalid_templates_are_reported(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(body=b"{{ if .Email }}"))
    auth_config(mailer={"templates": {"confirmation": peer.url}})
    assert fetch_error()[0] == PARSE_ERROR


@pytest.mark.parametrize(
    ("body", "most", "html"),
    [
        (b"0123456789", 10, "0123456789"),
        (b"0123456789", 4, "0123"),
        ("aü".encode(), 2, "a"),
        (b"\xef\xbb\xbfmarked", 100, "marked"),
        (b"a\xffb", 100, "a\ufffdb"),
    ],
)
def test_a_long_template_is_truncated(
    body: bytes, most: int, html: str, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    peer.respond(Response(body=body))
    auth_config(mailer={"templates": {"confirmation": peer.url}, "template_max_size": most})
    assert loaded().html == html


def test_only_configured_types_are_fetched(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"templates": {"confirmation": peer.url}})
    assert "Reset" in loaded(EmailType.RECOVERY).subject
    assert peer.received == []
