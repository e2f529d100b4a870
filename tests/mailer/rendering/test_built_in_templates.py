"""Subjects and built-in bodies of every email type, and the text of an SMS."""

from __future__ import annotations

import logging
import re
from html import unescape
from typing import Any

import pytest

from authsvc.messaging import EmailType, SmsType
from mailer.rendering import message_types, renderer
from tests.conftest import ChangeConfig

LINK = "https://auth.example.com/verify?token=0a1b&type=signup&redirect_to=https://example.com"
VARIABLES: dict[str, Any] = {
    "SiteURL": "https://site.example.com",
    "Email": "ada@example.com",
    "ConfirmationURL": LINK,
    "NewEmail": "new@example.com",
    "SendingTo": "new@example.com",
    "OldEmail": "old@example.com",
    "Phone": "4915100000",
    "OldPhone": "4915199999",
    "Provider": "google",
    "FactorType": "totp",
    "Remaining": "9",
    "Token": "123456",
    "TokenHash": "0a1b",
    "RedirectTo": "https://example.com",
    "Data": {"name": "Ada"},
}
IGNORE = "you can ignore this message"
SUPPORT = "contact support"
REQUIRED = {
    EmailType.CONFIRMATION: ["confirm", "ada@example.com"],
    EmailType.INVITE: ["have been invited", "Accept invitation"],
    EmailType.RECOVERY: ["asked to reset the password", IGNORE],
    EmailType.OPERATOR_RECOVERY: ["ada@example.com", "operator console", "ignore this message"],
    EmailType.MAGIC_LINK: ["Sign in", "short time", "once"],
    EmailType.EMAIL_CHANGE: ["new@example.com", IGNORE],
    EmailType.REAUTHENTICATION: ["123456"],
    EmailType.PASSWORD_CHANGED: ["ada@example.com", "changed", SUPPORT],
    EmailType.EMAIL_CHANGED: ["old@example.com", "ada@example.com", SUPPORT],
    EmailType.PHONE_CHANGED: ["4915199999", "4915100000", SUPPORT],
    EmailType.EMAIL_TAKEN: ["another account", "ada@example.com", "Nothing was changed"],
    EmailType.IDENTITY_LINKED: ["google", "ada@example.com", SUPPORT],
    EmailType.IDENTITY_UNLINKED: ["google", "ada@example.com", SUPPORT],
    EmailType.FACTOR_ENROLLED: ["totp", SUPPORT],
    EmailType.FACTOR_UNENROLLED: ["totp", SUPPORT],
    EmailType.RECOVERY_CODE_USED: ["ada@example.com", "Codes left: 9", SUPPORT],
    EmailType.IMPERSONATION: ["ada@example.com", "15 minutes", "no change of your password", SUPPORT],
}
WITH_LINK = [type for type, entry in message_types.EMAIL_DEFINITIONS.items() if "ConfirmationURL" in entry.variables]


