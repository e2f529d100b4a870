"""Users, identities, second factors and passkeys."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.db.models import Q, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Least, Lower, Now

from accounts.managers import AccountQuerySet, FactorQuerySet, IdentityQuerySet, UserQuerySet
from authsvc.db.fields import JSONField
from authsvc.db.sql import namespaced


class User(AbstractBaseUser):
    """An account. There are no staff columns, because `role` alone makes an operator.

    `email` is lower case, `phone` digits without `+`; both are NULL when absent.
    """

    encrypted_columns: ClassVar = ("encrypted_password",)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    aud = models.CharField(max_length=255, null=True)
    role = models.CharField(max_length=255, null=True)
    email = models.CharField(max_length=255, null=True)
    password = models.CharField(max_length=1024, null=True, db_column="encrypted_password")  # type: ignore[assignment]  # Django knows no account without one
    last_login = None
    email_confirmed_at = models.DateTimeField(null=True)
    invited_at = models.DateTimeField(null=True)
    confirmation_sent_at = models.DateTimeField(null=True)
    recovery_sent_at = models.DateTimeField(null=True)
    email_change = models.CharField(max_length=255, null=True)
    email_change_sent_at = models.DateTimeField(null=True)
    last_sign_in_at = models.DateTimeField(null=True)
    raw_app_meta_data = JSONField(null=True)
    raw_user_meta_data = JSONField(null=True)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    phone = models.TextField(null=True)
    phone_confirmed_at = models.DateTimeField(null=True)
    phone_change = models.TextField(null=True, db_default="")
    phone_change_sent_at = models.DateTimeField(null=True)
    confirmed_at = models.GeneratedField(
        expression=Least("email_confirmed_at", "phone_confirmed_at"),
        output_field=models.DateTimeField(null=True),
        db_persist=True,
    )
    email_change_confirm_status = models.SmallIntegerField(null=True, db_default=0)
    banned_until = models.DateTimeField(null=True)
    reauthentication_sent_at = models.DateTimeField(null=True)
    is_sso_user = models.BooleanField(db_default=False)
    deleted_at = models.DateTimeField(null=True)
    is_anonymous = models.BooleanField(db_default=False)  # type: ignore[assignment]  # in Django a constant, here a column

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    objects = UserQuerySet.as_manager()

    class Meta:
        db_table = namespaced("users")
        indexes = [
            models.Index(fields=["is_anonymous"], name=namespaced("users_is_anonymous_idx")),
            models.Index(fields=["-created_at", "-id"], name=namespaced("idx_users_created_at_desc")),
            # The list of users selects one audience.
            models.Index(fields=["aud", "-created_at", "-id"], name=namespaced("users_aud_created_at_idx")),
            models.Index(fields=["email", "id"], name=namespaced("users_email_id_idx")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["email"], condition=Q(is_sso_user=False), name=namespaced("users_email_partial_key")
            ),
            models.UniqueConstraint(fields=["phone"], name=namespaced("users_phone_key")),
            models.CheckConstraint(
                condition=Q(email_change_confirm_status__gte=0, email_change_confirm_status__lte=2),
                name=namespaced("users_email_change_confirm_status_check"),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Identity(models.Model):
    """An identity of a user: the pair of provider and subject at the provider, and the claims of the provider."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    provider_id = models.TextField()
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="identities"
    )
    identity_data = JSONField()
    provider = models.TextField()
    last_sign_in_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    email = models.GeneratedField(
        expression=Lower(KeyTextTransform("email", "identity_data")),
        output_field=models.TextField(null=True),
        db_persist=True,
    )

    objects = IdentityQuerySet.as_manager()

    class Meta:
        db_table = namespaced("identities")
        indexes = [
            models.Index(fields=["email"], name=namespaced("identities_email_idx"), opclasses=["text_pattern_ops"]),
            models.Index(fields=["user"], name=namespaced("identities_user_id_idx")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["provider_id", "provider"], name=namespaced("identities_provider_id_provider_unique")
            )
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.id}"


class FactorType(models.TextChoices):
    TOTP = "totp"
    WEBAUTHN = "webauthn"
    PHONE = "phone"


class FactorStatus(models.TextChoices):
    UNVERIFIED = "unverified"
    VERIFIED = "verified"


