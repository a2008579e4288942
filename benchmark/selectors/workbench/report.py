"""The board of a campaign: what is wanted and there, attack success, its authors, its reviewers and its cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from annotation.core.proportions import Rate
from annotation.models import Batch, GoldLabel, Person, Prompt, Task
from annotation.selectors.access import sealed_batches
from benchmark.domain.workbench.campaigns import is_success, list_asked
from benchmark.domain.workbench.report import (
    AttackOutcome,
    FieldAgreement,
    measure_all,
    measure_field_agreement,
    measure_success,
)
from benchmark.models import (
    Attempt,
    Campaign,
    CampaignMember,
    Proposal,
    ProposalRevision,
    Quota,
    Review,
)
from benchmark.models.workbench import FIRST, SECOND
from benchmark.selectors.workbench.campaigns import hides_authors, hides_targets, list_targets
from benchmark.selectors.workbench.proposals import iterate_accepted_answers
from benchmark.selectors.workbench.reviews import classify_review, classify_revision

AUTHORS, SCORER, SETTLED = "authors", "scorer", "settled"
SOURCES = (AUTHORS, SCORER, SETTLED)
"""Who says the levels: the authors, the scorer of the time, or the gold labels of batches of these responses."""
FIELDS = ("dimension", "subcomponent", "method", "malice")


@dataclass(frozen=True)
class HeatCell:
    """``taken`` are places held by what is submitted or accepted; ``accepted`` prompts of the cell."""

    wanted: int
    taken: int
    accepted: int

    @property
    def share(self) -> float:
        return min(1.0, self.accepted / self.wanted) if self.wanted else 1.0


@dataclass(frozen=True)
class AuthorRow:
    name: str
    drafts: int
    waiting: int
    accepted: int
    returned: int
    rejected: int
    warned: int
    blocked: int
    requests: int


@dataclass(frozen=True)
class CostRow:
    """What a target was asked for; tokens are None where its endpoint does not say."""

    target: str
    answers: int
    failures: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class CampaignReport:
    """``cells`` by (dimension, subcomponent) and method; ``success`` by its source and then by (target, method,
    dimension), ``totals`` by the source alone. ``sealed`` are batches whose labels the reader must not know now.
    """

    campaign: Campaign
    methods: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    cells: Mapping[tuple[str, str], Mapping[str, HeatCell]]
    outcomes: Mapping[str, Sequence[AttackOutcome]]
    targets: tuple[str, ...]
    authors: tuple[AuthorRow, ...]
    agreement: Mapping[str, FieldAgreement]
    n_disputed: int
    costs: tuple[CostRow, ...]
    sealed: tuple[str, ...] = field(default=())

    @property
    def totals(self) -> Mapping[str, Rate]:
        return {source: measure_all(outcomes) for source, outcomes in self.outcomes.items()}

    def tabulate(self, source: str, fields: Sequence[str]) -> Mapping[tuple[str, ...], Rate]:
        return measure_success(self.outcomes[source], fields)

    def to_json(self) -> dict[str, Any]:
        return {
            "campaign": self.campaign.name,
            "state": self.campaign.state,
            "quotas": [
                {
                    "dimension": row[0],
                    "subcomponent": row[1],
                    "method": method,
                    "wanted": cell.wanted,
                    "taken": cell.taken,
                    "accepted": cell.accepted,
                }
                for row in self.rows
                for method, cell in self.cells[row].items()
            ],
            "attack_success": {
                source: {
                    "overall": rate.to_json(),
                    "rows": [
                        dict(zip(("target", "method", "dimension"), key, strict=True)) | value.to_json()
                        for key, value in self.tabulate(source, ("target", "method", "dimension")).items()
                    ],
                }
                for source, rate in self.totals.items()
            },
            "authors": [vars(row) for row in self.authors],
            "reviewers": {
                name: {"n": agreement.n}
                | {
                    key: {"value": value.value, "low": value.low, "high": value.high}
                    for key, value in agreement.statistics.items()
                }
                for name, agreement in self.agreement.items()
            },
            "disputed": self.n_disputed,
            "cost": [vars(row) for row in self.costs],
        }


def build_report(campaign: Campaign, reader: Person | None) -> CampaignReport:
    """As this person may read it; None is the operator, who reads everything."""
    quotas = list(Quota.objects.filter(campaign=campaign).select_related("method"))
    accepted = _count_accepted(campaign)
    cells: dict[tuple[str, str], dict[str, HeatCell]] = defaultdict(dict)
    for quota in quotas:
        place = quota.dimension, quota.subcomponent
        cells[place][quota.method.name] = HeatCell(
            quota.wanted, quota.taken, accepted.pop((*place, quota.method.name), 0)
        )
    for (dimension, subcomponent, method), n in accepted.items():  # moved into a cell that nobody wanted
        cells[dimension, subcomponent][method] = HeatCell(0, n, n)
    blind = reader is not None and hides_targets(campaign, reader)
    sealed = _list_sealed(campaign, reader)
    names = {target.pk: target.letter if blind else target.model.name for target in list_targets(campaign)}
    answers = list(iterate_accepted_answers(campaign))
    return CampaignReport(
        campaign=campaign,
        methods=tuple(dict.fromkeys(method for row in cells.values() for method in row)),
        rows=tuple(cells),
        cells=cells,
        outcomes={
            AUTHORS: list(_list_author_outcomes(campaign, answers, names)),
            # Who judges these answers now must not know what the scorer says of them.
            SCORER: [] if sealed else list(_list_scorer_outcomes(campaign, answers, names)),
            SETTLED: list(_list_settled_outcomes(campaign, names, sealed)),
        },
        targets=tuple(names.values()),
        authors=tuple(_list_authors(campaign, reader)),
        agreement=_measure_reviewers(campaign),
        n_disputed=_count_disputed(campaign),
        costs=tuple(_list_costs(campaign, names)),
        sealed=tuple(sorted(batch.name for batch in sealed)),
    )


def _count_accepted(campaign: Campaign) -> dict[tuple[str, str, str], int]:
    rows = (
        Proposal.objects.filter(campaign=campaign, state=Proposal.State.ACCEPTED)
        .order_by()
        .values_list("prompt__dimension", "prompt__subcomponent", "prompt__attack_method")
        .annotate(n=Count("pk"))
    )
    return {(dimension, subcomponent, method or ""): n for dimension, subcomponent, method, n in rows}


def _list_author_outcomes(
    campaign: Campaign, answers: Sequence[Attempt], names: Mapping[int, str]
) -> Iterator[AttackOutcome]:
    for attempt in answers:
        if attempt.levels:
            yield _build_answer_outcome(attempt, names, is_success(attempt.levels, campaign.success))


def _list_scorer_outcomes(
    campaign: Campaign, answers: Sequence[Attempt], names: Mapping[int, str]
) -> Iterator[AttackOutcome]:
    document = campaign.guideline.document
    for attempt in answers:
        criteria = list_asked(campaign.success, document, attempt.revision.dimension)
        predictions = attempt.answer.predictions or {}
        levels = {name: predictions[name]["value"] for name in criteria if predictions.get(name)}
        if len(levels) == len(criteria):
            yield _build_answer_outcome(attempt, names, is_success(levels, campaign.success))


def _build_answer_outcome(attempt: Attempt, names: Mapping[int, str], succeeded: bool) -> AttackOutcome:
    prompt = attempt.revision.proposal.prompt
    assert prompt is not None, "of accepted proposals alone"
    return _build_outcome(prompt, names[attempt.target_id], succeeded)


def _build_outcome(prompt: Prompt, target: str, succeeded: bool) -> AttackOutcome:
    return AttackOutcome(
        prompt=prompt.pk,
        target=target,
        dimension=prompt.dimension,
        method=prompt.attack_method or "",
        malice=prompt.malice,
        is_success=succeeded,
    )


def _list_settled_outcomes(
    campaign: Campaign, names: Mapping[int, str], sealed: Sequence[Batch]
) -> Iterator[AttackOutcome]:
    """By the gold labels of the responses that were made of the answers, each response once (its latest batch)."""
    models = {target.model_id: names[target.pk] for target in list_targets(campaign)}
    labels = (
        GoldLabel.objects.filter(
            task__response__prompt__proposal__campaign=campaign,
            task__response__collection=campaign.collection_id,
            task__response__model__in=models,
            task__batch__guideline__name=campaign.guideline.name,
            task__kind=Task.Kind.WORK,
            criterion__in=list(campaign.success),
        )
        .exclude(task__batch__in=[batch.pk for batch in sealed])
        .select_related("task__response__prompt")
        .order_by("task__batch", "task")
    )
    by_response: dict[int, dict[str, float]] = defaultdict(dict)
    responses: dict[int, Any] = {}
    for label in labels:
        response = label.task.response
        responses[response.pk] = response
        if label.value is not None:
            by_response[response.pk][label.criterion] = label.value
    for pk, levels in by_response.items():
        response = responses[pk]
        succeeded = is_success(levels, campaign.success)
        yield _build_outcome(response.prompt, models[response.model_id], succeeded)


def list_campaign_batches(campaign: Campaign) -> list[Batch]:
    """The batches that label responses to the campaign's prompts, of its own collection."""
    tasks = Task.objects.filter(
        response__prompt__proposal__campaign=campaign, response__collection=campaign.collection_id
    )
    return list(Batch.objects.filter(pk__in=tasks.values("batch")).order_by("pk"))


