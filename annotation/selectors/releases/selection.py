"""The chances of selection that are kept with a release from when it is cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import Q, QuerySet

from annotation.domain.releases.selection import ALL, UNKNOWN, DrawnStratum
from annotation.models import BatchDraw, GoldRelease, ReleasedLabel, Task
from annotation.selectors.selection import CELL, Selection

CELLS_AT_ONCE = 100
RESPONSES_AT_ONCE = 500


def store_chances(release: GoldRelease, selection: Selection) -> None:
    """Of the released labels; of a whole pool they have theirs since they were frozen."""
    if selection.is_whole:
        return
    labels = release.items.all()
    for start in range(0, len(selection.whole_cells), CELLS_AT_ONCE):
        cells = Q()
        for cell in selection.whole_cells[start : start + CELLS_AT_ONCE]:
            cells |= Q(**dict(zip(CELL, cell, strict=True)))
        tasks = Task.objects.filter(cells, batch__releases=release)
        labels.filter(task__in=tasks.order_by().values("pk")).update(chance=1.0)
    for chance, responses in selection.chances.items():
        for start in range(0, len(responses), RESPONSES_AT_ONCE):
            part = responses[start : start + RESPONSES_AT_ONCE]
            labels.filter(task__response__in=part).update(chance=chance)


def list_chances(release: GoldRelease) -> dict[int, float | None]:
    """By response the chance with which it came to have gold in this release; None where nobody knows it."""
    rows = ReleasedLabel.objects.filter(release=release).order_by().values_list("task__response", "chance")
    return dict(rows.distinct().iterator(chunk_size=2000))


def find_selection(release: GoldRelease) -> list[dict[str, Any]] | None:
    """As it was stored when the release was cut; None of one that was cut before this was kept."""
    selection: list[dict[str, Any]] | None = release.manifest.get("selection")
    return selection


def list_portable_strata(release: GoldRelease) -> dict[str, list[dict[str, Any]]] | None:
    """By batch what another site needs to know of its selection, without ids; None where nothing was recorded."""
    rows = find_selection(release)
    if rows is None:
        return None
    draws = {draw.batch.name: draw for draw in _list_draws(release)}
    names = _name_drawn_responses(release, draws.values())
    strata: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        facts = {
            "model": row["model"],
            "dimension": row["dimension"],
            "low": 0.0,
            "high": 1.0,
            "pool": row["pool"],
        }
        if row["how"] in UNKNOWN:
            strata[row["batch"]].append(facts | {"chance": None, "reason": row["how"]})
        elif row["how"] == ALL:
            strata[row["batch"]].append(facts | {"chance": 1.0})
        else:
            place = (row["model"], row["dimension"])
            for content in draws[row["batch"]].strata:
                stratum = DrawnStratum.from_json(content)
                if (stratum.model, stratum.dimension) == place and stratum.chance is not None:
                    responses = [names[pk] for pk in stratum.responses or () if pk in names]
                    bounds = {"low": stratum.low, "high": stratum.high, "pool": stratum.pool}
                    strata[row["batch"]].append(
                        facts | bounds | {"chance": stratum.chance, "responses": responses}
                    )
    return {batch: _drop_repeated(facts) for batch, facts in strata.items()}


def _drop_repeated(strata: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A stratum may have had responses of several collections, each with a row of its own."""
    unique: list[dict[str, Any]] = []
    for facts in strata:
        if facts not in unique:
            unique.append(facts)
    return unique


def _list_draws(release: GoldRelease) -> QuerySet[BatchDraw]:
    return BatchDraw.objects.filter(batch__releases=release).select_related("batch")


def _name_drawn_responses(
    release: GoldRelease, draws: Iterable[BatchDraw]
) -> dict[int, tuple[str, str, str]]:
    """By id dataset, prompt id and collection of the drawn responses that the release has gold of."""
    batches = [draw.batch_id for draw in draws]
    rows = (
        release.items.filter(task__batch__in=batches)
        .order_by()
        .values_list(
            "task__response",
            "task__prompt__dataset__name",
            "task__prompt__key",
            "task__response__collection__name",
        )
        .distinct()
    )
    return {pk: (dataset, prompt, collection) for pk, dataset, prompt, collection in rows}
