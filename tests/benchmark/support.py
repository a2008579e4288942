"""A settled batch, a release and a scorer, made by the product's own services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils import timezone

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Assignment, Batch, GoldRelease, Guideline, Person, Response
from annotation.services.assignments import claim_next_task
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from benchmark.domain.leaderboards.board import build_board
from benchmark.domain.leaderboards.responses import CountedResponse, Labels
from benchmark.models import BenchmarkRun
from benchmark.views.leaderboards.tabs.reading import find_leader
from scoring.models import Prediction, Scorer
from tests.support import decide_next, first_batch, label, person

Rule = Callable[[Response], int]

Cell = Counter[Labels]
"""How many responses of one model to the prompts of one dimension were given exactly these labels."""


def counted(cells: Mapping[tuple[str, str], Cell]) -> list[CountedResponse]:
    """Responses to prompts that nobody knows, by (model, dimension)."""
    return [
        CountedResponse(model, None, scope, labels)
        for (model, scope), cell in cells.items()
        for labels in cell.elements()
    ]


def board_of(document: GuidelineDocument, cells: Mapping[tuple[str, str], Cell]) -> dict[str, Any]:
    return build_board(document, counted(cells), models={model for model, _scope in cells})


def settle(batch: Batch, people: Sequence[Person], rule: Rule, *, tasks: int | None = None) -> None:
    """Each task of the batch, or the first ``tasks``, labelled by two people as the rule says."""
    for annotator in people[:2]:
        done = 0
        while (tasks is None or done < tasks) and (claim := claim_next_task(batch=batch, person=annotator)):
            label(claim, annotator, rule(response_of(claim)))
            done += 1


def settle_by_dimension(batch: Batch, *, tasks: int | None = None) -> None:
    """Of the batch ``first``: lin and chen say 3 of every response to a safe prompt and 1 of the others."""
    people = [person("lin"), person("chen")]
    settle(batch, people, lambda response: 3 if response.prompt.dimension == "safe" else 1, tasks=tasks)


def response_of(assignment: Assignment) -> Response:
    return Response.objects.select_related("prompt", "model").get(tasks=assignment.task_id)


def decide_all(batch: Batch, person: Person, value: int) -> None:
    while decide_next(batch, person, value):
        pass


def release_of(batch: Batch, name: str = "gold-1") -> GoldRelease:
    return cut_release(ReleaseSpec(name=name, batches=[batch]))


def release_of_disputes() -> GoldRelease:
    """Of eight responses lin says 3 of each; chen says 1 of the second model's, and wu agrees with chen."""
    batch = first_batch()
    settle(batch, [person("lin")], lambda _response: 3)
    settle(batch, [person("chen")], lambda response: 1 if response.model.name == "Hidden-13B" else 3)
    decide_all(batch, person("wu"), 1)
    return release_of(batch)


def ready_scorer(release: GoldRelease, guideline: Guideline, name: str = "scorer-1") -> Scorer:
    """A registered scorer whose weights nobody asks for: the tests store its predictions themselves."""
    return Scorer.objects.create(
        study=find_or_make_study(),
        name=name,
        guideline=guideline,
        release=release,
        backbone="ngram",
        weights_sha256="ab" * 32,
        ready_at=timezone.now(),
    )


def predict(scorer: Scorer, response: Response, value: int, *, fold: int | None = None) -> Prediction:
    return Prediction.objects.create(
        scorer=scorer,
        response=response,
        criterion="compliance",
        value=value,
        probabilities={str(level): float(level == value) for level in (1, 2, 3)},
        fold=fold,
    )


def leader_sentences(run: BenchmarkRun) -> str:
    """Who leads the board, as its page says it."""
    return render_text("benchmark/wording/board_finding.txt", finding=find_leader(run))