class Factor(models.Model):
    """A second factor of a user. With a verified one, sessions need a verification to reach AAL2."""

    encrypted_columns: ClassVar = ("secret",)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="factors"
    )
    friendly_name = models.TextField(null=True)
    factor_type = models.TextField(choices=FactorType)
    status = models.TextField(choices=FactorStatus)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    secret = models.TextField(null=True)
    phone = models.TextField(null=True)
    last_challenged_at = models.DateTimeField(null=True)
    web_authn_credential = JSONField(null=True)
    web_authn_aaguid = models.UUIDField(null=True)
    last_webauthn_challenge_data = JSONField(null=True)
    last_totp_step = models.BigIntegerField(null=True)
    """Time step of the last code accepted after enrolment; codes up to that step are used up (RFC 6238 §5.2)."""

    objects = FactorQuerySet.as_manager()

    class Meta:
        db_table = namespaced("mfa_factors")
        indexes = [
            # Abandoned enrolments, which every new enrolment deletes.
            models.Index(
                fields=["created_at"],
                condition=Q(status=FactorStatus.UNVERIFIED),
                name=namespaced("mfa_factors_unverified_idx"),
            ),
            models.Index(fields=["user"], name=namespaced("mfa_factors_user_id_idx")),
            models.Index(fields=["user", "created_at"], name=namespaced("factor_id_created_at_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["user", "phone"], name=namespaced("unique_phone_factor_per_user")),
            models.UniqueConstraint(
                fields=["friendly_name", "user"],
                condition=~Q(friendly_name__regex=r"^\s*$"),
                name=namespaced("mfa_factors_user_friendly_name_unique"),
            ),
            models.CheckConstraint(
                condition=Q(factor_type__in=FactorType.values), name=namespaced("mfa_factors_factor_type_check")
            ),
            models.CheckConstraint(
                condition=Q(status__in=FactorStatus.values), name=namespaced("mfa_factors_status_check")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.factor_type} {self.id}"


class FactorChallenge(models.Model):
    """A challenge of a second factor: open, used (`verified_at`), or blocked after too many wrong codes."""

    encrypted_columns: ClassVar = ("otp_code",)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    factor = models.ForeignKey(
        Factor, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="challenges"
    )
    created_at = models.DateTimeField()
    verified_at = models.DateTimeField(null=True)
    ip_address = models.GenericIPAddressField(null=True)
    otp_code = models.TextField(null=True)
    web_authn_session_data = JSONField(null=True)
    attempts = models.SmallIntegerField(db_default=0)
    session_id = models.UUIDField(null=True)
    """The session that requested the challenge; None for an imported one, or without a session."""

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("mfa_challenges")
        indexes = [
            models.Index(fields=["-created_at"], name=namespaced("mfa_challenge_created_at_idx")),
            # For the cascade of a factor, and to find factors that were never challenged.
            models.Index(fields=["factor"], name=namespaced("mfa_challenges_factor_id_idx")),
        ]

    def __str__(self) -> str:
        return str(self.id)


class RecoveryCode(models.Model):
    """A recovery code, which replaces a lost factor, as a digest. Deleted when used."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="recovery_codes"
    )
    code_hash = models.TextField()
    created_at = models.DateTimeField()

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("mfa_recovery_codes")
        constraints = [
            models.UniqueConstraint(fields=["user", "code_hash"], name=namespaced("mfa_recovery_codes_user_hash_key"))
        ]

    def __str__(self) -> str:
        return str(self.id)


class FailedAttempts(models.Model):
    """The wrong passwords and codes of a user, or of identifiers without one (`accounts.users.failed_attempts`)."""

    user_id = models.UUIDField(primary_key=True)
    attempts = models.IntegerField()
    started_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("failed_attempts")

    def __str__(self) -> str:
        return str(self.user_id)


class OperatorNote(models.Model):
    """A note of an operator about a user, or the reason of a ban. Users cannot read it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="operator_notes"
    )
    author_id = models.UUIDField(null=True)
    author = models.TextField()
    """The address of the operator when the note was written."""
    text = models.TextField()
    created_at = models.DateTimeField()

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("operator_notes")
        indexes = [models.Index(fields=["user", "-created_at"], name=namespaced("operator_notes_user_id_idx"))]

    def __str__(self) -> str:
        return str(self.id)


class CeremonyType(models.TextChoices):
    SIGNUP = "signup"
    REGISTRATION = "registration"
    AUTHENTICATION = "authentication"


class PasswordHashKind(models.Model):
    """An algorithm of stored password hashes with its costs, such as `bcrypt 10`."""

    kind = models.TextField(primary_key=True)
    """Empty in the row that has the time of the last survey."""
    seen_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("password_hash_kinds")


class Passkey(models.Model):
    """A discoverable WebAuthn credential for sign-in; the public key is a COSE key in CBOR."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="passkeys"
    )
    credential_id = models.BinaryField()
    public_key = models.BinaryField()
    attestation_type = models.TextField(db_default="")
    aaguid = models.UUIDField(null=True)
    sign_count = models.BigIntegerField(db_default=0)
    transports = JSONField(db_default=Value([], JSONField()))
    backup_eligible = models.BooleanField(db_default=False)
    backed_up = models.BooleanField(db_default=False)
    friendly_name = models.TextField(db_default="")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("webauthn_credentials")
        indexes = [models.Index(fields=["user"], name=namespaced("webauthn_credentials_user_id_idx"))]
        constraints = [
            models.UniqueConstraint(fields=["credential_id"], name=namespaced("webauthn_credentials_credential_id_key"))
        ]

    def __str__(self) -> str:
        return str(self.id)


class PasskeyChallenge(models.Model):
    """A pending registration or sign-in by passkey; a sign-in has no user."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        User,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="passkey_challenges",
        null=True,
    )
    challenge_type = models.TextField(choices=CeremonyType)
    session_data = JSONField()
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    objects = AccountQuerySet.as_manager()

    class Meta:
        db_table = namespaced("webauthn_challenges")
        indexes = [
            models.Index(fields=["user"], name=namespaced("webauthn_challenges_user_id_idx")),
            models.Index(fields=["expires_at"], name=namespaced("webauthn_challenges_expires_at_idx")),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(challenge_type__in=CeremonyType.values),
                name=namespaced("webauthn_challenges_challenge_type_check"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.challenge_type} {self.id}"
