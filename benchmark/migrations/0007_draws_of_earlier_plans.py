"""Batches of label plans that were made before draws were recorded get the record that such plans get today.

A plan says of each stratum how large it is, how many of its responses people had and how many it drew; the run that it
was made from says which response is of which stratum. Where the two agree with the batch, response by response, the
draw is written down, with the chance where all that people had of the stratum were of earlier recorded draws. Else
nothing is, and the batch remains a part that was picked in a way that is not recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

from django.db import migrations

Key: TypeAlias = tuple[str, str, float, float]
CHUNK = 2000


def record_draws(apps: Any, _schema_editor: Any) -> None:
    draws = apps.get_model("annotation", "BatchDraw").objects
    plans = apps.get_model("benchmark", "LabelPlan").objects.select_related("batch__guideline", "run")
    stored = dict(draws.values_list("batch", "strata"))
    drawn_before: dict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for plan in plans.order_by("created_at", "pk").iterator(chunk_size=100):
        pool = drawn_before[plan.run.dataset_id, plan.batch.guideline.name]
        strata = stored.get(plan.batch_id)
        if strata is None:
            strata = _build_strata(apps, plan, pool)
            if strata:
                draws.create(batch_id=plan.batch_id, strata=strata, imported=False)
        pool.extend(strata)


def _build_strata(apps: Any, plan: Any, earlier: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Empty where plan, run and batch do not agree."""
    if not all("held" in row for row in plan.strata):
        return []
    tasks = apps.get_model("annotation", "Task").objects.filter(batch_id=plan.batch_id, kind="work")
    responses = set(tasks.values_list("response_id", flat=True).iterator(chunk_size=CHUNK))
    drawn = _sort_by_stratum(apps, plan.run_id, responses)
    keys = [(row["model"], row["scope"], float(row["low"]), float(row["high"])) for row in plan.strata]
    counts = {key: row["drawn"] for key, row in zip(keys, plan.strata, strict=True) if row["drawn"]}
    if counts != {key: len(own) for key, own in drawn.items()} or sum(counts.values()) != len(responses):
        return []
    return [
        _build_stratum(key, row, sorted(drawn.get(key, ())), earlier)
        for key, row in zip(keys, plan.strata, strict=True)
    ]


def _sort_by_stratum(apps: Any, run: int, responses: set[int]) -> dict[Key, list[int]]:
    parts = apps.get_model("benchmark", "BoardPart").objects.filter(run_id=run)
    contents = dict(parts.filter(name__in=["planning", "unlabelled"]).values_list("name", "content"))
    drawn: dict[Key, list[int]] = defaultdict(list)
    if len(contents) == 2:
        models, rows = contents["planning"]["models"], contents["planning"]["strata"]
        keys = [(models[row[0]], row[1], float(row[2]), float(row[3])) for row in rows]
        unlabelled = contents["unlabelled"]
        for response, place in zip(unlabelled["responses"], unlabelled["strata"], strict=True):
            if response in responses:
                drawn[keys[place]].append(response)
    return dict(drawn)


def _build_stratum(
    key: Key, row: Mapping[str, Any], responses: list[int], earlier: list[Mapping[str, Any]]
) -> dict[str, Any]:
    model, dimension, low, high = key
    pool = row["population"]
    before: set[int] = set()
    for stratum in earlier:
        place = stratum["model"], stratum["dimension"], float(stratum["low"]), float(stratum["high"])
        if place == key and stratum["pool"] == pool and stratum["chance"] is not None:
            before.update(stratum["responses"] or ())
    is_known = row["held"] == len(before)
    return {
        "model": model,
        "dimension": dimension,
        "low": low,
        "high": high,
        "pool": pool,
        "wanted": len(responses),
        "chance": len(responses) / pool if is_known and pool else None,
        "reason": "" if is_known else "earlier",
        "responses": responses,
    }


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0026_chance_of_selection"),
        ("benchmark", "0006_judge_comparisons"),
    ]

    operations = [migrations.RunPython(record_draws, migrations.RunPython.noop, elidable=True)]
