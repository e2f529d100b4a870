"""Checks of email, templates and SMS for `manage.py doctor`. They send no message."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import mail

from authsvc import conf, messaging
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.messaging import DeliveryFailed, EmailType
from mailer import sms
from mailer.email.smtp import EmailBackend
from mailer.rendering import message_types, template_sources


class EmailDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        config = conf.current()
        if messaging.is_hooked("email"):
            yield unused("email", "the send-email hook delivers all emails")
        elif config.mailer.dev_inbox_enabled:
            yield warning(
                "email", "goes to the development inbox", "Unset AUTH_MAILER_DEV_INBOX_ENABLED in production."
            )
        elif config.mailer.backend:
            yield _backend(config.mailer.backend)
        elif config.smtp.host:
            yield _server()
        else:
            yield unused(
                "email", "no mail server is configured", "Set AUTH_SMTP_HOST, AUTH_SMTP_PORT and AUTH_SMTP_ADMIN_EMAIL."
            )


class TemplateDiagnostic:
    """Fetches every configured template."""

    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        built_in = 0
        for type in EmailType:
            template = template_sources.template_config(type)
            if not template.url or not message_types.is_enabled(type):
                built_in += 1
                continue
            setting = f"AUTH_MAILER_TEMPLATES_{message_types.EMAIL_DEFINITIONS[type].key.upper()}"
            try:
                template_sources.load_templates(type, template)
            except template_sources.TemplateLoadError as error:
                remedy = f"Correct {setting}. Until then the built-in template is used."
                yield failure("templates", f"{type.value}: {error}", remedy)
            else:
                yield ok("templates", f"{type.value} uses {setting}")
        if built_in:
            yield ok("templates", f"{built_in} email types use their built-in template")


class SmsDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        if messaging.is_hooked("sms"):
            yield unused("SMS", "the send-sms hook delivers all SMS")
            return
        config = conf.current().sms
        is_used = conf.current().signup.phone_enabled or conf.current().mfa.phone_verify_enabled
        gateway = sms.configured_gateway()
        if gateway is None:
            remedy = "Set AUTH_SMS_PROVIDER and its credentials, or disable phone sign-in and phone factors."
            yield failure("SMS", config.problem, remedy) if is_used else unused("SMS", config.problem)
            return
        try:
            gateway.check_credentials()
        except DeliveryFailed as error:
            yield failure("SMS", str(error), f"Check the credentials of {config.provider}.")
        else:
            yield ok("SMS", f"{config.provider} accepts the credentials")


def _server() -> CheckResult:
    config = conf.current().smtp
    address = f"{config.host}:{config.port}"
    try:
        message = EmailBackend().check()
    except DeliveryFailed as error:
        remedy = "Check AUTH_SMTP_HOST, AUTH_SMTP_PORT, AUTH_SMTP_USER, AUTH_SMTP_PASS and the firewall."
        return failure("email", f"{address}: {error}", remedy)
    return ok("email", f"{address} accepts connections: {message}")


def _backend(name: str) -> CheckResult:
    try:
        mail.get_connection(name, fail_silently=False, **conf.current().mailer.backend_options)
    except Exception as error:  # noqa: BLE001  (a configured back end may raise any error)
        # The error's text may quote the options, which contain secrets.
        message = f"{name} cannot be created: {type(error).__name__}"
        return failure("email", message, "Check AUTH_MAILER_BACKEND and AUTH_MAILER_BACKEND_OPTIONS.")
    return ok("email", f"{name} is available; its gateway is not contacted before the first email")
