"""Users, identities and factors."""

import uuid

import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.comparison
import django.db.models.functions.text
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

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("aud", models.CharField(max_length=255, null=True)),
                ("role", models.CharField(max_length=255, null=True)),
                ("email", models.CharField(max_length=255, null=True)),
                ("password", models.CharField(db_column="encrypted_password", max_length=1024, null=True)),
                ("email_confirmed_at", models.DateTimeField(null=True)),
                ("invited_at", models.DateTimeField(null=True)),
                ("confirmation_sent_at", models.DateTimeField(null=True)),
                ("recovery_sent_at", models.DateTimeField(null=True)),
                ("email_change", models.CharField(max_length=255, null=True)),
                ("email_change_sent_at", models.DateTimeField(null=True)),
                ("raw_app_meta_data", models.JSONField(null=True)),
                ("raw_user_meta_data", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(null=True)),
                # Beside `updated_at`: PostgreSQL logs all columns between two that change.
                ("last_sign_in_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                ("phone", models.TextField(null=True)),
                ("phone_confirmed_at", models.DateTimeField(null=True)),
                ("phone_change", models.TextField(db_default="", null=True)),
                ("phone_change_sent_at", models.DateTimeField(null=True)),
                (
                    "confirmed_at",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Least(
                            "email_confirmed_at", "phone_confirmed_at"
                        ),
                        output_field=models.DateTimeField(null=True),
                    ),
                ),
                ("email_change_confirm_status", models.SmallIntegerField(db_default=0, null=True)),
                ("banned_until", models.DateTimeField(null=True)),
                ("reauthentication_sent_at", models.DateTimeField(null=True)),
                ("is_sso_user", models.BooleanField(db_default=False)),
                ("deleted_at", models.DateTimeField(null=True)),
                ("is_anonymous", models.BooleanField(db_default=False)),
            ],
            options={
                "db_table": namespaced("users"),
                "indexes": [
                    models.Index(fields=["is_anonymous"], name=namespaced("users_is_anonymous_idx")),
                    models.Index(fields=["-created_at", "-id"], name=namespaced("idx_users_created_at_desc")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_sso_user", False)),
                        fields=("email",),
                        name=namespaced("users_email_partial_key"),
                    ),
                    models.UniqueConstraint(fields=("phone",), name=namespaced("users_phone_key")),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("email_change_confirm_status__gte", 0), ("email_change_confirm_status__lte", 2)
                        ),
                        name=namespaced("users_email_change_confirm_status_check"),
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Factor",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("friendly_name", models.TextField(null=True)),
                (
                    "factor_type",
                    models.TextField(choices=[("totp", "Totp"), ("webauthn", "Webauthn"), ("phone", "Phone")]),
                ),
                ("status", models.TextField(choices=[("unverified", "Unverified"), ("verified", "Verified")])),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("secret", models.TextField(null=True)),
                ("phone", models.TextField(null=True)),
                ("last_challenged_at", models.DateTimeField(null=True)),
                ("web_authn_credential", models.JSONField(null=True)),
                ("web_authn_aaguid", models.UUIDField(null=True)),
                ("last_webauthn_challenge_data", models.JSONField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="factors",
                        to="accounts.user",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("mfa_factors"),
                "indexes": [
                    models.Index(fields=["user"], name=namespaced("mfa_factors_user_id_idx")),
                    models.Index(fields=["user", "created_at"], name=namespaced("factor_id_created_at_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "phone"), name=namespaced("unique_phone_factor_per_user")),
                    models.UniqueConstraint(
                        condition=models.Q(("friendly_name__regex", "^\\s*$"), _negated=True),
                        fields=("friendly_name", "user"),
                        name=namespaced("mfa_factors_user_friendly_name_unique"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("factor_type__in", ["totp", "webauthn", "phone"])),
                        name=namespaced("mfa_factors_factor_type_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["unverified", "verified"])),
                        name=namespaced("mfa_factors_status_check"),
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("provider_id", models.TextField()),
                ("identity_data", models.JSONField()),
                ("provider", models.TextField()),
                ("last_sign_in_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                (
                    "email",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.text.Lower(
                            django.db.models.fields.json.KeyTextTransform("email", "identity_data")
                        ),
                        output_field=models.TextField(null=True),
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to="accounts.user",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("identities"),
                "indexes": [
                    models.Index(
                        fields=["email"], name=namespaced("identities_email_idx"), opclasses=["text_pattern_ops"]
                    ),
                    models.Index(fields=["user"], name=namespaced("identities_user_id_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("provider_id", "provider"), name=namespaced("identities_provider_id_provider_unique")
                    )
                ],
            },
        ),
        cascade("identities", "user_id", "users"),
        cascade("mfa_factors", "user_id", "users"),
        # Room in every page, so that a change of columns without an index is made in place.
        migrations.RunSQL([f"ALTER TABLE {namespaced('users')} SET (fillfactor = 85)"], migrations.RunSQL.noop),
    ]
