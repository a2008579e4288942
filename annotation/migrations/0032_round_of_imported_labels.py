from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0031_upload_readings"),
    ]

    operations = [
        migrations.AddField(
            model_name="importedlabel",
            name="round",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=200, verbose_name="round"
            ),
        ),
    ]
