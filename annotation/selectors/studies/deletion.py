"""What the deletion of a study takes away, and what of it stays because other studies use it
(docs/decisions/deleting-a-study.md).

Each table with rows of studies is declared once: how a row is known to be of the study that goes. A row goes where one
of its owners goes: the study itself, or a dataset, batch, release, scorer or guideline of it. These stay where they are
shared with another study, and where one that is shared rests on them, with all that is below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, reduce
from operator import or_
from typing import Any

from django.apps import apps
from django.db.models import Exists, ForeignKey, Model, OuterRef, Q, QuerySet

from annotation.core.errors import N_, Conflict, NotFound
from annotation.core.study_scope import limit_to_studies
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    GoldQuestion,
    GoldRelease,
    Guideline,
    Import,
    ImportedLabel,
    Job,
    Shareable,
    Study,
    StudyDeletion,
)
from annotation.selectors.studies.sharing import format_counts

STUDY, DATASET, BATCH, RELEASE, SCORER = "study", "dataset", "batch", "release", "scorer"
GUIDELINE, IMPORT, JOB = "guideline", "import", "job"
SELF = "pk"
"""In the place of a path: the row itself is what goes or stays."""
CONTAINERS = {
    DATASET: "annotation.Dataset",
    BATCH: "annotation.Batch",
    RELEASE: "annotation.GoldRelease",
    SCORER: "scoring.Scorer",
    GUIDELINE: "annotation.Guideline",
    IMPORT: "annotation.Import",
    JOB: "annotation.Job",
}
SHARED = (DATASET, RELEASE, SCORER)
TASK, ASSIGNMENT = "task__batch", "assignment__batch"
OWNERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    # Access, and what is sent.
    "annotation.StudyMembership": ((STUDY, STUDY),),
    "annotation.Invitation": ((STUDY, STUDY), (BATCH, BATCH)),
    "annotation.OutgoingMail": ((STUDY, STUDY), ("invitation__study", STUDY), ("job__study", STUDY)),
    "annotation.WebhookEndpoint": ((STUDY, STUDY),),
    "annotation.WebhookDelivery": ((STUDY, STUDY), ("endpoint__study", STUDY), (BATCH, BATCH)),
    "annotation.WebhookAttempt": (
        ("delivery__study", STUDY),
        ("delivery__endpoint__study", STUDY),
        ("delivery__batch", BATCH),
    ),
    "annotation.Dataset.shared_with": ((STUDY, STUDY), (DATASET, DATASET)),
    "annotation.GoldRelease.shared_with": ((STUDY, STUDY), ("goldrelease", RELEASE)),
    "scoring.Scorer.shared_with": ((STUDY, STUDY), (SCORER, SCORER)),
    # Boards, judges and campaigns are never shared.
    "benchmark.BenchmarkRun": ((STUDY, STUDY),),
    "benchmark.BenchmarkRun.evaluated_models": (("benchmarkrun__study", STUDY),),
    "benchmark.BoardPart": (("run__study", STUDY),),
    "benchmark.RunItem": (("run__study", STUDY),),
    "benchmark.ShareLink": (("run__study", STUDY),),
    "benchmark.LabelPlan": (("run__study", STUDY), (BATCH, BATCH)),
    "benchmark.PublishedTable": ((STUDY, STUDY),),
    "benchmark.ChoiceReport": ((STUDY, STUDY),),
    "benchmark.ChoiceReport.evaluated_models": (("choicereport__study", STUDY),),
    "benchmark.JudgeTemplate": ((STUDY, STUDY),),
    "benchmark.Judge": ((STUDY, STUDY),),
    "benchmark.JudgeRun": (("judge__study", STUDY),),
    "benchmark.JudgeRun.evaluated_models": (("judgerun__judge__study", STUDY),),
    "benchmark.JudgeLabel": (("judge__study", STUDY),),
    "benchmark.JudgeComparison": ((RELEASE, RELEASE),),
    "benchmark.Retraining": ((SCORER, SCORER), (RELEASE, RELEASE)),
    "benchmark.AttackMethod": ((STUDY, STUDY),),
    "benchmark.Campaign": ((STUDY, STUDY),),
    "benchmark.CampaignTarget": (("campaign__study", STUDY),),
    "benchmark.Quota": (("campaign__study", STUDY),),
    "benchmark.CampaignMember": (("campaign__study", STUDY),),
    "benchmark.Proposal": (("campaign__study", STUDY),),
    "benchmark.ProposalRevision": (("proposal__campaign__study", STUDY),),
    "benchmark.Attempt": (("revision__proposal__campaign__study", STUDY),),
    "benchmark.AttemptAnswer": (("attempt__revision__proposal__campaign__study", STUDY),),
    "benchmark.Review": (("revision__proposal__campaign__study", STUDY),),
    # Scorers.
    "scoring.Scorer": ((SELF, SCORER),),
    "scoring.Prediction": ((SCORER, SCORER), ("response__prompt__dataset", DATASET)),
    "scoring.PredictionRequest": (("job__study", STUDY), (SCORER, SCORER)),
    "scoring.GateAttempt": ((STUDY, STUDY),),
    "scoring.Promotion": ((STUDY, STUDY),),
    "scoring.RegressionCase": ((STUDY, STUDY),),
    # Gold.
    "annotation.GoldRelease": ((SELF, RELEASE),),
    "annotation.GoldRelease.batches": (("goldrelease", RELEASE),),
    "annotation.ReleasedLabel": ((RELEASE, RELEASE),),
    "annotation.Export": ((RELEASE, RELEASE),),
    "annotation.GoldLabel": ((TASK, BATCH),),
    "annotation.LabelPosterior": ((TASK, BATCH),),
    # Batches.
    "annotation.Batch": ((SELF, BATCH),),
    "annotation.BatchDraw": ((BATCH, BATCH),),
    "annotation.BatchStats": ((BATCH, BATCH),),
    "annotation.Alarm": ((BATCH, BATCH),),
    "annotation.ResultOpening": ((BATCH, BATCH),),
    "annotation.Membership": ((BATCH, BATCH),),
    "annotation.Stratum": ((BATCH, BATCH),),
    "annotation.MemberCounts": (("stratum__batch", BATCH),),
    "annotation.Panel": ((BATCH, BATCH),),
    "annotation.Panel.members": (("panel__batch", BATCH),),
    "annotation.Qualification": ((BATCH, BATCH),),
    "annotation.SubmissionBlock": ((BATCH, BATCH),),
    "annotation.Task": ((BATCH, BATCH),),
    "annotation.Assignment": ((BATCH, BATCH),),
    "annotation.GoldQuestion": ((BATCH, BATCH),),
    "annotation.GoldQuestionTask": ((TASK, BATCH),),
    "annotation.Annotation": ((ASSIGNMENT, BATCH),),
    "annotation.Draft": ((ASSIGNMENT, BATCH),),
    "annotation.CorrectionRequest": ((ASSIGNMENT, BATCH),),
    "annotation.ItemMessage": ((ASSIGNMENT, BATCH),),
    "annotation.Verdict": ((ASSIGNMENT, BATCH),),
    "annotation.ImportedLabel": ((ASSIGNMENT, BATCH),),
    "annotation.Adjudication": ((TASK, BATCH),),
    # Data.
    "annotation.Dataset": ((SELF, DATASET),),
    "annotation.Prompt": ((DATASET, DATASET),),
    "annotation.Response": (("prompt__dataset", DATASET),),
    "annotation.DialogueFault": (("response__prompt__dataset", DATASET),),
    "annotation.Slate": (("response__prompt__dataset", DATASET),),
    "annotation.SlateEntry": (("slate__response__prompt__dataset", DATASET),),
    "benchmark.QuestionVariant": (("prompt__dataset", DATASET),),
    "benchmark.ParsedAnswer": (("response__prompt__dataset", DATASET),),
    "benchmark.CollectionRun": ((DATASET, DATASET),),
    "benchmark.PendingRequest": (("run__dataset", DATASET),),
    "benchmark.FailedRequest": (("run__dataset", DATASET),),
    "benchmark.CollectedResponse": (("run__dataset", DATASET),),
    "benchmark.DialogueRun": ((DATASET, DATASET),),
    "benchmark.DialogueTurn": (("run__dataset", DATASET),),
    "benchmark.PendingTurn": (("run__dataset", DATASET),),
    "benchmark.FailedTurn": (("run__dataset", DATASET),),
    "benchmark.TextBand": ((DATASET, DATASET), ("revision__proposal__campaign__study", STUDY)),
    "benchmark.TextEmbedding": ((DATASET, DATASET), ("revision__proposal__campaign__study", STUDY)),
    "benchmark.TextIndex": ((DATASET, DATASET),),
    # Guidelines, files that were put in, and work.
    "annotation.Guideline": ((SELF, GUIDELINE),),
    "annotation.IntroductionReading": ((GUIDELINE, GUIDELINE),),
    "annotation.GuidelineNote": ((GUIDELINE, GUIDELINE), (TASK, BATCH), (STUDY, STUDY)),
    "annotation.Import": ((SELF, IMPORT),),
    "annotation.Job": ((SELF, JOB),),
}
"""By table, or table and list of rows: the path to an owner and what that is. Dots after a model name a relation."""

STAYING = frozenset(
    {
        "annotation.Study",  # the audit trail names it
        "annotation.StudyDeletion",
        "annotation.AuditEvent",
        "annotation.AuditSeal",
        "annotation.AuditRewrite",
    }
)
"""What leads to a study and stays."""
ENDING = (
    "benchmark.ShareLink",
    "annotation.WebhookEndpoint",
    "annotation.WebhookDelivery",
    "annotation.WebhookAttempt",
    "annotation.OutgoingMail",
    "annotation.Invitation",
    "annotation.StudyMembership",
)
"""What lets somebody in or tells somebody: it ends the moment that the deletion begins."""


@dataclass(frozen=True)
class KeptRows:
    """By kind of owner, the ids of those that stay."""

    ids: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Iterable[int]]) -> KeptRows:
        return cls({kind: frozenset(ids) for kind, ids in stored.items()})

    def to_json(self) -> dict[str, list[int]]:
        return {kind: sorted(ids) for kind, ids in self.ids.items() if ids}

    def get(self, kind: str) -> frozenset[int]:
        return self.ids.get(kind, frozenset())


@dataclass(frozen=True)
class KeptPart:
    """What stays and why: it is shared with ``studies``, or one that is shared rests on it, where there are none."""

    kind: str
    name: str
    studies: tuple[str, ...]


@dataclass(frozen=True)
class TableCount:
    """``label`` in English is the name of the rows, to be translated by the model's own."""

    table: str
    number: int

    @property
    def label(self) -> str:
        return describe_table(self.table)


