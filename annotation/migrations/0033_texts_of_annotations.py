from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0032_round_of_imported_labels"),
    ]

    operations = [
        migrations.AddField(
            model_name="annotation",
            name="texts",
            field=models.JSONField(
                blank=True,
                db_default=models.Value({}, models.JSONField()),
                default=dict,
                help_text="The answers to criteria that ask for a text.",
                verbose_name="texts",
            ),
        ),
    ]
