"""Challenges of second factors, recovery codes and passkeys."""

import uuid
from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

from authsvc.db.sql import namespaced


def cascade(child: str, column: str, parent: str) -> migrations.RunSQL:
    """A foreign key with ON DELETE CASCADE in the database, which Django's foreign keys lack."""
    sql = (
        f"ALTER TABLE {namespaced(child)} ADD CONSTRAINT {namespaced(f'{child}_{column}_fkey')}"
        f" FOREIGN KEY ({column}) REFERENCES {namespaced(parent)} (id) ON DELETE CASCADE"
    )
    return migrations.RunSQL([sql], migrations.RunSQL.noop)


def belongs_to(model: str, *, related_name: str, is_optional: bool = False) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        null=is_optional,
        on_delete=django.db.models.deletion.CASCADE,
        related_name=related_name,
        to=model,
    )


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_users_by_state")]

    operations = [
        migrations.AddField(
            model_name="factor",
            name="last_totp_step",
            field=models.BigIntegerField(null=True),
        ),
        migrations.CreateModel(
            name="FactorChallenge",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("verified_at", models.DateTimeField(null=True)),
                ("ip_address", models.GenericIPAddressField(null=True)),
                ("otp_code", models.TextField(null=True)),
                ("web_authn_session_data", models.JSONField(null=True)),
                ("attempts", models.SmallIntegerField(db_default=0)),
                ("session_id", models.UUIDField(null=True)),
                ("factor", belongs_to("accounts.factor", related_name="challenges")),
            ],
            options={
                "db_table": namespaced("mfa_challenges"),
                "indexes": [
                    models.Index(fields=["-created_at"], name=namespaced("mfa_challenge_created_at_idx")),
                    models.Index(fields=["factor"], name=namespaced("mfa_challenges_factor_id_idx")),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("code_hash", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("user", belongs_to("accounts.user", related_name="recovery_codes")),
            ],
            options={
                "db_table": namespaced("mfa_recovery_codes"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "code_hash"), name=namespaced("mfa_recovery_codes_user_hash_key")
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Passkey",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("credential_id", models.BinaryField()),
                ("public_key", models.BinaryField()),
                ("attestation_type", models.TextField(db_default="")),
                ("aaguid", models.UUIDField(null=True)),
                ("sign_count", models.BigIntegerField(db_default=0)),
                ("transports", models.JSONField(db_default=models.Value([], models.JSONField()))),
                ("backup_eligible", models.BooleanField(db_default=False)),
                ("backed_up", models.BooleanField(db_default=False)),
                ("friendly_name", models.TextField(db_default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("last_used_at", models.DateTimeField(null=True)),
                ("user", belongs_to("accounts.user", related_name="passkeys")),
            ],
            options={
                "db_table": namespaced("webauthn_credentials"),
                "indexes": [models.Index(fields=["user"], name=namespaced("webauthn_credentials_user_id_idx"))],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("credential_id",), name=namespaced("webauthn_credentials_credential_id_key")
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PasskeyChallenge",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                (
                    "challenge_type",
                    models.TextField(
                        choices=[
                            ("signup", "Signup"),
                            ("registration", "Registration"),
                            ("authentication", "Authentication"),
                        ]
                    ),
                ),
                ("session_data", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("user", belongs_to("accounts.user", related_name="passkey_challenges", is_optional=True)),
            ],
            options={
                "db_table": namespaced("webauthn_challenges"),
                "indexes": [
                    models.Index(fields=["user"], name=namespaced("webauthn_challenges_user_id_idx")),
                    models.Index(fields=["expires_at"], name=namespaced("webauthn_challenges_expires_at_idx")),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("challenge_type__in", ["signup", "registration", "authentication"])),
                        name=namespaced("webauthn_challenges_challenge_type_check"),
                    )
                ],
            },
        ),
        cascade("mfa_challenges", "factor_id", "mfa_factors"),
        cascade("mfa_recovery_codes", "user_id", "users"),
        cascade("webauthn_credentials", "user_id", "users"),
        cascade("webauthn_challenges", "user_id", "users"),
    ]
