"""How adjudicators decide: in agreement with themselves, with whom, for which reasons, how strictly, how fast.

The letters A and B are drawn by chance for each dispute. So an adjudicator without a leaning agrees with A as often as
with B, whoever the annotators are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, stdev
from typing import Any, TypeVar
from uuid import UUID

from scipy.special import bdtr  # scipy.stats would make every start a second longer

from annotation.core.proportions import NO_RATE, Rate, Z, measure_rates, wilson
from annotation.models import ADJUDICATION_SLOT, Adjudication, Annotation, Batch, Person, Task
from annotation.selectors.adjudication import shuffle_sides
from annotation.selectors.quality.comparisons import BatchCache

CHUNK = 5000
# The counts of so many choices of batches are kept: repeat adjudications, which no mark tells of, are counted anew.
MAX_CACHED = 32
# Of all the adjudicators together, so seldom somebody without a leaning is said to have one.
LEVEL = 0.05
Labels = Mapping[str, Any]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Lean:
    """Of ``n`` decisions that agreed with A or with B alone ``first`` agreed with A; ``p`` of so many by chance,
    corrected for the number of adjudicators (Holm).
    """

    first: int
    n: int
    p: float | None

    @property
    def flagged(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def rate(self) -> Rate:
        return Rate(self.first, self.n, *wilson(self.first, self.n)) if self.n else NO_RATE


@dataclass(frozen=True)
class Adjudicator:
    """Of one person. ``decisions`` counts disputes, the rest criteria: ``neither`` those decided as no annotator had
    them. ``consistency``: repeat adjudications decided as the first time; ``changed``: decisions that differ from the
    blind verdict. ``shift``: levels above the mean of the annotators' labels, by task.
    """

    person: Person
    decisions: int
    criteria: int
    neither: int
    lean: Lean
    changed: Rate
    consistency: Rate
    shift: float | None
    shift_low: float | None
    shift_high: float | None
    median_seconds: float | None
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def neither_rate(self) -> Rate:
        """The share decided as neither annotator had it."""
        return (
            Rate(self.neither, self.criteria, *wilson(self.neither, self.criteria))
            if self.criteria
            else NO_RATE
        )


@dataclass
class _DecisionCounts:
    decisions: int = 0
    criteria: int = 0
    neither: int = 0
    first: int = 0
    second: int = 0
    judged: int = 0
    changed: int = 0
    shifts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class IntraRaterAgreement:
    """The share of the criteria that the person decided twice and decided alike; its interval is over prompts."""

    person: Person
    rate: Rate


def measure_intra_rater_agreement(batch: Batch | None = None) -> list[IntraRaterAgreement]:
    """How often each adjudicator decided a criterion the second time as the first, in a batch or in all of them.

    It tells of labels: only for whoever may see the results of the batch (``access.refuse_sealed``), and never
    for the adjudicators themselves. In order of names.
    """
    repeated = Adjudication.objects.filter(task__kind=Task.Kind.REPEAT)
    if batch is not None:
        repeated = repeated.filter(task__batch=batch)
    decisions = repeated.values_list(
        "assignment__person", "task__prompt", "labels", "task__repeats__adjudication__labels"
    )
    rates = _measure_decided_alike(
        (person, prompt, labels.get(name) == value)
        for person, prompt, labels, first_labels in decisions
        for name, value in first_labels.items()
    )
    people = sorted(Person.objects.filter(pk__in=rates), key=lambda person: person.username)
    return [IntraRaterAgreement(person, rates[person.pk]) for person in people]


def _measure_decided_alike(decisions: Iterable[tuple[Key, int, bool]]) -> dict[Key, Rate]:
    """By key the share of decisions that were the same; those on one prompt (the second column) are alike, so the
    intervals are over prompts.
    """
    keys: dict[Key, int] = {}
    groups, prompts, is_same = [], [], []
    for key, prompt, same in decisions:
        groups.append(keys.setdefault(key, len(keys)))
        prompts.append(prompt)
        is_same.append(same)
    return dict(zip(keys, measure_rates(is_same, groups, prompts, groups=len(keys)), strict=True))


@dataclass(frozen=True)
class AdjudicatorAgreement:
    """Of one criterion the share of the disputes that two adjudicators decided alike; its interval is over prompts."""

    guideline: str
    criterion: str
    rate: Rate

    def to_json(self) -> dict[str, Any]:
        rate = self.rate
        return {
            "guideline": self.guideline,
            "criterion": self.criterion,
            "n": rate.n,
            "same": rate.equal,
            "percent_agreement": {"value": rate.value, "low": rate.low, "high": rate.high},
        }


@dataclass(frozen=True)
class SecondAdjudications:
    """How many disputes were ``drawn`` to be decided by a second adjudicator, and how many of them still wait."""

    drawn: int
    waiting: int
    rows: Sequence[AdjudicatorAgreement]


def measure_adjudicator_agreement(batches: Iterable[Batch]) -> SecondAdjudications:
    """How often a second adjudicator decided a criterion as the first did, by criterion in the order of names.

    It tells of labels: only for whoever may see the results of the batches (``access.refuse_sealed``).
    """
    seconds = Task.objects.filter(batch__in=[batch.pk for batch in batches], kind=Task.Kind.SECOND)
    seconds = seconds.exclude(repeats__state=Task.State.WITHDRAWN)
    decisions = seconds.filter(state=Task.State.ADJUDICATED).values_list(
        "batch__guideline__name", "prompt", "adjudication__labels", "repeats__adjudication__labels"
    )
    rates = _measure_decided_alike(
        ((guideline, criterion), prompt, labels.get(criterion) == value)
        for guideline, prompt, labels, first_labels in decisions
        for criterion, value in first_labels.items()
    )
    return SecondAdjudications(
        drawn=seconds.count(),
        waiting=seconds.filter(state=Task.State.DISPUTED).count(),
        rows=[AdjudicatorAgreement(*names, rates[names]) for names in sorted(rates)],
    )


def list_adjudicators(batches: Sequence[Batch]) -> list[Adjudicator]:
    """Everybody who decided a dispute of these batches, in the order of names; withdrawn tasks do not count."""
    return _build_adjudicators(_CACHE.of(batches), batches)


def _count_decisions(batches: Sequence[Batch]) -> dict[int, _DecisionCounts]:
    documents = {batch.pk: batch.guideline.document for batch in batches}
    tallies: dict[int, _DecisionCounts] = defaultdict(_DecisionCounts)
    rows = (
        Adjudication.objects.filter(assignment__batch__in=list(documents), task__kind=Task.Kind.WORK)
        .exclude(task__state=Task.State.WITHDRAWN)
        .order_by("pk")
        .values_list(
            "assignment__person",
            "assignment__batch",
            "task",
            "assignment",
            "labels",
            "seconds",
            "assignment__verdict__labels",
            "reason__key",
        )
    )
    decided = list(rows)
    for start in range(0, len(decided), CHUNK):
        chunk = decided[start : start + CHUNK]
        annotator_labels = _list_annotator_labels([row[2] for row in chunk])
        for person, batch, task, claim, labels, seconds, verdict, reason in chunk:
            tally = tallies[person]
            tally.decisions += 1
            tally.reasons[reason or ""] += 1
            if seconds is not None:
                tally.seconds.append(seconds)
            _count_change(tally, labels, verdict)
            _count_sides(tally, claim, labels, annotator_labels[task], had_sides=verdict is not None)
            _count_shift(tally, documents[batch], labels, annotator_labels[task])
    return dict(tallies)


_CACHE = BatchCache(_count_decisions, most=MAX_CACHED, weight=lambda _tallies: 1)


def _list_annotator_labels(tasks: Sequence[int]) -> dict[int, list[Labels]]:
    """The annotators' labels by task, in the order of the slots."""
    rows = Annotation.objects.filter(
        current=True, assignment__task__in=tasks, assignment__slot__lt=ADJUDICATION_SLOT
    ).order_by("assignment__slot")
    labels_by_task: dict[int, list[Labels]] = defaultdict(list)
    for task, labels in rows.values_list("assignment__task", "labels"):
        labels_by_task[task].append(labels)
    return labels_by_task


