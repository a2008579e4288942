"""Tables follow the names of their models. Each is a rename alone: no row is written."""

from django.conf import settings
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0023_table_names"),
        ("benchmark", "0004_published_beside_their_dataset"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RenameModel(
            old_name="FailedAsk",
            new_name="FailedRequest",
        ),
        migrations.RenameModel(
            old_name="Judging",
            new_name="JudgeRun",
        ),
        migrations.RenameModel(
            old_name="LabellingPlan",
            new_name="LabelPlan",
        ),
        migrations.RenameModel(
            old_name="ReadAnswer",
            new_name="ParsedAnswer",
        ),
        migrations.RenameModel(
            old_name="PendingAsk",
            new_name="PendingRequest",
        ),
        migrations.RenameModel(
            old_name="QuestionForm",
            new_name="QuestionVariant",
        ),
        migrations.AlterModelOptions(
            name="collectionrun",
            options={
                "ordering": ["-created_at", "-id"],
                "verbose_name": "response collection",
                "verbose_name_plural": "response collections",
            },
        ),
        migrations.AlterModelOptions(
            name="judgerun",
            options={
                "ordering": ["-created_at", "-id"],
                "verbose_name": "judge run",
                "verbose_name_plural": "judge runs",
            },
        ),
        migrations.AlterModelOptions(
            name="labelplan",
            options={
                "ordering": ["-created_at", "-id"],
                "verbose_name": "label plan",
                "verbose_name_plural": "label plans",
            },
        ),
        migrations.AlterModelOptions(
            name="parsedanswer",
            options={"verbose_name": "parsed answer", "verbose_name_plural": "parsed answers"},
        ),
        migrations.AlterModelOptions(
            name="questionvariant",
            options={"verbose_name": "variant of a question", "verbose_name_plural": "variants of questions"},
        ),
    ]