@dataclass(frozen=True)
class DeletionPreview:
    goes: tuple[TableCount, ...]
    stays: tuple[KeptPart, ...]
    events: int
    """Of the audit trail, which stay."""
    queued: int
    """Jobs that wait, and are cancelled first."""
    borrowed: tuple[str, ...]
    """What other studies share with this one: the sharing ends."""

    def to_json(self) -> dict[str, Any]:
        return {
            "goes": {part.table: part.number for part in self.goes if part.number},
            "stays": [asdict(part) for part in self.stays],
            "events": self.events,
            "queued": self.queued,
            "borrowed": list(self.borrowed),
        }


class DeletedRows:
    """The rows of a study that go. What stays is decided once, before the first of them goes."""

    def __init__(self, study_id: int, kept_rows: KeptRows) -> None:
        self.study_id = study_id
        self.kept_rows = kept_rows
        self._ids: dict[str, frozenset[int]] = {}

    def select(self, table: str) -> QuerySet[Model]:
        """Unordered, and of no scope of studies."""
        return get_table(table)._base_manager.filter(self.build_condition(table))

    def build_condition(self, table: str, prefix: str = "") -> Q:
        return reduce(or_, (self._build_owner(f"{prefix}{path}", kind) for path, kind in OWNERS[table]))

    def _build_owner(self, path: str, kind: str) -> Q:
        if kind == STUDY:
            return Q(**{path: self.study_id})
        if kind in (IMPORT, JOB):  # there may be many
            own = path.removesuffix(SELF)
            return Q(**{f"{own}study": self.study_id}) & ~Q(**{f"{path}__in": self.kept_rows.get(kind)})
        return Q(**{f"{path}__in": self.list_owners(kind)})

    def list_owners(self, kind: str) -> frozenset[int]:
        """The ids of the datasets, batches and so on that go."""
        if kind not in self._ids:
            rows = get_table(CONTAINERS[kind])._base_manager.filter(study=self.study_id)
            self._ids[kind] = frozenset(rows.values_list("pk", flat=True)) - self.kept_rows.get(kind)
        return self._ids[kind]


