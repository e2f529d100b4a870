"""Enrolment of second factors. A factor counts only after its first verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from django.db import transaction

from accounts.mfa import errors, registry, totp_algorithm
from accounts.models import Factor, FactorStatus, FactorType
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.errors import UnexpectedFailure
from authsvc.security import encryption
from tokens.sessions import aal, locks
from tokens.sessions.users import SignedInUser

MAX_NAME_LENGTH = 255
"""Maximum number of characters in a friendly name; an index limits it."""

_BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentRequest:
    factor_type: str
    friendly_name: str = ""
    issuer: str = ""
    phone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TotpSecret:
    """The secret of an authenticator app; shown once."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)
    qr_code: str = field(repr=False)
    """SVG of the URI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentResult:
    id: UUID
    factor_type: str
    friendly_name: str
    phone: str
    """As in the request."""
    totp: TotpSecret | None = None


def enroll(
    signed_in: SignedInUser, user: UserRecord, request: EnrolmentRequest, *, caller: Caller, at: datetime
) -> EnrolmentResult:
    """Start the enrolment of a factor. Raises the errors of enrolment in their documented order."""
    handler = registry.handler_for(request.factor_type)
    handler.require_enrolment_enabled()
    if signed_in.session is None:
        raise UnexpectedFailure("A valid session and a registered user are required to enroll a factor")
    phone = _phone(request)
    if len(request.friendly_name) > MAX_NAME_LENGTH:
        raise errors.FactorNameTooLong
    factor_id = uuid4()
    secret, uri = _totp_secret(user, request)
    _delete_abandoned(before=at - conf.current().mfa.factor_expiry)
    with transaction.atomic(durable=True):
        locked = locks.lock_signed_in_user(signed_in)
        if phone:
            _delete_unverified(user.id, phone=phone)
        _check(locked, queries.reread(user), name=request.friendly_name)
        Factor.objects.create(
            id=factor_id,
            user_id=user.id,
            friendly_name=request.friendly_name,
            factor_type=request.factor_type,
            status=FactorStatus.UNVERIFIED,
            created_at=at,
            updated_at=at,
            secret=encryption.encrypt(secret, bound_to=factor_id) if secret else "",
            phone=phone,
        )
        traits = {"factor_id": str(factor_id)}
        if request.factor_type != FactorType.TOTP:
            traits["factor_type"] = request.factor_type
        audit.record(audit.Action.FACTOR_ENROLLED, actor=user, caller=caller, at=at, traits=traits)
    return EnrolmentResult(
        id=factor_id,
        factor_type=request.factor_type,
        friendly_name=request.friendly_name,
        phone=request.phone,
        totp=TotpSecret(secret=secret, uri=uri, qr_code=totp_algorithm.qr_code(uri)) if secret else None,
    )


def unfinished_totp(user: UserRecord, factor_id: UUID) -> TotpSecret | None:
    """The secret of an authenticator app whose enrolment is not completed; None without such a factor."""
    factor = Factor.objects.filter(
        id=factor_id, user_id=user.id, factor_type=FactorType.TOTP, status=FactorStatus.UNVERIFIED
    ).first()
    if factor is None:
        return None
    try:
        secret = encryption.decrypt(factor.secret or "", bound_to=factor.id)
    except encryption.DecryptionError as error:
        raise UnexpectedFailure("Database error verifying MFA TOTP secret") from error
    uri = _totp_uri(user, secret, issuer="")
    return TotpSecret(secret=secret, uri=uri, qr_code=totp_algorithm.qr_code(uri))


def rename(user: UserRecord, factor_id: UUID, *, friendly_name: str, caller: Caller, at: datetime) -> None:
    """Rename a factor. Raises FactorNameTooLong, FactorNotFound or FactorNameTaken."""
    if len(friendly_name) > MAX_NAME_LENGTH:
        raise errors.FactorNameTooLong
    with transaction.atomic(durable=True):
        locks.lock_user(user.id)
        factors = Factor.objects.filter(user_id=user.id)
        factor = factors.select_for_update().filter(id=factor_id).first()
        if factor is None:
            raise errors.FactorNotFound
        if factors.exclude(id=factor_id).filter(friendly_name=friendly_name).exists():
            raise errors.FactorNameTaken(friendly_name)
        changes = audit.describe_changes({"friendly_name": factor.friendly_name}, {"friendly_name": friendly_name})
        Factor.objects.filter(id=factor_id).update(friendly_name=friendly_name, updated_at=at)
        traits = {"factor_id": str(factor_id), "changes": changes}
        audit.record(audit.Action.FACTOR_UPDATED, actor=user, caller=caller, at=at, traits=traits)


def free_name(user: UserRecord, default: str) -> str:
    """`default`, with a number if another factor of the user has that name."""
    taken = {factor.friendly_name for factor in user.factors}
    return next(name for name in (default, *(f"{default} {number}" for number in range(2, 1_000))) if name not in taken)


def _phone(request: EnrolmentRequest) -> str | None:
    if request.factor_type != FactorType.PHONE:
        return None
    if not request.phone:
        raise errors.FactorPhoneMissing
    return identifiers.phone(request.phone)


def _totp_secret(user: UserRecord, request: EnrolmentRequest) -> tuple[str, str]:
    """Secret and URI of an authenticator app; empty for the other types."""
    if request.factor_type != FactorType.TOTP:
        return "", ""
    secret = totp_algorithm.new_secret()
    return secret, _totp_uri(user, secret, issuer=request.issuer)


def _totp_uri(user: UserRecord, secret: str, *, issuer: str) -> str:
    """The URI that an authenticator app imports. Raises IssuerTooLong."""
    account = user.email or user.phone or str(user.id)
    try:
        return totp_algorithm.uri(issuer=issuer or _site(), account=account, secret=secret)
    except totp_algorithm.UriTooLong:
        raise errors.IssuerTooLong from None


def _site() -> str:
    """Host and port of the site."""
    try:
        host = urlsplit(conf.current().site.url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    if not host:
        raise UnexpectedFailure("site url is improperly formatted")
    return host


def _delete_unverified(user_id: UUID, *, phone: str) -> None:
    """Delete an unverified factor with this phone, so that it can be enrolled again. Raises FactorPhoneTaken."""
    factors = Factor.objects.filter(user_id=user_id, factor_type=FactorType.PHONE, phone=phone)
    if factors.filter(status=FactorStatus.VERIFIED).exists():
        raise errors.FactorPhoneTaken
    factors.delete_rows()


def _check(signed_in: SignedInUser, user: UserRecord, *, name: str) -> None:
    config = conf.current().mfa
    if any((factor.friendly_name or "") == name for factor in user.factors):
        raise errors.FactorNameTaken(name)
    verified = sum(factor.status == FactorStatus.VERIFIED for factor in user.factors)
    if len(user.factors) >= config.max_enrolled or verified >= config.max_verified:
        raise errors.TooManyFactors
    aal.check_aal(signed_in, error=errors.FactorNeedsAal2)


def _delete_abandoned(*, before: datetime) -> None:
    """Delete enrolments of all users that began before this time and were never challenged.

    Skips rows that another request has locked, so that no request waits; the next call deletes them.
    """
    factors = namespaced("mfa_factors")
    sql = f"""
        DELETE FROM {factors} WHERE id IN (
            SELECT f.id FROM {factors} f WHERE f.status = 'unverified' AND f.created_at < %s
                AND NOT EXISTS (SELECT FROM {namespaced("mfa_challenges")} c WHERE c.factor_id = f.id)
            ORDER BY f.created_at LIMIT {_BATCH_SIZE} FOR UPDATE OF f SKIP LOCKED)
    """  # noqa: S608  (names of our tables)
    fetch_rows(sql, (before,))
