"""What `manage.py doctor` finds out about mail and text messages; nothing is sent to anybody."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import mail

from authsvc import conf
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.messaging import EmailKind
from mailer import sms
from mailer.email import smtp
from mailer.errors import NotDelivered
from mailer.rendering import message_types, template_sources


class EmailDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        config = conf.current()
        if config.mailer.dev_inbox_enabled:
            yield warning("mail", "goes to the development inbox", "Unset AUTH_MAILER_DEV_INBOX_ENABLED in production.")
        elif config.mailer.backend:
            yield _backend(config.mailer.backend)
        elif config.smtp.host:
            yield _server()
        else:
            yield unused("mail", "none leaves", "Set AUTH_SMTP_HOST, AUTH_SMTP_PORT and AUTH_SMTP_ADMIN_EMAIL.")


class TemplateDiagnostic:
    """Fetches every template that a mail is to be made from."""

    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        built_in = 0
        for kind in EmailKind:
            origin = template_sources.origin(kind)
            if not origin.url or not message_types.is_enabled(kind):
                built_in += 1
                continue
            setting = f"AUTH_MAILER_TEMPLATES_{message_types.EMAILS[kind].key.upper()}"
            try:
                template_sources.load(kind, origin)
            except template_sources.TemplateUnusable as problem:
                yield failure(
                    "templates", f"{kind.value}: {problem}", f"Mend {setting}; until then the built-in text goes out."
                )
            else:
                yield ok("templates", f"{kind.value} is made from {setting}")
        if built_in:
            yield ok("templates", f"{built_in} kinds of mail have their built-in text")


class SmsDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        config = conf.current().sms
        is_used = conf.current().signup.phone_enabled or conf.current().mfa.phone_verify_enabled
        gateway = sms.configured()
        if gateway is None:
            remedy = "Set AUTH_SMS_PROVIDER and its credentials, or switch phones off."
            problem = config.problem
            yield failure("text messages", problem, remedy) if is_used else unused("text messages", problem)
            return
        try:
            gateway.try_out()
        except NotDelivered as error:
            yield failure("text messages", str(error), f"Check the credentials of {config.provider}.")
        else:
            yield ok("text messages", f"{config.provider} takes the credentials")


def _server() -> CheckResult:
    config = conf.current().smtp
    place = f"{config.host}:{config.port}"
    try:
        message = smtp.try_out()
    except NotDelivered as error:
        remedy = (
            "Check AUTH_SMTP_HOST, AUTH_SMTP_PORT, AUTH_SMTP_USER, AUTH_SMTP_PASS, and that this host may go there."
        )
        return failure("mail", f"{place}: {error}", remedy)
    return ok("mail", f"{place} greets back: {message}")


def _backend(name: str) -> CheckResult:
    try:
        mail.get_connection(name, fail_silently=False, **conf.current().mailer.backend_options)
    except Exception as error:  # noqa: BLE001  (whatever a back end of the operator's choice raises)
        # Its words are left out: they may quote the options.
        message = f"{name} cannot be made: {type(error).__name__}"
        return failure("mail", message, "Check AUTH_MAILER_BACKEND and AUTH_MAILER_BACKEND_OPTIONS.")
    return ok("mail", f"{name} is there; whether its gateway takes mail shows when the first is sent")