def _count_change(tally: _DecisionCounts, labels: Labels, verdict: Labels | None) -> None:
    if verdict is not None:
        tally.judged += 1
        tally.changed += any(verdict[name] != value for name, value in labels.items() if name in verdict)


def _count_sides(
    tally: _DecisionCounts,
    claim: UUID,
    labels: Labels,
    annotator_labels: Sequence[Labels],
    *,
    had_sides: bool,
) -> None:
    """``shown``: the decision was made here, where the labels stood as A and B."""
    sides = shuffle_sides(claim, annotator_labels)[:2] if had_sides else []
    for criterion, value in labels.items():
        tally.criteria += 1
        tally.neither += all(annotation.get(criterion) != value for annotation in annotator_labels)
        agrees = [side.get(criterion) == value for side in sides]
        if agrees.count(True) == 1:
            tally.first += agrees[0]
            tally.second += agrees[1]


def _count_shift(
    tally: _DecisionCounts, document: Any, labels: Labels, annotator_labels: Sequence[Labels]
) -> None:
    distances = []
    for name in labels:
        criterion = document.criterion(name)
        if criterion.measurement != "nominal":
            levels = {value: level for level, value in enumerate(criterion.values)}
            annotator_levels = [
                levels[annotation[criterion.name]]
                for annotation in annotator_labels
                if annotation.get(criterion.name) in levels
            ]
            if annotator_levels and labels[criterion.name] in levels:
                distances.append(
                    levels[labels[criterion.name]] - sum(annotator_levels) / len(annotator_levels)
                )
    if distances:
        tally.shifts.append(sum(distances) / len(distances))


