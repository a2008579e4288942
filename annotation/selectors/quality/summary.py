"""How a person's labels compare with the final ones and with their partners'; docs/quality.md says what counts.

No function here refuses anybody: pass only batches whose results the reader may open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from annotation.core.proportions import wilson
from annotation.domain.guidelines import Label
from annotation.domain.releases.canonical import number
from annotation.models import ADJUDICATION_SLOT, Adjudication, Annotation, Assignment, GoldLabel, Person, Task
from annotation.selectors.agreement import COMPLETE

# Of everything that somebody submitted the latest items are read: enough for any figure, and soon done.
MAX_READ = 5000
CHUNK = 1000
Labels = Mapping[str, Any]


@dataclass
class EqualShare:
    """``equal`` of ``n`` were the same; undefined while there are none."""

    equal: int = 0
    n: int = 0

    def count(self, *, equal: bool) -> None:
        self.equal += equal
        self.n += 1

    @property
    def value(self) -> float | None:
        return self.equal / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's, of 95%."""
        return wilson(self.equal, self.n) if self.n else None


@dataclass
class AnnotatorSummary:
    """Of one person in one batch. ``final`` and ``partners`` count labels: one criterion of one item, or a pair."""

    items: int = 0
    final: EqualShare = field(default_factory=EqualShare)
    partners: EqualShare = field(default_factory=EqualShare)
    seconds: list[float] = field(default_factory=list)

    @property
    def median_seconds(self) -> float | None:
        return median(self.seconds) if self.seconds else None


@dataclass
class AdjudicatorSummary:
    """Of one adjudicator in one batch. ``confirmed`` counts the decisions after a blind verdict; those that repeat
    it are equal.
    """

    n: int = 0
    confirmed: EqualShare = field(default_factory=EqualShare)
    seconds: list[float] = field(default_factory=list)

    @property
    def changed(self) -> int:
        return self.confirmed.n - self.confirmed.equal

    @property
    def median_seconds(self) -> float | None:
        return median(self.seconds) if self.seconds else None


def summarize_annotator(person: Person, batches: Collection[int]) -> dict[int, AnnotatorSummary]:
    """By batch, of the latest ``MOST_READ`` items that the person annotated in ``batches``."""
    submitted = Assignment.objects.filter(
        person=person,
        batch__in=batches,
        state=Assignment.State.SUBMITTED,
        submitted_at__isnull=False,
        slot__lt=ADJUDICATION_SLOT,
    )
    tasks = list(submitted.order_by("-submitted_at").values_list("task", flat=True)[:MAX_READ])
    by_batch: dict[int, AnnotatorSummary] = defaultdict(AnnotatorSummary)
    for chunk in (tasks[start : start + CHUNK] for start in range(0, len(tasks), CHUNK)):
        final = _list_final_labels(chunk)
        for task, batch, state, own, partner_labels in _iterate_labels(chunk, person):
            quality = by_batch[batch]
            quality.items += 1
            if own.seconds is not None:
                quality.seconds.append(own.seconds)
            _count_equal(quality.final, own.labels, final[task])
            if state in COMPLETE:
                for labels in partner_labels:
                    _count_equal(quality.partners, own.labels, labels)
    return dict(by_batch)


def summarize_adjudicator(person: Person, batches: Collection[int]) -> dict[int, AdjudicatorSummary]:
    """By batch, of the latest ``MOST_READ`` disputes that the person decided in ``batches``."""
    decided = Adjudication.objects.filter(
        assignment__person=person, assignment__batch__in=batches, task__kind=Task.Kind.WORK
    )
    rows = decided.exclude(task__state=Task.State.WITHDRAWN).order_by("-created_at")
    by_batch: dict[int, AdjudicatorSummary] = defaultdict(AdjudicatorSummary)
    for batch, labels, seconds, verdict in rows.values_list(
        "assignment__batch", "labels", "seconds", "assignment__verdict__labels"
    )[:MAX_READ]:
        decisions = by_batch[batch]
        decisions.n += 1
        if seconds is not None:
            decisions.seconds.append(seconds)
        if verdict is not None:
            is_confirmed = all(verdict[name] == value for name, value in labels.items() if name in verdict)
            decisions.confirmed.count(equal=is_confirmed)
    return dict(by_batch)


@dataclass(frozen=True)
class _OwnLabels:
    labels: Labels
    seconds: float | None


def _iterate_labels(
    tasks: Sequence[int], person: Person
) -> Iterator[tuple[int, int, str, _OwnLabels, list[Labels]]]:
    """For each task of work its id, batch and state, what the person said of it, and what others said."""
    rows = Annotation.objects.filter(
        current=True,
        assignment__task__in=tasks,
        assignment__task__kind=Task.Kind.WORK,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
    ).exclude(assignment__task__state=Task.State.WITHDRAWN)
    own: dict[int, tuple[int, str, _OwnLabels]] = {}
    partner_labels: dict[int, list[Labels]] = defaultdict(list)
    for task, batch, state, annotator, labels, seconds in rows.values_list(
        "assignment__task",
        "assignment__batch",
        "assignment__task__state",
        "assignment__person",
        "labels",
        "seconds",
    ):
        if annotator == person.pk:
            own[task] = batch, state, _OwnLabels(labels, seconds)
        else:
            partner_labels[task].append(labels)
    for task, (batch, state, own_label) in own.items():
        yield task, batch, state, own_label, partner_labels[task]


def _list_final_labels(tasks: Sequence[int]) -> dict[int, dict[str, Label]]:
    """The gold labels by task and criterion, but for those that are every annotator's own: of one person, and where
    all agree.
    """
    own_sources = (GoldLabel.Source.SINGLE, GoldLabel.Source.UNANIMOUS)
    rows = GoldLabel.objects.filter(task__in=tasks).exclude(source__in=own_sources)
    labels_by_task: dict[int, dict[str, Label]] = defaultdict(dict)
    for task, criterion, value in rows.values_list("task", "criterion", "value"):
        labels_by_task[task][criterion] = number(value)
    return labels_by_task


def _count_equal(share: EqualShare, own: Labels, other: Labels) -> None:
    """Count the criteria that both have a label of."""
    for criterion in own.keys() & other.keys():
        share.count(equal=own[criterion] == other[criterion])
