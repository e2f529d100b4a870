"""Groups of errors for the documentation of endpoints."""

from __future__ import annotations

from accounts import errors
from authsvc.errors import (
    EmailRateExceeded,
    EmailSentTooRecently,
    SmsGatewayMissing,
    SmsRateExceeded,
    SmsSentTooRecently,
)
from authsvc.messaging import MessageNotAccepted

EMAIL_FORMAT = (errors.EmailRequired, errors.EmailTooLong, errors.EmailInvalid)
"""An address with an invalid format."""
RECIPIENT = (errors.EmailAddressInvalid, errors.EmailAddressNotAuthorized)
"""An address that cannot receive emails."""
EMAIL_DELIVERY = (*RECIPIENT, EmailRateExceeded, MessageNotAccepted)
EMAIL_REQUEST = (*EMAIL_DELIVERY, EmailSentTooRecently)
"""A requested email, of which one is allowed per interval."""
SMS_REQUEST = (errors.ChannelInvalid, SmsGatewayMissing, SmsRateExceeded, SmsSentTooRecently, MessageNotAccepted)
NEW_PASSWORD = (errors.PasswordTooLong, errors.WeakPassword, errors.BreachLookupFailed)
CONTACT_CHANGE = (errors.EmailExists, errors.PhoneExists)
"""A confirmed email or phone that another user has taken since it was requested."""
