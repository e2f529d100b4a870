"""Django app that delivers emails and SMS; it receives the signals of `authsvc.messaging`."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

from authsvc import messaging
from authsvc.messaging import contract


class MailerConfig(AppConfig):
    name = "mailer"
    verbose_name = "Mail and SMS"

    def ready(self) -> None:
        from authsvc import personal_data
        from authsvc.diagnostics.registry import diagnostics
        from mailer.delivery import receivers
        from mailer.diagnostics import EmailDiagnostic, SmsDiagnostic, TemplateDiagnostic
        from mailer.personal_data import MailerPersonalData
        from mailer.sms.twilio_verify import TwilioPhoneVerifier

        import_module("mailer.checks")  # registers itself
        messaging.email_requested.connect(receivers.enqueue_email, dispatch_uid="mailer.enqueue_email")
        messaging.sms_requested.connect(receivers.enqueue_sms, dispatch_uid="mailer.enqueue_sms")
        messaging.placeholder_requested.connect(
            receivers.enqueue_placeholder, dispatch_uid="mailer.enqueue_placeholder"
        )
        contract.phone_verifier = TwilioPhoneVerifier()
        diagnostics.extend([EmailDiagnostic(), TemplateDiagnostic(), SmsDiagnostic()])
        personal_data.sources.append(MailerPersonalData())
