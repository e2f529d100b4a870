"""Errors that come together, for the declarations of endpoints."""

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
