"""Texts of the pages for errors of the services, by `error_code`."""

from __future__ import annotations

import math

from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from accounts import errors
from accounts.mfa.errors import FactorAttemptRejected
from accounts.passkeys.errors import PasskeyNotFound
from accounts.passwords import policy
from accounts.profile import errors as profile_errors
from accounts.sign_in.errors import PasswordAttemptRejected
from accounts.verification import errors as verification_errors
from authsvc import conf
from authsvc.errors import ApiError, BodyTooLarge, HookError
from tokens.sessions.errors import SessionAlreadyEnded

_TEXTS: dict[str, str | Promise] = {
    "anonymous_provider_disabled": _("This is not available."),
    "bad_code_verifier": _("The sign-in was started in another browser. Start again."),
    "captcha_failed": _("The captcha was not solved. Try again."),
    "current_password_invalid": _("The current password is wrong."),
    "current_password_required": _("Enter your current password."),
    "database_unavailable": _("The service is busy. Try again in a moment."),
    "email_address_invalid": _("Enter a valid email address."),
    "email_address_not_authorized": _("This email address cannot be used here."),
    "email_conflict_identity_not_deletable": _(
        "This account cannot be unlinked, because its email address belongs to another account."
    ),
    "email_exists": _("This email address is already in use."),
    "email_not_confirmed": _("Your email address is not confirmed yet. Open the link in the email that we sent you."),
    "email_provider_disabled": _("Sign-in with an email address is not available."),
    "flow_state_already_used": _("The sign-in took too long. Start again."),
    "flow_state_expired": _("The sign-in took too long. Start again."),
    "flow_state_not_found": _("The sign-in took too long. Start again."),
    "identity_already_exists": _("This identity is already linked to an account."),
    "identity_not_found": _("This account is not linked any more."),
    "insufficient_aal": _("Confirm your second factor first."),
    "invalid_credentials": _("The email address, the phone number or the password is wrong."),
    "invite_not_found": _("This invitation is not valid any more."),
    "manual_linking_disabled": _("Accounts cannot be linked here."),
    "mfa_challenge_expired": _("The code has expired. Request a new one."),
    "mfa_factor_name_conflict": _("You have a factor with this name already. Choose another name."),
    "mfa_factor_not_found": _("This factor does not exist any more."),
    "mfa_ip_address_mismatch": _("The code was requested from another network. Request a new one."),
    "mfa_phone_enroll_not_enabled": _("Phones cannot be added as a second factor here."),
    "mfa_phone_verify_not_enabled": _("This second factor cannot be used at the moment."),
    "mfa_recovery_codes_not_enabled": _("Recovery codes are not available."),
    "mfa_totp_enroll_not_enabled": _("Authenticator apps cannot be added here."),
    "mfa_totp_verify_not_enabled": _("This second factor cannot be used at the moment."),
    "mfa_verification_failed": _("The code is wrong. Check it and try again."),
    "mfa_verified_factor_exists": _("This phone is a second factor already."),
    "mfa_webauthn_enroll_not_enabled": _("Security keys cannot be added here."),
    "mfa_webauthn_verify_not_enabled": _("This second factor cannot be used at the moment."),
    "oauth_authorization_not_found": _(
        "This request has expired or belongs to another account. Go back to the application and start again."
    ),
    "oauth_client_not_found": _("The application that has sent you here is not known to this service."),
    "oauth_consent_not_found": _("This application has no access to your account any more."),
    "otp_disabled": _("There is no account for this address."),
    "otp_expired": _("The link or code is wrong, has expired or was used already. Request a new one."),
    "over_capacity": _("The service is busy. Try again in a moment."),
    "over_request_rate_limit": _("There were too many attempts. Try again later."),
    "passkey_disabled": _("Passkeys are not available."),
    "phone_exists": _("This phone number is already in use."),
    "phone_not_confirmed": _("Your phone number is not confirmed yet."),
    "phone_provider_disabled": _("Sign-in with a phone number is not available."),
    "provider_disabled": _("This provider is not available."),
    "provider_email_needs_verification": _(
        "Your email address is not confirmed yet. Open the link in the email that we sent you."
    ),
    "reauthentication_needed": _("This needs a recent sign-in. Sign out and sign in again."),
    "reauthentication_not_valid": _("The code is wrong or has expired. Request a new one."),
    "request_timeout": _("The service is busy. Try again in a moment."),
    "same_password": _("The new password is the same as the present one. Choose another one."),
    "session_expired": _("Your session has expired. Sign in again."),
    "session_not_found": _("Your session has ended. Sign in again."),
    "signup_disabled": _("New accounts cannot be created here."),
    "single_identity_not_deletable": _("You cannot unlink your only sign-in method. Link another account first."),
    "too_many_enrolled_mfa_factors": _("You have the maximum number of factors. Remove one first."),
    "too_many_passkeys": _("You have the maximum number of passkeys. Remove one first."),
    "unexpected_failure": _("Something went wrong. Try again later."),
    "user_already_exists": _("There is an account for this address already. Sign in instead."),
    "user_banned": _("This account is locked."),
    "user_not_found": _("This account does not exist any more."),
    "user_sso_managed": _("Your organisation manages your account. Change this there."),
    "weak_password": _("This password is too weak. Choose a longer or less common one."),
    "webauthn_challenge_expired": _("The prompt has expired. Try again."),
    "webauthn_challenge_not_found": _("The prompt has expired. Try again."),
    "webauthn_credential_exists": _("This passkey is registered already."),
    "webauthn_verification_failed": _("The passkey or security key was not accepted."),
}
_TEXTS_OF_CLASSES: dict[type[ApiError], str | Promise] = {
    errors.EmailInvalid: _("Enter a valid email address."),
    errors.EmailTooLong: _("Enter a valid email address."),
    errors.PhoneInvalid: _("Enter a valid phone number with its country code, such as +1 555 123 4567."),
    BodyTooLarge: _("The form is too large. Shorten your input."),
    FactorAttemptRejected: _("The sign-in was refused."),
    PasskeyNotFound: _("This passkey does not exist any more."),
    PasswordAttemptRejected: _("The sign-in was refused."),
    SessionAlreadyEnded: _("This session has already ended."),
    profile_errors.OperatorAccount: _("Operators cannot delete their own account. Ask another operator."),
    verification_errors.InvalidEmailVerificationType: _TEXTS["otp_expired"],
    errors.PasswordTooLong: _("This password is too long. Choose one with at most 72 characters."),
}
"""For errors that share a code."""
_REFUSALS = (FactorAttemptRejected, PasswordAttemptRejected, HookError)
_WITH_WAITING_TIME = frozenset({"over_email_send_rate_limit", "over_sms_send_rate_limit"})
_LONG_WAIT = 90
"""Seconds; longer waits are given in minutes."""


