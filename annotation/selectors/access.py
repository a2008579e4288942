"""Who may act in a role, who may see which results, and who has opened them. No other module decides it.

A role is asked for beside the membership in a batch. The annotation loop asks for it in the statements that it sends
anyway and after its locks (``HAS_ROLE`` of models/sql/people.py), so that a role that was taken away counts no more.

Who annotates or adjudicates in a batch cannot open that batch's results until it closes, whatever else they are. Who
opened them cannot become one of its annotators or adjudicators (docs/decisions/results-opened.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from annotation.core.errors import N_, Forbidden
from annotation.core.study_scope import build_study_filter, get_study_scope
from annotation.domain.permissions import Act
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    MANAGER,
    Assignment,
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    GoldQuestion,
    Person,
    Response,
    ResultOpening,
    Stratum,
    Study,
    StudyMembership,
)
from annotation.models.studies import find_shared

WITHOUT_ROLE = {
    ANNOTATOR: N_("You are not among the annotators, or no longer. Ask a manager."),
    ADJUDICATOR: N_("You are not among the adjudicators, or no longer. Ask a manager."),
}


def roles_of(person: Person) -> frozenset[str]:
    """The person's roles in the studies that the work under way is about; one query a request for all studies."""
    studies = get_study_scope()
    return frozenset(
        role for study, _name, role in _read_roles(person) if studies is None or study in studies
    )


def _read_roles(person: Person) -> list[tuple[int, str, str]]:
    """Study, its name and the role, as they were when this request first asked."""
    roles: list[tuple[int, str, str]] | None = getattr(person, "_roles", None)
    if roles is None:
        memberships = person.study_memberships.order_by("study__name")
        rows = list(memberships.values_list("study", "study__name", "role", "study__archived_at"))
        roles = [(study, name, role) for study, name, role, _at in rows]
        person._roles = roles  # type: ignore[attr-defined]
        if not person.is_superuser:
            person._archived = frozenset(row[0] for row in rows if row[-1])  # type: ignore[attr-defined]
    return roles


def list_visible_studies(person: Person) -> dict[int, str]:
    """The names of the studies in which the person has a role, by their ids; for an admin all of them."""
    if person.is_superuser:
        studies = list(Study.objects.order_by("name").values_list("pk", "name", "archived_at"))
        person._archived = frozenset(pk for pk, _name, at in studies if at)  # type: ignore[attr-defined]
        return {pk: name for pk, name, _at in studies}
    return {study: name for study, name, _role in _read_roles(person)}


def list_archived_studies(person: Person) -> frozenset[int]:
    """Those of ``list_visible_studies`` that are archived, as they were when this request first asked for them."""
    if not hasattr(person, "_archived"):
        list_visible_studies(person)
    archived: frozenset[int] = person._archived  # type: ignore[attr-defined]
    return archived


def is_of_others(person: Person, reader: Person) -> bool:
    """Whether the person has a role in a study that the reader does not manage."""
    if not has_several_studies():
        return False
    managed = StudyMembership.objects.filter(person=reader, role=MANAGER).values("study")
    return StudyMembership.objects.filter(person=person).exclude(study__in=managed).exists()


def may(person: Person, act: Act) -> bool:
    """Whether a role of the person permits the act in the studies in question, as the roles were when this request
    first asked.
    """
    if person.is_superuser:
        return True
    return has_role_for(person, act) and not (act.is_of_site and has_several_studies())


def has_role_for(person: Person, act: Act) -> bool:
    """The same, of reading what all studies share: where there are several, managers read it and admins change it."""
    return person.is_superuser or not roles_of(person).isdisjoint(act.roles)


def has_several_studies() -> bool:
    return len(Study.objects.values_list("pk")[:2]) > 1


def list_studies_to(person: Person, act: Act) -> frozenset[int] | None:
    """The studies in question in which a role of the person permits the act; None where that is in all of them."""
    studies = get_study_scope()
    if person.is_superuser:
        return studies
    permitted = frozenset(study for study, _name, role in _read_roles(person) if role in act.roles)
    return permitted if studies is None else permitted & studies


def build_role_filter(role: str | OuterRef) -> Q:
    """The same of a queryset whose rows have a ``person`` and a ``batch``, whose study it is; the ``role`` may be a
    column of theirs.
    """
    roles = StudyMembership.objects.filter(
        person=OuterRef("person"), study=OuterRef("batch__study"), role=role
    )
    return Q(person__is_active=True) & (Q(person__is_superuser=True) | Q(Exists(roles)))


