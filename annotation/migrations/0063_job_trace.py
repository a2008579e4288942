from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0062_idempotency_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="trace_parent",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Of what queued it.",
                max_length=55,
                verbose_name="trace",
            ),
        ),
    ]
