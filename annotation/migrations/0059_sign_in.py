import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Sessions as people see them, and which roles a provider gave. Columns with a default of the database alone."""

    dependencies = [
        ("annotation", "0058_mail"),
    ]

    operations = [
        migrations.AddField(
            model_name="person",
            name="password_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="person",
            name="admin_given_by",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=50),
        ),
        migrations.AddField(
            model_name="studymembership",
            name="given_by",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=50),
        ),
        migrations.CreateModel(
            name="SignInSession",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("session_key", models.CharField(max_length=40, unique=True)),
                (
                    "method",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("password", "password"),
                            ("passkey", "passkey"),
                            ("link", "link"),
                            ("demo", "demo"),
                            ("provider", "provider"),
                        ],
                        max_length=8,
                        verbose_name="how",
                    ),
                ),
                ("began_at", models.DateTimeField(verbose_name="began")),
                ("seen_at", models.DateTimeField(verbose_name="last seen")),
                ("address", models.CharField(blank=True, max_length=45, verbose_name="address")),
                ("agent", models.CharField(blank=True, max_length=200, verbose_name="browser")),
                ("provider", models.CharField(blank=True, max_length=50, verbose_name="provider")),
                ("subject", models.CharField(blank=True, max_length=191)),
                ("provider_session", models.CharField(blank=True, max_length=255)),
                ("sealed_token", models.TextField(blank=True)),
                ("checked_at", models.DateTimeField(null=True)),
                ("check_begun_at", models.DateTimeField(null=True)),
                ("ends_at", models.DateTimeField(null=True)),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sign_in_sessions",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "ordering": ["-seen_at"],
                "indexes": [models.Index(fields=["provider", "subject"], name="session_by_provider")],
            },
        ),
    ]
