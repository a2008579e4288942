"""How the ranks of a board move when one annotator, or one adjudicator, is left out of its gold. Pure.

The gold of each task is settled again from the labels that remain, by the rule of its own batch. docs/leaderboard.md
says what happens to tasks with one label left, and to disputes whose decision is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from annotation.domain.adjudication import ADJUDICATED, NO_RULES, SettlementRules, Value, settle
from annotation.domain.guidelines import GuidelineDocument, Label
from benchmark.domain.estimates.estimates import OVERALL, Bounds, ResponseKey, compute_estimates
from benchmark.domain.leaderboards.metrics import compute_factor, list_metric_scopes, list_numbers
from benchmark.domain.leaderboards.responses import CountedResponse, Labels

ANNOTATOR, ADJUDICATOR = "annotator", "adjudicator"
ROLES = (ANNOTATOR, ADJUDICATOR)

GOLD_GROUND, COMBINED_GROUND = "gold", "combined"
"""What a model's number rests on: gold alone, or a chance sample of gold with predictions."""
_NEGLIGIBLE = 1e-12

Participant = tuple[int, str]
"""A person by id, and the role in which they are left out."""


@dataclass(frozen=True)
class GoldTask:
    """A task behind the gold of one response, with what each person said.

    ``annotations`` are (person, labels); ``gold`` are the labels as the release has them, by criterion, and ``sources``
    what settled each, by the ``rules`` of the task's batch. What is not applicable is no gold here.
    """

    key: ResponseKey
    annotations: Sequence[tuple[int, Mapping[str, Label]]]
    gold: Mapping[str, Value]
    sources: Mapping[str, str]
    adjudicator: int | None = None
    rules: SettlementRules = NO_RULES

    @property
    def participants(self) -> Iterable[Participant]:
        for person, _labels in self.annotations:
            yield person, ANNOTATOR
        if self.adjudicator is not None and ADJUDICATED in self.sources.values():
            yield self.adjudicator, ADJUDICATOR

    @cached_property
    def is_reproducible(self) -> bool:
        """Whether the labels that stand now settle to the released gold: a release keeps what was later corrected."""
        settled = self._settle([labels for _person, labels in self.annotations])
        return all(
            settled.get(criterion) == value
            for criterion, value in self.gold.items()
            if self.sources[criterion] != ADJUDICATED
        )

    def resettle(self, participant: Participant) -> dict[str, Value]:
        """The gold without them; a criterion that nothing settles any more is not in it.

        A label that remains alone is the gold. What remains in conflict keeps the adjudicator's decision.
        """
        person, role = participant
        if role == ADJUDICATOR:
            return {
                criterion: value
                for criterion, value in self.gold.items()
                if self.sources[criterion] != ADJUDICATED
            }
        remaining = [labels for annotator, labels in self.annotations if annotator != person]
        if not remaining:
            return {}
        settled = self._settle(remaining)
        decided = {
            criterion: value
            for criterion, value in self.gold.items()
            if self.sources[criterion] == ADJUDICATED
        }
        values = decided | settled
        return {criterion: values[criterion] for criterion in self.gold if criterion in values}

    def _settle(self, annotations: Sequence[Mapping[str, Label]]) -> dict[str, Value]:
        if not annotations:
            return {}
        outcome = settle(annotations, self.rules)
        return {
            criterion: settled.value
            for criterion, settled in outcome.settled.items()
            if not isinstance(settled.value, str)
        }


@dataclass(frozen=True)
class GoldWithout:
    """The gold that changes when somebody is left out, by response: its labels, empty where it has no gold any more.

    ``labels`` is the number of tasks that they took part in; ``fixed`` those of them that stay as they were released,
    because their labels were corrected since.
    """

    labels: int
    fixed: int
    changes: Mapping[ResponseKey, Labels]

    @property
    def dropped(self) -> int:
        return sum(not labels for labels in self.changes.values())

    @property
    def changed(self) -> int:
        return len(self.changes) - self.dropped


def list_gold_without(tasks: Iterable[GoldTask]) -> dict[Participant, GoldWithout]:
    """For everybody who took part in the gold."""
    labels: Counter[Participant] = Counter()
    fixed: Counter[Participant] = Counter()
    changes: dict[Participant, dict[ResponseKey, Labels]] = defaultdict(dict)
    for task in tasks:
        for participant in task.participants:
            labels[participant] += 1
            if not task.is_reproducible:
                fixed[participant] += 1
                continue
            gold = task.resettle(participant)
            if gold != task.gold:
                is_complete = len(gold) == len(task.gold)
                changes[participant][task.key] = tuple(sorted(gold.items())) if is_complete else ()
    return {
        participant: GoldWithout(n, fixed[participant], changes.get(participant, {}))
        for participant, n in sorted(labels.items())
    }


