"""Routes of the hosted pages."""

from __future__ import annotations

from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from accounts.pages.account.urls import urlpatterns as account_urlpatterns
from accounts.pages.code import CodePage
from accounts.pages.confirmation import ConfirmationPage
from accounts.pages.language import LanguagePage
from accounts.pages.providers import ProviderCallbackPage, ProviderPage
from accounts.pages.recovery import NewPasswordPage, RecoverPage
from accounts.pages.second_factor import SecondFactorPage
from accounts.pages.sign_in import SignedOutPage, SignInPage, SignOutPage
from accounts.pages.sign_up import SignUpPage
from authsvc import conf
from authsvc.api.static_files import StaticFiles
from authsvc.api.views import slash_optional

_FILES = StaticFiles(Path(__file__).parent / "static")


def serve_file(request: HttpRequest, name: str) -> HttpResponse:
    """A style sheet or script of the pages."""
    if not conf.current().pages.enabled:
        raise Http404
    return _FILES.serve(request, name)


app_name = "pages"
urlpatterns = [
    slash_optional("account/sign-in", SignInPage.as_view(), name="sign_in"),
    slash_optional("account/code", CodePage.as_view(), name="code"),
    slash_optional("account/sign-up", SignUpPage.as_view(), name="sign_up"),
    slash_optional("account/confirm", ConfirmationPage.as_view(), name="confirm"),
    slash_optional("account/recover", RecoverPage.as_view(), name="recover"),
    slash_optional("account/new-password", NewPasswordPage.as_view(), name="new_password"),
    slash_optional("account/provider", ProviderPage.as_view(), name="provider"),
    slash_optional("account/callback", ProviderCallbackPage.as_view(), name="provider_callback"),
    slash_optional("account/second-factor", SecondFactorPage.as_view(), name="second_factor"),
    slash_optional("account/sign-out", SignOutPage.as_view(), name="sign_out"),
    slash_optional("account/language", LanguagePage.as_view(), name="language"),
    slash_optional("account/signed-out", SignedOutPage.as_view(), name="signed_out"),
    path(f"account/static/{_FILES.fingerprint}/<path:name>", serve_file, name="file"),
    *account_urlpatterns,
]
