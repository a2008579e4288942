"""The comparisons of a gold release of slates, and the board that is built of them (docs/preferences.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines import Criterion, GuidelineDocument, Label
from annotation.domain.slates import Preference, list_preferences
from annotation.models import ADJUDICATION_SLOT, Annotation, GoldRelease, Person
from annotation.selectors.releases.releases import list_releases
from annotation.selectors.releases.rows import ReleaseContent
from annotation.selectors.slates import SlateContent, read_slates
from benchmark.domain.judges.prompts import SWAPPED
from benchmark.domain.leaderboards.preferences import (
    PairwiseComparisons,
    PreferenceBoard,
    build_preference_board,
    fit_bradley_terry,
)
from benchmark.domain.leaderboards.preferences.comparisons import ShareOfPoints, measure_share
from benchmark.models import Judge, JudgeLabel

CHUNK = 2000
Basis = Literal["gold", "people"]
BASES: tuple[Basis, ...] = ("gold", "people")


@dataclass(frozen=True)
class PreferenceQuery:
    """What a board is of. ``basis``: one gold label of each slate, or what each annotator said, who read the entries in
    an order of their own. ``dimension`` None: all. ``length``: with the effect of length.
    """

    criterion: str
    basis: Basis = "gold"
    dimension: str | None = None
    length: bool = False


@dataclass(frozen=True)
class ComparedResult:
    """A board with what it was built of. ``excluded``: labels that compare nothing, as where no entry was good enough.

    ``dimensions`` are those that the release has slates of. ``bradley_terry``: the strength of each model where ties
    are left out, centred; None where it is undefined.
    """

    query: PreferenceQuery
    ranking: PreferenceBoard
    labels: int
    excluded: int
    dimensions: tuple[str, ...]
    has_positions: bool
    bradley_terry: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        query = self.query
        return {
            "criterion": query.criterion,
            "basis": query.basis,
            "dimension": query.dimension,
            "labels": self.labels,
            "excluded": self.excluded,
            **self.ranking.to_json(),
            "bradley_terry": dict(self.bradley_terry),
        }


def list_entry_criteria(documents: Iterable[GuidelineDocument]) -> dict[str, Criterion]:
    """The criteria that ask for entries of slates, by name, in the newest of these guidelines."""
    return {
        criterion.name: criterion
        for document in documents
        for criterion in document.criteria
        if criterion.entries is not None
    }


def list_compared_releases(person: Person) -> list[GoldRelease]:
    """The releases of slates that the person may read, the newest first."""
    compared = GoldRelease.objects.filter(
        pk__in=GoldRelease.batches.through.objects.filter(batch__of_slates=True).values("goldrelease"),
        archived_at=None,
    )
    newest = compared.order_by("-created_at", "-pk")
    return [listed.release for listed in list_releases(person, newest) if not listed.sealed]


@dataclass(frozen=True)
class JudgeOnSlates:
    """A judge beside the gold of a release: ``equal`` of ``n`` labels. Of ``swapped`` slates, which it was asked about
    both ways round, it answered ``flips`` otherwise; None where it was not.
    """

    judge: str
    n: int
    equal: int
    agreement: ShareOfPoints
    swapped: int | None = None
    flips: int | None = None

    @property
    def flip_rate(self) -> float | None:
        return self.flips / self.swapped if self.swapped and self.flips is not None else None

    def to_json(self) -> dict[str, Any]:
        value, low, high = self.agreement
        return {
            "judge": self.judge,
            "n": self.n,
            "agreement": {"value": value, "low": low, "high": high},
            "asked_both_ways": self.swapped,
            "flip_rate": self.flip_rate,
        }


def list_judges_on_slates(release: GoldRelease, query: PreferenceQuery) -> list[JudgeOnSlates]:
    """The judges that labelled slates of the release. What a judge said with the entries the other way round is kept
    under its name with ``SWAPPED`` after it.
    """
    items = release.items.filter(criterion=query.criterion, value__isnull=False)
    if query.dimension is not None:
        items = items.filter(task__stratum__dimension=query.dimension)
    gold = {
        response: (value, prompt)
        for response, value, prompt in items.values_list("task__response", "value", "task__prompt")
    }
    labels: dict[str, dict[int, float | None]] = {}
    stated = JudgeLabel.objects.filter(
        judge__in=Judge.objects.all(),  # those of the study
        criterion=query.criterion,
        response__tasks__released_labels__release=release,
    )
    for judge, response, value in stated.values_list("judge__name", "response", "value").distinct():
        if response in gold:
            labels.setdefault(judge, {})[response] = value
    return [
        _measure_judge(judge, own, labels.get(f"{judge}{SWAPPED}"), gold)
        for judge, own in sorted(labels.items())
        if not (judge.endswith(SWAPPED) and judge.removesuffix(SWAPPED) in labels)
    ]


def _measure_judge(
    judge: str,
    own: Mapping[int, float | None],
    swapped: Mapping[int, float | None] | None,
    gold: Mapping[int, tuple[float | None, int]],
) -> JudgeOnSlates:
    equal = np.array([value == gold[response][0] for response, value in own.items()], dtype=np.float64)
    prompts = np.array([gold[response][1] for response in own], dtype=np.int64)
    both = own.keys() & (swapped or {}).keys()
    return JudgeOnSlates(
        judge,
        len(own),
        int(equal.sum()),
        measure_share(equal, np.ones(len(own)), prompts),
        len(both) if swapped is not None else None,
        sum(own[response] != swapped[response] for response in both) if swapped is not None else None,
    )


def build_query(
    release: GoldRelease,
    *,
    criterion: str | None = None,
    basis: str = "gold",
    dimension: str | None = None,
    length: bool = False,
) -> PreferenceQuery:
    """What is asked of the release; AssayError where it has no such thing."""
    known = list_entry_criteria(ReleaseContent(release).documents)
    if not known:
        raise AssayError(
            N_("The release {name} has no slates, and so nothing that was compared."), name=release.name
        )
    name = criterion or next(iter(known))
    if name not in known:
        raise AssayError(
            N_('No criterion "{name}" asks for entries of slates; use one of {known}.'),
            name=name,
            known=", ".join(known),
        )
    if basis not in BASES:
        raise AssayError(
            N_("There are no labels of {basis}; use one of {known}."), basis=basis, known=", ".join(BASES)
        )
    return PreferenceQuery(name, "people" if basis == "people" else "gold", dimension or None, length)


ComparedRow = tuple[str, str, int, tuple[str, str], float]


@dataclass(frozen=True)
class _StatedPreference:
    slate: SlateContent
    preference: Preference
    positions: tuple[int, ...]

    def to_row(self) -> ComparedRow:
        """The models in the order in which they were displayed, or of the slate; the outcome, prompt, and difference of
        length.
        """
        places = (self.preference.better, self.preference.worse)
        order = self.positions or tuple(range(1, len(self.slate.entries) + 1))
        is_first = order.index(places[0]) < order.index(places[1])
        first, second = places if is_first else places[::-1]
        outcome = 0 if self.preference.is_tie else 1 if is_first else -1
        entries = [self.slate.entries[place - 1] for place in (first, second)]
        lengths = [max(1, len(entry.text)) for entry in entries]
        return (
            entries[0].model,
            entries[1].model,
            outcome,
            (self.slate.dataset, self.slate.prompt),
            math.log(lengths[0] / lengths[1]),
        )


def build_comparison(release: GoldRelease, query: PreferenceQuery) -> ComparedResult:
    """The board. A release never changes, so that a process keeps what it built."""
    return _build(release.pk, release.sha256, query)


@lru_cache(maxsize=64)
def _build(release_id: int, _sha256: str, query: PreferenceQuery) -> ComparedResult:
    release = GoldRelease.objects.get(pk=release_id)
    criterion = list_entry_criteria(ReleaseContent(release).documents)[query.criterion]
    rows: list[ComparedRow] = []
    labels = excluded = 0
    dimensions: set[str] = set()
    has_positions = query.basis == "people"
    for slate, dimension, label, positions in _iterate_labels(release, query):
        dimensions.add(dimension)
        if query.dimension not in (None, dimension):
            continue
        labels += 1
        has_positions &= bool(positions)
        stated = list_preferences(criterion, label, len(slate.entries))
        excluded += not stated
        # Samples of one model are not compared with each other.
        rows += [
            row
            for preference in stated
            if (row := _StatedPreference(slate, preference, positions).to_row())[0] != row[1]
        ]
    if not rows:
        raise AssayError(
            N_("No label of {name} compares two models here; choose another criterion or dimension."),
            name=release.name,
        )
    comparisons = _collect(rows, length=query.length)
    board = build_preference_board(comparisons, position=has_positions, length=query.length)
    return ComparedResult(
        query,
        board,
        labels,
        excluded,
        tuple(sorted(dimensions)),
        has_positions,
        _fit_without_ties(comparisons),
    )


def _fit_without_ties(comparisons: PairwiseComparisons) -> dict[str, float | None]:
    strengths = fit_bradley_terry(comparisons).strengths
    if strengths is None:
        return dict.fromkeys(comparisons.models)
    return dict(zip(comparisons.models, strengths.tolist(), strict=True))


def _collect(rows: Sequence[ComparedRow], *, length: bool) -> PairwiseComparisons:
    """In an order that no database decides, so that the intervals are the same on every site."""
    rows = sorted(rows)
    prompts = {prompt: number for number, prompt in enumerate(sorted({row[3] for row in rows}))}
    models = tuple(sorted({model for row in rows for model in row[:2]}))
    place = {model: number for number, model in enumerate(models)}
    return PairwiseComparisons(
        models,
        np.array([place[row[0]] for row in rows], dtype=np.int64),
        np.array([place[row[1]] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.array([prompts[row[3]] for row in rows], dtype=np.int64),
        np.array([row[4] for row in rows]) if length else None,
    )


def _iterate_labels(
    release: GoldRelease, query: PreferenceQuery
) -> Iterator[tuple[SlateContent, str, Label, tuple[int, ...]]]:
    """The slate, its dimension, the label and the order in which the entries were displayed to who gave it."""
    items = release.items.filter(criterion=query.criterion, value__isnull=False)
    released = list(items.order_by("task").values_list("task", "task__stratum__dimension", "value"))
    for start in range(0, len(released), CHUNK):
        part = released[start : start + CHUNK]
        slates = read_slates([task for task, _dimension, _value in part])
        if query.basis == "gold":
            for task, dimension, value in part:
                yield slates[task], dimension, int(value or 0), ()
            continue
        of_dimension = {task: dimension for task, dimension, _value in part}
        stated = Annotation.objects.filter(
            assignment__task__in=of_dimension, current=True, assignment__slot__lt=ADJUDICATION_SLOT
        ).order_by("assignment__task", "assignment__slot")
        for task, order, labels in stated.values_list(
            "assignment__task", "assignment__shown_order", "labels"
        ):
            if query.criterion in labels:
                yield slates[task], of_dimension[task], labels[query.criterion], tuple(map(int, order))
