"""The runs that can be laid beside each other over time: of the same responses, by the same guideline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from annotation.core.errors import N_, Conflict, NotFound
from annotation.core.names import MAX_NAME_CHARACTERS
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Job,
    Person,
    ReleasedLabel,
    Response,
    Task,
)
from annotation.selectors.access import (
    refuse_sealed,
    refuse_sealed_gold,
    sealed_batches,
    sealed_datasets,
)
from benchmark.domain.leaderboards.board import COMPARED
from benchmark.domain.leaderboards.grounds import Ground
from benchmark.domain.leaderboards.withholding import (
    convert_board,
    convert_estimates,
    convert_groups,
    convert_pairs,
)
from benchmark.models import BenchmarkRun, Retraining, RunItem
from benchmark.selectors.leaderboards.lineages import Lineages
from scoring.domain.evaluation.soft_labels import LABEL
from scoring.domain.spec import Spec
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.selectors.training import get_release_guideline

PAIRS, GROUPS, ESTIMATES = "pairs", "groups", "estimates"
AS_LABELS = "as_labels"
"""The field of stored pairs that plans of labels start from: differences as if every label were true."""

Key = tuple[int, str]
"""A response and a criterion."""


class ItemSource(NamedTuple):
    """The id and value of a gold label or of a prediction, and the basis that it is."""

    pk: int
    value: float
    basis: str


def get_run(name: str) -> BenchmarkRun:
    run = list_runs().filter(name=name).first()
    if run is None:
        known = ", ".join(BenchmarkRun.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No benchmark run is named {name}; known are: {known}."), name=name, known=known)
    return run


def list_runs() -> QuerySet[BenchmarkRun]:
    runs = BenchmarkRun.objects.select_related(
        "scorer__guideline", "scorer__release", "dataset", "collection", "job", "replaces", "retraining"
    )
    # Large, and of the rows beside a board no list reads them.
    return runs.defer("replaces__board", "replaces__cost", "scorer__card", "scorer__evaluation")


def find_board(run: BenchmarkRun) -> dict[str, Any]:
    """The board as anybody may see it; what a run has stored is read here alone. Empty until the run is finished."""
    board: dict[str, Any] = run.board
    return convert_board(run.scorer.guideline.document, board)


class BoardTop(NamedTuple):
    """What a list shows of a board: its first row, and by column how many models are compared (``n``, ``of``)."""

    row: dict[str, Any]
    compared: dict[str, dict[str, int]]


def list_board_tops(runs: Iterable[BenchmarkRun]) -> dict[int, BoardTop]:
    """By run, of those that have a row. The boards themselves, hundreds of kilobytes each, are left in the database,
    but for those of earlier versions, which are converted whole.
    """
    boards = BenchmarkRun.objects.filter(pk__in=[run.pk for run in runs]).exclude(finished_at=None)
    tops: dict[int, BoardTop] = {}
    earlier = []
    for pk, row, compared in boards.values_list("pk", "board__rows__0", f"board__{COMPARED}"):
        if compared is None:
            earlier.append(pk)
        elif row is not None:
            tops[pk] = BoardTop(row, compared)
    for run in boards.filter(pk__in=earlier).select_related("scorer__guideline"):
        board = find_board(run)
        if board.get("rows"):
            tops[run.pk] = BoardTop(board["rows"][0], board[COMPARED])
    return tops


def list_board_rows(run: BenchmarkRun) -> list[dict[str, Any]]:
    """The rows of the board, best first."""
    rows: list[dict[str, Any]] = find_board(run).get("rows", [])
    return rows


def get_finished_board(run: BenchmarkRun) -> dict[str, Any]:
    if run.finished_at is None:
        state = run.job.get_state_display() if run.job else "-"
        raise Conflict(
            N_("The run {name} has no leaderboard yet: its job is {state}."), name=run.name, state=state
        )
    return find_board(run)


def find_grounds(run: BenchmarkRun) -> dict[str, Ground]:
    """By model, best first, of the number that the board is ranked by. Raises AssayError of an unfinished run."""
    return {row["model"]: Ground(row["ground"], row["reason"]) for row in get_finished_board(run)["rows"]}


def find_part(run: BenchmarkRun, name: str) -> dict[str, Any] | None:
    """What the run has beside its board: ``groups``, ``pairs`` or ``estimates``; None of a run that has none."""
    content = find_stored_part(run, name)
    if not content:
        return content
    if name == PAIRS:
        pairs = {field: value for field, value in content.items() if field != AS_LABELS}
        return convert_pairs(run.scorer.guideline.document, run.board, pairs)
    if name == ESTIMATES:
        return convert_estimates(find_board(run), content)
    return convert_groups(run.board, content) if name == GROUPS else content


def find_stored_part(run: BenchmarkRun, name: str) -> dict[str, Any] | None:
    """As it was computed, for what is computed from it; ``find_part`` is for readers."""
    content: dict[str, Any] | None = run.parts.filter(name=name).values_list("content", flat=True).first()
    return content


def get_collection(name: str) -> Collection:
    """The default collection has the empty name."""
    collection = Collection.objects.filter(name=name).first()
    if collection is None:
        known = (
            ", ".join(repr(known_name) for known_name in Collection.objects.values_list("name", flat=True))
            or "-"
        )
        raise NotFound(
            N_("There is no collection named {name}; known are: {known}."), name=repr(name), known=known
        )
    return collection


def list_responses(
    dataset: Dataset, collection: Collection, models: Iterable[EvaluatedModel] | None = None
) -> QuerySet[Response]:
    responses = Response.objects.filter(prompt__dataset=dataset, collection=collection)
    if models is not None:
        responses = responses.filter(model__in=list(models))
    return responses.select_related("prompt", "model").order_by("pk")


def list_run_responses(run: BenchmarkRun) -> QuerySet[Response]:
    return list_responses(run.dataset, run.collection, run.evaluated_models.all())


def list_gold(run: BenchmarkRun) -> dict[Key, ItemSource]:
    """The gold of the scorer's release, by response and criterion.

    A label of an older version of the guideline that is not on the scorer's scale is no label here.
    """
    scorer = run.scorer
    labels = _list_released_labels(run).order_by("task__batch__guideline__published_at", "pk")
    allowed = {
        criterion.name: set(criterion.values) for criterion in scorer.guideline.document.countable_criteria
    }
    return {
        (response, criterion): ItemSource(pk, value, RunItem.Basis.GOLD)
        for response, criterion, pk, value in labels.values_list(
            "task__response_id", "criterion", "pk", "value"
        ).iterator()
        if value is not None and value in allowed.get(criterion, ())
    }


def _list_released_labels(run: BenchmarkRun) -> QuerySet[ReleasedLabel]:
    """Those of the scorer's release that are of the run's responses."""
    scorer = run.scorer
    return ReleasedLabel.objects.filter(
        release=scorer.release,
        task__kind=Task.Kind.WORK,
        task__batch__guideline__name=scorer.guideline.name,
        task__response__in=list_run_responses(run).order_by().values("pk"),
    )


def list_judged_responses(run: BenchmarkRun) -> frozenset[int]:
    """The run's responses of which the scorer's release has any label, "not applicable" too."""
    return frozenset(filter_judged(run))


def filter_judged(run: BenchmarkRun) -> QuerySet[ReleasedLabel, int]:
    """Their ids."""
    labels = _list_released_labels(run).order_by()
    return labels.values_list("task__response_id", flat=True).distinct()


def list_current_runs(guideline_name: str) -> QuerySet[BenchmarkRun]:
    """The finished runs of a guideline that no finished run has replaced.

    Two chains at once may have replaced the same run: the later of the two stands, or each chain would double it.
    """
    finished = BenchmarkRun.objects.filter(finished_at__isnull=False)
    replaced = finished.filter(replaces=OuterRef("pk"))
    rival = finished.filter(replaces=OuterRef("replaces"), pk__gt=OuterRef("pk"))
    return (
        finished.filter(scorer__guideline__name=guideline_name)
        .filter(~Exists(replaced), ~Exists(rival))
        .select_related("scorer__release", "scorer__guideline", "dataset", "collection")
        .order_by("created_at", "pk")
    )


def refuse_sealed_run(person: Person, run: BenchmarkRun) -> None:
    """Forbidden for who works blind in a batch behind the run, or on the responses that it scores."""
    refuse_sealed_gold(person, run.scorer.release.batches.all())
    refuse_sealed_dataset(person, run.dataset)


def refuse_sealed_dataset(person: Person, dataset: Dataset) -> None:
    """Forbidden for who judges responses of the dataset blind now."""
    refuse_sealed(person, sealed_batches(person).filter(tasks__response__prompt__dataset=dataset))


def list_open_datasets(person: Person) -> QuerySet[Dataset]:
    return Dataset.objects.exclude(pk__in=sealed_datasets(person).values("pk"))


def list_open_models(person: Person) -> QuerySet[EvaluatedModel]:
    """Evaluated models that a blind judge may hear of: those with responses outside of what they judge."""
    return EvaluatedModel.objects.filter(
        Exists(Response.objects.filter(model=OuterRef("pk"), prompt__dataset__in=list_open_datasets(person))),
        parts=None,
    )


def list_open_scorers(person: Person) -> QuerySet[Scorer]:
    """Trained scorers whose release is not sealed for the person."""
    ready = Scorer.objects.exclude(ready_at=None).select_related("release", "guideline")
    return ready.exclude(release__batches__in=_list_sealed_batches(person))


def list_open_collections(person: Person) -> QuerySet[Collection]:
    """Collections of responses outside of what the person judges blind: a collection's name may tell the model's. Sets
    of slates are none.
    """
    open_to = Response.objects.filter(
        collection=OuterRef("pk"), prompt__dataset__in=list_open_datasets(person), slate=None
    )
    return Collection.objects.filter(Exists(open_to))


def _list_sealed_batches(person: Person) -> list[int]:
    """The batches whose gold ``refuse_sealed_gold`` refuses: sealed ones, and others on the same datasets."""
    sealed = Q(pk__in=sealed_batches(person).values("pk"))
    judged = Task.objects.filter(response__prompt__dataset__in=sealed_datasets(person).values("pk"))
    return list(Batch.objects.filter(sealed | Q(pk__in=judged.values("batch"))).values_list("pk", flat=True))


@dataclass(frozen=True)
class RunRow:
    """A run as the list shows it; of a ``sealed`` one no more than its name."""

    run: BenchmarkRun
    sealed: bool


def list_run_rows(person: Person, rows: QuerySet[BenchmarkRun] | None = None) -> list[RunRow]:
    """These runs, or all of them, the newest first."""
    batches = set(_list_sealed_batches(person))
    datasets = set(sealed_datasets(person).values_list("pk", flat=True))
    runs = (list_runs() if rows is None else rows).prefetch_related(
        "scorer__release__batches", "evaluated_models"
    )
    return [
        RunRow(
            run=run,
            sealed=run.dataset_id in datasets
            or any(batch.pk in batches for batch in run.scorer.release.batches.all()),
        )
        for run in runs
    ]


def list_items(run: BenchmarkRun, model: str, dimension: str | None) -> QuerySet[RunItem]:
    """The items of one cell; of the model's whole row without a dimension."""
    items = run.items.filter(response__model__name=model)  # which knows its run
    if dimension is not None:
        items = items.filter(response__prompt__dimension=dimension)
    return items


