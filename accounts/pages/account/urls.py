"""Routes of the account pages, below those of the hosted pages."""

from __future__ import annotations

from accounts.pages.account import contacts, factors, identities, own_data, passkeys, password, profile, sessions
from accounts.pages.account.overview import OverviewPage
from accounts.pages.page import HostedPage
from authsvc.api.views import slash_optional

_PAGES: tuple[tuple[str, type[HostedPage], str], ...] = (
    ("account", OverviewPage, "account"),
    ("account/profile", profile.ProfilePage, "profile"),
    ("account/email", contacts.EmailPage, "email"),
    ("account/phone", contacts.PhonePage, "phone"),
    ("account/password", password.PasswordPage, "password"),
    ("account/factors", factors.FactorsPage, "factors"),
    ("account/factors/app", factors.AppPage, "factor_app"),
    ("account/factors/app/code", factors.AppCodePage, "factor_app_code"),
    ("account/factors/phone", factors.PhoneFactorPage, "factor_phone"),
    ("account/factors/phone/code", factors.PhoneCodePage, "factor_phone_code"),
    ("account/factors/key", factors.KeyPage, "factor_key"),
    ("account/factors/recovery-codes", factors.RecoveryCodesPage, "recovery_codes"),
    ("account/factors/<uuid:factor_id>/name", factors.FactorNamePage, "factor_name"),
    ("account/factors/<uuid:factor_id>/removal", factors.FactorRemovalPage, "factor_removal"),
    ("account/passkeys", passkeys.PasskeysPage, "passkeys"),
    ("account/passkeys/new", passkeys.NewPasskeyPage, "passkey_new"),
    ("account/passkeys/<uuid:passkey_id>/name", passkeys.PasskeyNamePage, "passkey_name"),
    ("account/passkeys/<uuid:passkey_id>/removal", passkeys.PasskeyRemovalPage, "passkey_removal"),
    ("account/identities", identities.IdentitiesPage, "identities"),
    ("account/identities/linked", identities.IdentityLinkedPage, "identity_linked"),
    ("account/identities/<uuid:identity_id>/removal", identities.IdentityRemovalPage, "identity_removal"),
    ("account/sessions", sessions.SessionsPage, "sessions"),
    ("account/sessions/others", sessions.OtherSessionsPage, "other_sessions"),
    ("account/data", own_data.DataPage, "data"),
    ("account/deletion", own_data.DeletionPage, "deletion"),
    ("account/deleted", own_data.DeletedPage, "deleted"),
)
urlpatterns = [slash_optional(path, page.as_view(), name=name) for path, page, name in _PAGES]
