"""Routes of accounts."""

from __future__ import annotations

from accounts.administration import audit_views, link_views
from accounts.administration import views as admin_views
from accounts.identities import views as identity_views
from accounts.mfa import views as mfa_views
from accounts.passkeys import views as passkeys_views
from accounts.profile import views as profile_views
from accounts.recovery import views as recovery_views
from accounts.sign_in import views as sign_in_views
from accounts.sign_up import views as sign_up_views
from accounts.verification import views as verification_views
from authsvc.api.views import slash_optional

# The most frequent routes come first.
urlpatterns = [
    slash_optional("user", profile_views.UserView.as_view()),
    slash_optional("admin/users", admin_views.UsersView.as_view()),
    slash_optional("signup", sign_up_views.SignUpView.as_view()),
    slash_optional("verify", verification_views.VerifyView.as_view()),
    slash_optional("verify/confirm", verification_views.ConfirmView.as_view()),
    slash_optional("otp", sign_in_views.OtpView.as_view()),
    slash_optional("magiclink", sign_in_views.MagicLinkView.as_view()),
    slash_optional("resend", verification_views.ResendView.as_view()),
    slash_optional("recover", recovery_views.RecoverView.as_view()),
    slash_optional("factors", mfa_views.FactorsView.as_view()),
    slash_optional("factors/recovery_codes", mfa_views.RecoveryCodesView.as_view()),
    slash_optional("factors/recovery_codes/verify", mfa_views.VerifyRecoveryCodeView.as_view()),
    slash_optional("factors/<str:factor_id>", mfa_views.FactorView.as_view()),
    slash_optional("factors/<str:factor_id>/challenge", mfa_views.ChallengeView.as_view()),
    slash_optional("factors/<str:factor_id>/verify", mfa_views.VerifyFactorView.as_view()),
    slash_optional("passkeys", passkeys_views.PasskeysView.as_view()),
    slash_optional("passkeys/registration/options", passkeys_views.RegistrationOptionsView.as_view()),
    slash_optional("passkeys/registration/verify", passkeys_views.PasskeyRegistrationView.as_view()),
    slash_optional("passkeys/authentication/options", passkeys_views.AuthenticationOptionsView.as_view()),
    slash_optional("passkeys/authentication/verify", passkeys_views.AuthenticationView.as_view()),
    slash_optional("passkeys/<str:passkey_id>", passkeys_views.PasskeyView.as_view()),
    slash_optional("user/identities/<str:identity_id>", identity_views.IdentityView.as_view()),
    slash_optional("reauthenticate", profile_views.ReauthenticateView.as_view()),
    slash_optional("invite", link_views.InviteView.as_view()),
    slash_optional("admin/generate_link", link_views.GenerateLinkView.as_view()),
    slash_optional("admin/users/<str:user_id>", admin_views.AdminUserView.as_view()),
    slash_optional("admin/users/<str:user_id>/factors", admin_views.UserFactorsView.as_view()),
    slash_optional("admin/users/<str:user_id>/factors/<str:factor_id>", admin_views.UserFactorView.as_view()),
    slash_optional("admin/users/<str:user_id>/failed_attempts", admin_views.FailedAttemptsView.as_view()),
    slash_optional("admin/users/<str:user_id>/passkeys", admin_views.UserPasskeysView.as_view()),
    slash_optional("admin/users/<str:user_id>/passkeys/<str:passkey_id>", admin_views.UserPasskeyView.as_view()),
    slash_optional("admin/audit", audit_views.AuditView.as_view()),
]
