"""Sessions, authentication methods, one-time tokens, flows, and imported refresh tokens."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length, Now

from authsvc.db.sql import namespaced

models.TextField.register_lookup(Length)


class TokenType(models.TextChoices):
    CONFIRMATION = "confirmation_token"
    REAUTHENTICATION = "reauthentication_token"
    RECOVERY = "recovery_token"
    EMAIL_CHANGE_NEW = "email_change_token_new"
    EMAIL_CHANGE_CURRENT = "email_change_token_current"
    PHONE_CHANGE = "phone_change_token"


class ChallengeMethod(models.TextChoices):
    S256 = "s256"
    PLAIN = "plain"


class Session(models.Model):
    """One sign-in, with the counter of its refresh tokens. The row is deleted when the session ends."""

    encrypted_columns: ClassVar = ("refresh_token_hmac_key",)
    always_encrypted: ClassVar = encrypted_columns

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="sessions"
    )
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    factor_id = models.UUIDField(null=True)
    aal = models.TextField(null=True)
    not_after = models.DateTimeField(null=True)
    refreshed_at = models.DateTimeField(null=True)
    user_agent = models.TextField(null=True)
    ip = models.GenericIPAddressField(null=True)
    tag = models.TextField(null=True)
    oauth_client_id = models.UUIDField(null=True)
    resource = models.TextField(null=True)
    approving_session_id = models.UUIDField(null=True)
    """The session in which the user granted the OAuth client this one. With its logout, this session ends too."""
    refresh_token_hmac_key = models.TextField(null=True)
    refresh_token_counter = models.BigIntegerField(null=True)
    scopes = models.TextField(null=True)
    impersonator_id = models.UUIDField(null=True)
    """The operator who uses the application as the user in this session; NULL for the user's own sessions."""
    impersonator_session_id = models.UUIDField(null=True)
    """The operator's session in the console. With its end, this session ends too."""

    class Meta:
        db_table = namespaced("sessions")
        indexes = [
            models.Index(fields=["user"], name=namespaced("sessions_user_id_idx")),
            models.Index(fields=["user", "created_at"], name=namespaced("user_id_created_at_idx")),
            models.Index(
                fields=["-not_after"], condition=Q(not_after__isnull=False), name=namespaced("sessions_not_after_idx")
            ),
            models.Index(
                fields=["oauth_client_id"],
                condition=Q(oauth_client_id__isnull=False),
                name=namespaced("sessions_oauth_client_id_idx"),
            ),
            models.Index(
                fields=["impersonator_id"],
                condition=Q(impersonator_id__isnull=False),
                name=namespaced("sessions_impersonator_id_idx"),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(aal__in=["aal1", "aal2", "aal3"]) | Q(aal__isnull=True),
                name=namespaced("sessions_aal_check"),
            ),
            models.CheckConstraint(
                condition=Q(scopes__isnull=True) | Q(scopes__length__lte=4096),
                name=namespaced("sessions_scopes_length"),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class AmrClaim(models.Model):
    """An authentication method used in a session (RFC 8176); `updated_at` is its last use."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="amr_claims"
    )
    authentication_method = models.TextField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("mfa_amr_claims")
        constraints = [
            models.UniqueConstraint(
                fields=["session", "authentication_method"],
                name=namespaced("mfa_amr_claims_session_id_authentication_method_pkey"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.session_id} {self.authentication_method}"


class OneTimeToken(models.Model):
    """A one-time token: the hashes of the code and of the link in one message."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="one_time_tokens",
    )
    token_type = models.TextField(choices=TokenType)
    token_hash = models.TextField()
    link_hash = models.TextField(null=True)
    relates_to = models.TextField()
    attempts = models.SmallIntegerField(db_default=0)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = namespaced("one_time_tokens")
        indexes = [
            HashIndex(fields=["token_hash"], name=namespaced("one_time_tokens_token_hash_hash_idx")),
            HashIndex(fields=["relates_to"], name=namespaced("one_time_tokens_relates_to_hash_idx")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "token_type"], name=namespaced("one_time_tokens_user_id_token_type_key")
            ),
            models.UniqueConstraint(fields=["link_hash"], name=namespaced("one_time_tokens_link_hash_key")),
            models.CheckConstraint(
                condition=Q(token_type__in=TokenType.values), name=namespaced("one_time_tokens_token_type_check")
            ),
            models.CheckConstraint(
                condition=Q(token_hash__length__gt=0), name=namespaced("one_time_tokens_token_hash_check")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.token_type} {self.id}"


class FlowState(models.Model):
    """An unfinished flow: a PKCE code that is not exchanged (RFC 7636), or a redirect to a provider."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.UUIDField(null=True)
    auth_code = models.TextField(null=True)
    code_challenge_method = models.TextField(null=True, choices=ChallengeMethod)
    code_challenge = models.TextField(null=True)
    provider_type = models.TextField()
    provider_access_token = models.TextField(null=True)
    provider_refresh_token = models.TextField(null=True)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    authentication_method = models.TextField()
    auth_code_issued_at = models.DateTimeField(null=True)
    invite_token = models.TextField(null=True)
    referrer = models.TextField(null=True)
    oauth_client_state_id = models.UUIDField(null=True)
    linking_target_id = models.UUIDField(null=True)
    linking_session_id = models.UUIDField(null=True)
    """The session that started a flow that links an identity; NULL for a token without a session."""
    email_optional = models.BooleanField(db_default=False)
    session_not_after = models.DateTimeField(null=True)

    class Meta:
        db_table = namespaced("flow_state")
        indexes = [
            models.Index(fields=["auth_code"], name=namespaced("idx_auth_code")),
            models.Index(fields=["user_id", "authentication_method"], name=namespaced("idx_user_id_auth_method")),
            models.Index(fields=["-created_at"], name=namespaced("flow_state_created_at_idx")),
            models.Index(
                fields=["linking_target_id"],
                condition=Q(linking_target_id__isnull=False),
                name=namespaced("flow_state_linking_idx"),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(code_challenge_method__in=ChallengeMethod.values) | Q(code_challenge_method__isnull=True),
                name=namespaced("flow_state_code_challenge_method_check"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.authentication_method} {self.id}"


class ImpersonationLink(models.Model):
    """A link that starts a session in which an operator uses the application as a user. Opening it deletes the row."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    link_hash = models.TextField(unique=True)
    user_id = models.UUIDField()
    operator_session_id = models.UUIDField()
    """The session in the console in which the link was created."""
    reason = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("impersonation_links")

    def __str__(self) -> str:
        return str(self.id)


class LegacyRefreshToken(models.Model):
    """A refresh token of an imported database: valid once, then its session is converted. Inserted by imports only."""

    id = models.BigAutoField(primary_key=True)
    token = models.CharField(max_length=255, null=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="+",
        null=True,
    )
    revoked = models.BooleanField(null=True)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    parent = models.CharField(max_length=255, null=True)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="legacy_tokens", null=True
    )

    class Meta:
        db_table = namespaced("refresh_tokens")
        indexes = [
            models.Index(fields=["user"], name=namespaced("refresh_tokens_user_id_idx")),
            models.Index(fields=["parent"], name=namespaced("refresh_tokens_parent_idx")),
            models.Index(fields=["session", "revoked"], name=namespaced("refresh_tokens_session_id_revoked_idx")),
            models.Index(fields=["-updated_at"], name=namespaced("refresh_tokens_updated_at_idx")),
        ]
        constraints = [models.UniqueConstraint(fields=["token"], name=namespaced("refresh_tokens_token_unique"))]

    def __str__(self) -> str:
        return str(self.id)
