"""Who opened a batch's results is kept, closings are confirmed, submissions are shown closed in blocks."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0014_sign_in"),
    ]

    operations = [
        migrations.AddField(
            model_name="batch",
            name="blocks_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="batch",
            name="closed_by",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="closed by",
            ),
        ),
        migrations.AddField(
            model_name="batch",
            name="closing_confirmed_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="closing confirmed"),
        ),
        migrations.AddField(
            model_name="batch",
            name="closing_confirmed_by",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="closing confirmed by",
            ),
        ),
        migrations.CreateModel(
            name="ResultOpening",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_at", models.DateTimeField(verbose_name="first opened")),
                ("presumed", models.BooleanField(default=False, verbose_name="presumed")),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="result_openings",
                        to="annotation.batch",
                        verbose_name="batch",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="result_openings",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "opening of results",
                "verbose_name_plural": "openings of results",
                "constraints": [
                    models.UniqueConstraint(fields=("person", "batch"), name="result_opening_once_per_batch")
                ],
            },
        ),
        migrations.CreateModel(
            name="SubmissionBlock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_at", models.DateTimeField(verbose_name="first submitted")),
                ("last_at", models.DateTimeField(verbose_name="last submitted")),
                ("closed_at", models.DateTimeField(blank=True, null=True, verbose_name="shown closed")),
                (
                    "batch",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="submission_blocks",
                        to="annotation.batch",
                        verbose_name="batch",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="submission_blocks",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "block of submissions",
                "verbose_name_plural": "blocks of submissions",
                "indexes": [
                    models.Index(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=["batch"],
                        name="submission_block_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("batch", "person", "first_at"), name="submission_block_once"
                    )
                ],
            },
        ),
    ]
