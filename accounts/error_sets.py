"""Errors that come together, for the declarations of endpoints."""

from __future__ import annotations

from accounts import errors
from accounts.administration import errors as administration_errors
from accounts.mfa import errors as mfa_errors
from accounts.passkeys import errors as passkeys_errors
from authsvc.errors import (
    EmailRateExceeded,
    EmailSentTooRecently,
    SmsGatewayMissing,
    SmsRateExceeded,
    SmsSentTooRecently,
)
from authsvc.messaging import MessageNotAccepted

EMAIL_FORMAT = (errors.EmailRequired, errors.EmailTooLong, errors.EmailInvalid)
"""Of an address as it is written."""
RECIPIENT = (errors.EmailAddressInvalid, errors.EmailAddressNotAuthorized)
"""Of an address that something is to be sent to."""
EMAIL_DELIVERY = (*RECIPIENT, EmailRateExceeded, MessageNotAccepted)
EMAIL_REQUEST = (*EMAIL_DELIVERY, EmailSentTooRecently)
"""Of a mail that somebody asks for; there is one in each interval."""
SMS_REQUEST = (errors.ChannelInvalid, SmsGatewayMissing, SmsRateExceeded, SmsSentTooRecently, MessageNotAccepted)
NEW_PASSWORD = (errors.PasswordTooLong, errors.WeakPassword, errors.BreachLookupFailed)
CONTACT_CHANGE = (errors.EmailExists, errors.PhoneExists)
"""Of a confirmed address or number that has become somebody else's meanwhile."""
PATH_OF_USER = (administration_errors.UserIdNotAUuid, errors.UserNotFound)
PATH_OF_FACTOR = (mfa_errors.FactorIdNotAUuid, mfa_errors.FactorNotFound)
FACTOR_SWITCHES_AT_VERIFICATION = (
    mfa_errors.TotpVerificationDisabled,
    mfa_errors.PhoneVerificationDisabled,
    mfa_errors.WebAuthnVerificationDisabled,
    mfa_errors.FactorTypeUnknown,
    mfa_errors.NoGatewayForFactor,
)
PASSKEY_CHALLENGE = (
    passkeys_errors.RelyingPartyUnknown,
    passkeys_errors.ChallengeIdMissing,
    passkeys_errors.ChallengeIdMalformed,
    passkeys_errors.CredentialMissing,
    passkeys_errors.PasskeyChallengeNotFound,
    passkeys_errors.PasskeyChallengeExpired,
    passkeys_errors.CredentialMalformed,
    passkeys_errors.CredentialRefused,
)
EXTERNAL_IDENTITY = (
    *EMAIL_REQUEST,
    errors.SignupDisabled,
    errors.UserBanned,
    errors.ProviderEmailNotVerified,
    errors.AmbiguousAccount,
    errors.IdentityNotCreated,
    errors.UserNotFound,
    errors.IdentityAlreadyLinked,
    errors.IdentityOfAnotherUser,
    errors.LinkedEmailExists,
    errors.LinkedEmailNotVerified,
)
"""Of somebody who comes with an identity from elsewhere."""