def visible(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize("type", EmailType)
def test_every_type_has_its_content_in_both_bodies(type: EmailType) -> None:
    rendered = renderer.render(type, VARIABLES)
    for required in REQUIRED[type]:
        assert required in visible(rendered.html)
        assert required in rendered.text
    assert rendered.html.count("<h2 ") == 1
    assert rendered.subject
    assert "{{" not in rendered.subject + rendered.html + rendered.text
    assert "ZgotmplZ" not in rendered.html


@pytest.mark.parametrize("type", EmailType)
def test_bodies_load_no_external_resources(type: EmailType) -> None:
    html = renderer.render(type, VARIABLES).html
    assert not re.search(r"<(?:img|link|script|iframe|style)\b|url\(|\bsrc=", html)


def test_the_code_is_the_only_number_of_its_form() -> None:
    """Programs that read the code from the email, such as tests of applications, take no color for it."""
    assert re.findall(r"\b[0-9]{6,10}\b", renderer.render(EmailType.REAUTHENTICATION, VARIABLES).html) == ["123456"]


@pytest.mark.parametrize("type", WITH_LINK)
def test_link_emails_contain_the_link_and_no_code(type: EmailType) -> None:
    rendered = renderer.render(type, VARIABLES)
    assert re.findall(r'href="([^"]*)"', rendered.html) == [LINK.replace("&", "&amp;")]
    assert LINK in visible(rendered.html)
    assert f"{LINK}\n" in rendered.text
    assert "123456" not in rendered.html + rendered.text


@pytest.mark.parametrize("type", [type for type in EmailType if type not in WITH_LINK])
def test_other_emails_have_no_link(type: EmailType) -> None:
    rendered = renderer.render(type, VARIABLES)
    assert "href" not in rendered.html
    assert LINK not in rendered.text


def test_the_code_is_the_only_number_in_a_reauthentication_email() -> None:
    rendered = renderer.render(EmailType.REAUTHENTICATION, VARIABLES)
    assert rendered.subject == "123456 is your verification code"
    assert re.findall(r"\d{6,10}", visible(rendered.html)) == ["123456"]


def test_an_address_change_without_an_old_address_is_rendered() -> None:
    rendered = renderer.render(EmailType.EMAIL_CHANGE, {**VARIABLES, "Email": ""})
    assert "is to change to new@example.com." in rendered.text


def test_hostile_values_are_rendered_as_text() -> None:
    hostile = "\"><script>alert(1)</script><a href='javascript:x'>{{ .Token }}"
    rendered = renderer.render(EmailType.IDENTITY_LINKED, {**VARIABLES, "Provider": hostile})
    assert "<script" not in rendered.html
    assert "<a " not in rendered.html
    assert hostile in visible(rendered.html)


def test_templates_see_only_the_variables_of_their_type(auth_config: ChangeConfig) -> None:
    auth_config(
        mailer={"subjects": {"password_changed_notification": "[{{ .Token }}{{ .ConfirmationURL }}{{ .Email }}]"}}
    )
    assert renderer.render(EmailType.PASSWORD_CHANGED, VARIABLES).subject == "[ada@example.com]"


def test_a_configured_subject_is_a_plain_text_template(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"subjects": {"magic_link": "{{ .Data.name }} & co: {{ .Token }}"}})
    assert renderer.render(EmailType.MAGIC_LINK, VARIABLES).subject == "Ada & co: 123456"
    assert renderer.render(EmailType.RECOVERY, VARIABLES).subject == "Reset Your Password"


@pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r", "\u2028", "\x85"])
def test_a_subject_is_one_line(line_break: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"subjects": {"magic_link": f"Hi{line_break} {{{{ .Data.name }}}}"}})
    name = f"Ada{line_break}Bcc: eve@example.com"
    rendered = renderer.render(EmailType.MAGIC_LINK, {**VARIABLES, "Data": {"name": name}})
    assert rendered.subject == "Hi AdaBcc: eve@example.com"


def test_an_invalid_subject_is_replaced_by_the_default(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(mailer={"subjects": {"invite": "{{ if }"}})
    with caplog.at_level(logging.ERROR, logger="mailer.rendering.template_sources"):
        assert renderer.render(EmailType.INVITE, VARIABLES).subject == "You have been invited"
    [record] = caplog.records
    assert record.__dict__["event"] == "templatemailer_template_subject_parse_error"
    assert record.__dict__["mail_type"] == "invite"


def test_the_repr_of_a_rendered_email_hides_its_content() -> None:
    assert "123456" not in repr(renderer.render(EmailType.REAUTHENTICATION, VARIABLES))


def test_an_sms_contains_the_code() -> None:
    assert renderer.render_sms(SmsType.CONFIRMATION, {"Code": "123456", "Data": {"x": 1}}) == "Your code is 123456"


def test_the_text_of_an_sms_is_configurable_plain_text(auth_config: ChangeConfig) -> None:
    auth_config(sms={"template": "<{{ .Code }}> & {{ .Data.x }}{{ if .SiteURL }}!{{ end }}"})
    variables = {"Code": "1'2", "Data": {"x": 1}, "SiteURL": "https://x"}
    assert renderer.render_sms(SmsType.PHONE_CHANGE, variables) == "<1'2> & "


def test_the_text_of_a_factor_code_has_a_separate_setting(auth_config: ChangeConfig) -> None:
    auth_config(mfa={"phone_template": "second: {{ .Code }}"})
    assert renderer.render_sms(SmsType.FACTOR, {"Code": "123456"}) == "second: 123456"