def refuse_act(act: Act) -> NoReturn:
    """The refusal of whoever has no role for the act, which says who has."""
    if not act.roles:
        raise Forbidden(N_("Only an admin may {act}."), act=gettext(act.name))
    roles = ", ".join(str(StudyMembership.Role(role).label) for role in act.roles)
    raise Forbidden(
        N_(
            "You have no role here that may {act}. It takes one of these in the study: {roles}."
            " A manager of the study gives it."
        ),
        act=gettext(act.name),
        roles=roles,
    )


def refuse_role(role: str) -> NoReturn:
    raise Forbidden(WITHOUT_ROLE[role])


def sealed_batches(person: Person) -> QuerySet[Batch]:
    """The batches whose results this person may not open now. Whoever left a batch stays blind in it, and whoever
    closed one in which they work or worked until another manager has confirmed that.
    """
    closed_alone = Q(closed_by=person, closing_confirmed_at=None)
    sealed = ~Q(state=Batch.State.CLOSED) | closed_alone
    return _select_judging_batches().filter(sealed, memberships__person=person).distinct()


def _select_judging_batches() -> QuerySet[Batch]:
    """Those of the studies in question, and those of any study in which responses of their datasets are judged: of a
    dataset that is shared, what is sealed in one study is sealed in the others.
    """
    shared = frozenset[int]() if get_study_scope() is None else find_shared(Dataset)
    if not shared:
        return Batch.objects.all()
    judging = Stratum.objects.filter(dataset__in=shared).order_by().values("batch")
    return Batch._base_manager.filter(Q(**build_study_filter("study")) | Q(pk__in=judging))


def is_awaiting_confirmation(batch: Batch) -> bool:
    """Whether the results of the batch are sealed for who closed it, because they work or worked in it."""
    if batch.closed_by_id is None or batch.closing_confirmed_at is not None:
        return False
    return unconfirmed_closings().filter(pk=batch.pk).exists()


def unconfirmed_closings() -> QuerySet[Batch]:
    """The batches that were closed by somebody who works or worked in them, until another manager confirms it."""
    return Batch.objects.filter(closing_confirmed_at=None, memberships__person=F("closed_by")).distinct()


def refuse_sealed(person: Person, batches: Iterable[Batch] | QuerySet[Batch]) -> None:
    """Raise Forbidden if the results of any of ``batches`` are sealed for this person. Else they open them now."""
    batch_ids = {batch.pk for batch in batches}
    check_sealed(person, batch_ids)
    record_openings(person, batch_ids)


def check_sealed(person: Person, batches: Iterable[int]) -> None:
    """As ``refuse_sealed``, of batches by their ids, for who only asks and opens nothing."""
    sealed = sealed_batches(person).filter(pk__in=list(batches)).first()
    if sealed is None:
        return
    if sealed.state == Batch.State.CLOSED:
        raise Forbidden(
            N_(
                "You work in the batch {name} and closed it: its results open for you when another manager confirms"
                " the closing."
            ),
            name=sealed.name,
        )
    raise Forbidden(
        N_("You work in the batch {name}: its results open for you when it closes."), name=sealed.name
    )


def record_openings(person: Person, batches: Iterable[int]) -> None:
    """Note that the person opens the results of these batches: the first time, and where there are any to read."""
    batch_ids = set(batches)
    recorded = ResultOpening.objects.filter(person=person, batch__in=batch_ids).values_list(
        "batch", flat=True
    )
    unrecorded = batch_ids - set(recorded)
    if unrecorded:
        _record_first_openings(person, _list_with_results(unrecorded))


def record_reader(person: Person, batch: Batch, *, is_new: bool = False) -> None:
    """As ``record_openings``, of who brings labels into the batch: they are in their file, whatever is here by now.

    Nobody else sees a batch that ``is_new``, so that nothing is locked for as long as it takes to fill it.
    """
    if has_opened(batch, person):
        return
    if is_new:
        _write_openings(person, {batch.pk})
    else:
        _record_first_openings(person, [batch.pk])


def _list_with_results(batches: Iterable[int]) -> list[int]:
    """Those in which somebody submitted something, or whose gold questions can be read."""
    submitted = Assignment.objects.filter(batch=OuterRef("pk"), submitted_at__isnull=False)
    known = GoldQuestion.objects.filter(batch=OuterRef("pk"))
    readable = Batch.objects.filter(Exists(submitted) | Exists(known), pk__in=list(batches))
    return list(readable.values_list("pk", flat=True))


