"""Client secrets of pending flows, and custom providers."""

import uuid

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ClientState",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("provider_type", models.TextField()),
                ("code_verifier", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "db_table": namespaced("oauth_client_states"),
                "indexes": [models.Index(fields=["created_at"], name=namespaced("idx_oauth_client_states_created_at"))],
            },
        ),
        migrations.CreateModel(
            name="CustomProvider",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("provider_type", models.TextField(choices=[("oauth2", "Oauth2"), ("oidc", "Oidc")])),
                ("identifier", models.TextField()),
                ("name", models.TextField()),
                ("client_id", models.TextField()),
                ("client_secret", models.TextField()),
                (
                    "acceptable_client_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                (
                    "custom_claims_allowlist",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                ("pkce_enabled", models.BooleanField(db_default=True, default=True)),
                ("enabled", models.BooleanField(db_default=True, default=True)),
                ("attribute_mapping", models.JSONField(db_default={}, default=dict)),
                ("authorization_params", models.JSONField(db_default={}, default=dict)),
                ("email_optional", models.BooleanField(db_default=False, default=False)),
                ("skip_nonce_check", models.BooleanField(db_default=False, default=False)),
                ("issuer", models.TextField(null=True)),
                ("discovery_url", models.TextField(null=True)),
                ("cached_discovery", models.JSONField(null=True)),
                ("discovery_cached_at", models.DateTimeField(null=True)),
                ("authorization_url", models.TextField(null=True)),
                ("token_url", models.TextField(null=True)),
                ("userinfo_url", models.TextField(null=True)),
                ("jwks_uri", models.TextField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": namespaced("custom_oauth_providers"),
                "indexes": [
                    models.Index(fields=["provider_type"], name=namespaced("custom_oauth_providers_type_idx")),
                    models.Index(fields=["enabled"], name=namespaced("custom_oauth_providers_enabled_idx")),
                    models.Index(
                        fields=["-created_at", "-id"], name=namespaced("custom_oauth_providers_created_at_idx")
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("identifier",), name=namespaced("custom_oauth_providers_identifier_key")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("provider_type__in", ["oauth2", "oidc"])),
                        name=namespaced("custom_oauth_providers_provider_type_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("identifier__regex", "^[a-z0-9][a-z0-9:-]{0,48}[a-z0-9]$")),
                        name=namespaced("custom_oauth_providers_identifier_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name__length__gte", 1), ("name__length__lte", 100)),
                        name=namespaced("custom_oauth_providers_name_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("client_id__length__gte", 1), ("client_id__length__lte", 512)),
                        name=namespaced("custom_oauth_providers_client_id_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("provider_type", "oidc"), _negated=True),
                            ("issuer__isnull", False),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_oidc_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("provider_type", "oauth2"), _negated=True),
                            models.Q(
                                ("authorization_url__isnull", False),
                                ("token_url__isnull", False),
                                ("userinfo_url__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_oauth2_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("issuer__isnull", True),
                            models.Q(("issuer__startswith", "https://"), ("issuer__length__lte", 2048)),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_issuer_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("discovery_url__isnull", True),
                            models.Q(("discovery_url__startswith", "https://"), ("discovery_url__length__lte", 2048)),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_discovery_url_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("authorization_url__isnull", True),
                            models.Q(
                                ("authorization_url__startswith", "https://"), ("authorization_url__length__lte", 2048)
                            ),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_authorization_url_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("token_url__isnull", True),
                            models.Q(("token_url__startswith", "https://"), ("token_url__length__lte", 2048)),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_token_url_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("userinfo_url__isnull", True),
                            models.Q(("userinfo_url__startswith", "https://"), ("userinfo_url__length__lte", 2048)),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_userinfo_url_check"),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("jwks_uri__isnull", True),
                            models.Q(("jwks_uri__startswith", "https://"), ("jwks_uri__length__lte", 2048)),
                            _connector="OR",
                        ),
                        name=namespaced("custom_oauth_providers_jwks_uri_check"),
                    ),
                ],
            },
        ),
    ]
