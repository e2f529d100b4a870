"""Django app of the hooks."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

from authsvc import conf


class HooksConfig(AppConfig):
    name = "hooks"
    verbose_name = "Hooks and webhooks"

    def ready(self) -> None:
        from accounts.users import attempt_hooks, creation_hook
        from authsvc import events, personal_data
        from authsvc.api.openapi import responses
        from authsvc.messaging import contract
        from hooks import errors
        from hooks.points.access_token import AccessTokenHook
        from hooks.points.messages import MessageHooks
        from hooks.points.user_creation import UserCreationHooks
        from hooks.points.verification_attempts import VerificationAttemptHooks
        from hooks.webhooks.personal_data import WebhooksPersonalData
        from hooks.webhooks.recording import WebhookSink
        from tokens.sessions import issuing

        import_module("hooks.checks")  # registers itself
        responses.ANYWHERE += (
            errors.HookTimedOut,
            errors.HookUnreachable,
            errors.InvalidHookContentType,
            errors.HookResponseTooLarge,
        )
        issuing.claims_hook = AccessTokenHook()
        contract.message_hook = MessageHooks()
        attempt_hooks.hooks = VerificationAttemptHooks()
        creation_hook.hook = UserCreationHooks()
        events.sinks.append(WebhookSink())
        personal_data.sources.append(WebhooksPersonalData())
        if conf.current().telemetry.metrics:
            # Not loaded otherwise, as the library that it imports.
            from authsvc.observability import metrics
            from hooks.webhooks.backlog_metrics import BacklogCollector

            metrics.installation_collectors.append(BacklogCollector())
