"""Give each guideline that one study alone uses to that study, and each note without a task likewise. What several
studies use, and what nobody uses on a site of several, stays the site's.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.db import migrations


def fill(apps: Any, schema_editor: Any) -> None:
    guidelines = apps.get_model("annotation", "Guideline").objects
    studies = list(apps.get_model("annotation", "Study").objects.values_list("pk", flat=True)[:2])
    users: dict[int, set[int]] = defaultdict(set)
    for app, model in (("annotation", "Batch"), ("scoring", "Scorer"), ("benchmark", "Judge")):
        rows = apps.get_model(app, model).objects.order_by().values_list("guideline", "study").distinct()
        for guideline, study in rows:
            users[guideline].add(study)
    for guideline in guidelines.values_list("pk", flat=True):
        using = users[guideline] or (set(studies) if len(studies) == 1 else set())
        if len(using) == 1:
            guidelines.filter(pk=guideline).update(study_id=next(iter(using)))
    notes = apps.get_model("annotation", "GuidelineNote").objects.filter(task=None)
    for note, study in notes.values_list("pk", "guideline__study"):
        notes.filter(pk=note).update(study_id=study)


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0042_guidelines_of_studies"),
        ("scoring", "0010_shared_with"),
        ("benchmark", "0013_titles"),
    ]

    operations = [migrations.RunPython(fill, elidable=True)]