@transaction.atomic
def _record_first_openings(person: Person, batches: list[int]) -> None:
    """The person's row is locked, as whoever adds them to a batch does: of the two one comes first."""
    if not batches:
        return
    lock_people([person.pk])
    check_sealed(person, batches)
    earlier = ResultOpening.objects.filter(person=person, batch__in=batches)
    _write_openings(person, set(batches).difference(earlier.values_list("batch", flat=True)))


def _write_openings(person: Person, batches: Iterable[int]) -> None:
    """Each is in the audit trail, too, with where it came from."""
    now = timezone.now()
    ResultOpening.objects.bulk_create(
        [ResultOpening(person_id=person.pk, batch_id=batch, first_at=now) for batch in sorted(batches)],
        ignore_conflicts=True,
    )
    opened = Batch._base_manager.filter(pk__in=batches).order_by("pk")
    for name, study in opened.values_list("name", "study"):
        verb = AnnotationVerb.OPEN_RESULTS
        AuditEvent.append(actor=person, verb=verb, target=f"batch:{name}", study_id=study, data={})


def lock_people(people: Iterable[int]) -> None:
    """Until the transaction ends none of these people opens results for the first time, or becomes a member."""
    rows = Person.objects.select_for_update(no_key=True).filter(pk__in=list(people)).order_by("pk")
    list(rows.values_list("pk", flat=True))


def has_opened(batch: Batch, person: Person) -> bool:
    return ResultOpening.objects.filter(batch=batch, person=person).exists()


def list_openings(batch: Batch) -> QuerySet[ResultOpening]:
    """Who opened the batch's results and never judged in it, with the person, by name."""
    members = batch.memberships.values("person")
    openings = ResultOpening.objects.filter(batch=batch).exclude(person__in=members)
    return openings.select_related("person").order_by("person__username")


def sealed_datasets(person: Person) -> QuerySet[Dataset]:
    """Datasets whose responses (and so the models' names) this person is judging blind now."""
    judged = Stratum.objects.filter(batch__in=sealed_batches(person)).order_by().values("dataset")
    return Dataset.objects.filter(pk__in=judged)


def blind_batches(person: Person) -> QuerySet[Batch]:
    """The batches of which ``check_sealed_gold`` lets this person read no results."""
    judged = Stratum.objects.filter(dataset__in=sealed_datasets(person)).values("batch")
    return _select_judging_batches().filter(Q(pk__in=sealed_batches(person).values("pk")) | Q(pk__in=judged))


def unsealed_models(person: Person) -> QuerySet[EvaluatedModel]:
    """The models whose names this person may see: none with a response in a dataset that they judge blind."""
    sealed = list(sealed_datasets(person).values_list("pk", flat=True))
    sealed_responses = Response.objects.filter(prompt__dataset__in=sealed, model=OuterRef("pk"))
    models = select_models()
    return models.exclude(Exists(sealed_responses)) if sealed else models


def select_models() -> QuerySet[EvaluatedModel]:
    """The models that have a response in a dataset of the studies that the work under way is about, or in one that is
    shared with them. On a site with one study these are all. What stands for the models of slates is no model.
    """
    models = EvaluatedModel.objects.filter(parts=None)
    studies = get_study_scope()
    if studies is None or not Study.objects.exclude(pk__in=studies).exists():
        return models
    answered = Response.objects.filter(model=OuterRef("pk"), prompt__dataset__in=Dataset.objects.all())
    return models.filter(Exists(answered))


def refuse_sealed_gold(person: Person, batches: Iterable[Batch]) -> None:
    """Forbidden where a batch is sealed for the person, or they judge responses of the same dataset blind. Else they
    open the results of all of these batches.
    """
    batch_ids = [batch.pk for batch in batches]
    check_sealed_gold(person, batch_ids)
    record_openings(person, batch_ids)


def check_sealed_gold(person: Person, batch_ids: Collection[int]) -> None:
    """As ``refuse_sealed_gold``, of batches by their ids, for who only asks and opens nothing."""
    check_sealed(person, batch_ids)
    sealed = sealed_datasets(person).filter(strata__batch__in=batch_ids).first()
    if sealed is not None:
        raise _build_blind_refusal(sealed)


def refuse_blind_judge(person: Person, dataset: Dataset) -> None:
    """Forbidden where the person judges responses of the dataset blind now: its models are named there."""
    if sealed_datasets(person).filter(pk=dataset.pk).exists():
        raise _build_blind_refusal(dataset)


def _build_blind_refusal(dataset: Dataset) -> Forbidden:
    return Forbidden(
        N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
        name=dataset.name,
    )