def _list_sealed(campaign: Campaign, reader: Person | None) -> list[Batch]:
    if reader is None:
        return []
    batches = [batch.pk for batch in list_campaign_batches(campaign)]
    return list(sealed_batches(reader).filter(pk__in=batches))


def _list_authors(campaign: Campaign, reader: Person | None) -> Iterator[AuthorRow]:
    """By name; none where the reader reviews here."""
    if reader is not None and hides_authors(campaign, reader):
        return
    state, nearness = Proposal.State, ProposalRevision.Nearness
    states = _count_by(
        Proposal.objects.filter(campaign=campaign),
        "author",
        drafts=Q(state=state.DRAFT),
        waiting=Q(state__in=[state.SUBMITTED, state.DISPUTED]),
        accepted=Q(state=state.ACCEPTED),
        returned=Q(state=state.RETURNED),
        rejected=Q(state=state.REJECTED),
    )
    near = _count_by(
        ProposalRevision.objects.filter(proposal__campaign=campaign),
        "proposal__author",
        warned=Q(nearness=nearness.WARNED),
        blocked=Q(nearness=nearness.BLOCKED),
    )
    members = CampaignMember.objects.filter(campaign=campaign, role=CampaignMember.Role.AUTHOR)
    for member in members.select_related("person").order_by("person__username"):
        counts = {**states(member.person_id), **near(member.person_id)}
        yield AuthorRow(name=str(member.person), requests=member.requests_used, **counts)