def get_table(table: str) -> type[Model]:
    """``annotation.Panel.members`` is the table behind that list."""
    app, model, *relation = table.split(".")
    model_class: type[Model] = apps.get_model(app, model)
    return getattr(model_class, relation[0]).through if relation else model_class


def describe_table(table: str) -> str:
    """What its rows are called, in the reader's language."""
    app, model, *relation = table.split(".")
    model_class = apps.get_model(app, model)
    if not relation:
        return str(model_class._meta.verbose_name_plural)
    names = (
        str(model_class._meta.verbose_name_plural),
        str(model_class._meta.get_field(relation[0]).verbose_name),
    )
    return " · ".join(names)


@cache
def list_tables() -> tuple[str, ...]:
    """Those of ``OWNERS``, each before those that it points to, so that they are emptied in this order."""
    tables = {get_table(table): table for table in OWNERS}
    pending = dict.fromkeys(tables)
    order: list[str] = []
    while pending:
        pointed_to = {target for model in pending for _key, target in list_keys(model) if target is not model}
        free = [model for model in pending if model not in pointed_to]
        assert free, "the tables point to one another in a circle"
        for model in free:
            order.append(tables[model])
            del pending[model]
    return tuple(order)


def list_keys(model: type[Model]) -> Iterator[tuple[ForeignKey[Any, Any], type[Model]]]:
    """Its foreign keys that the database holds it to, with the models that they point to."""
    for key in model._meta.get_fields():
        if isinstance(key, ForeignKey) and key.concrete and getattr(key, "db_constraint", True):
            yield key, key.remote_field.model


