"""A gold label whose criterion is not applicable has no value. Dropping the constraint reads no row on PostgreSQL."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("annotation", "0029_how_gold_is_settled")]

    operations = [
        migrations.AlterField(
            model_name=name,
            name="value",
            field=models.FloatField(
                blank=True, help_text="Empty: not applicable.", null=True, verbose_name="value"
            ),
        )
        for name in ("goldlabel", "releasedlabel")
    ]
