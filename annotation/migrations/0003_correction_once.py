from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("annotation", "0002_groups")]

    operations = [
        migrations.AddField(
            model_name="correctionrequest",
            name="idempotency_key",
            field=models.CharField(default="", max_length=200),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="correctionrequest",
            name="body_sha256",
            field=models.CharField(default="", max_length=64),
            preserve_default=False,
        ),
        # Requests from before had no key of their own.
        migrations.RunSQL(
            "UPDATE annotation_correctionrequest SET idempotency_key = 'before ' || id",
            migrations.RunSQL.noop,
        ),
        migrations.AddConstraint(
            model_name="correctionrequest",
            constraint=models.UniqueConstraint(
                fields=("assignment", "idempotency_key"), name="correction_request_once_per_key"
            ),
        ),
    ]
