from django.db import migrations, models


class Migration(migrations.Migration):
    """Two columns that may be null: no row is rewritten, and of imports of before nothing is recorded."""

    dependencies = [
        ("annotation", "0026_chance_of_selection"),
    ]

    operations = [
        migrations.AddField(
            model_name="import",
            name="protocol",
            field=models.TextField(blank=True, null=True, verbose_name="protocol"),
        ),
        migrations.AddField(
            model_name="import",
            name="carried_protocols",
            field=models.JSONField(blank=True, null=True, verbose_name="protocols of the bundle"),
        ),
    ]
