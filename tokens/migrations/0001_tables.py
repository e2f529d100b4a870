"""Sessions and their methods, one-time tokens, flows, imported refresh tokens."""

import uuid

import django.contrib.postgres.indexes
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
            name="FlowState",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("user_id", models.UUIDField(null=True)),
                ("auth_code", models.TextField(null=True)),
                ("code_challenge_method", models.TextField(choices=[("s256", "S256"), ("plain", "Plain")], null=True)),
                ("code_challenge", models.TextField(null=True)),
                ("provider_type", models.TextField()),
                ("provider_access_token", models.TextField(null=True)),
                ("provider_refresh_token", models.TextField(null=True)),
                ("created_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                ("authentication_method", models.TextField()),
                ("auth_code_issued_at", models.DateTimeField(null=True)),
                ("invite_token", models.TextField(null=True)),
                ("referrer", models.TextField(null=True)),
                ("oauth_client_state_id", models.UUIDField(null=True)),
                ("linking_target_id", models.UUIDField(null=True)),
                ("email_optional", models.BooleanField(db_default=False)),
                ("session_not_after", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": namespaced("flow_state"),
                "indexes": [
                    models.Index(fields=["auth_code"], name=namespaced("idx_auth_code")),
                    models.Index(
                        fields=["user_id", "authentication_method"], name=namespaced("idx_user_id_auth_method")
                    ),
                    models.Index(fields=["-created_at"], name=namespaced("flow_state_created_at_idx")),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("code_challenge_method__in", ["s256", "plain"]),
                            ("code_challenge_method__isnull", True),
                            _connector="OR",
                        ),
                        name=namespaced("flow_state_code_challenge_method_check"),
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField(null=True)),
                ("factor_id", models.UUIDField(null=True)),
                ("aal", models.TextField(null=True)),
                ("not_after", models.DateTimeField(null=True)),
                ("tag", models.TextField(null=True)),
                ("oauth_client_id", models.UUIDField(null=True)),
                ("refresh_token_hmac_key", models.TextField(null=True)),
                ("scopes", models.TextField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                # A refresh changes the last columns alone: PostgreSQL logs all columns between two that change.
                ("user_agent", models.TextField(null=True)),
                ("ip", models.GenericIPAddressField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                ("refreshed_at", models.DateTimeField(null=True)),
                ("refresh_token_counter", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": namespaced("sessions"),
            },
        ),
        migrations.CreateModel(
            name="LegacyRefreshToken",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("token", models.CharField(max_length=255, null=True)),
                ("revoked", models.BooleanField(null=True)),
                ("created_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                ("parent", models.CharField(max_length=255, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="legacy_tokens",
                        to="tokens.session",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("refresh_tokens"),
            },
        ),
        migrations.CreateModel(
            name="AmrClaim",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("authentication_method", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="amr_claims",
                        to="tokens.session",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("mfa_amr_claims"),
            },
        ),
        migrations.CreateModel(
            name="OneTimeToken",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                (
                    "token_type",
                    models.TextField(
                        choices=[
                            ("confirmation_token", "Confirmation"),
                            ("reauthentication_token", "Reauthentication"),
                            ("recovery_token", "Recovery"),
                            ("email_change_token_new", "Email Change New"),
                            ("email_change_token_current", "Email Change Current"),
                            ("phone_change_token", "Phone Change"),
                        ]
                    ),
                ),
                ("token_hash", models.TextField()),
                ("link_hash", models.TextField(null=True)),
                ("relates_to", models.TextField()),
                ("attempts", models.SmallIntegerField(db_default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="one_time_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": namespaced("one_time_tokens"),
                "indexes": [
                    django.contrib.postgres.indexes.HashIndex(
                        fields=["token_hash"], name=namespaced("one_time_tokens_token_hash_hash_idx")
                    ),
                    django.contrib.postgres.indexes.HashIndex(
                        fields=["relates_to"], name=namespaced("one_time_tokens_relates_to_hash_idx")
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "token_type"), name=namespaced("one_time_tokens_user_id_token_type_key")
                    ),
                    models.UniqueConstraint(fields=("link_hash",), name=namespaced("one_time_tokens_link_hash_key")),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "token_type__in",
                                [
                                    "confirmation_token",
                                    "reauthentication_token",
                                    "recovery_token",
                                    "email_change_token_new",
                                    "email_change_token_current",
                                    "phone_change_token",
                                ],
                            )
                        ),
                        name=namespaced("one_time_tokens_token_type_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("token_hash__length__gt", 0)),
                        name=namespaced("one_time_tokens_token_hash_check"),
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["user"], name=namespaced("sessions_user_id_idx")),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["user", "created_at"], name=namespaced("user_id_created_at_idx")),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["-not_after"], name=namespaced("sessions_not_after_idx")),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["oauth_client_id"], name=namespaced("sessions_oauth_client_id_idx")),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.CheckConstraint(
                condition=models.Q(("aal__in", ["aal1", "aal2", "aal3"]), ("aal__isnull", True), _connector="OR"),
                name=namespaced("sessions_aal_check"),
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.CheckConstraint(
                condition=models.Q(("scopes__isnull", True), ("scopes__length__lte", 4096), _connector="OR"),
                name=namespaced("sessions_scopes_length"),
            ),
        ),
        migrations.AddIndex(
            model_name="legacyrefreshtoken",
            index=models.Index(fields=["user"], name=namespaced("refresh_tokens_user_id_idx")),
        ),
        migrations.AddIndex(
            model_name="legacyrefreshtoken",
            index=models.Index(fields=["parent"], name=namespaced("refresh_tokens_parent_idx")),
        ),
        migrations.AddIndex(
            model_name="legacyrefreshtoken",
            index=models.Index(fields=["session", "revoked"], name=namespaced("refresh_tokens_session_id_revoked_idx")),
        ),
        migrations.AddIndex(
            model_name="legacyrefreshtoken",
            index=models.Index(fields=["-updated_at"], name=namespaced("refresh_tokens_updated_at_idx")),
        ),
        migrations.AddConstraint(
            model_name="legacyrefreshtoken",
            constraint=models.UniqueConstraint(fields=("token",), name=namespaced("refresh_tokens_token_unique")),
        ),
        migrations.AddConstraint(
            model_name="amrclaim",
            constraint=models.UniqueConstraint(
                fields=("session", "authentication_method"),
                name=namespaced("mfa_amr_claims_session_id_authentication_method_pkey"),
            ),
        ),
        cascade("sessions", "user_id", "users"),
        cascade("one_time_tokens", "user_id", "users"),
        cascade("refresh_tokens", "user_id", "users"),
        cascade("refresh_tokens", "session_id", "sessions"),
        cascade("mfa_amr_claims", "session_id", "sessions"),
        # Free space in each page allows HOT updates.
        migrations.RunSQL([f"ALTER TABLE {namespaced('sessions')} SET (fillfactor = 85)"], migrations.RunSQL.noop),
    ]
