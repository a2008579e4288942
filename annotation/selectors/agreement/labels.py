"""The comparable labels of some batches, with the names of everything by which they can be told apart."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from django.db.models import Q

from annotation.core.names import join_names
from annotation.domain.agreement import MASI, MEASUREMENTS, Measurement, Value
from annotation.domain.agreement.disagreement import Mask, UnitGroups, cross_groupings, group_units
from annotation.domain.agreement.label_table import Codes, Units, index_keys
from annotation.domain.agreement.label_table import split_pairs as label_table_as_pairs
from annotation.domain.agreement.rounds import list_repeats as list_repeated_units
from annotation.domain.agreement.rounds import order_round
from annotation.domain.guidelines import Criterion
from annotation.domain.guidelines.values import strip_turn
from annotation.models import Adjudication, Batch, EvaluatedModel, Guideline, Person, Prompt, Task
from annotation.selectors.agreement.groupings import EVERYTHING, Grouping, Narrowing
from annotation.selectors.agreement.label_table import cache_result, count_coverage, read_batches
from annotation.selectors.agreement.weights import WeightReader, Weights

T = TypeVar("T")
# The two aspects of what people answered: levels of scales, and who found a criterion not applicable.
NUMBERED, APPLICABILITY = attrgetter("numbered"), attrgetter("applicability")
PROMPT_ATTRIBUTES = ("attack_method", "malice")
ATTRIBUTE_CHUNK = 10_000
ScaleKey: TypeAlias = tuple[str, str]
"""A guideline's name and a criterion of it: what has one scale, but for its versions."""


