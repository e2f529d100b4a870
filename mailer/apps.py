"""The mailer as a Django app: connects the receivers of the two message signals."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

from authsvc import messaging


class MailerConfig(AppConfig):
    name = "mailer"
    verbose_name = "Mail and SMS"

    def ready(self) -> None:
        import_module("mailer.checks")  # registers itself
        from mailer.delivery import receivers  # noqa: PLC0415  (needs models, which are loaded after the app configurations)

        messaging.email_requested.connect(receivers.accept_email, dispatch_uid="mailer.accept_email")
        messaging.sms_requested.connect(receivers.accept_sms, dispatch_uid="mailer.accept_sms")
        messaging.placeholder_requested.connect(receivers.accept_decoy, dispatch_uid="mailer.accept_decoy")
