"""Events of the audit trail get their study and where they came from, and a chain of seals."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0053_malice_of_prompts"),
    ]

    operations = [
        migrations.AddField(
            model_name="auditevent",
            name="address",
            field=models.CharField(db_default="", default="", max_length=45, verbose_name="address"),
        ),
        migrations.AddField(
            model_name="auditevent",
            name="agent",
            field=models.CharField(db_default="", default="", max_length=200, verbose_name="browser"),
        ),
        migrations.AddField(
            model_name="auditevent",
            name="study",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="annotation.study",
                verbose_name="study",
            ),
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="actor",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="by",
            ),
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                (
                    "position",
                    models.BigIntegerField(primary_key=True, serialize=False, verbose_name="position"),
                ),
                ("digest", models.BinaryField(max_length=32, verbose_name="hash")),
                ("sealed_at", models.DateTimeField(auto_now_add=True, verbose_name="sealed")),
                (
                    "event",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="seal",
                        to="annotation.auditevent",
                        verbose_name="audit event",
                    ),
                ),
            ],
            options={
                "verbose_name": "seal of an audit event",
                "verbose_name_plural": "seals of audit events",
            },
        ),
    ]
