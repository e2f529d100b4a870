"""Routes of the account pages, below the console's."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.urls import URLPattern, path

from authsvc.console.account import codes, factors, overview, passkeys, password, sessions
from authsvc.console.account.account_view import account_view

View = Callable[..., HttpResponse]


def account_urls(console_view: Callable[[View], View]) -> list[URLPattern]:
    """`console_view` applies the policies of console views."""

    def route(pattern: str, view: View, name: str, *, serves_enrolment: bool = False) -> URLPattern:
        return path(
            f"account/{pattern}", console_view(account_view(view, serves_enrolment=serves_enrolment)), name=name
        )

    return [
        route("", overview.show, "account", serves_enrolment=True),
        route("password/", password.change, "account_password"),
        route("app/", factors.add_app, "account_app", serves_enrolment=True),
        route("app/code/", factors.verify_app, "account_app_code", serves_enrolment=True),
        route("key/", factors.add_key, "account_key", serves_enrolment=True),
        route("factors/<uuid:factor_id>/name/", factors.rename, "account_factor_rename"),
        route("factors/<uuid:factor_id>/removal/", factors.remove, "account_factor_remove"),
        route("passkey/", passkeys.add, "account_passkey"),
        route("passkeys/<uuid:passkey_id>/name/", passkeys.rename, "account_passkey_rename"),
        route("passkeys/<uuid:passkey_id>/removal/", passkeys.remove, "account_passkey_remove"),
        route("recovery-codes/", codes.create, "account_recovery_codes"),
        route("sessions/end/", sessions.end, "account_session_end"),
        route("sessions/end-others/", sessions.end_others, "account_sessions_end"),
    ]