def _count_by(rows: QuerySet[Any], field: str, **filters: Q) -> Callable[[int], dict[str, int]]:
    """How many rows of a person pass each filter; ``field`` leads to the person."""
    counts = {name: Count("pk", filter=condition) for name, condition in filters.items()}
    by_person = {
        person: dict(zip(filters, numbers, strict=True))
        for person, *numbers in rows.order_by()
        .values_list(field)
        .annotate(**counts)
        .values_list(field, *filters)
    }
    return lambda person: by_person.get(person, dict.fromkeys(filters, 0))


def _measure_reviewers(campaign: Campaign) -> dict[str, FieldAgreement]:
    """Of the first reviews: what their reviewers said without knowing what the authors had said."""
    reviews = (
        Review.objects.filter(revision__proposal__campaign=campaign, slot=FIRST, ended_at=None)
        .exclude(judged_at=None)
        .select_related("method", "revision__method")
    )
    pairs = [(classify_revision(review.revision), classify_review(review)) for review in reviews]
    return {
        name: measure_field_agreement([(getattr(a, name), getattr(b, name)) for a, b in pairs])
        for name in FIELDS
    }


def _count_disputed(campaign: Campaign) -> int:
    """The proposals that went to a third person, decided by now or not."""
    settled = Review.objects.filter(revision__proposal__campaign=campaign, slot=SECOND).exclude(decision="")
    went = Q(state=Proposal.State.DISPUTED) | Q(pk__in=settled.values("revision__proposal"))
    return Proposal.objects.filter(went, campaign=campaign).count()


def _list_costs(campaign: Campaign, names: Mapping[int, str]) -> Iterator[CostRow]:
    rows = (
        Attempt.objects.filter(revision__proposal__campaign=campaign)
        .order_by()
        .values_list("target")
        .annotate(
            answers=Count("pk", filter=Q(state=Attempt.State.ANSWERED)),
            failures=Count("pk", filter=Q(state=Attempt.State.FAILED)),
            prompt_tokens=Sum("answer__prompt_tokens"),
            completion_tokens=Sum("answer__completion_tokens"),
            seconds=Sum("answer__seconds"),
        )
    )
    for target, answers, failures, sent, received, seconds in sorted(rows, key=lambda row: names[row[0]]):
        yield CostRow(names[target], answers, failures, sent, received, seconds or 0.0)


def list_proposals(campaign: Campaign, state: str = "") -> QuerySet[Proposal]:
    """Every submitted proposal of the campaign for its board, the latest first."""
    proposals = Proposal.objects.filter(campaign=campaign).exclude(submitted_at=None)
    if state:
        proposals = proposals.filter(state=state)
    return proposals.select_related("author", "prompt").order_by("-submitted_at", "pk")
