"""Clients, authorization requests and consents."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length, Now

from authsvc.db.sql import namespaced
from oauthserver import resources

models.TextField.register_lookup(Length)


class RegistrationType(models.TextChoices):
    MANUAL = "manual"
    DYNAMIC = "dynamic"


class ClientType(models.TextChoices):
    PUBLIC = "public"
    CONFIDENTIAL = "confidential"


class AuthMethod(models.TextChoices):
    """Client authentication at the token endpoint (RFC 7591 §2)."""

    NONE = "none", "none"
    BASIC = "client_secret_basic", "client_secret_basic"
    POST = "client_secret_post", "client_secret_post"
    PRIVATE_KEY_JWT = "private_key_jwt", "private_key_jwt"


class AuthorizationStatus(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    EXCHANGED = "exchanged"


def _at_most(table: str, column: str, limit: int) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(**{f"{column}__isnull": True}) | Q(**{f"{column}__length__lte": limit}),
        name=namespaced(f"{table}_{column}_length"),
    )


class OAuthClient(models.Model):
    """An application that signs users in through this service; its id is the public `client_id`.

    A deleted client keeps its row, so that its sessions and consents can be explained.
    """

    id = models.UUIDField("client ID", primary_key=True, default=uuid.uuid4)
    client_secret_hash = models.TextField(null=True)
    """SHA-256 of the secret in base64url; empty for a client without one."""
    registration_type = models.TextField("registration", choices=RegistrationType)
    redirect_uris = models.TextField("redirect URIs")
    """Separated by commas, like `grant_types`; empty for a client without redirects."""
    grant_types = models.TextField()
    client_name = models.TextField("name", null=True)
    client_uri = models.TextField("home page", null=True)
    logo_uri = models.TextField("logo", null=True)
    client_type = models.TextField("type", choices=ClientType, db_default=ClientType.CONFIDENTIAL)
    token_endpoint_auth_method = models.TextField("client authentication", choices=AuthMethod)
    token_endpoint_auth_signing_alg = models.TextField("algorithm of assertions", null=True)
    """The only algorithm of its assertions; NULL permits every asymmetric one."""
    jwks = models.TextField("keys", null=True)
    """JSON of its public keys (RFC 7517 §5)."""
    jwks_uri = models.TextField("URL of the keys", null=True)
    scope = models.TextField("scopes of its own", null=True)
    """Scopes that it can request with the grant `client_credentials`, separated by spaces."""
    resource = models.TextField("resource", null=True)
    """The identifier of its API (RFC 8707): it can introspect access tokens that are issued for it."""
    require_pushed_authorization_requests = models.BooleanField("requires pushed requests", db_default=False)
    post_logout_redirect_uris = models.TextField("redirect URIs after logout", null=True)
    """Separated by commas."""
    backchannel_logout_uri = models.TextField("back-channel logout", null=True)
    """The URL that receives a logout token when a session of the client ends."""
    backchannel_logout_session_required = models.BooleanField("requires sid in logout tokens", db_default=False)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = namespaced("oauth_clients")
        verbose_name = "OAuth client"
        indexes = [
            models.Index(fields=["deleted_at"], name=namespaced("oauth_clients_deleted_at_idx")),
            models.Index(fields=["-created_at", "-id"], name=namespaced("oauth_clients_created_at_idx")),
            models.Index(
                fields=["created_at"],
                condition=Q(registration_type="dynamic"),
                name=namespaced("oauth_clients_dynamic_created_at_idx"),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(client_type__in=ClientType.values), name=namespaced("oauth_clients_client_type_check")
            ),
            models.CheckConstraint(
                condition=Q(token_endpoint_auth_method__in=AuthMethod.values),
                name=namespaced("oauth_clients_token_endpoint_auth_method_check"),
            ),
            _at_most("oauth_clients", "client_name", 1024),
            _at_most("oauth_clients", "client_uri", 2048),
            _at_most("oauth_clients", "logo_uri", 2048),
        ]

    def __str__(self) -> str:
        return self.client_name or str(self.id)

    @property
    def is_public(self) -> bool:
        return self.client_type == ClientType.PUBLIC

    @property
    def receives_sid(self) -> bool:
        """True if its ID tokens name the session, because the client takes part in logout."""
        return bool(self.backchannel_logout_uri or self.post_logout_redirect_uris)

    @property
    def post_logout_redirect_uri_list(self) -> list[str]:
        return self.post_logout_redirect_uris.split(",") if self.post_logout_redirect_uris else []

    @property
    def redirect_uri_list(self) -> list[str]:
        return self.redirect_uris.split(",") if self.redirect_uris else []

    @property
    def grant_type_list(self) -> list[str]:
        return self.grant_types.split(",")


class OAuthAuthorization(models.Model):
    """An authorization request, from the redirect of the client to the exchange of its code.

    The row remains until it expires, so that a code that is presented once more ends the session it gave.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    authorization_id = models.TextField()
    client = models.ForeignKey(
        OAuthClient, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="authorizations"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="oauth_authorizations",
    )
    redirect_uri = models.TextField()
    scope = models.TextField()
    state = models.TextField(null=True)
    resource = models.TextField(null=True)
    code_challenge = models.TextField(null=True)
    code_challenge_method = models.TextField(null=True)
    response_type = models.TextField(db_default="code")
    status = models.TextField(choices=AuthorizationStatus, db_default=AuthorizationStatus.PENDING)
    authorization_code = models.TextField(null=True)
    """SHA-256 of the code in hex."""
    nonce = models.TextField(null=True)
    prompt = models.TextField(null=True)
    max_age = models.BigIntegerField(null=True)
    """Seconds since the sign-in that the client accepts."""
    login_hint = models.TextField(null=True)
    hinted_user_id = models.UUIDField(null=True)
    """The user of the ID token in the request (`id_token_hint`), the only one who may approve it."""
    acr_values = models.TextField(null=True)
    authenticated_at = models.DateTimeField(null=True)
    """The sign-in of the session that approved the request."""
    aal = models.TextField(null=True)
    """The level of that session."""
    session_id = models.UUIDField(null=True)
    """The session that approved the request; after the exchange, the session that the code gave."""
    request_uri = models.TextField(null=True)
    """SHA-256 of the `request_uri` in hex, from the push of the request (RFC 9126) to its use."""
    created_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("oauth_authorizations")
        indexes = [
            models.Index(fields=["expires_at"], name=namespaced("oauth_authorizations_expires_at_idx")),
            models.Index(fields=["user", "client"], name=namespaced("oauth_authorizations_user_id_idx")),
            models.Index(fields=["client"], name=namespaced("oauth_authorizations_client_id_idx")),
            models.Index(
                fields=["request_uri"],
                condition=Q(request_uri__isnull=False),
                name=namespaced("oauth_authorizations_request_uri_idx"),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["authorization_id"], name=namespaced("oauth_authorizations_authorization_id_key")
            ),
            models.UniqueConstraint(
                fields=["authorization_code"], name=namespaced("oauth_authorizations_authorization_code_key")
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")),
                name=namespaced("oauth_authorizations_expires_at_future"),
            ),
            models.CheckConstraint(
                condition=Q(status__in=AuthorizationStatus.values), name=namespaced("oauth_authorizations_status_check")
            ),
            _at_most("oauth_authorizations", "redirect_uri", 2048),
            _at_most("oauth_authorizations", "scope", 4096),
            _at_most("oauth_authorizations", "state", 4096),
            _at_most("oauth_authorizations", "resource", resources.MAX_LENGTH),
            _at_most("oauth_authorizations", "nonce", 255),
            _at_most("oauth_authorizations", "code_challenge", 128),
        ]

    def __str__(self) -> str:
        return self.authorization_id


