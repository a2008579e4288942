from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0010_known_items_and_exports"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["kind"], name="job_kind"),
        ),
    ]
