"""Previews of emails: rendered from the configured template, printed, saved to the inbox, and shown on pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import include, path
from pytest_django import Settings

from mailer.inbox import previews, storage
from mailer.rendering import message_types
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response

urlpatterns = [path("inbox/", include("mailer.urls"))]
pytestmark = pytest.mark.urls(__name__)

BUILT_IN = "Confirm your email address"


@pytest.fixture(autouse=True)
def _inbox(auth_config: ChangeConfig, settings: Settings, tmp_path: Path) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    settings.DEV_INBOX_FOLDER = tmp_path


@pytest.fixture
def peer(auth_config: ChangeConfig) -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        auth_config(mailer={"templates": {"confirmation": f"{running.url}/t.html"}})
        yield running


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("preview_mail", *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("key", previews.EMAIL_TYPES)
def test_every_type_has_a_complete_preview(key: str) -> None:
    preview = previews.render_preview(key)
    assert (preview.key, preview.url, preview.problem) == (key, "", "")
    assert preview.subject
    assert "<h2" in preview.html
    assert preview.text
    assert "  " not in preview.text


def test_a_preview_uses_the_current_template(peer: HttpPeer) -> None:
    peer.respond(Response(body=b"<p>one {{ .Email }}</p>"), Response(body=b"<p>two {{ .Data.name }}</p>"))
    assert previews.render_preview("confirmation").html == "<p>one ada@example.com</p>"
    again = previews.render_preview("confirmation")
    assert (again.html, again.text, again.problem) == ("<p>two Ada Lovelace</p>", "two Ada Lovelace\n", "")
    assert again.url == f"{peer.url}/t.html"


@pytest.mark.parametrize(
    ("response", "reason"), [(Response(status=500), "status 500"), (Response(body=b"\n{{ nope }}"), "function 'nope'")]
)
def test_a_preview_explains_the_use_of_the_built_in_body(response: Response, reason: str, peer: HttpPeer) -> None:
    peer.respond(response)
    preview = previews.render_preview("confirmation")
    assert BUILT_IN in preview.html
    assert reason in preview.problem


def test_a_preview_shows_the_rendering_error(peer: HttpPeer) -> None:
    peer.respond(Response(body=b'{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}'))
    preview = previews.render_preview("confirmation")
    assert preview.html == ""
    assert "nested too deeply" in preview.problem


# manage.py preview_mail


def test_the_command_prints_html_and_subject() -> None:
    preview = previews.render_preview("reauthentication")
    assert run("reauthentication") == (preview.html, "Subject: 123456 is your verification code\n")


def test_the_command_prints_the_plain_text_of_the_configured_template(peer: HttpPeer) -> None:
    peer.respond(Response(body=b"<p>Hello {{ .Email }}</p>"))
    assert run("confirmation", "--text") == ("Hello ada@example.com\n", "Subject: Confirm Your Signup\n")


def test_the_command_reports_an_unavailable_template(peer: HttpPeer) -> None:
    out, err = run("confirmation")
    assert BUILT_IN in out
    assert err.startswith("The template cannot be used: status 404.")


def test_the_command_prints_an_email_in_another_language(peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(body=b'{{ if eq .Language "de" }}Hallo{{ else }}Hello{{ end }}'))
    auth_config(languages={"offered": ("en", "de")})
    assert run("confirmation", "--text", "--language", "de") == (
        "Hallo\n",
        "Subject: Bestätigen Sie Ihre Registrierung\n",
    )
    with pytest.raises(CommandError, match="fr is not offered; the languages are en, de"):
        run("confirmation", "--language", "fr")


@pytest.mark.parametrize("written", ["MAGIC_LINK", "magic-link", "Magic_Link"])
def test_the_command_accepts_a_type_in_any_case(written: str) -> None:
    assert run(written) == run("magic_link")


def test_an_unknown_type_is_rejected_with_the_valid_ones() -> None:
    with pytest.raises(CommandError) as caught:
        run("nonsense")
    assert "'nonsense'" in str(caught.value)
    for key in previews.EMAIL_TYPES:
        assert key in str(caught.value)


def test_the_command_stores_a_preview_in_the_inbox(client: Client) -> None:
    out, _ = run("magic_link", "--to-inbox")
    assert out == "http://127.0.0.1:8081/inbox/\n"
    [message] = storage.list_messages()
    preview = previews.render_preview("magic_link")
    assert (message.subject, message.html, message.text) == (preview.subject, preview.html, preview.text)
    assert message.link.startswith("http://127.0.0.1:8081/verify?token=0000")
    assert preview.subject in client.get("/inbox/").content.decode()


def test_without_an_inbox_the_command_fails(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"dev_inbox_enabled": False})
    with pytest.raises(CommandError, match="AUTH_MAILER_DEV_INBOX_ENABLED"):
        run("magic_link", "--to-inbox")
    assert run("magic_link")[0].startswith("<!DOCTYPE html>")


# The pages


def test_the_inbox_links_to_the_previews_of_all_types(client: Client, peer: HttpPeer) -> None:
    assert 'href="/inbox/previews/"' in client.get("/inbox/").content.decode()
    page = client.get("/inbox/previews/").content.decode()
    for key in previews.EMAIL_TYPES:
        assert f'href="/inbox/previews/{key}"' in page
        assert f'<iframe src="/inbox/previews/{key}/body"' in page
    assert f"template <strong>{peer.url}/t.html</strong>" in page
    assert page.count("built in") == len(previews.EMAIL_TYPES) - 1
    switches = [entry.setting for entry in message_types.EMAIL_DEFINITIONS.values() if entry.setting]
    assert page.count("disabled") == len(switches) > 0
    assert peer.received == []


def test_the_page_of_a_preview_shows_its_body_in_a_sandboxed_frame(client: Client, peer: HttpPeer) -> None:
    peer.respond(Response(body=b"<script>1</script><p>Hi</p>"))
    page = client.get("/inbox/previews/confirmation")
    assert "<h2>Confirm Your Signup</h2>" in page.content.decode()
    assert "<pre>Hi\n</pre>" in page.content.decode()
    assert "<script" not in page.content.decode()
    body = client.get("/inbox/previews/confirmation/body")
    assert body.content == b'<base target="_top"><script>1</script><p>Hi</p>'
    assert body.headers["Content-Security-Policy"] == (
        "sandbox allow-top-navigation-by-user-activation; default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data: https: http:"
    )


def test_the_pages_show_template_errors(client: Client, peer: HttpPeer) -> None:
    peer.respond(Response(body=b"{{ <nope> }}"))
    for place in ("/inbox/previews/confirmation", "/inbox/previews/confirmation/body"):
        page = client.get(place).content.decode()
        assert "The template cannot be used" in page
        assert "<nope>" not in page


@pytest.mark.parametrize("place", ["/inbox/previews/nonsense", "/inbox/previews/nonsense/body"])
def test_an_unknown_type_has_no_page(place: str, client: Client) -> None:
    assert client.get(place).status_code == 404


@pytest.mark.parametrize("place", ["", "invite", "invite/body"])
def test_the_pages_exist_only_with_the_development_inbox(place: str, client: Client, auth_config: ChangeConfig) -> None:
    assert client.get(f"/inbox/previews/{place}").status_code == 200
    assert client.get(f"/inbox/previews/{place}", headers={"Origin": "https://evil"}).status_code == 404
    auth_config(mailer={"dev_inbox_enabled": False})
    assert client.get(f"/inbox/previews/{place}").status_code == 404
