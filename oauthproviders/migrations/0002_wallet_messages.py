"""Messages of wallets that have signed in."""

from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("oauthproviders", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="UsedWalletMessage",
            fields=[
                ("digest", models.TextField(primary_key=True, serialize=False)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": namespaced("wallet_messages"),
                "indexes": [models.Index(fields=["expires_at"], name=namespaced("wallet_messages_expires_at_idx"))],
            },
        ),
    ]
