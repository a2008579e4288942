"""How the ranks move when one annotator, or one adjudicator, is left out of the gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import pgettext

from annotation.core.formatting import UNDEFINED
from annotation.domain.guidelines import Metric
from annotation.models import Person
from annotation.selectors.jobs import StoredResult
from annotation.selectors.origins import add_origins
from benchmark.domain.estimates.sensitivity import ADJUDICATOR
from benchmark.domain.leaderboards.metrics import format_metric_difference, format_metric_value
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.sensitivity import list_participant_names
from benchmark.services.sensitivity import load_sensitivity
from benchmark.views.leaderboards.formatting import metric_label
from benchmark.views.leaderboards.query import Context

MIN_COMPARED = 2
"""Compared models below which no rank can move."""


@dataclass(frozen=True)
class SensitiveModel:
    """A compared model as a line: its rank, those of all leavings-out, and the one that moves its number the most."""

    model: str
    value: str
    rank: int | None
    ranks: str
    moved: bool
    shift: str
    by: str


@dataclass(frozen=True)
class PersonWithout:
    """A person in a role as a line; ``moves`` are (model, rank, rank without them)."""

    name: str
    is_adjudicator: bool
    labels: int
    changed: int
    dropped: int
    moves: Sequence[tuple[str, int, int]]
    shift: str
    model: str
    is_ranked: bool
    """False where a compared model has no number left."""

    @property
    def role(self) -> str:
        return pgettext("person", "adjudicator") if self.is_adjudicator else pgettext("person", "annotator")


@dataclass(frozen=True)
class SensitivityFinding:
    """``moving`` of ``people`` change a rank, ``stable`` of ``compared`` models keep theirs throughout."""

    people: int
    moving: int
    compared: int
    stable: int
    unranked: int

    @property
    def ranked(self) -> int:
        """The people without whom every compared model still has a number."""
        return self.people - self.unranked


def sensitivity_context(run: BenchmarkRun, person: Person | None = None) -> Context:
    stored = load_sensitivity(run, actor=person)
    if stored.content is None:
        return {"stored": stored}
    return {"stored": stored, **build_context(run, stored.content, list_participant_names(stored.content))}


def build_context(run: BenchmarkRun, content: Mapping[str, Any], names: Mapping[int, str]) -> Context:
    """``names`` is what each person is called, by id."""
    if len(content["models"]) < MIN_COMPARED or not content["without"]:
        return {"too_few": True}
    metric = run.scorer.guideline.document.metric(content["metric"])
    people = [_person_row(content, without, names, metric) for without in content["without"]]
    # Who matters most comes first; among equals the name decides, which is the same whoever labelled first.
    people.sort(key=lambda person: (-len(person.moves), -person.changed - person.dropped, person.name))
    models = [_model_row(content, at, names, metric) for at in range(len(content["models"]))]
    return {
        "metric": metric_label(metric),
        "rate": metric.kind == "rate",
        "people": people,
        "models": models,
        "not_compared": content["not_compared"],
        "fixed": content.get("fixed", 0),
        "has_imports": _has_imports(run),
        "finding": SensitivityFinding(
            people=len({without["person"] for without in content["without"]}),
            moving=len(_list_movers(content)),
            compared=len(models),
            stable=sum(not model.moved for model in models),
            unranked=len({without["person"] for without in content["without"] if None in without["ranks"]}),
        ),
    }


def _has_imports(run: BenchmarkRun) -> bool:
    """Whether names in a file stand for people behind the gold."""
    imported = add_origins(run.scorer.release)["imported"]
    return bool(imported["annotations"] or imported["adjudications"])


def _list_movers(content: Mapping[str, Any]) -> set[int]:
    """The people, by id, without whom in one of their roles some rank is another."""
    return {
        without["person"]
        for without in content["without"]
        if None not in without["ranks"] and without["ranks"] != content["ranks"]
    }


def _person_row(
    content: Mapping[str, Any], without: Mapping[str, Any], names: Mapping[int, str], metric: Metric
) -> PersonWithout:
    shifts = [_find_shift(content, without, at) for at in range(len(content["models"]))]
    known = [(abs(shift), -at, shift) for at, shift in enumerate(shifts) if shift]
    _size, place, shift = max(known, default=(0.0, 0, 0.0))
    moves = [
        (model, before, after)
        for model, before, after in zip(content["models"], content["ranks"], without["ranks"], strict=True)
        if before is not None and after is not None and before != after
    ]
    return PersonWithout(
        name=names.get(without["person"], UNDEFINED),
        is_adjudicator=without["role"] == ADJUDICATOR,
        labels=without["labels"],
        changed=without["changed"],
        dropped=without["dropped"],
        moves=moves,
        shift=format_metric_difference(metric, shift) if known else "",
        model=content["models"][-place] if known else "",
        is_ranked=all(rank is not None for rank in without["ranks"]),
    )


def _model_row(
    content: Mapping[str, Any], at: int, names: Mapping[int, str], metric: Metric
) -> SensitiveModel:
    rank, value = content["ranks"][at], content["values"][at]
    ranks = [without["ranks"][at] for without in content["without"] if without["ranks"][at] is not None]
    shifts = [
        (abs(shift), shift, without)
        for without in content["without"]
        if (shift := _find_shift(content, without, at))
    ]
    largest = max(shifts, key=lambda shift: shift[0], default=None)
    everywhere = [known for known in (rank, *ranks) if known is not None]
    low, high = (min(everywhere), max(everywhere)) if everywhere else (None, None)
    return SensitiveModel(
        model=content["models"][at],
        value=format_metric_value(metric, value),
        rank=rank,
        ranks=UNDEFINED if low is None or not ranks else str(low) if low == high else f"{low}-{high}",
        moved=low != high,
        shift=format_metric_difference(metric, largest[1]) if largest else "",
        by=names.get(largest[2]["person"], UNDEFINED) if largest else "",
    )


def _find_shift(content: Mapping[str, Any], without: Mapping[str, Any], at: int) -> float | None:
    """Without the person minus with them; None where either is undefined."""
    before, after = content["values"][at], without["values"][at]
    return None if before is None or after is None else after - before


def to_file(stored: StoredResult, names: Mapping[int, str]) -> dict[str, Any]:
    """For a file: ``state`` says whether it is of today's labels, and where it is not there yet, that alone."""
    if stored.content is None:
        return {"state": "computing" if stored.job else "failed"}
    return {"state": "stale" if stored.is_stale else "current", **rename_people(stored.content, names)}


def rename_people(content: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """For a file: people by what they are called there instead of by id, in the order of that."""
    renamed = [
        {name: value for name, value in without.items() if name != "person"}
        | {"person": names.get(without["person"])}
        for without in content["without"]
    ]
    renamed.sort(key=lambda without: (without["person"] or "", without["role"]))
    return {**content, "without": renamed}