MAX_RUNS = 12
"""More than these would not be read from small pictures."""


def list_runs_over_time(
    run: BenchmarkRun, person: Person | None, *, latest: int = MAX_RUNS
) -> list[BenchmarkRun]:
    """Finished runs of the run's dataset, collection and guideline, oldest first: the ``latest`` and the run itself.

    ``person`` sees no run whose scorer rests on what they judge blind; nobody (None) sees all.
    """
    same = list_runs().filter(
        dataset=run.dataset_id,
        collection=run.collection_id,
        scorer__guideline__name=run.scorer.guideline.name,
        finished_at__isnull=False,
    )
    if person is not None:
        same = same.filter(Q(scorer__in=list_open_scorers(person).values("pk")) | Q(pk=run.pk))
    newest = list(same.exclude(pk=run.pk).order_by("-finished_at", "-pk")[: latest - 1])
    return sorted(
        [*newest, run],
        key=lambda finished_run: (
            finished_run.finished_at is None,
            finished_run.finished_at,
            finished_run.pk,
        ),
    )


@dataclass(frozen=True)
class RetrainingPlan:
    """What a retraining would do: the scorer that it trains like ``latest``, and the ``boards`` that it runs again.

    ``latest`` is the scorer behind the latest of the boards, None where there is none.
    """

    release: GoldRelease
    training: TrainingSpec
    latest: Scorer | None
    boards: Sequence[BenchmarkRun]

    @property
    def scorer(self) -> str:
        return self.training.name

    @property
    def backbone(self) -> str:
        return (self.training.backbone or Spec.from_request(default_encoder=settings.ASSAY_ENCODER)).title

    @property
    def models(self) -> dict[int, list[str]]:
        """By board, those that it has."""
        return {board.pk: [model.name for model in board.evaluated_models.all()] for board in self.boards}

    @property
    def seconds(self) -> float | None:
        """About how long it takes: as long as these boards' runs and the latest training did, which grows with the
        labels. None where one of them was not timed, or was of another backbone.
        """
        latest = self.latest
        if latest is None or self.training.backbone != latest.spec or not latest.release.labels:
            return None
        training = _measure_job(latest.job)
        runs = [_measure_job(board.job) for board in self.boards]
        if training is None or None in runs:
            return None
        growth = max(1.0, self.release.labels / latest.release.labels)
        return training * growth + sum(seconds for seconds in runs if seconds is not None)

    @property
    def digest(self) -> str:
        """Another one where something else would be trained or run again."""
        seen = [self.release.pk, self.scorer, *(board.pk for board in self.boards)]
        return sha256(repr(seen).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "scorer": self.scorer,
            "release": self.release.name,
            "backbone": self.backbone,
            "seconds": self.seconds,
            "boards": [
                {
                    "run": board.name,
                    "dataset": board.dataset.name,
                    "collection": board.collection.name,
                    "models": self.models[board.pk],
                    "scorer": board.scorer.name,
                }
                for board in self.boards
            ],
        }


