from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0052_slates"),
    ]

    operations = [
        migrations.AddField(
            model_name="prompt",
            name="malice",
            field=models.CharField(
                blank=True,
                choices=[("explicit", "explicit"), ("implicit", "implicit")],
                db_default="",
                default="",
                max_length=8,
                verbose_name="malice",
            ),
        ),
    ]