def error_text(error: ApiError) -> str:
    """The text for an error; where none exists for its code, the English message of the API or a general text.

    A hook that refuses a request chooses the text itself.
    """
    if isinstance(error, _REFUSALS):
        return _refusal_text(error)
    if error.error_code in _WITH_WAITING_TIME:
        return _waiting_text(error)
    if isinstance(error, errors.PasswordTooWeak):
        return _weakness_text(error)
    text = _TEXTS_OF_CLASSES.get(type(error)) or _TEXTS.get(error.error_code)
    if text is not None:
        return str(text)
    is_english = (translation.get_language() or conf.ENGLISH).startswith(conf.ENGLISH)
    return error.message if is_english else gettext("This did not work. Check your input, and try again.")


def _refusal_text(error: ApiError) -> str:
    if isinstance(error, HookError):
        return error.message if error.is_refusal else str(_TEXTS["unexpected_failure"])
    is_default = error.message == type(error).message
    return str(_TEXTS_OF_CLASSES[type(error)]) if is_default else error.message


def text_of_code(error_code: str) -> str:
    """The text for an `error_code` that a redirect has brought; empty for an unknown one."""
    return str(_TEXTS.get(error_code, ""))


def _waiting_text(error: ApiError) -> str:
    if error.retry_after is None:
        return gettext("Too many messages were sent. Try again later.")
    seconds = max(1, math.ceil(error.retry_after))
    if seconds > _LONG_WAIT:
        minutes = math.ceil(seconds / 60)
        return gettext("A message was sent a short time ago. Try again in %(minutes)s minutes.") % {"minutes": minutes}
    return ngettext(
        "A message was sent a moment ago. Try again in %(seconds)s second.",
        "A message was sent a moment ago. Try again in %(seconds)s seconds.",
        seconds,
    ) % {"seconds": seconds}


def _weakness_text(error: errors.PasswordTooWeak) -> str:
    texts = {
        "length": gettext("The password needs at least %(count)s characters.") % {"count": policy.min_length()},
        "characters": gettext("The password lacks a required kind of character."),
        "pwned": gettext("The password is known from data breaches. Choose a different one."),
    }
    return " ".join(texts[reason] for reason in error.reasons if reason in texts) or str(_TEXTS["weak_password"])