def find_kept(study: Study) -> KeptRows:
    """What another study has a share in, and all that it rests on."""
    scorers, releases, datasets = (_list_shared(kind, study) for kind in (SCORER, RELEASE, DATASET))
    scorer_model = get_table(CONTAINERS[SCORER])
    scorers = _follow(scorer_model, scorers, "base")
    of_scorers = scorer_model._base_manager.filter(pk__in=scorers).values_list("release", flat=True)
    releases = _follow(GoldRelease, releases | frozenset(of_scorers), "supersedes")
    batches = frozenset(
        Batch._base_manager.filter(releases__in=releases, study=study).values_list("pk", flat=True)
    )
    datasets |= frozenset(
        Dataset._base_manager.filter(strata__batch__in=batches, study=study).values_list("pk", flat=True)
    )
    questions = GoldQuestion._base_manager.filter(batch__in=batches)
    datasets |= frozenset(
        Dataset._base_manager.filter(
            pk__in=questions.values("response__prompt__dataset"), study=study
        ).values_list("pk", flat=True)
    )
    sources = ImportedLabel._base_manager.filter(assignment__batch__in=batches).values("source")
    imports = Import._base_manager.filter(pk__in=sources, study=study).values_list("pk", flat=True)
    kept_rows: dict[str, frozenset[int]] = {
        SCORER: scorers,
        RELEASE: releases,
        BATCH: batches,
        DATASET: datasets,
        IMPORT: frozenset(imports),
    }
    kept_rows[GUIDELINE] = _find_pointed_at(DeletedRows(study.pk, KeptRows(kept_rows)), CONTAINERS[GUIDELINE])
    kept_rows[JOB] = _follow(
        Job, _find_pointed_at(DeletedRows(study.pk, KeptRows(kept_rows)), CONTAINERS[JOB]), "depends_on"
    )
    return KeptRows(kept_rows)


def _list_shared(kind: str, study: Study) -> frozenset[int]:
    model = get_table(CONTAINERS[kind])
    assert issubclass(model, Shareable)
    shared = model._base_manager.filter(study=study, shared_with__deleted_at=None, shared_with__isnull=False)
    return frozenset(shared.exclude(shared_with=study.pk).values_list("pk", flat=True))


