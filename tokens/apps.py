"""Django app of sessions and tokens."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"

    def ready(self) -> None:
        from authsvc import personal_data
        from authsvc.api import captcha
        from authsvc.diagnostics.registry import diagnostics
        from tokens.api import grants
        from tokens.api.admin_auth import AdminCaptchaExemption
        from tokens.diagnostics import SigningKeyDiagnostic
        from tokens.personal_data import SignIns

        import_module("tokens.checks")  # registers itself
        grants.register("refresh_token", grants.RefreshTokenGrant(), position=2)
        grants.register("pkce", grants.PkceGrant(), position=3)
        captcha.exemption = AdminCaptchaExemption()
        diagnostics.append(SigningKeyDiagnostic())
        personal_data.sources.append(SignIns())
