"""Sign-up by email, by phone and anonymously: new accounts, repeated sign-ups and duplicates."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.identities import account_claiming
from accounts.messages import confirmation_emails, recipients, sms_codes
from accounts.models import User
from accounts.passwords import hashing, policy
from accounts.sign_up import errors, queries
from accounts.users import account_creation, creation_hook, identifiers, updates, user_events
from accounts.users import queries as user_queries
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.errors import HookError, UnexpectedFailure
from authsvc.messaging import Channel, EmailType, IntervalGroup, Sender
from tokens.flows import pkce
from tokens.flows.pkce import Challenge
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUpRequest:
    """A validated sign-up. Exactly one of `email` and `phone` is set; both are normalised."""

    email: str = ""
    phone: str = ""
    password: str | None = dataclasses.field(repr=False)
    """None: the account gets no password, as a sign-up by magic link or SMS code."""
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    channel: str = "sms"
    challenge: Challenge | None = None
    redirect_to: str

    @property
    def provider(self) -> Literal["email", "phone"]:
        return "email" if self.email else "phone"

    @property
    def traits(self) -> dict[str, str]:
        return {"provider": self.provider}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUpResult:
    """The account as the client may see it, with tokens when this request confirmed its address."""

    user: UserRecord
    tokens: TokenPair | None = None
    message_id: str | None = None
    """The id of the confirmation message; None when none was sent."""


def sign_up(
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
) -> SignUpResult:
    """Sign up by email or phone. Raises the errors of the sign-up endpoint, in their documented order."""
    config = conf.current()
    if config.signup.disabled:
        raise account_errors.SignupDisabled
    account_creation.check_sign_up_data(data, email=email)
    if not password:
        raise account_errors.PasswordRequired
    policy.validate_password(password)
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
    request = SignUpRequest(
        email=identifiers.email(email) if email else "",
        phone=identifiers.phone(phone) if phone else "",
        password=password,
        data=data,
        channel=channel,
        challenge=challenge,
        redirect_to=redirect_to,
    )
    return process_request(request, group=IntervalGroup.CONFIRMATION, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("anonymous", user_id=lambda result: result.user.id)
def sign_in_anonymously(*, data: Mapping[str, Any], caller: Caller, at: datetime) -> SignUpResult:
    """Create a user without an identity and start a session. The user can become permanent later."""
    if conf.current().signup.disabled:
        raise account_errors.SignupDisabled
    user_id = creation_hook.check(user_metadata=data, caller=caller)
    try:
        with token_transaction(caller):
            user = account_creation.create_anonymous_user(data=data, audience=caller.audience, at=at, id=user_id)
            tokens = lifecycle.start_session(user=user, method="anonymous", caller=caller, at=at)
    except HookError as error:
        if error.status < 500 or error.raised_by_function is not None:
            raise
        # The text that clients know for every failure of this sign-in.
        raise UnexpectedFailure("Database error creating anonymous user") from error
    creation_hook.announce(user, caller=caller)
    return SignUpResult(user=user, tokens=tokens)


def process_request(request: SignUpRequest, *, group: IntervalGroup, caller: Caller, at: datetime) -> SignUpResult:
    """Create the account, repeat the sign-up of an unconfirmed one, or respond as if it were new.

    Magic links and SMS codes call it too. With auto-confirm the address counts as confirmed at once; a session starts
    only with a password. Call it outside a transaction.
    """
    auto_confirms = conf.current().mailer.autoconfirm if request.email else conf.current().sms.autoconfirm
    if auto_confirms:
        return _process_request(request, auto_confirms=auto_confirms, caller=caller, at=at)
    interval = messaging.email_interval if request.email else messaging.sms_interval
    with interval(group, address=request.email or request.phone):
        return _process_request(request, auto_confirms=auto_confirms, caller=caller, at=at)


def _process_request(request: SignUpRequest, *, auto_confirms: bool, caller: Caller, at: datetime) -> SignUpResult:
    """Create the account; otherwise repeat the sign-up of the existing one, or respond as to a duplicate."""
    existing, claimant = _find_existing(request), None
    if existing is not None and existing.has_unproven_claim(request.provider) and not auto_confirms:
        existing, claimant = None, existing
    if existing is None:
        try:
            created = _create(request, claimant, is_confirmed=auto_confirms, caller=caller, at=at)
        except IntegrityError:
            existing = _find_existing(request)  # another request was first
            if existing is None:
                raise
        else:
            _announce(created.user, caller=caller)
            return created
    is_repeatable = _is_repeatable(existing, auto_confirms=auto_confirms, audience=caller.audience, at=at)
    agreed_password = _agreed_password(request, existing if is_repeatable else None)
    if is_repeatable and (agreed_password is not None or not auto_confirms):
        repeated = _repeat(
            request, existing, agreed_password=agreed_password, is_confirmed=auto_confirms, caller=caller, at=at
        )
        if repeated is not None:
            return repeated
    return _duplicate_result(request, existing, is_error=auto_confirms, caller=caller, at=at)


def _is_repeatable(existing: UserRecord, *, auto_confirms: bool, audience: str, at: datetime) -> bool:
    """True if the account waits for the confirmation of a sign-up, and no person controls it yet.

    Also in another audience: otherwise one sign-up there would keep the owner of the address from signing up. But an
    account of the default audience stays there, because one sign-up elsewhere would take it from the owner.
    """
    if existing.is_controlled or existing.has_pending_invitation:
        return False
    if existing.aud == conf.current().jwt.aud != audience:
        return False
    # The account is banned. Without a message nothing proves the address.
    return not (auto_confirms and existing.is_banned(at))


def _agreed_password(request: SignUpRequest, existing: UserRecord | None) -> str | None:
    """The stored password of the account if the request names the same one, or neither has one; else None.

    Always hashes a password once, so that the response time does not reveal whether the account exists.
    """
    stored = hashing.stored_hash(existing) if existing else None
    if request.password is None:
        agrees = stored == hashing.NO_PASSWORD
    else:
        agrees = hashing.verify_password(request.password, stored)
    return existing.password_hash if existing and agrees else None


def _find_existing(request: SignUpRequest) -> UserRecord | None:
    """The user with this email or phone, over all audiences, because both are unique over all of them."""
    if request.email:
        return user_queries.find_by("email", request.email, aud=None)
    return user_queries.find_by("phone", request.phone, aud=None)


def _reserve_message(request: SignUpRequest, *, caller: Caller, at: datetime) -> None:
    """Check recipient and quota of the confirmation message. Call it before the transaction."""
    if request.email:
        recipients.reserve_email(request.email, type=EmailType.CONFIRMATION, sender=Sender.of_request(caller))
    else:
        sms_codes.reserve_sms(request.phone, sender=Sender.of_request(caller), at=at)


def _hook_channel(request: SignUpRequest, *, is_confirmed: bool) -> Channel | None:
    """The channel of the confirmation message; None if none is sent."""
    return None if is_confirmed else "email" if request.email else "sms"


def _create(
    request: SignUpRequest, claimant: UserRecord | None, *, is_confirmed: bool, caller: Caller, at: datetime
) -> SignUpResult:
    """Create the account. Raises IntegrityError when another request was first.

    `claimant` is the account of another person that loses the unconfirmed email or phone.
    """
    user_id = creation_hook.check(
        email=request.email, phone=request.phone, provider=request.provider, user_metadata=request.data, caller=caller
    )
    password_hash = hashing.NO_PASSWORD if request.password is None else hashing.hash_password(request.password)
    if not is_confirmed:
        _reserve_message(request, caller=caller, at=at)
    with (
        messaging.reserved(_hook_channel(request, is_confirmed=is_confirmed)),
        token_transaction(caller, issues_token=is_confirmed and request.password is not None),
    ):
        if claimant is not None:
            account_claiming.withdraw_claim(claimant, request.provider, at=at)
        user = account_creation.create_user(
            email=request.email,
            phone=request.phone,
            password_hash=password_hash,
            data=request.data,
            via="otp" if request.password is None else "signup",
            audience=caller.audience,
            confirmed=is_confirmed,
            at=at,
            id=user_id,
        )
        if is_confirmed:
            return _complete_confirmed(request, user, caller=caller, at=at)
        return SignUpResult(user=user, message_id=_send_confirmation(request, user, caller=caller, at=at))


def _announce(user: UserRecord, *, caller: Caller) -> None:
    try:
        creation_hook.announce(user, caller=caller)
    except HookError as error:
        # The text that clients know.
        raise UnexpectedFailure("Error invoking hook") from error


def _repeat(
    request: SignUpRequest,
    existing: UserRecord,
    *,
    agreed_password: str | None,
    is_confirmed: bool,
    caller: Caller,
    at: datetime,
) -> SignUpResult | None:
    """Repeat the sign-up of an unconfirmed account, which withdraws its earlier message, in the request's audience.

    A request with the stored password repeats the sign-up of the same client, and replaces its data. A request with
    another password comes from another person, or the first one did: the account is left without a password and without
    the data of sign-ups, and the response is that of a new account. None when the account is no longer repeatable.
    """
    if not is_confirmed:
        _reserve_message(request, caller=caller, at=at)
    identity_data = None
    if request.password is not None:
        identity_data = account_creation.own_identity_data(user_id=existing.id, email=request.email, data=request.data)
    with (
        messaging.reserved(_hook_channel(request, is_confirmed=is_confirmed)),
        token_transaction(caller, issues_token=is_confirmed and request.password is not None),
    ):
        agrees = queries.repeat_sign_up(
            user_id=existing.id,
            aud=caller.audience,
            provider=request.provider,
            time_column=f"{request.provider}_confirmed_at" if is_confirmed else "confirmation_sent_at",
            has_to_agree=is_confirmed,
            agreed_password=agreed_password,
            user_metadata=None if identity_data is None else json.dumps(account_creation.user_metadata(identity_data)),
            identity_data=None if identity_data is None else json.dumps(identity_data),
            at=at,
        )
        if agrees is None:
            return None
        if not agrees:
            user_queries.remove_sign_up_data(existing.id)
        if is_confirmed:
            with user_events.changes_of(existing, at=at):
                return _confirm_repeated(request, existing, identity_data=identity_data, caller=caller, at=at)
        user = user_queries.reread(existing)
        user_events.record_changes(existing, user, at=at)
        message_id = _send_confirmation(request, user, caller=caller, at=at)
    if not agrees:
        user = _fabricated_user(request, caller=caller, at=at)
    return SignUpResult(user=user, message_id=message_id)


def _confirm_repeated(
    request: SignUpRequest,
    existing: UserRecord,
    *,
    identity_data: Mapping[str, Any] | None,
    caller: Caller,
    at: datetime,
) -> SignUpResult:
    """Complete the repeated sign-up of an account that auto-confirm has confirmed, and sign in."""
    account_claiming.remove_unverified_identities(existing, identity_data=identity_data, at=at)
    if request.email:
        merged = updates.merged_json("raw_user_meta_data", {"email_verified": True})
        User.objects.filter(id=existing.id).update(raw_user_meta_data=merged)
    one_time_tokens.delete_all(existing.id)
    user = user_queries.reread(existing)
    return _complete_confirmed(request, user, caller=caller, at=at)


def _send_confirmation(request: SignUpRequest, user: UserRecord, *, caller: Caller, at: datetime) -> str:
    """Send the secret that verifies the email or phone; returns the message's id."""
    if request.phone:
        return sms_codes.send_sign_up_code(user, channel=request.channel, traits=request.traits, caller=caller, at=at)
    return confirmation_emails.send(
        confirmation_emails.SIGN_UP,
        user,
        challenge=request.challenge,
        redirect_to=request.redirect_to,
        traits=request.traits,
        caller=caller,
        at=at,
    )


