import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0016_results_presumed"),
    ]

    operations = [
        migrations.CreateModel(
            name="ImportedLabel",
            fields=[
                (
                    "assignment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="imported",
                        serialize=False,
                        to="annotation.assignment",
                        verbose_name="assignment",
                    ),
                ),
                ("line", models.PositiveIntegerField(verbose_name="line")),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="labels",
                        to="annotation.import",
                        verbose_name="import",
                    ),
                ),
            ],
            options={
                "verbose_name": "imported label",
                "verbose_name_plural": "imported labels",
                "indexes": [models.Index(fields=["source", "line"], name="imported_label_by_line")],
            },
        ),
    ]
