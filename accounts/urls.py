"""Routes of accounts."""

from __future__ import annotations

from accounts.views import audit, factors, passkeys, passwordless, recovery, signup, user, verify
from accounts.views.admin import factors as admin_factors
from accounts.views.admin import generate_link, invite, users
from accounts.views.admin import passkeys as admin_passkeys
from authsvc.core.web.routes import both

# What is asked most comes first.
urlpatterns = [
    *both("user", user.UserView.as_view()),
    *both("admin/users", users.UsersView.as_view()),
    *both("signup", signup.SignUpView.as_view()),
    *both("verify", verify.VerifyView.as_view()),
    *both("verify/confirm", verify.ConfirmView.as_view()),
    *both("otp", passwordless.OtpView.as_view()),
    *both("magiclink", passwordless.MagicLinkView.as_view()),
    *both("resend", passwordless.ResendView.as_view()),
    *both("recover", recovery.RecoverView.as_view()),
    *both("factors", factors.FactorsView.as_view()),
    *both("factors/recovery_codes", factors.RecoveryCodesView.as_view()),
    *both("factors/recovery_codes/verify", factors.VerifyRecoveryCodeView.as_view()),
    *both("factors/<str:factor_id>", factors.FactorView.as_view()),
    *both("factors/<str:factor_id>/challenge", factors.ChallengeView.as_view()),
    *both("factors/<str:factor_id>/verify", factors.VerifyFactorView.as_view()),
    *both("passkeys", passkeys.PasskeysView.as_view()),
    *both("passkeys/registration/options", passkeys.RegistrationOptionsView.as_view()),
    *both("passkeys/registration/verify", passkeys.RegistrationView.as_view()),
    *both("passkeys/authentication/options", passkeys.AuthenticationOptionsView.as_view()),
    *both("passkeys/authentication/verify", passkeys.AuthenticationView.as_view()),
    *both("passkeys/<str:passkey_id>", passkeys.PasskeyView.as_view()),
    *both("user/identities/<str:identity_id>", user.IdentityView.as_view()),
    *both("reauthenticate", user.ReauthenticateView.as_view()),
    *both("invite", invite.InviteView.as_view()),
    *both("admin/generate_link", generate_link.GenerateLinkView.as_view()),
    *both("admin/users/<str:user_id>", users.UserView.as_view()),
    *both("admin/users/<str:user_id>/factors", admin_factors.FactorsView.as_view()),
    *both("admin/users/<str:user_id>/factors/<str:factor_id>", admin_factors.FactorView.as_view()),
    *both("admin/users/<str:user_id>/passkeys", admin_passkeys.PasskeysView.as_view()),
    *both("admin/users/<str:user_id>/passkeys/<str:passkey_id>", admin_passkeys.PasskeyView.as_view()),
    *both("admin/audit", audit.AuditView.as_view()),
]
