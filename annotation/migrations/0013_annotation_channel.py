"""By which way each label came; of those of before it is not known."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("annotation", "0012_api_tokens")]
    operations = [
        migrations.AddField(
            model_name="adjudication",
            name="channel",
            field=models.CharField(
                blank=True,
                choices=[("page", "page"), ("token", "token"), ("import", "import")],
                default="",
                db_default="",
                max_length=6,
                verbose_name="came by",
            ),
        ),
        migrations.AddField(
            model_name="annotation",
            name="channel",
            field=models.CharField(
                blank=True,
                choices=[("page", "page"), ("token", "token"), ("import", "import")],
                default="",
                db_default="",
                max_length=6,
                verbose_name="came by",
            ),
        ),
        migrations.AddField(
            model_name="secondreading",
            name="channel",
            field=models.CharField(
                blank=True,
                choices=[("page", "page"), ("token", "token"), ("import", "import")],
                default="",
                db_default="",
                max_length=6,
                verbose_name="came by",
            ),
        ),
        migrations.AddField(
            model_name="verdict",
            name="channel",
            field=models.CharField(
                blank=True,
                choices=[("page", "page"), ("token", "token"), ("import", "import")],
                default="",
                db_default="",
                max_length=6,
                verbose_name="came by",
            ),
        ),
    ]
