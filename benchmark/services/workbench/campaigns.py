"""Campaigns: making them, their people, their quotas and their state; and the attack methods of a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.names import check_printable_name
from annotation.core.study_scope import choose_study_id
from annotation.models import Collection, Dataset, EvaluatedModel, Guideline, Person, Study
from annotation.selectors.access import lock_people
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.sharing import refuse_borrowed
from benchmark.domain.llm_client import check_endpoint, find_key
from benchmark.domain.llm_client.settings import check_settings
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import (
    CampaignSpec,
    QuotaSpec,
    TargetSpec,
    check_success,
    list_subcomponents,
)
from benchmark.domain.workbench.methods import FLAMES_METHODS
from benchmark.models import AttackMethod, Campaign, CampaignMember, CampaignTarget, Quota
from benchmark.services.endpoint_runs import check_model
from benchmark.services.workbench.batches import open_to_readers
from benchmark.services.workbench.duplicates import INDEX_JOB
from benchmark.services.workbench.meanings import check_encoder, enqueue_embedding

State = Campaign.State
MOVES: Mapping[str, frozenset[str]] = {
    State.DRAFT: frozenset({State.OPEN, State.CLOSED}),
    State.OPEN: frozenset({State.PAUSED, State.CLOSED}),
    State.PAUSED: frozenset({State.OPEN, State.CLOSED}),
    State.CLOSED: frozenset(),
}
MAX_METHOD_CHARACTERS = 4000


@transaction.atomic
def create_campaign(spec: CampaignSpec, *, actor: Person | None = None, send: bool = True) -> Campaign:
    """The campaign as a draft with its targets, quotas and people; a job indexes the texts of the dataset, and another
    embeds them where they are compared by meaning.

    The three methods of Flames are made in a study that has none.
    """
    dataset, guideline = Dataset.objects.get(pk=spec.dataset), Guideline.objects.get(pk=spec.guideline)
    refuse_borrowed(dataset)
    if not guideline.is_published:
        raise AssayError(N_("The guideline {guideline} is not published yet."), guideline=str(guideline))
    check_success(spec.success, guideline.document)
    if spec.warn_cosine is not None:
        check_encoder()
    study = Study.objects.get(pk=choose_study_id(dataset.study_id))
    methods = {method.name: method for method in ship_methods(study, actor)}
    collection, _made = Collection.objects.get_or_create(name=spec.name)
    try:
        with transaction.atomic():
            campaign = Campaign.objects.create(
                study=study,
                collection=collection,
                dataset=dataset,
                guideline=guideline,
                success={name: list(levels) for name, levels in spec.success.items()},
                languages=list(spec.languages),
                created_by=actor,
                **{
                    name: getattr(spec, name)
                    for name in (
                        *("name", "is_blind", "disclosure", "requests_per_person", "max_requests"),
                        *("warn_jaccard", "warn_edit", "block_jaccard", "block_edit", "warn_cosine"),
                    )
                },
            )
    except IntegrityError as error:
        raise Conflict(N_("There is already a campaign named {name}."), name=spec.name) from error
    CampaignTarget.objects.bulk_create(
        _build_target(campaign, place, target) for place, target in enumerate(spec.targets, 1)
    )
    Quota.objects.bulk_create(_build_quota(campaign, quota, methods) for quota in spec.quotas)
    people = Person.objects.in_bulk([*spec.authors, *spec.reviewers])
    for role, members in (
        (CampaignMember.Role.AUTHOR, spec.authors),
        (CampaignMember.Role.REVIEWER, spec.reviewers),
    ):
        _add_members(campaign, role, [people[pk] for pk in members])
    jobs.enqueue(kind=INDEX_JOB, payload={"dataset": dataset.pk}, title=dataset.name, actor=actor, send=send)
    enqueue_embedding(campaign, actor=actor, send=send)
    record(
        actor=actor,
        verb=BenchmarkVerb.CREATE_CAMPAIGN,
        target=f"campaign:{campaign.name}",
        dataset=dataset.name,
        guideline=str(guideline),
        targets=[target.model for target in spec.targets],
        wanted=sum(quota.wanted for quota in spec.quotas),
        blind=campaign.is_blind,
    )
    return campaign


def _build_target(campaign: Campaign, place: int, spec: TargetSpec) -> CampaignTarget:
    url = check_endpoint(spec.endpoint)
    model, _made = EvaluatedModel.objects.get_or_create(name=spec.model)
    return CampaignTarget(
        campaign=campaign,
        place=place,
        model=model,
        endpoint=url,
        served_model=check_model(spec.served_model or spec.model),
        settings=check_settings(spec.settings, key=find_key(url)),
        timeout=spec.timeout,
    )


def _build_quota(campaign: Campaign, spec: QuotaSpec, methods: Mapping[str, AttackMethod]) -> Quota:
    document = campaign.guideline.document
    if document.dimension_names and not document.knows_dimension(spec.dimension):
        raise AssayError(
            N_("{guideline} has no dimension {dimension}; use one of {known}."),
            guideline=document.name,
            dimension=spec.dimension or "-",
            known=", ".join(document.dimension_names),
        )
    known = list_subcomponents(document, spec.dimension) or ("",)
    if spec.subcomponent not in known:
        raise AssayError(
            N_("The dimension {dimension} has no subcomponent {name}; use one of {known}."),
            dimension=spec.dimension or "-",
            name=spec.subcomponent or "-",
            known=", ".join(known),
        )
    if spec.method not in methods:
        raise AssayError(
            N_("The study has no attack method {name}; use one of {known}, or add it first."),
            name=spec.method,
            known=", ".join(methods) or "-",
        )
    return Quota(
        campaign=campaign,
        dimension=spec.dimension,
        subcomponent=spec.subcomponent,
        method=methods[spec.method],
        wanted=spec.wanted,
        per_person=spec.per_person,
    )


@transaction.atomic
def set_state(*, campaign: Campaign, state: str, actor: Person | None = None) -> Campaign:
    locked = _lock_campaign(campaign)
    if locked.state == state:
        return locked
    if state not in MOVES[locked.state]:
        raise Conflict(
            N_("A campaign that is {state} cannot become {next}."),
            state=locked.get_state_display(),
            next=str(State(state).label) if state in State.values else state,
        )
    if state == State.OPEN and not _has_people(locked):
        raise Conflict(
            N_(
                "Name at least one author and one reviewer before the campaign opens; two where they may differ."
            )
        )
    locked.state = state
    locked.save(update_fields=["state"])
    record(actor=actor, verb=BenchmarkVerb.SET_CAMPAIGN_STATE, target=f"campaign:{locked.name}", state=state)
    return locked


def _has_people(campaign: Campaign) -> bool:
    roles = set(CampaignMember.objects.filter(campaign=campaign, active=True).values_list("role", flat=True))
    return roles == set(CampaignMember.Role.values)


@transaction.atomic
def add_members(
    *, campaign: Campaign, role: str, people: Sequence[Person], actor: Person | None = None
) -> int:
    """How many are new. Who was let go comes back with what they did."""
    locked = _lock_campaign(campaign)
    if locked.state == State.CLOSED:
        raise Conflict(N_("The campaign {name} is closed."), name=locked.name)
    new = _add_members(locked, role, people)
    record(
        actor=actor,
        verb=BenchmarkVerb.ADD_CAMPAIGN_MEMBERS,
        target=f"campaign:{locked.name}",
        role=role,
        people=[person.username for person in people],
    )
    return new


def _add_members(campaign: Campaign, role: str, people: Iterable[Person]) -> int:
    people = list(people)
    lock_people(person.pk for person in people)
    other = CampaignMember.objects.filter(campaign=campaign, person__in=people, active=True).exclude(
        role=role
    )
    for member in other.select_related("person"):
        raise Conflict(
            N_("{name} has the other role in this campaign; who writes in it reviews nothing in it."),
            name=str(member.person),
        )
    open_to_readers(campaign, people)
    new = 0
    for person in people:
        member, made = CampaignMember.objects.get_or_create(campaign=campaign, person=person, role=role)
        new += made
        if not member.active:
            member.active, new = True, new + 1
            member.save(update_fields=["active"])
    return new


@transaction.atomic
def remove_member(*, campaign: Campaign, role: str, person: Person, actor: Person | None = None) -> None:
    """They work in the campaign no more; what they did stays."""
    changed = CampaignMember.objects.filter(campaign=campaign, role=role, person=person, active=True).update(
        active=False
    )
    if not changed:
        raise NotFound(N_("{name} has no such role in this campaign."), name=str(person))
    record(
        actor=actor,
        verb=BenchmarkVerb.REMOVE_CAMPAIGN_MEMBER,
        target=f"campaign:{campaign.name}",
        role=role,
        person=person.username,
    )


@transaction.atomic
def join_campaign(*, campaign: Campaign, person: Person) -> None:
    """An author has read what they will write and read, and agrees. Doing it twice changes nothing."""
    members = CampaignMember.objects.filter(
        campaign=campaign, person=person, role=CampaignMember.Role.AUTHOR, active=True
    )
    if members.filter(joined_at=None).update(joined_at=timezone.now()):
        record(actor=person, verb=BenchmarkVerb.JOIN_CAMPAIGN, target=f"campaign:{campaign.name}")


@transaction.atomic
def set_quota(*, campaign: Campaign, quota: QuotaSpec, actor: Person | None = None) -> Quota:
    """Set how many are wanted of a cell, which may be new. What is taken already stays."""
    locked = _lock_campaign(campaign)
    methods = {method.name: method for method in AttackMethod.objects.filter(study=locked.study_id)}
    built = _build_quota(locked, quota, methods)
    stored, _made = Quota.objects.update_or_create(
        campaign=locked,
        dimension=built.dimension,
        subcomponent=built.subcomponent,
        method=built.method,
        defaults={"wanted": built.wanted, "per_person": built.per_person},
    )
    record(
        actor=actor,
        verb=BenchmarkVerb.SET_QUOTA,
        target=f"campaign:{locked.name}",
        **quota.model_dump(exclude_none=True),
    )
    return stored


@transaction.atomic
def ship_methods(study: Study, actor: Person | None = None) -> list[AttackMethod]:
    """The attack methods of the study; the three of Flames are made where it has none."""
    Study.objects.select_for_update().get(pk=study.pk)
    if not AttackMethod.objects.filter(study=study).exists():
        AttackMethod.objects.bulk_create(
            AttackMethod(
                study=study,
                name=method.name,
                label=dict(method.label),
                definition=dict(method.definition),
                examples=dict(method.examples),
                created_by=actor,
            )
            for method in FLAMES_METHODS
        )
    return list(AttackMethod.objects.filter(study=study, archived_at=None))


@transaction.atomic
def save_method(
    *,
    study: Study,
    name: str,
    label: Mapping[str, str],
    definition: Mapping[str, str],
    examples: Mapping[str, str],
    archived: bool = False,
    actor: Person | None = None,
) -> AttackMethod:
    """Add an attack method, or change the texts of one; its name stays. An archived one is offered no more."""
    check_printable_name(name)
    texts: dict[str, Any] = {
        field: {language: text.strip() for language, text in words.items() if text.strip()}
        for field, words in (("label", label), ("definition", definition), ("examples", examples))
    }
    if not texts["label"] or not texts["definition"]:
        raise AssayError(N_("An attack method has a label and a definition in at least one language."))
    if any(len(text) > MAX_METHOD_CHARACTERS for words in texts.values() for text in words.values()):
        raise AssayError(N_("A text of a method has at most {most} characters."), most=MAX_METHOD_CHARACTERS)
    ship_methods(study, actor)
    method, made = AttackMethod.objects.select_for_update().get_or_create(
        study=study, name=name, defaults={**texts, "created_by": actor}
    )
    if not made:
        for field, words in texts.items():
            setattr(method, field, words)
    if archived != (method.archived_at is not None):
        method.archived_at = timezone.now() if archived else None
    method.save()
    record(
        actor=actor,
        verb=BenchmarkVerb.SAVE_ATTACK_METHOD,
        target=f"attack_method:{name}",
        archived=archived,
        **texts,
    )
    return method


def _lock_campaign(campaign: Campaign) -> Campaign:
    return (
        Campaign.objects.select_for_update(of=("self",), no_key=True)
        .select_related("guideline", "dataset")
        .get(pk=campaign.pk)
    )
