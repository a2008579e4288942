"""Studies are archived and deleted; a certificate says what went. No row of before changes."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0063_job_trace"),
    ]

    operations = [
        migrations.AddField(
            model_name="study",
            name="archived_at",
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name="archived"),
        ),
        migrations.AddField(
            model_name="study",
            name="deleted_at",
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted"),
        ),
        migrations.AddConstraint(
            model_name="study",
            constraint=models.CheckConstraint(
                condition=models.Q(deleted_at__isnull=True) | models.Q(archived_at__isnull=False),
                name="study_deleted_is_archived",
            ),
        ),
        migrations.CreateModel(
            name="StudyDeletion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begun_at", models.DateTimeField(auto_now_add=True, verbose_name="begun")),
                ("plan", models.JSONField(default=dict, verbose_name="plan")),
                ("removed", models.JSONField(default=dict, verbose_name="removed rows")),
                ("certificate", models.JSONField(default=dict, verbose_name="certificate")),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished")),
                (
                    "begun_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="by",
                    ),
                ),
                (
                    "event",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="annotation.auditevent",
                        verbose_name="audit event",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="annotation.job",
                    ),
                ),
                (
                    "study",
                    models.OneToOneField(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deletion",
                        to="annotation.study",
                        verbose_name="study",
                    ),
                ),
            ],
            options={
                "verbose_name": "certificate of a deleted study",
                "verbose_name_plural": "certificates of deleted studies",
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(event__isnull=True, finished_at__isnull=True, sha256="")
                        | models.Q(event__isnull=False, finished_at__isnull=False) & ~models.Q(sha256=""),
                        name="study_deletion_finished_is_certified",
                    )
                ],
            },
        ),
    ]
