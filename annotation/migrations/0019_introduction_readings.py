import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0018_imported_labels_of_before"),
    ]

    operations = [
        migrations.CreateModel(
            name="IntroductionReading",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("read_at", models.DateTimeField(auto_now_add=True, verbose_name="read")),
                (
                    "guideline",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="readings",
                        to="annotation.guideline",
                        verbose_name="guideline",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "introduction that was read",
                "verbose_name_plural": "introductions that were read",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("guideline", "person"), name="introduction_read_once_per_version"
                    )
                ],
            },
        ),
    ]
