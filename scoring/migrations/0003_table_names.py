"""Tables follow the names of their models. Each is a rename alone: no row is written."""

from django.conf import settings
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0023_table_names"),
        ("scoring", "0002_registry_of_scorers"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RenameModel(
            old_name="MustFail",
            new_name="RegressionCase",
        ),
        migrations.AlterModelOptions(
            name="regressioncase",
            options={
                "ordering": ["guideline_name", "pk"],
                "verbose_name": "regression case",
                "verbose_name_plural": "regression cases",
            },
        ),
    ]
