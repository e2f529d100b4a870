"""Django app that delivers emails and SMS; it receives the two message signals."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

from authsvc import messaging


class MailerConfig(AppConfig):
    name = "mailer"
    verbose_name = "Mail and SMS"

    def ready(self) -> None:
        from authsvc import personal_data
        from authsvc.diagnostics.registry import diagnostics
        from mailer.delivery import receivers
        from mailer.diagnostics import EmailDiagnostic, SmsDiagnostic, TemplateDiagnostic
        from mailer.personal_data import Messages
        from mailer.sms.twilio_verify import TwilioPhoneVerifier

        import_module("mailer.checks")  # registers itself
        messaging.email_requested.connect(receivers.enqueue_email, dispatch_uid="mailer.enqueue_email")
        messaging.sms_requested.connect(receivers.enqueue_sms, dispatch_uid="mailer.enqueue_sms")
        messaging.placeholder_requested.connect(
            receivers.enqueue_placeholder, dispatch_uid="mailer.enqueue_placeholder"
        )
        messaging.phone_verifier.register(TwilioPhoneVerifier())
        diagnostics.register(EmailDiagnostic(), order=30)
        diagnostics.register(TemplateDiagnostic(), order=40)
        diagnostics.register(SmsDiagnostic(), order=50)
        personal_data.register(Messages(), order=30)
