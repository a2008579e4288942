"""Tables follow the names of their models. Each is a rename alone: no row is written."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0022_second_readings_to_tasks"),
    ]

    operations = [
        migrations.RenameModel(
            old_name="KnownItem",
            new_name="GoldQuestion",
        ),
        migrations.RenameModel(
            old_name="Watch",
            new_name="BatchStats",
        ),
        migrations.RenameModel(
            old_name="Note",
            new_name="GuidelineNote",
        ),
        migrations.RenameModel(
            old_name="Tally",
            new_name="MemberCounts",
        ),
        migrations.RenameModel(
            old_name="CareSettings",
            new_name="WellbeingSettings",
        ),
        migrations.AlterModelOptions(
            name="batchstats",
            options={"verbose_name": "batch statistics", "verbose_name_plural": "batch statistics"},
        ),
        migrations.AlterModelOptions(
            name="goldquestion",
            options={
                "ordering": ["batch", "kind", "position"],
                "verbose_name": "gold question",
                "verbose_name_plural": "gold questions",
            },
        ),
        migrations.AlterModelOptions(
            name="guidelinenote",
            options={
                "ordering": ["-id"],
                "verbose_name": "annotator note",
                "verbose_name_plural": "annotator notes",
            },
        ),
        migrations.AlterModelOptions(
            name="membercounts",
            options={"verbose_name": "counts of a member", "verbose_name_plural": "counts of members"},
        ),
        migrations.AlterModelOptions(
            name="wellbeingsettings",
            options={"verbose_name": "wellbeing settings", "verbose_name_plural": "wellbeing settings"},
        ),
        migrations.RenameModel(
            old_name="KnownTask",
            new_name="GoldQuestionTask",
        ),
        migrations.AlterModelOptions(
            name="goldquestiontask",
            options={
                "verbose_name": "task of a gold question",
                "verbose_name_plural": "tasks of gold questions",
            },
        ),
        migrations.AlterField(
            model_name="goldquestiontask",
            name="item",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="given",
                to="annotation.goldquestion",
                verbose_name="gold question",
            ),
        ),
    ]
