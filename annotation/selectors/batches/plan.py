"""What a batch will ask of its people, before it is opened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, count
from math import ceil
from statistics import median

from django.db.models import Count, Q, QuerySet, prefetch_related_objects

from annotation.core.study_scope import build_study_filter
from annotation.domain.assignments.eligibility import MemberLimits, TaskKind, find_obstacle
from annotation.domain.assignments.pairing import Block
from annotation.domain.assignments.plan import (
    Allotment,
    count_tasks_by_pair,
    count_tasks_by_person,
    plan_allotments,
)
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import (
    Annotation,
    Batch,
    Dataset,
    EvaluatedModel,
    Guideline,
    Membership,
    Panel,
    Person,
    Prompt,
    Response,
)
from annotation.selectors.assignments.availability import build_kind, build_limits, list_working_members
from annotation.selectors.counts import STATES, count_by_stratum

MAX_MEASURED = 1000
MAX_NAME = 100
# Of so many people every pair's shared count is shown.
MAX_SHOWN_PEOPLE = 12


@dataclass(frozen=True)
class AnnotationPace:
    """The median seconds of the latest ``n`` annotations by any version of a guideline."""

    seconds: float
    n: int


@dataclass(frozen=True)
class PlanRow:
    """One person's part: their items, and how many of them each of the others gets too (None: themselves)."""

    person: Person
    tasks: int
    quota: int | None
    shared: tuple[int | None, ...]


@dataclass(frozen=True)
class Sharing:
    """Who works with whom where that is planned. ``low`` and ``high`` are the smallest and the largest number of
    items that a pair shares: any two people, or the pairs that were named; None at an overlap of 1.
    """

    rows: tuple[PlanRow, ...]
    low: int | None
    high: int | None

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    @property
    def is_shown_whole(self) -> bool:
        return len(self.rows) <= MAX_SHOWN_PEOPLE

    @property
    def least(self) -> int:
        """The smallest load."""
        return min((row.tasks for row in self.rows), default=0)

    @property
    def most(self) -> int:
        return max((row.tasks for row in self.rows), default=0)

    @property
    def beyond_quota(self) -> tuple[PlanRow, ...]:
        return tuple(row for row in self.rows if row.quota is not None and row.tasks > row.quota)


@dataclass(frozen=True)
class RefusalReason:
    """A reason (English, to be translated where it is shown) and whom it keeps from tasks."""

    reason: str
    people: tuple[str, ...]


@dataclass(frozen=True)
class Shortage:
    """``tasks`` that too few people may take: ``able``. ``dimensions``, ``languages`` and ``models`` are what keeps
    the others from them, each empty where it keeps nobody.
    """

    tasks: int
    able: int
    dimensions: tuple[str, ...]
    languages: tuple[str, ...]
    models: tuple[str, ...]
    whys: tuple[RefusalReason, ...]


