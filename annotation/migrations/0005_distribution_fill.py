"""Give the tasks of before their rank, prompt and stratum, and count once what is counted along from now on.

Task by task in small transactions, each of which may be repeated: people can go on working meanwhile.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db import connections, migrations, transaction
from django.db.models import Count, Max, Q

CHUNK = 5000
ADJUDICATION_SLOT = 5
FILL = """
UPDATE annotation_task SET
    rank = position - priority * 4294967296,
    prompt_id = (SELECT r.prompt_id FROM annotation_response r WHERE r.id = annotation_task.response_id),
    stratum_id = (
        SELECT s.id FROM annotation_response r
        JOIN annotation_prompt p ON p.id = r.prompt_id
        JOIN annotation_stratum s ON s.batch_id = annotation_task.batch_id AND s.kind = annotation_task.kind
            AND s.dataset_id = p.dataset_id AND s.dimension = p.dimension AND s.language = p.language AND s.model_id = r.model_id
        WHERE r.id = annotation_task.response_id
    )
WHERE id > %s AND id <= %s
"""


def fill(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    for batch in apps.get_model("annotation", "Batch").objects.using(alias).all():
        with transaction.atomic(using=alias):
            _count(apps, alias, batch)
    last = apps.get_model("annotation", "Task").objects.using(alias).aggregate(last=Max("pk"))["last"] or 0
    for start in range(0, last, CHUNK):
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(FILL, [start, start + CHUNK])


def _count(apps: Any, alias: str, batch: Any) -> None:
    """The strata with the numbers of their tasks, the tallies with those of each member's work."""
    stratum_model, tally_model = (
        apps.get_model("annotation", "Stratum"),
        apps.get_model("annotation", "Tally"),
    )
    tally_model.objects.using(alias).filter(stratum__batch=batch).delete()
    tasks = apps.get_model("annotation", "Task").objects.using(alias).filter(batch=batch).order_by()
    assignments = (
        apps.get_model("annotation", "Assignment").objects.using(alias).filter(batch=batch).order_by()
    )
    prompt = [f"response__prompt__{name}" for name in ("dataset", "dimension", "language")]
    kind = ("kind", *prompt, "response__model")
    counts: dict[tuple[Any, ...], Counter[str]] = {}
    for *key, state, n in tasks.values_list(*kind, "state").annotate(n=Count("pk")):
        counts.setdefault(tuple(key), Counter())[state] = n
    strata = {key: _stratum(stratum_model.objects.using(alias), batch, key) for key in counts}
    members = {
        (one.person_id, one.role): one
        for one in apps.get_model("annotation", "Membership").objects.using(alias).filter(batch=batch)
    }
    of_task = [f"task__{name}" for name in kind]
    done, deciding, skipped = Q(state="submitted"), Q(slot=ADJUDICATION_SLOT), ~Q(skip_reason="")
    for *key, person, submitted, withdrawn, decided, skips, skipped_disputes in assignments.values_list(
        *of_task, "person"
    ).annotate(
        submitted=Count("pk", filter=done & ~deciding),
        withdrawn=Count("pk", filter=done & ~deciding & Q(task__state="withdrawn")),
        decided=Count("pk", filter=done & deciding),
        skips=Count("pk", filter=skipped & ~deciding),
        skipped_disputes=Count("pk", filter=skipped & deciding),
    ):
        work = {
            "annotator": {"submitted": submitted, "skipped": skips},
            "adjudicator": {"adjudicated": decided, "disputed": -decided, "skipped": skipped_disputes},
        }
        for role, numbers in work.items():
            if any(numbers.values()):
                tally_model.objects.using(alias).create(
                    stratum=strata[tuple(key)], membership=members[person, role], **numbers
                )
        # What stands on withdrawn tasks does not count, as where a manager withdraws them.
        counts[tuple(key)].update({"adjudicated": -decided, "disputed": decided, "submitted": -withdrawn})
    for key, stratum in strata.items():
        for name in ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted"):
            setattr(stratum, name, counts[key][name])
        stratum.save()


def _stratum(strata: Any, batch: Any, key: tuple[Any, ...]) -> Any:
    kind, dataset, dimension, language, model = key
    return strata.get_or_create(
        batch=batch, kind=kind, dataset_id=dataset, dimension=dimension, language=language, model_id=model
    )[0]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("annotation", "0004_distribution")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