def _measure_job(job: Job | None) -> float | None:
    """The seconds of its last attempt, if that came to its end."""
    if job is None or job.state != Job.State.DONE or job.started_at is None or job.finished_at is None:
        return None
    return (job.finished_at - job.started_at).total_seconds()


def plan_retraining(
    release: GoldRelease, *, name: str | None = None, spec: Spec | None = None
) -> RetrainingPlan:
    """The boards are those of the release's lineage; without a name or a spec, those of the latest are followed."""
    boards = list_lineage_boards(release)
    latest = boards[-1].scorer if boards else None
    training = TrainingSpec(
        name=name or _find_free_name(latest.name if latest else f"{release.name}-scorer"),
        release=release.pk,
        backbone=spec or (latest.spec if latest else None),
        evaluate=latest.config.get("evaluate", ()) if latest else (),
        seed=latest.seed if latest else 0,
        target=_choose_target(latest, spec),
    )
    return RetrainingPlan(release, training, latest, boards)


def _choose_target(latest: Scorer | None, spec: Spec | None) -> str:
    """What the latest learned: labels, or what share of the annotators gave each level; tuned encoders labels alone."""
    if latest is None or (spec is not None and spec.is_tuned):
        return LABEL
    return str(latest.config.get("target", LABEL))


def list_lineage_boards(release: GoldRelease) -> list[BenchmarkRun]:
    """The current runs of the release's guideline whose scorers learned gold of its lineage, the oldest first."""
    related = Lineages.read().list_related(release.pk)
    boards = list_current_runs(get_release_guideline(release).name).filter(scorer__release__in=related)
    return list(boards.prefetch_related("evaluated_models"))


def _find_free_name(name: str) -> str:
    """``scorer-1`` is followed by the first of ``scorer-2``, ``scorer-3`` .. that is free."""
    numbered = re.fullmatch(r"(.+)-([0-9]{1,6})", name)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
    names = (f"{stem[: MAX_NAME_CHARACTERS - 8]}-{n}" for n in count(number + 1))
    return next(name for name in names if not Scorer.objects.filter(name=name).exists())


def list_retraining_runs(retraining: Retraining) -> list[BenchmarkRun]:
    return list(list_runs().filter(retraining=retraining).order_by("pk"))


def list_jobs(retraining: Retraining) -> list[Job]:
    """The chain: the training first, then the runs that wait for it."""
    training = [retraining.scorer.job] if retraining.scorer.job else []
    return training + [run.job for run in list_retraining_runs(retraining) if run.job]


def find_running_retraining(release_id: int) -> Retraining | None:
    """A retraining on the release whose chain is not over."""
    for retraining in Retraining.objects.filter(release=release_id).select_related("scorer__job"):
        if any(not job.is_over for job in list_jobs(retraining)):
            return retraining
    return None