def _follow(model: type[Model], ids: frozenset[int], field_name: str) -> frozenset[int]:
    """These and those that they point to, however far."""
    while True:
        further = model._base_manager.filter(pk__in=ids).exclude(**{field_name: None})
        reached = ids | frozenset(further.values_list(field_name, flat=True))
        if reached == ids:
            return ids
        ids = reached


def _find_pointed_at(rows: DeletedRows, table: str) -> frozenset[int]:
    """Of the rows of the table that would go, those to which one points that stays."""
    target, reached = get_table(table), set[int]()
    for model, key in _list_pointing(target):
        reached.update(_select_survivors(rows, model, key, table).values_list(key.attname, flat=True))
    return frozenset(reached)


def _list_pointing(target: type[Model]) -> Iterator[tuple[type[Model], ForeignKey[Any, Any]]]:
    for model in apps.get_models(include_auto_created=True):
        for key, pointed_to in list_keys(model):
            if pointed_to is target:
                yield model, key


def _select_survivors(
    rows: DeletedRows, model: type[Model], key: ForeignKey[Any, Any], table: str
) -> QuerySet[Model]:
    """Rows of the model that stay, and whose key points to a row of the table that goes."""
    pointing = model._base_manager.filter(
        Exists(rows.select(table).filter(pk=OuterRef(key.attname))), **{f"{key.name}__isnull": False}
    )
    own = _find_table(model)
    if own is None:
        return pointing
    return pointing.exclude(Exists(rows.select(own).filter(pk=OuterRef("pk"))))


@cache
def _index_tables() -> dict[type[Model], str]:
    return {get_table(table): table for table in OWNERS}


def _find_table(model: type[Model]) -> str | None:
    return _index_tables().get(model)


def check_independence(rows: DeletedRows) -> None:
    """Raise Conflict where a row that stays points to one that goes: another study rests on something that is not
    shared with it.
    """
    for table in list_tables():
        target = get_table(table)
        for model, key in _list_pointing(target):
            if _goes_along(model, key, table) or model is StudyDeletion:
                continue
            number = _select_survivors(rows, model, key, table).count()
            if number:
                raise Conflict(
                    N_("The study cannot be deleted: {what} elsewhere rest on {target} of it."),
                    what=format_counts({model: number}),
                    target=str(target._meta.verbose_name_plural),
                )


def _goes_along(model: type[Model], key: ForeignKey[Any, Any], table: str) -> bool:
    """Whether a row of the model goes, by its declared owners, whenever the one goes to which its key points."""
    own = _find_table(model)
    if own is None:
        return False
    through = {(key.name if path == SELF else f"{key.name}__{path}", kind) for path, kind in OWNERS[table]}
    return through <= set(OWNERS[own])


def check_deletable(study: Study) -> None:
    """Raise Conflict where the study is not archived, or a worker is at one of its jobs."""
    if study.archived_at is None:
        raise Conflict(N_("Archive the study {name} before you delete it."), name=study.name)
    running = Job._base_manager.filter(study=study, state=Job.State.RUNNING).order_by("pk").first()
    if running is not None:
        raise Conflict(
            N_("Job {job} of this study is running ({title}): wait for it, or cancel it first."),
            job=running.pk,
            title=running.title or running.kind,
        )


def check_archivable(study: Study) -> None:
    """Raise Conflict where work goes on in the study: a batch or campaign that is not closed, or a job."""
    going_on = (Batch.State.OPEN, Batch.State.PAUSED)  # campaigns call their states by the same words
    for model in (Batch, apps.get_model("benchmark", "Campaign")):
        names = model._base_manager.filter(study=study, state__in=going_on).values_list("name", flat=True)
        if names:
            raise Conflict(
                N_("Close these of the study {name} before you archive it: {what} {names}."),
                name=study.name,
                what=str(model._meta.verbose_name_plural),
                names=", ".join(names),
            )
    at_work = (Job.State.QUEUED, Job.State.RUNNING)
    job = Job._base_manager.filter(study=study, state__in=at_work).order_by("pk").first()
    if job is not None:
        raise Conflict(
            N_("Job {job} of this study is not over ({title}): wait for it, or cancel it first."),
            job=job.pk,
            title=job.title or job.kind,
        )


