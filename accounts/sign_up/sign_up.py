"""Registering: a new account, a repeated sign-up of an unconfirmed one, and the look-alike a confirmed one gets."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.identities import account_claiming
from accounts.messages import confirmation_emails, recipients, sms_codes
from accounts.models import User
from accounts.passwords import policy
from accounts.sign_up import account_creation
from accounts.users import identifiers, json_columns, queries, records
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailKind, IntervalGroup
from authsvc.security import encryption
from tokens.flows import pkce
from tokens.flows.pkce import Challenge
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.issuance import TokenPair


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUp:
    """What a client asks for: exactly one of address and number, both in normalised form."""

    email: str = ""
    phone: str = ""
    password: str | None = dataclasses.field(repr=False)
    """None: an account nobody has chosen a password for, as made on the way to a magic link."""
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    channel: str = "sms"
    challenge: Challenge | None = None
    redirect_to: str

    @property
    def provider(self) -> str:
        return "email" if self.email else "phone"

    @property
    def traits(self) -> dict[str, str]:
        return {"provider": self.provider}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The account as the client may see it, and tokens when this request confirmed its address."""

    user: UserRecord
    tokens: TokenPair | None = None
    message_id: str | None = None
    """Of the message that asks for confirmation; None when none was sent."""


def register(
    *,
    email: str,
    phone: str,
    password: str,
    data: Mapping[str, Any],
    channel: str,
    code_challenge: str | None,
    code_challenge_method: str | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Outcome:
    """Sign somebody up by address or number. Raises the errors of the sign-up endpoint, in its documented order."""
    config = conf.current()
    if config.signup.disabled:
        raise errors.SignupDisabled
    if not password:
        raise errors.PasswordRequired
    policy.check_policy(password)
    if email and phone:
        raise errors.OnlyOneIdentifierOnSignup
    if phone:
        channel = identifiers.channel(channel)
        if code_challenge:
            raise errors.PkceNotForPhone
    challenge = pkce.parse_challenge(challenge=code_challenge, method=code_challenge_method)
    if email and not config.signup.email_enabled:
        raise errors.EmailSignupsDisabled
    if phone and not config.signup.phone_enabled:
        raise errors.PhoneSignupsDisabled
    wanted = SignUp(
        email=identifiers.email(email) if email else "",
        phone=identifiers.phone(phone) if phone else "",
        password=password,
        data=data,
        channel=channel,
        challenge=challenge,
        redirect_to=redirect_to,
    )
    return admit(wanted, group=IntervalGroup.CONFIRMATION, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("anonymous", user_id=lambda done: done.user.id)
def anonymous(*, data: Mapping[str, Any], caller: Caller, at: datetime) -> Outcome:
    """Sign in somebody who gives no address: a user without identity, to be made permanent later."""
    if conf.current().signup.disabled:
        raise errors.SignupDisabled
    with transaction.atomic(durable=True):
        user = account_creation.insert_anonymous(data=data, audience=caller.audience, at=at)
        return Outcome(user=user, tokens=lifecycle.start_session(user=user, method="anonymous", caller=caller, at=at))


def admit(wanted: SignUp, *, group: IntervalGroup, caller: Caller, at: datetime) -> Outcome:
    """The part that every request shares which may have to create an account; nothing is open on the way in.

    Under auto-confirm the address counts as confirmed at once; a session starts only where a password was chosen.
    """
    confirmed_at_once = conf.current().mailer.autoconfirm if wanted.email else conf.current().sms.autoconfirm
    if not confirmed_at_once:
        if wanted.email:
            messaging.enforce_email_interval(group, address=wanted.email)
        else:
            messaging.enforce_sms_interval(group, address=wanted.phone)
    found = _find(wanted)
    # Hashed whatever was found, so that the time taken tells nothing.
    password_hash = policy.undisclosed() if wanted.password is None else policy.hash(wanted.password)
    if found is None:
        try:
            return _create(wanted, password_hash=password_hash, confirmed=confirmed_at_once, caller=caller, at=at)
        except IntegrityError:
            found = _find(wanted)  # somebody else was first
            if found is None:
                raise
    confirmed_before = found.email_confirmed_at if wanted.email else found.phone_confirmed_at
    # Once somebody owns the account, confirming an address without its mail would hand it to whoever claims that.
    is_owned = confirmed_at_once and found.confirmed_at is not None
    if confirmed_before is not None or is_owned or found.aud != caller.audience:
        return _duplicate(wanted, found, caller=caller, at=at)
    repeated = _repeat(wanted, found, password_hash=password_hash, confirmed=confirmed_at_once, caller=caller, at=at)
    return repeated or _duplicate(wanted, found, caller=caller, at=at)


def _find(wanted: SignUp) -> UserRecord | None:
    """By address or number over all audiences, in which both are unique."""
    row = queries.by_email(wanted.email, aud=None) if wanted.email else queries.by_phone(wanted.phone, aud=None)
    return records.read(row) if row else None


def _admit_message(wanted: SignUp, *, at: datetime) -> None:
    """Recipient and quota of the message that asks for confirmation, before anything is open."""
    if wanted.email:
        recipients.admit(wanted.email, kind=EmailKind.CONFIRMATION)
    else:
        sms_codes.admit(wanted.phone, at=at)


def _create(wanted: SignUp, *, password_hash: str, confirmed: bool, caller: Caller, at: datetime) -> Outcome:
    if not confirmed:
        _admit_message(wanted, at=at)
    with transaction.atomic(durable=True):
        user = account_creation.insert(
            email=wanted.email,
            phone=wanted.phone,
            password_hash=password_hash,
            data=wanted.data,
            audience=caller.audience,
            confirmed=confirmed,
            at=at,
        )
        if confirmed:
            return _confirmed(wanted, user, caller=caller, at=at)
        return Outcome(user=user, message_id=_ask_for_confirmation(wanted, user, caller=caller, at=at))


def _repeat(
    wanted: SignUp, found: UserRecord, *, password_hash: str, confirmed: bool, caller: Caller, at: datetime
) -> Outcome | None:
    """An address that nobody has proved yet: what was asked last counts, and ends what was asked before.

    None when somebody has proved it just now, while the password was hashed: the account is theirs as it is.
    """
    if not confirmed:
        _admit_message(wanted, at=at)
    # Who has proved the other of address and number owns the account: a stranger must not choose its password.
    is_nobodys = found.confirmed_at is None
    identity_data = None
    if is_nobodys and wanted.password is not None:
        identity_data = account_creation.first_identity_data(user_id=found.id, email=wanted.email, data=wanted.data)
    with transaction.atomic(durable=True):
        is_repeated = queries.repeat_sign_up(
            user_id=found.id,
            provider=wanted.provider,
            stamped=f"{wanted.provider}_confirmed_at" if confirmed else "confirmation_sent_at",
            is_nobodys=is_nobodys,
            password=encryption.encrypt(password_hash, bound_to=found.id) if is_nobodys else None,
            user_metadata=None if identity_data is None else json.dumps(account_creation.user_metadata(identity_data)),
            identity_data=None if identity_data is None else json.dumps(identity_data),
            at=at,
        )
        if not is_repeated:
            return None
        if is_nobodys:
            account_claiming.turn_out(found, said=identity_data, at=at)
        if confirmed and wanted.email:
            merged = json_columns.merged("raw_user_meta_data", {"email_verified": True})
            User.objects.filter(id=found.id).update(raw_user_meta_data=merged)
        row = queries.by_id(found.id)
        user = records.read(row) if row else found
        if confirmed:
            one_time_tokens.delete_all(user.id)
            return _confirmed(wanted, user, caller=caller, at=at)
        message_id = _ask_for_confirmation(wanted, user, caller=caller, at=at)
    if user.invited_at is not None or user.confirmed_at is not None:
        # What an administrator wrote into an invitation, or the owner into the account, is not for whoever signs up.
        user = dataclasses.replace(user, user_metadata_json="{}", identities=())
    return Outcome(user=user, message_id=message_id)


def _ask_for_confirmation(wanted: SignUp, user: UserRecord, *, caller: Caller, at: datetime) -> str:
    """Mail or text the secret that proves the address or number; returns the message's id."""
    if wanted.phone:
        return sms_codes.send_sign_up_code(user, channel=wanted.channel, traits=wanted.traits, caller=caller, at=at)
    return confirmation_emails.send(
        confirmation_emails.SIGN_UP,
        user,
        challenge=wanted.challenge,
        redirect_to=wanted.redirect_to,
        traits=wanted.traits,
        caller=caller,
        at=at,
    )


def _confirmed(wanted: SignUp, user: UserRecord, *, caller: Caller, at: datetime) -> Outcome:
    """This request has confirmed the address."""
    traits = wanted.traits if wanted.email else {**wanted.traits, "channel": wanted.channel}
    audit.record(audit.Action.SIGNED_UP, actor=user, caller=caller, at=at, traits=traits)
    if wanted.password is None:
        return Outcome(user=user)
    audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=wanted.traits)
    User.objects.filter(id=user.id).update(last_sign_in_at=at, updated_at=at)
    user = dataclasses.replace(user, last_sign_in_at=at, updated_at=at)
    transaction.on_commit(functools.partial(sign_in_metrics.record_sign_in, "password", user_id=user.id))
    return Outcome(user=user, tokens=lifecycle.start_session(user=user, method="password", caller=caller, at=at))


def _duplicate(wanted: SignUp, found: UserRecord, *, caller: Caller, at: datetime) -> Outcome:
    """A confirmed account: an error where sign-ups are confirmed at once, elsewhere what a new account would get."""
    strict = conf.current().signup.strict_privacy_enabled
    if (conf.current().mailer.autoconfirm or conf.current().sms.autoconfirm) and not strict:
        raise errors.UserAlreadyRegistered if wanted.email else errors.PhoneAlreadyRegistered
    if wanted.email:
        recipients.feign(wanted.email, kind=EmailKind.CONFIRMATION)
    elif not conf.current().sms.autoconfirm:
        sms_codes.feign(wanted.phone, at=at)
    with transaction.atomic(durable=True):
        audit.record(audit.Action.REPEATED_SIGNUP, actor=found, caller=caller, at=at, traits=wanted.traits)
        messaging.simulate_send()
    look_alike = account_creation.look_alike(
        email=wanted.email, phone=wanted.phone, data=wanted.data, audience=caller.audience, at=at
    )
    if not strict:
        # What clients of other servers tell a duplicate by.
        look_alike = dataclasses.replace(
            look_alike, role="", user_metadata_json=json.dumps(dict(wanted.data)), identities=()
        )
    return Outcome(user=look_alike)