class DeviceAuthorization(models.Model):
    """The request of a device without a browser (RFC 8628), until its code expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    device_code_hash = models.TextField()
    """SHA-256 of the device code in hex."""
    user_code_hash = models.TextField()
    """Keyed digest of the user code, which is too short for a digest without a key."""
    client = models.ForeignKey(
        OAuthClient, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="device_authorizations"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="oauth_device_authorizations",
    )
    """The user who has entered the code."""
    scope = models.TextField()
    resource = models.TextField(null=True)
    max_age = models.BigIntegerField(null=True)
    acr_values = models.TextField(null=True)
    status = models.TextField(choices=AuthorizationStatus, db_default=AuthorizationStatus.PENDING)
    poll_interval = models.IntegerField()
    """Seconds between two polls of the device."""
    polled_at = models.DateTimeField(null=True)
    authenticated_at = models.DateTimeField(null=True)
    """The sign-in of the session that approved the request."""
    aal = models.TextField(null=True)
    """The level of that session."""
    session_id = models.UUIDField(null=True)
    """The session that approved the request; after the exchange, the session that the device code gave."""
    created_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("oauth_device_authorizations")
        indexes = [
            models.Index(fields=["expires_at"], name=namespaced("oauth_device_auth_expires_at_idx")),
            models.Index(fields=["user", "client"], name=namespaced("oauth_device_auth_user_id_idx")),
            models.Index(fields=["client"], name=namespaced("oauth_device_auth_client_id_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["device_code_hash"], name=namespaced("oauth_device_auth_device_code_key")),
            models.UniqueConstraint(fields=["user_code_hash"], name=namespaced("oauth_device_auth_user_code_key")),
            models.CheckConstraint(
                condition=Q(status__in=AuthorizationStatus.values), name=namespaced("oauth_device_auth_status_check")
            ),
            _at_most("oauth_device_authorizations", "scope", 4096),
            _at_most("oauth_device_authorizations", "resource", resources.MAX_LENGTH),
        ]

    def __str__(self) -> str:
        return str(self.id)


class OAuthConsent(models.Model):
    """The consent of a user to scopes and APIs of a client; a new consent replaces the former one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="oauth_consents",
    )
    client = models.ForeignKey(
        OAuthClient, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="consents"
    )
    scopes = models.TextField()
    """Separated by spaces."""
    resource = models.TextField(null=True)
    """The APIs (RFC 8707) that the client may use for the user, separated by spaces."""
    granted_at = models.DateTimeField(db_default=Now())
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = namespaced("oauth_consents")
        indexes = [
            models.Index(
                fields=["client"],
                condition=Q(revoked_at__isnull=True),
                name=namespaced("oauth_consents_active_client_idx"),
            ),
            models.Index(fields=["user", "-granted_at"], name=namespaced("oauth_consents_user_order_idx")),
            models.Index(fields=["client"], name=namespaced("oauth_consents_client_id_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["user", "client"], name=namespaced("oauth_consents_user_client_unique")),
            models.CheckConstraint(
                condition=Q(scopes__length__lte=2048) & ~Q(scopes=""), name=namespaced("oauth_consents_scopes_length")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.client_id}"


class ClientAssertion(models.Model):
    """An accepted client assertion (RFC 7523), until it expires, so that it is accepted once."""

    digest = models.TextField(primary_key=True)
    """SHA-256 of the client and the `jti` in hex."""
    expires_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("oauth_client_assertions")
        indexes = [models.Index(fields=["expires_at"], name=namespaced("oauth_client_assertions_expires_at_idx"))]

    def __str__(self) -> str:
        return self.digest
