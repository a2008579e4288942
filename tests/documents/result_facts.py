"""The stored facts behind a scorer and a board, read from the tables alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.domain.releases.splits import split_of
from annotation.models import ADJUDICATION_SLOT, Annotation, Batch, Response, Task
from benchmark.models import BenchmarkRun, RunItem
from scoring.models import Prediction, Promotion, RegressionCase, Scorer
from tests.documents.facts import StoredFacts, read_facts


@dataclass(frozen=True)
class ResultFacts:
    """``batches`` are those behind the scorer's gold; ``held`` are its responses of the test split, ``learnable`` those
    to prompts that share no text with these; ``levels`` are the different labels that the kept scorer learned from.

    ``annotators`` is the most annotations that one labelled response has. Of responses that have gold and a prediction
    ``least_both`` is how many some model has in every dimension, ``most_both`` how many it has in all. Of a page of one
    response ``fold`` is that of its prediction.
    """

    batches: StoredFacts
    scorer: Scorer
    responses: int
    prompts: int
    learnable: int
    held: int
    held_prompts: int
    folds: int
    has_whole_folds: bool
    annotators: int
    is_whole: bool
    has_gold_everywhere: bool
    levels: int
    useless: int
    promotions: Sequence[Promotion]
    first_promotion: Promotion | None
    cases: int
    models: int = 0
    bases: Mapping[str, int] | None = None
    models_without_gold: int = 0
    models_partly_gold: int = 0
    gold_by_batch: Mapping[str, int] | None = None
    lacking_by_batch: Mapping[str, int] | None = None
    unfinished: Sequence[tuple[int, int]] = ()
    models_lacking_a_column: int = 0
    people: int = 0
    least_both: int = 0
    most_both: int = 0
    fold: int | None = None

    @property
    def predicted(self) -> int:
        return sum(n for basis, n in (self.bases or {}).items() if basis != RunItem.Basis.GOLD)

    @property
    def is_given_whole(self) -> bool:
        return self.batches.is_given_whole

    @property
    def config(self) -> Mapping[str, Any]:
        config: Mapping[str, Any] = self.scorer.config
        return config

    @property
    def last_promotion(self) -> Promotion | None:
        """The last one of this scorer."""
        return self.promotions[-1] if self.promotions else None


def read_scorer_facts(scorer: Scorer, batches: Sequence[Batch]) -> ResultFacts:
    release = scorer.release
    labelled = Response.objects.filter(pk__in=release.items.values("task__response")).select_related(
        "prompt__dataset"
    )
    prompts: dict[int, str] = {
        response.prompt_id: split_of(response.prompt.dataset.name, response.prompt.key)
        for response in labelled
    }
    held = sum(prompts[response.prompt_id] == "test" for response in labelled)
    folds = defaultdict(set)
    for prompt, fold in Prediction.objects.filter(scorer=scorer, fold__isnull=False).values_list(
        "response__prompt", "fold"
    ):
        folds[prompt].add(fold)
    annotations = Counter(
        Annotation.objects.filter(current=True, assignment__task__in=release.items.values("task"))
        .exclude(assignment__slot=ADJUDICATION_SLOT)
        .values_list("assignment__task", flat=True)
    )
    figures = scorer.evaluation["grouped"]["by_criterion"].values()
    of_guideline = Promotion.objects.filter(guideline_name=scorer.guideline.name).order_by("number")
    texts = {response.prompt_id: response.prompt.text.casefold() for response in labelled}
    held_texts = {texts[prompt] for prompt, split in prompts.items() if split == "test"}
    everywhere = Response.objects.filter(prompt__dataset__in={r.prompt.dataset_id for r in labelled})
    checks = Task.objects.filter(batch__in=batches).exclude(kind=Task.Kind.WORK)
    of_models = everywhere.filter(model__in={response.model_id for response in labelled}).exclude(
        pk__in=checks.values("response")
    )
    return ResultFacts(
        batches=read_facts(batches, release),
        scorer=scorer,
        responses=len(labelled),
        prompts=len(set(texts.values())),
        learnable=sum(texts[response.prompt_id] not in held_texts for response in labelled),
        held=held,
        held_prompts=sum(split == "test" for split in prompts.values()),
        folds=len(set().union(*folds.values())) if folds else 0,
        has_whole_folds=all(len(of_prompt) == 1 for of_prompt in folds.values()),
        annotators=max(annotations.values(), default=0),
        is_whole=len(labelled) == of_models.count(),
        has_gold_everywhere=len(labelled) == everywhere.count(),
        levels=len(
            {
                item.value
                for item in release.items.select_related("task__response")
                if not scorer.card["held_out"] or prompts[item.task.response.prompt_id] != "test"
            }
        ),
        useless=sum(
            criterion["log_loss"] is not None and criterion["log_loss"] >= criterion["commonest_log_loss"]
            for criterion in figures
        ),
        promotions=list(of_guideline.filter(scorer=scorer)),
        first_promotion=of_guideline.first(),
        cases=RegressionCase.objects.filter(
            guideline_name=scorer.guideline.name, removed_at__isnull=True
        ).count(),
    )


def read_board_facts(run: BenchmarkRun, batches: Sequence[Batch]) -> dict[str, Any]:
    """What the facts of a board have beside those of its scorer."""
    rows = list(
        run.items.values_list("response__model", "basis", "released_label__task__batch__name", "prediction")
    )
    by_model: dict[int, Counter[str]] = defaultdict(Counter)
    scopes = set(run.items.values_list("response__prompt__dimension", flat=True))
    for model, basis, _batch, _prediction in rows:
        by_model[model][basis] += 1
    by_column: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for model, scope, basis in run.items.values_list(
        "response__model", "response__prompt__dimension", "basis"
    ):
        by_column[model, scope][basis] += 1
    both = {model: Counter(dict.fromkeys(scopes, 0)) for model in by_model}
    known = run.items.filter(basis=RunItem.Basis.GOLD, prediction__isnull=False)
    for model, scope in known.values_list("response__model", "response__prompt__dimension"):
        both[model][scope] += 1
    gold = [basis[RunItem.Basis.GOLD] for basis in by_model.values()]
    totals = [basis.total() for basis in by_model.values()]
    tasks = run.items.filter(basis=RunItem.Basis.GOLD).values("released_label__task")
    return {
        "models": run.evaluated_models.count(),
        "bases": Counter(basis for _model, basis, _batch, _prediction in rows),
        "models_without_gold": sum(n == 0 for n in gold),
        "models_partly_gold": sum(0 < n < of for n, of in zip(gold, totals, strict=True)),
        "gold_by_batch": Counter(batch for _model, basis, batch, _prediction in rows if basis == "gold"),
        "lacking_by_batch": {
            batch.name: batch.tasks.filter(kind=Task.Kind.WORK)
            .exclude(pk__in=run.scorer.release.items.values("task"))
            .count()
            for batch in batches
        },
        "unfinished": [_count_unfinished(run, batch) for batch in batches],
        "models_lacking_a_column": sum(
            any(not by_column[model, scope][RunItem.Basis.GOLD] for scope in scopes) for model in by_model
        ),
        "people": len(
            set(
                Annotation.objects.filter(current=True, assignment__task__in=tasks).values_list(
                    "assignment__person", flat=True
                )
            )
            | set(
                run.items.filter(released_label__adjudication__isnull=False).values_list(
                    "released_label__adjudication__assignment__person", flat=True
                )
            )
        ),
        "least_both": max((min(of_model.values()) for of_model in both.values()), default=0),
        "most_both": max((of_model.total() for of_model in both.values()), default=0),
    }


def _count_unfinished(run: BenchmarkRun, batch: Batch) -> tuple[int, int]:
    """Of the batch's models and dimensions of which a part has gold: the tasks that have it, and the others."""
    tasks = batch.tasks.filter(kind=Task.Kind.WORK)
    settled = set(run.scorer.release.items.values_list("task", flat=True))
    cells: dict[tuple[int, str], Counter[bool]] = defaultdict(Counter)
    for task, model, scope in tasks.values_list("pk", "response__model", "response__prompt__dimension"):
        cells[model, scope][task in settled] += 1
    incomplete_cells = [cell for cell in cells.values() if cell[True] and cell[False]]
    return sum(cell[True] for cell in incomplete_cells), sum(cell[False] for cell in incomplete_cells)