@dataclass(frozen=True)
class Plan:
    """``dimensions`` maps a dimension to its number of tasks; ``seconds`` is the time for one annotation.

    ``sharing`` is None in a pool, where chance decides who works with whom; ``possible`` is how many annotations
    its people may make at most, None where nothing limits them. ``is_limited`` says that somebody may not take
    everything, ``unpaired`` that pairs are still to be named.
    """

    dimensions: dict[str, int]
    overlap: int
    annotators: int
    adjudicators: int
    seconds: float | None
    unanswerable: tuple[str, ...] = ()
    has_other_units: bool = False
    pairing: str = Batch.Pairing.POOL
    sharing: Sharing | None = None
    shortages: tuple[Shortage, ...] = ()
    possible: int | None = None
    unpaired: bool = False
    is_limited: bool = False
    overlap_share: float = 1
    is_open: bool = False

    @property
    def tasks(self) -> int:
        return sum(self.dimensions.values())

    @property
    def annotations(self) -> int:
        """Of an open plan at least."""
        overlapped = ceil(round(self.overlap_share * self.tasks, 9))
        return overlapped * self.overlap + (self.tasks - overlapped)

    @property
    def each(self) -> int | None:
        """About how many annotations a person gets, rounded up; nobody can get a task twice. Where it is planned,
        the most that anybody gets.
        """
        if self.sharing is not None:
            return self.sharing.most
        return -(-self.annotations // self.annotators) if self.annotators >= self.overlap else None

    @property
    def unassignable(self) -> int:
        """The annotations that nobody of the pool may make."""
        return 0 if self.possible is None else max(0, self.annotations - self.possible)

    @property
    def total_seconds(self) -> float | None:
        return None if self.seconds is None else self.annotations * self.seconds

    @property
    def each_seconds(self) -> float | None:
        return None if self.seconds is None or self.each is None else self.each * self.seconds

    @property
    def short_of_annotators(self) -> bool:
        return self.annotators < self.overlap

    @property
    def nobody_settles(self) -> bool:
        """Disputes are possible, and nobody is there to decide them."""
        return self.overlap > 1 and not self.adjudicators


def find_fitting_guideline(dataset: Dataset, collection: str = "") -> Guideline | None:
    """The guideline for a new batch of the dataset, or of its ``collection`` of this name: that of its newest batch,
    else the one published last, of those that name all of its dimensions; failing these, of those that have a criterion
    for each of them.
    """
    prompts = Prompt.objects.filter(dataset=dataset).order_by()
    topics = set(prompts.values_list("dimension", "subcomponent").distinct())
    dimensions = {dimension for dimension, _subcomponent in topics}
    batches = Batch.objects.filter(strata__dataset=dataset).select_related("guideline").order_by("-pk")
    published = Guideline.objects.exclude(published_at=None).order_by("-published_at", "-pk")
    guidelines = [*(batch.guideline for batch in batches[:1]), *published]
    responses = Response.objects.filter(prompt__dataset=dataset)
    responses = responses.filter(collection__name=collection) if collection else responses.filter(slate=None)
    naming = (guideline for guideline in guidelines if dimensions <= set(guideline.document.dimension_names))
    answering = (guideline for guideline in guidelines if not guideline.document.list_unanswerable(topics))
    fitting = (g for g in chain(naming, answering) if not has_other_units(g.document, responses))
    return next(fitting, None)


def has_other_units(document: GuidelineDocument, responses: QuerySet[Response]) -> bool:
    """Whether some of the responses are no such as the guideline is for: dialogues, plain texts or slates."""
    unordered = responses.order_by()
    if document.unit == "slate":
        return unordered.filter(slate=None).exists()
    other = Q(slate__isnull=False)
    if document.unit is not None:
        plain = Q(turns=[])
        other |= plain if document.unit == "dialogue" else ~plain
    return unordered.filter(other).exists()


def suggest_batch_name(dataset: Dataset) -> str:
    """The dataset's name, with a number where a batch of the study has it; empty where that is too long."""
    names = set(Batch.objects.filter(name__startswith=dataset.name).values_list("name", flat=True))
    candidates = (dataset.name if n == 1 else f"{dataset.name}-{n}" for n in count(1))
    name = next(name for name in candidates if name not in names)
    return name if len(name) <= MAX_NAME else ""


def list_topics(responses: QuerySet[Response]) -> list[tuple[str, str]]:
    """The dimensions and subcomponents of their prompts, each pair once."""
    return sorted(
        set(responses.order_by().values_list("prompt__dimension", "prompt__subcomponent").distinct())
    )


def plan_responses(
    responses: QuerySet[Response],
    *,
    guideline: Guideline | None,
    overlap: int,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person],
    seconds: float | None,
    pairing: str = Batch.Pairing.POOL,
    pairs: Sequence[Sequence[Person]] = (),
    quota: int | None = None,
    seed: int = 0,
    overlap_share: float = 1,
    is_open: bool = False,
) -> Plan:
    """The plan of a batch that is not made yet; the same as it will be when it is."""
    fields = ("prompt__dimension", "prompt__language", "model")
    counted = responses.order_by().values_list(*fields).annotate(n=Count("pk")).order_by(*fields)
    tasks = {TaskKind(dimension, language, model): n for dimension, language, model, n in counted}
    people = list(dict.fromkeys([*annotators, *(person for pair in pairs for person in pair)]))
    members = [Membership(person=person, quota=quota) for person in people]
    prefetch_related_objects(members, "person__own_models__compared_in")
    places = {person: place for place, person in enumerate(people)}
    dimensions = _count_by_dimension(tasks)
    plan = _build_plan(
        tasks,
        members,
        [tuple(sorted(places[person] for person in pair)) for pair in pairs],
        pairing=pairing,
        seed=seed,
        dimensions=dimensions,
        overlap=overlap,
        adjudicators=len(set(adjudicators)),
        seconds=seconds,
        unanswerable=_list_unanswerable(guideline, responses, dimensions),
    )
    other = guideline is not None and has_other_units(guideline.document, responses)
    return replace(plan, overlap_share=overlap_share, is_open=is_open, has_other_units=other)


