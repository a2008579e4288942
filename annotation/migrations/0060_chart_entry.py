from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0059_sign_in"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChartEntry",
            fields=[
                ("cache_key", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("value", models.TextField()),
                ("expires", models.DateTimeField(db_index=True)),
            ],
            options={
                "verbose_name": "chart",
                "verbose_name_plural": "charts",
            },
        ),
    ]
