"""Clients, authorization requests and consents of the OAuth server."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from authsvc.db.sql import namespaced


def cascade(child: str, column: str, parent: str) -> migrations.RunSQL:
    """A foreign key with ON DELETE CASCADE in the database, which Django's foreign keys lack."""
    sql = (
        f"ALTER TABLE {namespaced(child)} ADD CONSTRAINT {namespaced(f'{child}_{column}_fkey')}"
        f" FOREIGN KEY ({column}) REFERENCES {namespaced(parent)} (id) ON DELETE CASCADE"
    )
    return migrations.RunSQL([sql], migrations.RunSQL.noop)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="OAuthClient",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False, verbose_name="client ID"),
                ),
                ("client_secret_hash", models.TextField(null=True)),
                (
                    "registration_type",
                    models.TextField(
                        choices=[("manual", "Manual"), ("dynamic", "Dynamic")], verbose_name="registration"
                    ),
                ),
                ("redirect_uris", models.TextField(verbose_name="redirect URIs")),
                ("grant_types", models.TextField()),
                ("client_name", models.TextField(null=True, verbose_name="name")),
                ("client_uri", models.TextField(null=True, verbose_name="home page")),
                ("logo_uri", models.TextField(null=True, verbose_name="logo")),
                (
                    "client_type",
                    models.TextField(
                        choices=[("public", "Public"), ("confidential", "Confidential")],
                        db_default="confidential",
                        verbose_name="type",
                    ),
                ),
                (
                    "token_endpoint_auth_method",
                    models.TextField(
                        choices=[
                            ("none", "none"),
                            ("client_secret_basic", "client_secret_basic"),
                            ("client_secret_post", "client_secret_post"),
                        ],
                        verbose_name="client authentication",
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("deleted_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "OAuth client",
                "db_table": namespaced("oauth_clients"),
                "indexes": [
                    models.Index(fields=["deleted_at"], name=namespaced("oauth_clients_deleted_at_idx")),
                    models.Index(fields=["-created_at", "-id"], name=namespaced("oauth_clients_created_at_idx")),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("client_type__in", ["public", "confidential"])),
                        name=namespaced("oauth_clients_client_type_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("token_endpoint_auth_method__in", ["none", "client_secret_basic", "client_secret_post"])
                        ),
                        name=namespaced("oauth_clients_token_endpoint_auth_method_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("client_name__isnull", True), ("client_name__length__lte", 1024), _connector="OR"
                        ),
                        name=namespaced("oauth_clients_client_name_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("client_uri__isnull", True), ("client_uri__length__lte", 2048), _connector="OR"
                        ),
                        name=namespaced("oauth_clients_client_uri_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("logo_uri__isnull", True), ("logo_uri__length__lte", 2048), _connector="OR"
                        ),
                        name=namespaced("oauth_clients_logo_uri_length"),
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OAuthAuthorization",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("authorization_id", models.TextField()),
                ("redirect_uri", models.TextField()),
                ("scope", models.TextField()),
                ("state", models.TextField(null=True)),
                ("resource", models.TextField(null=True)),
                ("code_challenge", models.TextField(null=True)),
                ("code_challenge_method", models.TextField(null=True)),
                ("response_type", models.TextField(db_default="code")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending", "Pending"),
                            ("approved", "Approved"),
                            ("denied", "Denied"),
                            ("expired", "Expired"),
                            ("exchanged", "Exchanged"),
                        ],
                        db_default="pending",
                    ),
                ),
                ("authorization_code", models.TextField(null=True)),
                ("nonce", models.TextField(null=True)),
                ("prompt", models.TextField(null=True)),
                ("max_age", models.BigIntegerField(null=True)),
                ("login_hint", models.TextField(null=True)),
                ("acr_values", models.TextField(null=True)),
                ("authenticated_at", models.DateTimeField(null=True)),
                ("aal", models.TextField(null=True)),
                ("session_id", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("approved_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="oauth_authorizations",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "client",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="authorizations",
                        to="oauthserver.oauthclient",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("oauth_authorizations"),
                "indexes": [
                    models.Index(fields=["expires_at"], name=namespaced("oauth_authorizations_expires_at_idx")),
                    models.Index(fields=["user", "client"], name=namespaced("oauth_authorizations_user_id_idx")),
                    models.Index(fields=["client"], name=namespaced("oauth_authorizations_client_id_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("authorization_id",), name=namespaced("oauth_authorizations_authorization_id_key")
                    ),
                    models.UniqueConstraint(
                        fields=("authorization_code",), name=namespaced("oauth_authorizations_authorization_code_key")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name=namespaced("oauth_authorizations_expires_at_future"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["pending", "approved", "denied", "expired", "exchanged"])),
                        name=namespaced("oauth_authorizations_status_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("redirect_uri__isnull", True), ("redirect_uri__length__lte", 2048), _connector="OR"
                        ),
                        name=namespaced("oauth_authorizations_redirect_uri_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scope__isnull", True), ("scope__length__lte", 4096), _connector="OR"),
                        name=namespaced("oauth_authorizations_scope_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__isnull", True), ("state__length__lte", 4096), _connector="OR"),
                        name=namespaced("oauth_authorizations_state_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("resource__isnull", True), ("resource__length__lte", 2048), _connector="OR"
                        ),
                        name=namespaced("oauth_authorizations_resource_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("nonce__isnull", True), ("nonce__length__lte", 255), _connector="OR"),
                        name=namespaced("oauth_authorizations_nonce_length"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("code_challenge__isnull", True), ("code_challenge__length__lte", 128), _connector="OR"
                        ),
                        name=namespaced("oauth_authorizations_code_challenge_length"),
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OAuthConsent",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("scopes", models.TextField()),
                ("granted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "client",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="consents",
                        to="oauthserver.oauthclient",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="oauth_consents",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": namespaced("oauth_consents"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("revoked_at__isnull", True)),
                        fields=["client"],
                        name=namespaced("oauth_consents_active_client_idx"),
                    ),
                    models.Index(fields=["user", "-granted_at"], name=namespaced("oauth_consents_user_order_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "client"), name=namespaced("oauth_consents_user_client_unique")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scopes__length__lte", 2048), models.Q(("scopes", ""), _negated=True)),
                        name=namespaced("oauth_consents_scopes_length"),
                    ),
                ],
            },
        ),
        *(
            cascade(child, column, parent)
            for child in ("oauth_authorizations", "oauth_consents")
            for column, parent in (("client_id", "oauth_clients"), ("user_id", "users"))
        ),
    ]