def plan_batch(batch: Batch) -> Plan:
    """The plan of a draft, as it will be when it is opened, or of a batch at which nobody worked yet; the seconds
    are the measured ones.
    """
    strata = count_by_stratum([batch.pk])
    members = list_working_members(batch, Membership.Role.ANNOTATOR)
    places = {member.pk: place for place, member in enumerate(members)}
    keys = Panel.objects.filter(batch=batch, named=True).order_by("pk").values_list("key", flat=True)
    named = [[int(pk) for pk in key.split("-")] for key in keys]
    measured = measure_pace(batch.guideline.name)
    plan = _build_plan(
        {build_kind(stratum): counts["open"] for stratum, counts in strata.items()},
        members,
        [tuple(places[pk] for pk in pair) for pair in named if places.keys() >= set(pair)],
        pairing=batch.pairing,
        seed=batch.seed,
        dimensions=_count_by_dimension(
            {
                build_kind(stratum): sum(counts[state] for state in STATES)
                for stratum, counts in strata.items()
            }
        ),
        overlap=batch.overlap,
        adjudicators=batch.memberships.filter(role=Membership.Role.ADJUDICATOR, active=True).count(),
        seconds=measured.seconds if measured else None,
    )
    return replace(plan, overlap_share=batch.overlap_share, is_open=batch.plan == Batch.Plan.OPEN)


def _build_plan(
    tasks: Mapping[TaskKind, int],
    members: Sequence[Membership],
    pairs: Sequence[Block],
    *,
    pairing: str,
    seed: int,
    dimensions: dict[str, int],
    overlap: int,
    adjudicators: int,
    seconds: float | None,
    unanswerable: tuple[str, ...] = (),
) -> Plan:
    """``pairs`` hold the places of ``members``, each pair's ascending."""
    tasks = {kind: number for kind, number in tasks.items() if number}
    refused = _find_refusals(tasks, members)
    able = {
        kind: tuple(place for place in range(len(members)) if place not in refused_places)
        for kind, refused_places in refused.items()
    }
    sharing = None
    fixed = pairing == Batch.Pairing.FIXED
    full_pairs = [pair for pair in dict.fromkeys(pairs) if len(set(pair)) == overlap]
    if fixed:
        unassignable = {
            kind for kind in tasks if not any(set(pair) <= set(able[kind]) for pair in full_pairs)
        }
    else:
        unassignable = {kind for kind in tasks if len(able[kind]) < overlap}
    if pairing != Batch.Pairing.POOL and members and (full_pairs or not fixed):
        allotted = plan_allotments(
            tasks=tasks, eligible=able, pairs=full_pairs if fixed else None, overlap=overlap, seed=seed
        )
        sharing = _build_sharing(allotted, members, full_pairs if fixed else None, overlap)
    is_short = len(members) < overlap or (fixed and not full_pairs)  # which is said already
    return Plan(
        dimensions=dimensions,
        overlap=overlap,
        annotators=len(members),
        adjudicators=adjudicators,
        seconds=seconds,
        unanswerable=unanswerable,
        pairing=pairing,
        sharing=sharing,
        shortages=() if is_short else _list_shortages(tasks, members, refused, unassignable),
        possible=_count_possible(tasks, members, able)
        if pairing == Batch.Pairing.POOL and not is_short
        else None,
        unpaired=fixed and not full_pairs,
        is_limited=any(refused.values()),
    )


def _find_refusals(
    tasks: Mapping[TaskKind, int], members: Sequence[Membership]
) -> dict[TaskKind, dict[int, str]]:
    """For each kind of task, who must not be given it and why."""
    refused: dict[TaskKind, dict[int, str]] = {kind: {} for kind in tasks}
    for place, member in enumerate(members):
        limits = build_limits(member)
        for kind in tasks if limits != MemberLimits() else ():
            reason = find_obstacle(limits, kind)
            if reason is not None:
                refused[kind][place] = reason
    return refused


def _build_sharing(
    allotment_list: Sequence[Allotment[TaskKind]],
    members: Sequence[Membership],
    pairs: Sequence[Block] | None,
    overlap: int,
) -> Sharing:
    counts: Counter[Block] = Counter()
    for allotment in allotment_list:
        counts.update(allotment.counts())
    load_by_place, shared_counts = count_tasks_by_person(counts), count_tasks_by_pair(counts)
    places = range(len(members))
    of_interest = (
        [shared_counts[pair] for pair in combinations(places, 2)]
        if pairs is None
        else [counts[pair] for pair in pairs]
    )
    is_whole = len(members) <= MAX_SHOWN_PEOPLE
    rows = [
        PlanRow(
            person=member.person,
            tasks=load_by_place[place],
            quota=member.quota,
            shared=tuple(
                None if place == other else shared_counts[min(place, other), max(place, other)]
                for other in (places if is_whole else ())
            ),
        )
        for place, member in enumerate(members)
    ]
    of_pairs = of_interest if overlap > 1 else []
    return Sharing(tuple(rows), min(of_pairs, default=None), max(of_pairs, default=None))


