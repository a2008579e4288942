import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0020_job_deaths"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="due_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="due"),
        ),
        migrations.AddField(
            model_name="task",
            name="repeats",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="repeat_tasks",
                to="annotation.task",
                verbose_name="repeats",
            ),
        ),
        migrations.AlterField(
            model_name="task",
            name="kind",
            field=models.CharField(
                choices=[
                    ("work", "work"),
                    ("check", "check"),
                    ("qualification", "qualification"),
                    ("repeat", "repeat adjudication"),
                ],
                default="work",
                max_length=13,
                verbose_name="kind",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=models.Q(("repeats__isnull", False)), fields=("repeats",), name="task_repeated_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("due_at__isnull", False), ("kind", "repeat"), ("repeats__isnull", False)),
                    models.Q(
                        models.Q(("kind", "repeat"), _negated=True),
                        ("due_at__isnull", True),
                        ("repeats__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="task_repeat_has_its_dispute",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("repeats__isnull", False)),
                fields=["batch", "state", "due_at"],
                name="task_repeats_by_due",
            ),
        ),
        migrations.AlterField(
            model_name="batch",
            name="second_reading_days",
            field=models.PositiveSmallIntegerField(
                default=14,
                help_text="Or when the disputes run out.",
                verbose_name="days until a repeat adjudication",
            ),
        ),
        migrations.AlterField(
            model_name="batch",
            name="second_reading_share",
            field=models.FloatField(
                default=0.05,
                help_text="Of the decided disputes, how many come back to their adjudicator unmarked; 0: none.",
                verbose_name="share of repeat adjudications",
            ),
        ),
    ]
