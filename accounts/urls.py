"""Routes of accounts."""

from __future__ import annotations

from accounts.views import identities, passwordless, recovery, signup, user, verify
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
]