def _complete_confirmed(request: SignUpRequest, user: UserRecord, *, caller: Caller, at: datetime) -> SignUpResult:
    """Record a sign-up that auto-confirm has confirmed, and start a session where it has a password."""
    traits = request.traits if request.email else {**request.traits, "channel": request.channel}
    if request.password is not None:
        lifecycle.announce_session(caller)
    audit.record(audit.Action.SIGNED_UP, actor=user, caller=caller, at=at, traits=traits)
    if request.password is None:
        return SignUpResult(user=user)
    audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=request.traits)
    User.objects.filter(id=user.id).update(last_sign_in_at=at, updated_at=at)
    user = dataclasses.replace(user, last_sign_in_at=at, updated_at=at)
    transaction.on_commit(functools.partial(sign_in_metrics.record_sign_in, "password", user_id=user.id))
    return SignUpResult(user=user, tokens=lifecycle.start_session(user=user, method="password", caller=caller, at=at))


def _duplicate_result(
    request: SignUpRequest, existing: UserRecord, *, is_error: bool, caller: Caller, at: datetime
) -> SignUpResult:
    """The result for an account that a sign-up does not change: that of a new account, or an error."""
    if is_error and not conf.current().signup.strict_privacy_enabled:
        raise account_errors.UserAlreadyRegistered if request.email else account_errors.PhoneAlreadyRegistered
    if request.email:
        recipients.check_email(request.email, type=EmailType.CONFIRMATION, sender=Sender.of_request(caller))
    elif not is_error:
        sms_codes.check_sms(request.phone, sender=Sender.of_request(caller), at=at)
    with transaction.atomic(durable=True):
        audit.record(audit.Action.REPEATED_SIGNUP, actor=existing, caller=caller, at=at, traits=request.traits)
        messaging.simulate_send()
    user = _fabricated_user(request, caller=caller, at=at)
    if conf.current().signup.duplicate_empty_identities_enabled:
        # Some clients detect a duplicate by these empty values.
        user = dataclasses.replace(user, role="", user_metadata_json=json.dumps(dict(request.data)), identities=())
    return SignUpResult(user=user)


def _fabricated_user(request: SignUpRequest, *, caller: Caller, at: datetime) -> UserRecord:
    """The user that the response for a new account would show."""
    return account_creation.fabricated_user(
        email=request.email, phone=request.phone, data=request.data, audience=caller.audience, at=at
    )
