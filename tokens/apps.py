"""Django app of sessions and tokens."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class TokensConfig(AppConfig):
    name = "tokens"

    def ready(self) -> None:
        from authsvc import personal_data
        from authsvc.api import captcha
        from authsvc.diagnostics.registry import diagnostics
        from tokens.api import grants
        from tokens.api.authentication import AdminCaptchaExemption
        from tokens.diagnostics import SigningKeyDiagnostic, check_signing_keys
        from tokens.personal_data import TokensPersonalData

        checks.register(check_signing_keys, checks.Tags.security)
        grants.register("refresh_token", grants.RefreshTokenGrant(), position=2)
        grants.register("pkce", grants.PkceGrant(), position=3)
        captcha.exemption = AdminCaptchaExemption()
        diagnostics.append(SigningKeyDiagnostic())
        personal_data.sources.append(TokensPersonalData())