def get_existing_study(name: str) -> Study:
    """Of all studies, archived ones included, whatever the work under way is about."""
    study = Study.objects.filter(name=name).first()
    if study is None:
        raise NotFound(N_("There is no study named {name}."), name=name)
    return study


def preview_deletion(study: Study) -> DeletionPreview:
    """Raises Conflict where another study rests on what is not shared with it."""
    kept_rows = find_kept(study)
    rows = DeletedRows(study.pk, kept_rows)
    check_independence(rows)
    return DeletionPreview(
        goes=tuple(TableCount(table, rows.select(table).count()) for table in OWNERS),
        stays=list_kept_parts(kept_rows),
        events=AuditEvent.objects.filter(study=study).count(),
        queued=Job._base_manager.filter(study=study, state=Job.State.QUEUED).count(),
        borrowed=tuple(_list_borrowed(study)),
    )


def list_kept_parts(kept_rows: KeptRows) -> tuple[KeptPart, ...]:
    parts = []
    for kind in (SCORER, RELEASE, BATCH, DATASET, GUIDELINE):
        model = get_table(CONTAINERS[kind])
        for row in model._base_manager.filter(pk__in=kept_rows.get(kind)).order_by("pk"):
            studies: tuple[str, ...] = ()
            if isinstance(row, Shareable):
                studies = tuple(row.shared_with.order_by("name").values_list("name", flat=True))
            parts.append(KeptPart(kind, str(row), studies))
    return tuple(parts)


def _list_borrowed(study: Study) -> Iterator[str]:
    with limit_to_studies(None):
        for kind in SHARED:
            model = get_table(CONTAINERS[kind])
            assert issubclass(model, Shareable)
            for row in model._base_manager.filter(shared_with=study.pk).order_by("pk"):
                yield str(row)


def list_candidates(rows: DeletedRows) -> dict[str, list[int]]:
    """The models and collections that the study has answers of: those that nobody else uses go with it."""
    responses = rows.select("annotation.Response")
    runs = [rows.select(table) for table in ("benchmark.CollectionRun", "benchmark.DialogueRun")]
    strata, targets = rows.select("annotation.Stratum"), rows.select("benchmark.CampaignTarget")
    campaigns = rows.select("benchmark.Campaign")
    models = {pk for part in (responses, *runs, strata, targets) for pk in _list_distinct(part, "model")}
    models |= set(
        EvaluatedModel.parts.through._base_manager.filter(from_evaluatedmodel__in=models).values_list(
            "to_evaluatedmodel", flat=True
        )
    )
    collections = {pk for part in (responses, *runs, campaigns) for pk in _list_distinct(part, "collection")}
    return {
        "annotation.EvaluatedModel": sorted(models),
        "annotation.Collection": sorted(collections),
    }


def _list_distinct(rows: QuerySet[Model], field_name: str) -> Iterable[int]:
    return rows.order_by().values_list(field_name, flat=True).distinct()


def select_unused(table: str, candidates: Iterable[int]) -> QuerySet[Model]:
    """Of the candidates, those to which nothing points, their own parts aside."""
    model = get_table(table)
    unused = model._base_manager.filter(pk__in=list(candidates))
    for pointing, key in _list_pointing(model):
        if key.name == "from_evaluatedmodel":
            continue
        unused = unused.exclude(Exists(pointing._base_manager.filter(**{key.name: OuterRef("pk")})))
    return unused


def describe_releases(rows: DeletedRows) -> list[dict[str, Any]]:
    """The gold releases that go, with their hashes."""
    releases = GoldRelease._base_manager.filter(pk__in=rows.list_owners(RELEASE)).order_by("pk")
    return [{"name": release.name, "sha256": release.sha256} for release in releases]


def describe_guidelines(rows: DeletedRows) -> list[dict[str, Any]]:
    guidelines = Guideline._base_manager.filter(pk__in=rows.list_owners(GUIDELINE)).order_by("pk")
    return [{"name": str(guideline), "sha256": guideline.sha256} for guideline in guidelines]


def list_deletions() -> QuerySet[StudyDeletion]:
    return StudyDeletion.objects.select_related("study", "begun_by", "job", "event")


def get_deletion(number: int) -> StudyDeletion:
    deletion = list_deletions().filter(pk=number).first()
    if deletion is None:
        raise NotFound(N_("There is no such certificate."))
    return deletion