@dataclass(frozen=True)
class RankedNumbers:
    """The number that models are ranked by, and how it changes with the gold.

    ``grounds`` names the compared models with what each number rests on. In a number of gold alone a response without
    gold is left out; in a combined one it counts among the predicted. ``strata`` are those of the estimates.
    """

    document: GuidelineDocument
    rows: Sequence[CountedResponse]
    grounds: Mapping[str, str]
    strata: Mapping[ResponseKey, Bounds] = field(default_factory=dict)

    def compute_values(self, changes: Mapping[ResponseKey, Labels]) -> dict[str, float | None]:
        """By compared model; None where the changed gold leaves it no number."""
        values: dict[str, float | None] = dict(self._base_values)
        by_model: dict[str, dict[ResponseKey, Labels]] = defaultdict(dict)
        for key, labels in changes.items():
            by_model[key[0]][key] = labels
        for model, own in by_model.items():
            if model in self.grounds:
                values[model] = self._compute_value(model, own)
        return values

    @cached_property
    def _base_values(self) -> dict[str, float | None]:
        return {model: self._compute_value(model, {}) for model in self.grounds}

    @cached_property
    def _rows_by_model(self) -> dict[str, list[CountedResponse]]:
        rows: dict[str, list[CountedResponse]] = defaultdict(list)
        for row in self.rows:
            if row.model in self.grounds and row.scope in self._scopes:
                rows[row.model].append(row)
        return dict(rows)

    @cached_property
    def _scopes(self) -> tuple[str, ...]:
        return list_metric_scopes(self.document, self.document.metric(self.document.rank_by))

    def _compute_value(self, model: str, changes: Mapping[ResponseKey, Labels]) -> float | None:
        rows = [_replace_gold(row, changes) for row in self._rows_by_model.get(model, ())]
        if self.grounds[model] == GOLD_GROUND:
            return self._average_gold(rows)
        return self._combine(rows)

    def _combine(self, rows: Sequence[CountedResponse]) -> float | None:
        metric = self.document.metric(self.document.rank_by)
        scope = OVERALL if metric.overall != "none" else self._scopes[0]
        estimates = compute_estimates(self.document, rows, strata=self.strata)["rows"]
        cell = estimates[0]["cells"].get(scope, {}).get(metric.name, {}) if estimates else {}
        value: float | None = (cell.get("combined") or {}).get("value")
        return value

    def _average_gold(self, rows: Sequence[CountedResponse]) -> float | None:
        """Undefined where a term of a number that it is the mean of has no label."""
        totals: Counter[tuple[int, int]] = Counter()
        labels: Counter[tuple[int, int]] = Counter()
        for row in rows:
            for label in row.gold:
                for term, worth in self._worths[row.scope].get(label, ()):
                    totals[term] += worth  # type: ignore[assignment]  # a sum of floats
                    labels[term] += 1
        numbers = list_numbers(self.document, self.document.metric(self.document.rank_by))
        means = []
        for place, number in enumerate(numbers):
            terms = [(place, at) for at in range(len(number.terms))]
            if not all(labels[term] for term in terms):
                return None
            means.append(sum(totals[term] / labels[term] for term in terms) / len(terms))
        return sum(means) / len(means)

    @cached_property
    def _worths(self) -> dict[str, dict[tuple[str, Value], list[tuple[tuple[int, int], float]]]]:
        """By column what a label adds to which terms, by the places of the number and of its term: of a rate 1 at a
        counted level, of a mean its value in it.
        """
        metric = self.document.metric(self.document.rank_by)
        factor = float(compute_factor(metric))
        worths: dict[str, dict[tuple[str, Value], list[tuple[tuple[int, int], float]]]] = {
            scope: defaultdict(list) for scope in self._scopes
        }
        for place, number in enumerate(list_numbers(self.document, metric)):
            for at, term in enumerate(number.terms):
                for scope in number.scopes:
                    dimension = scope if self.document.dimensions else None
                    counted = set(term.levels_for(dimension))
                    for criterion in self.document.criteria_of(term, dimension):
                        for level in criterion.values:
                            worth = float(level in counted) if term.kind == "rate" else level * factor
                            worths[scope][criterion.name, level].append(((place, at), worth))
        return worths


def _replace_gold(row: CountedResponse, changes: Mapping[ResponseKey, Labels]) -> CountedResponse:
    if row.prompt is None or (row.model, row.prompt) not in changes:
        return row
    return replace(row, gold=changes[row.model, row.prompt])


def rank_values(values: Mapping[str, float | None]) -> dict[str, int | None]:
    """Equals share a rank; without a number there is none."""
    known = [value for value in values.values() if value is not None]
    return {
        model: None if value is None else 1 + sum(other > value + _NEGLIGIBLE for other in known)
        for model, value in values.items()
    }


def compute_sensitivity(
    numbers: RankedNumbers,
    tasks: Sequence[GoldTask],
    *,
    not_compared: Sequence[str] = (),
    report: Callable[[float], object] = lambda _done: None,
) -> dict[str, Any]:
    """As JSON: the compared models best first with value and rank, and those of each leaving out, in their order.

    ``fixed`` are the tasks that stay as they were released, because their labels were corrected since. Of each leaving
    out ``labels`` are the tasks that a person took part in, ``changed`` and ``dropped`` those whose gold is another and
    none without them. Values are in the metric's own unit. ``report`` hears how much of it is done.
    """
    base = numbers.compute_values({})
    models = sorted(base, key=lambda model: (base[model] is None, -(base[model] or 0.0), model))
    without = []
    everybody = list_gold_without(tasks)
    for done, ((person, role), gold) in enumerate(everybody.items()):
        report(done / len(everybody))
        without.append(
            {
                "person": person,
                "role": role,
                "labels": gold.labels,
                "changed": gold.changed,
                "dropped": gold.dropped,
                "fixed": gold.fixed,
                **_numbers_to_json(numbers.compute_values(gold.changes), models),
            }
        )
    return {
        "metric": numbers.document.rank_by,
        "models": models,
        "grounds": [numbers.grounds[model] for model in models],
        "not_compared": list(not_compared),
        "tasks": len(tasks),
        "fixed": sum(not task.is_reproducible for task in tasks),
        **_numbers_to_json(base, models),
        "without": without,
    }


def _numbers_to_json(values: Mapping[str, float | None], models: Sequence[str]) -> dict[str, Any]:
    """Ranks are null for all where one of them has lost its number: they would be among others."""
    ranks = rank_values(values)
    is_complete = all(values[model] is not None for model in models)
    return {
        "values": [values[model] for model in models],
        "ranks": [ranks[model] if is_complete else None for model in models],
    }