def _list_shortages(
    tasks: Mapping[TaskKind, int],
    members: Sequence[Membership],
    refused: Mapping[TaskKind, Mapping[int, str]],
    unassignable: set[TaskKind],
) -> tuple[Shortage, ...]:
    """The kinds that too few people may take, together where the same keeps the same people from them."""
    kinds_by_refusal: dict[Hashable, list[TaskKind]] = defaultdict(list)
    for kind in tasks:
        if kind in unassignable:
            kinds_by_refusal[tuple(sorted(refused[kind].items()))].append(kind)
    models = EvaluatedModel.objects.in_bulk([kind.model for kind in unassignable])
    names = {pk: model.name for pk, model in models.items()}
    shortages = []
    for kinds in kinds_by_refusal.values():
        people_by_reason: dict[str, list[str]] = defaultdict(list)
        causes: set[str] = set()
        for place, reason in refused[kinds[0]].items():
            people_by_reason[reason].append(str(members[place].person))
            causes.add(_find_cause(build_limits(members[place]), kinds[0]))
        shortages.append(
            Shortage(
                tasks=sum(tasks[kind] for kind in kinds),
                able=len(members) - len(refused[kinds[0]]),
                dimensions=_sort_names({kind.dimension for kind in kinds}, "dimension" in causes),
                languages=_sort_names({kind.language for kind in kinds}, "language" in causes),
                models=_sort_names({names[kind.model] for kind in kinds}, "model" in causes),
                whys=tuple(
                    RefusalReason(reason, tuple(people))
                    for reason, people in sorted(people_by_reason.items())
                ),
            )
        )
    return tuple(sorted(shortages, key=lambda shortage: -shortage.tasks))


def _find_cause(limits: MemberLimits, kind: TaskKind) -> str:
    """What of the kind rules it out: the reason that ``ruled_out`` gives."""
    limits_by_name = {
        "dimension": MemberLimits(dimensions=limits.dimensions, opted_out=limits.opted_out),
        "model": MemberLimits(models=limits.models),
        "language": MemberLimits(languages=limits.languages),
    }
    reason = find_obstacle(limits, kind)
    return next(name for name, limit in limits_by_name.items() if find_obstacle(limit, kind) == reason)


def _sort_names(names: set[str], matters: bool) -> tuple[str, ...]:
    return tuple(sorted(names)) if matters else ()


def _count_possible(
    tasks: Mapping[TaskKind, int], members: Sequence[Membership], able: Mapping[TaskKind, Block]
) -> int | None:
    """How many annotations the members of a pool may make together: each at most all tasks for them, and their
    quota. None where no quota limits anybody.
    """
    if all(member.quota is None for member in members):
        return None
    max_tasks: Counter[int] = Counter()
    for kind, number in tasks.items():
        max_tasks.update(dict.fromkeys(able[kind], number))
    return sum(
        max_tasks[place] if member.quota is None else min(max_tasks[place], member.quota)
        for place, member in enumerate(members)
    )


def _count_by_dimension(tasks: Mapping[TaskKind, int]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for kind, number in tasks.items():
        counts[kind.dimension] += number
    return dict(sorted(counts.items()))


def measure_pace(guideline: str) -> AnnotationPace | None:
    """None where nobody's time was measured yet."""
    timed = Annotation.objects.filter(
        current=True,
        seconds__gt=0,
        assignment__batch__guideline__name=guideline,
        **build_study_filter("assignment__batch__study"),
    )
    latest = timed.order_by("-pk").values_list("seconds", flat=True)[:MAX_MEASURED]
    seconds = [value for value in latest if value is not None]
    return AnnotationPace(seconds=median(seconds), n=len(seconds)) if seconds else None


def _list_unanswerable(
    guideline: Guideline | None, responses: QuerySet[Response], dimensions: Iterable[str]
) -> tuple[str, ...]:
    if guideline is None:
        return ()
    document = guideline.document
    by_part = document.asks_by_subcomponent
    return document.list_unanswerable(
        list_topics(responses) if by_part else ((dimension, "") for dimension in dimensions)
    )
