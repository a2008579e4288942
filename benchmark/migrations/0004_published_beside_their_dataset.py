from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def place_tables(apps: Apps, _schema: BaseDatabaseSchemaEditor) -> None:
    """Each table beside the boards of its guideline, where they are all of one dataset; else of none, until asked."""
    runs = apps.get_model("benchmark", "BenchmarkRun")
    tables = apps.get_model("benchmark", "PublishedTable")
    for table in tables.objects.all():
        own = runs.objects.filter(scorer__guideline__name=table.guideline_name)
        datasets = list(own.order_by().values_list("dataset", flat=True).distinct()[:2])
        if len(datasets) == 1:
            tables.objects.filter(pk=table.pk).update(dataset=datasets[0])


class Migration(migrations.Migration):
    dependencies = [("benchmark", "0003_answers_as_read")]

    operations = [
        migrations.AddField(
            model_name="publishedtable",
            name="dataset",
            field=models.ForeignKey(
                blank=True,
                help_text="Beside whose boards it stands; beside none without it.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="published_tables",
                to="annotation.dataset",
                verbose_name="dataset",
            ),
        ),
        migrations.AddField(
            model_name="sharelink",
            name="with_published",
            field=models.BooleanField(default=False, verbose_name="with published tables"),
        ),
        migrations.RunPython(place_tables, migrations.RunPython.noop),
    ]
