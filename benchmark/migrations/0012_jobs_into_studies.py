"""On a site of several studies the jobs of before are of the study of what they are about, as later ones are: the pages
that wait for them go on. What is about nothing any more stays its maker's alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import migrations

# What a payload names, the model of its ids, and where the study of a row is; the first that is there counts.
NAMED = (
    ("import", "annotation", "Import", "study"),
    ("export", "annotation", "Export", "release__study"),
    ("scorer", "scoring", "Scorer", "study"),
    ("judging", "benchmark", "JudgeRun", "judge__study"),
    ("report", "benchmark", "ChoiceReport", "study"),
    ("run", "benchmark", "BenchmarkRun", "study"),
    ("release", "annotation", "GoldRelease", "study"),
    ("batch", "annotation", "Batch", "study"),
    ("batches", "annotation", "Batch", "study"),
    ("dataset", "annotation", "Dataset", "study"),
)
COLLECT = "collect_responses"  # whose runs are collections
CHUNK = 500


def place_jobs(apps: Any, _editor: Any) -> None:
    jobs = apps.get_model("annotation", "Job").objects.filter(study=None)
    if not jobs.exists():
        return
    studies: dict[tuple[str, str], dict[int, int]] = {}
    for name, app, model, path in NAMED:
        studies[name, ""] = dict(apps.get_model(app, model).objects.values_list("pk", path))
    collections = apps.get_model("benchmark", "CollectionRun").objects.values_list("pk", "dataset__study")
    studies["run", COLLECT] = dict(collections)
    changed = []
    for job in jobs.only("pk", "kind", "payload").iterator(chunk_size=CHUNK):
        job.study_id = next(find_studies(job, studies), None)
        if job.study_id is not None:
            changed.append(job)
    apps.get_model("annotation", "Job").objects.bulk_update(changed, ["study"], batch_size=CHUNK)


def find_studies(job: Any, studies: dict[tuple[str, str], dict[int, int]]) -> Iterator[int]:
    for name, *_model in NAMED:
        value = job.payload.get(name)
        row = value[0] if isinstance(value, list) and value else value
        known = studies.get((name, job.kind)) or studies[name, ""]
        study = known.get(row) if isinstance(row, int) else None
        if study is not None:
            yield study


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0039_archives"),
        ("scoring", "0008_archives"),
        ("benchmark", "0011_archives"),
    ]

    operations = [migrations.RunPython(place_jobs, migrations.RunPython.noop, elidable=True)]