def _build_adjudicators(
    tallies: Mapping[int, _DecisionCounts], batches: Sequence[Batch]
) -> list[Adjudicator]:
    people = Person.objects.in_bulk(list(tallies))
    repeat_rates = _measure_consistency(batches)
    leans = _correct_leans(
        {person: (tally.first, tally.first + tally.second) for person, tally in tallies.items()}
    )
    return [
        _build_adjudicator(people[person], tallies[person], leans[person], repeat_rates.get(person, NO_RATE))
        for person in sorted(tallies, key=lambda person: people[person].username)
    ]


def _build_adjudicator(person: Person, tally: _DecisionCounts, lean: Lean, consistency: Rate) -> Adjudicator:
    n, shifts = len(tally.shifts), tally.shifts
    mean = sum(shifts) / n if n else None
    half = Z * stdev(shifts) / n**0.5 if n > 1 else None
    changed = (
        Rate(tally.changed, tally.judged, *wilson(tally.changed, tally.judged)) if tally.judged else NO_RATE
    )
    return Adjudicator(
        person=person,
        decisions=tally.decisions,
        criteria=tally.criteria,
        neither=tally.neither,
        lean=lean,
        changed=changed,
        consistency=consistency,
        shift=mean,
        shift_low=None if mean is None or half is None else mean - half,
        shift_high=None if mean is None or half is None else mean + half,
        median_seconds=median(tally.seconds) if tally.seconds else None,
        reasons=dict(tally.reasons),
    )


def _measure_consistency(batches: Sequence[Batch]) -> dict[int, Rate]:
    """By person the share of criteria whose repeat adjudication equals the first decision."""
    same: Counter[int] = Counter()
    n: Counter[int] = Counter()
    for batch in batches:
        for agreement in measure_intra_rater_agreement(batch):
            same[agreement.person.pk] += agreement.rate.equal
            n[agreement.person.pk] += agreement.rate.n
    return {
        person: Rate(same[person], n[person], *wilson(same[person], n[person])) for person in n if n[person]
    }


def _find_p_value(first: int, n: int) -> float:
    """The binomial test of a half: both tails are alike."""
    return min(1.0, 2 * float(bdtr(min(first, n - first), n, 0.5)))


def _correct_leans(counts: Mapping[int, tuple[int, int]]) -> dict[int, Lean]:
    """Holm's step-down over the two-sided binomial tests of everybody who decided anything so."""
    p_values = {
        person: _find_p_value(*side_counts) for person, side_counts in counts.items() if side_counts[1]
    }
    corrected: dict[int, float] = {}
    highest = 0.0
    for place, person in enumerate(sorted(p_values, key=lambda person: p_values[person])):
        highest = max(highest, min(1.0, p_values[person] * (len(p_values) - place)))
        corrected[person] = highest
    return {person: Lean(first, n, corrected.get(person)) for person, (first, n) in counts.items()}
