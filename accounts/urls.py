"""Routes of accounts."""

from __future__ import annotations

from accounts.views import audit, identities, passwordless, recovery, signup, user, verify
from accounts.views.admin import factors, generate_link, invite, users
from authsvc.core.web.routes import both

urlpatterns = [
    *both("signup", signup.SignUpView.as_view()),
    *both("verify", verify.VerifyView.as_view()),
    *both("verify/confirm", verify.ConfirmView.as_view()),
    *both("otp", passwordless.OtpView.as_view()),
    *both("magiclink", passwordless.MagicLinkView.as_view()),
    *both("resend", passwordless.ResendView.as_view()),
    *both("recover", recovery.RecoverView.as_view()),
    *both("user", user.UserView.as_view()),
    *both("user/identities/authorize", identities.LinkIdentityView.as_view()),
    *both("reauthenticate", user.ReauthenticateView.as_view()),
    *both("invite", invite.InviteView.as_view()),
    *both("admin/generate_link", generate_link.GenerateLinkView.as_view()),
    *both("admin/users", users.UsersView.as_view()),
    *both("admin/users/<str:user_id>", users.UserView.as_view()),
    *both("admin/users/<str:user_id>/factors", factors.FactorsView.as_view()),
    *both("admin/users/<str:user_id>/factors/<str:factor_id>", factors.FactorView.as_view()),
    *both("admin/audit", audit.AuditView.as_view()),
]