class ComparableLabels:
    """The units of the batches, or of the part of them to which they are narrowed."""

    def __init__(self, batches: Iterable[Batch], narrowing: Narrowing = EVERYTHING) -> None:
        self.batches = list(batches)
        reading = read_batches(self.batches)
        self.marks, self._strata = reading.marks, reading.strata
        of_batch = {batch.pk: batch.guideline_id for batch in self.batches}
        guidelines = Guideline.objects.in_bulk(set(of_batch.values()))
        for batch in self.batches:
            batch.guideline = guidelines[batch.guideline_id]  # read once, however many batches have it
        self.guidelines = {
            guideline.pk: guideline
            for guideline in sorted(guidelines.values(), key=lambda guideline: (guideline.name, guideline.pk))
        }
        self._guideline = {pk: guidelines[of_batch[stratum.batch_id]] for pk, stratum in self._strata.items()}
        models = {stratum.model_id for stratum in self._strata.values()}
        self._models = dict(EvaluatedModel.objects.filter(pk__in=models).values_list("pk", "name"))
        named = Person.objects.filter(pk__in=reading.answers.people).values_list("pk", "username")
        self.people = dict(
            sorted(named, key=itemgetter(1))
        )  # by code points, whatever the database's collation
        self.narrowing = narrowing
        self._reading, self._of_answers = reading, NUMBERED
        self._all = reading.units
        self._weights = WeightReader(self.batches, self.marks, self._strata)
        self.coverage = count_coverage(reading)

    @cached_property
    def units(self) -> Units:
        return self._all if self.narrowing == EVERYTHING else self._narrowed(self.narrowing)

    @property
    def merged(self) -> Mapping[int, int]:
        """By each task that is counted with another of its response: that other one."""
        return self._all.merged

    @cached_property
    def applicability(self) -> ComparableLabels:
        """Who found a criterion not applicable (1), of those criteria that may be; narrowed as these are."""
        labels = self.with_units(self._reading.answers.applicability)
        labels._of_answers = APPLICABILITY
        return labels._narrow_again()

    @cached_property
    def rounds(self) -> ComparableLabels:
        """Each unit once for each round of labelling, with the labels of that round alone; narrowed as these are."""
        return self.with_units(self._of_answers(self._reading.rounds))._narrow_again()

    def _narrow_again(self) -> ComparableLabels:
        """These labels, which are of other units, narrowed as those that they were made of."""
        if self.narrowing != EVERYTHING:
            self._all = self.units
            self.__dict__["units"] = self._narrowed(self.narrowing)
        return self

    def list_repeats(self) -> tuple[ComparableLabels, UnitGroups[str]]:
        """What each person said in several rounds, with the rounds in the place of people, sorted by who it was."""
        rounds = self.rounds.units
        repeats, people = list_repeated_units(rounds)
        by_person = group_units(index_keys(people), self.people.__getitem__, str)
        return self.with_units(repeats), by_person

    @cached_property
    def weights(self) -> Weights | float:
        """(N,): for how many units each stands, by the chance of its selection; a number where all have the same."""
        return self._weights.weights.of_units(self.units)

    def cache(self, name: str, compute: Callable[[], T]) -> T:
        """What ``compute`` makes of these labels, worked out once as long as no label, nor a name, is another."""
        names = (tuple(self._models.items()), tuple(self.people.items()))
        key = (name, self.narrowing, names, self._weights.key)
        return cache_result(key, self.marks, compute)

    def sort_by_facet(self, facet: str) -> UnitGroups[str | None]:
        """The units by the names of a facet, those without a name last; by ``pair`` only where units are pairs."""
        units = self.units
        column: str
        name_of: Callable[[int], str | None]
        match facet:
            case "pair":
                return group_units(*self._pairs(), _name_key)
            case "criterion":
                column, name_of = facet, lambda code: strip_turn(units.criterion_names[code])
            case "subcomponent":
                column, name_of = facet, lambda code: units.subcomponent_names[code] or None
            case "attack_method" | "malice":
                codes, names = self._attributes[facet]
                return group_units(index_keys(codes), names.__getitem__, _name_key)
            case "round":
                column, name_of = "first_round", lambda code: units.round_names[code] or None
                return group_units(units.kinds(column), name_of, _round_key)
            case "week":
                column, name_of = "finished", format_week
            case "day":
                column, name_of = "finished", lambda day: date.fromordinal(day).isoformat()
            case "guideline":
                column, name_of = "stratum", self.guideline_of
            case _:
                column, name_of = "stratum", partial(self._of_stratum, facet)
        return group_units(units.kinds(column), name_of, _name_key)

    def _of_stratum(self, facet: str, pk: int) -> str | None:
        stratum = self._strata[pk]
        match facet:
            case "dimension":
                return stratum.dimension or None
            case "language":
                return stratum.language or None
            case "model":
                return self._models[stratum.model_id]
            case _:
                return str(self._guideline[pk])

    def _pairs(self) -> tuple[tuple[Codes, Codes], Callable[[int], str]]:
        people = self.units.person.astype(np.int64)
        width = int(people.max(initial=0)) + 1
        keys = people[:, 0] * width + people[:, 1] if people.shape[1] > 1 else people.sum(axis=1)
        return index_keys(keys), lambda key: join_names(self.people[person] for person in divmod(key, width))

    @cached_property
    def scales(self) -> UnitGroups[ScaleKey]:
        """The units by guideline and criterion."""
        guideline = group_units(self.units.kinds("stratum"), self.guideline_of, str)
        criterion = self.sort_by_facet("criterion")
        guideline_criteria = cross_groupings([guideline, criterion], len(self.units))
        return UnitGroups(
            tuple((name, criterion_name) for name, criterion_name in guideline_criteria.names),
            guideline_criteria.place,
        )

    def group(self, grouping: Grouping) -> tuple[ComparableLabels, UnitGroups[tuple[str | None, ...]]]:
        """The labels sorted by all the facets; where pairs are told apart, with a unit for each pair of a unit."""
        labels = self.rounds if "round" in grouping else self
        labels = labels.as_pairs() if "pair" in grouping else labels
        return labels, cross_groupings([labels.sort_by_facet(facet) for facet in grouping], len(labels.units))

    def as_pairs(self) -> ComparableLabels:
        return self.with_units(label_table_as_pairs(self.units, list(self.people)))

    def where_named(self, facets: Mapping[str, str | None]) -> ComparableLabels:
        """The labels that have these names by these facets; pairs are none of them."""
        labels = self.rounds if "round" in facets else self
        for facet, name in facets.items():
            labels = labels._in(facet, name)
        return labels

    def with_units(self, units: Units) -> ComparableLabels:
        """The same names over other units."""
        labels = object.__new__(ComparableLabels)
        computed = {"units", "scales", "reasons", "weights", "applicability", "rounds", "_attributes"}
        labels.__dict__.update({name: value for name, value in self.__dict__.items() if name not in computed})
        labels.__dict__["units"] = units
        return labels

    def of_tasks(self, tasks: Sequence[int]) -> ComparableLabels:
        """What is left of some tasks alone: they are few, and narrowed in a moment."""
        labels = self.with_units(self._all)
        labels._all = self._all.where(np.isin(self._all.task, tasks))
        del labels.__dict__["units"]
        return labels

    def where(self, mask: Mask) -> ComparableLabels:
        return self.with_units(self.units.where(mask))

    @cached_property
    def reasons(self) -> UnitGroups[str | None]:
        """The units by the key of the reason that the adjudicator of their task named; None where nobody did."""
        tasks, keys, names = cache_result(("dispute reasons",), self.marks, self._decisions)
        place = np.full(len(self.units), len(names), dtype=np.int64)
        if len(tasks):
            at = np.minimum(np.searchsorted(tasks, self.units.task), len(tasks) - 1)
            decided = tasks[at] == self.units.task
            place[decided] = keys[at[decided]]
        return UnitGroups((*names, None), place)

    def _decisions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[str | None, ...]]:
        ids = [pk for pk, _mark in self.marks]
        decisions = Adjudication.objects.filter(
            task__batch__in=ids, task__kind=Task.Kind.WORK, reason__isnull=False
        ).order_by("task_id")
        merged = self.merged
        rows = [
            (merged.get(task, task), key) for task, key in decisions.values_list("task_id", "reason__key")
        ]
        rows.sort(key=itemgetter(0))  # stable: of several tasks of a response the first decision counts
        names = tuple(sorted({key for _task, key in rows}))
        place_of = {name: place for place, name in enumerate(names)}
        return (
            np.array([task for task, _key in rows], np.int64),
            np.array([place_of[key] for _task, key in rows], np.int64),
            names,
        )

    @cached_property
    def _attributes(self) -> Mapping[str, tuple[npt.NDArray[np.int64], tuple[str | None, ...]]]:
        """By attribute of prompts that strata do not tell: of each unit the place of its prompt's name among the names,
        the first of which is None.
        """
        prompts, places, names = cache_result(("attributes of prompts",), self.marks, self._read_attributes)
        codes = np.zeros((len(self.units), len(PROMPT_ATTRIBUTES)), dtype=np.int64)
        if len(prompts):
            at = np.minimum(np.searchsorted(prompts, self.units.prompt), len(prompts) - 1)
            has_any = prompts[at] == self.units.prompt
            codes[has_any] = places[at[has_any]]
        return {
            attribute: (codes[:, place], names[place]) for place, attribute in enumerate(PROMPT_ATTRIBUTES)
        }

    def _read_attributes(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[tuple[str | None, ...], ...]]:
        """The prompts (P,) of the batches' datasets that have any of ``PROMPT_ATTRIBUTES``, ascending; (P, attributes)
        the places of what they have; and the names, None before all. An import changes no prompt that is stored.
        """
        datasets = {stratum.dataset_id for stratum in self._strata.values()}
        rows = (
            Prompt.objects.filter(dataset__in=datasets)
            .exclude(Q(attack_method__isnull=True) | Q(attack_method=""), malice="")
            .order_by("pk")
            .values_list("pk", *PROMPT_ATTRIBUTES)
        )
        known: tuple[dict[str | None, int], ...] = tuple({None: 0} for _attribute in PROMPT_ATTRIBUTES)
        prompts, places = array("q"), array("q")
        for prompt, *names in rows.iterator(ATTRIBUTE_CHUNK):
            prompts.append(prompt)
            for own, name in zip(known, names, strict=True):
                places.append(own.setdefault(name or None, len(own)))
        return (
            np.array(prompts, dtype=np.int64),
            np.array(places, dtype=np.int64).reshape(-1, len(PROMPT_ATTRIBUTES)),
            tuple(tuple(own) for own in known),
        )

    def guideline_of(self, stratum: int) -> str:
        return self._guideline[stratum].name

    def guideline_names(self) -> list[str]:
        return list(dict.fromkeys(guideline.name for guideline in self.guidelines.values()))

    def criteria(self, guideline: str) -> list[str]:
        """Those of all versions of the guideline, in its order."""
        documents = [version.document for version in self.guidelines.values() if version.name == guideline]
        return list(dict.fromkeys(c.name for document in documents for c in document.labelled_criteria))

    def versions(self, guideline: str, criterion: str) -> list[Criterion]:
        """The criterion in each version of the guideline that has it, the oldest first."""
        documents = [version.document for version in self.guidelines.values() if version.name == guideline]
        return [c for document in documents for c in document.labelled_criteria if c.name == criterion]

    def measure(self, guideline: str, criterion: str) -> tuple[tuple[Value, ...], Measurement]:
        """Versions whose scales differ are compared on the levels of all of them, at the weakest measurement.

        Where several options can be chosen, the values are the options and the sets of them that somebody chose.
        """
        versions = self.versions(guideline, criterion)
        scale = {value for version in versions for value in version.values}
        if any(version.several for version in versions):
            scale |= self._all.values_of(criterion)
        values = tuple(sorted(scale))
        if all(version.several for version in versions):
            return values, MASI
        return values, MEASUREMENTS[min(MEASUREMENTS.index(version.measurement) for version in versions)]

    def _narrowed(self, narrowing: Narrowing) -> Units:
        labels = self.with_units(self._all)
        named = narrowing.named
        if "round" in named:  # leaves the labels of one round alone
            rounds = self.with_units(self._of_answers(self._reading.rounds))
            labels = rounds._in("round", named.pop("round"))
        if "pair" in named:  # before the others, since it leaves the labels of these two alone
            labels = labels._in("pair", named.pop("pair"), of=labels.as_pairs())
        for facet, name in named.items():
            labels = labels._in(facet, name)
        if narrowing.day:
            labels = labels._in("day", narrowing.day)
        if narrowing.reason:
            labels = labels.where(_has_name(labels.reasons, narrowing.reason))
        if narrowing.prompt is not None:
            labels = labels.where(labels.units.prompt == narrowing.prompt)
        if narrowing.disputed:
            labels = labels.where(labels.units.differ)
        if narrowing.level is not None:
            labels = labels.where((labels.units.label == np.float32(narrowing.level)).any(axis=1))
        if narrowing.levels is not None:
            in_order = "pair" in narrowing.named and not narrowing.either
            labels = labels.where(_have_levels(labels.units, narrowing.levels, in_order=in_order))
        return labels.units

    def _in(self, facet: str, name: str | None, of: ComparableLabels | None = None) -> ComparableLabels:
        labels = of or self
        return labels.where(_has_name(labels.sort_by_facet(facet), name))


def _has_name(groups: UnitGroups[str | None], name: str | None) -> Mask:
    place = groups.names.index(name) if name in groups.names else -1
    mask: Mask = groups.place == place
    return mask


def _have_levels(units: Units, levels: tuple[float, float], *, in_order: bool) -> Mask:
    """The units in which somebody gave the one level and somebody else the other."""
    first, second = (units.label == np.float32(level) for level in levels)
    mask: Mask
    if in_order:
        mask = first[:, :1].any(axis=1) & second[:, 1:].any(axis=1)  # there may be no place at all
    elif levels[0] == levels[1]:
        mask = first.sum(axis=1) > 1
    else:
        mask = first.any(axis=1) & second.any(axis=1)
    return mask


def format_week(day: int) -> str:
    """The ISO week of a day."""
    year, week, _weekday = date.fromordinal(day).isocalendar()
    return f"{year}-W{week:02}"


def _round_key(name: str | None) -> tuple[bool, list[tuple[bool, int, str]]]:
    return name is None, order_round(name or "")


def _name_key(name: str | None) -> tuple[bool, str]:
    return name is None, name or ""
