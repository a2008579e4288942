"""What a scorer is not sure of goes back to people, as a batch."""

from __future__ import annotations

import random
import secrets
from collections import Counter, defaultdict
from collections.abc import Sequence

from django.db import transaction

from annotation.core.errors import N_, AssayError, Forbidden
from annotation.core.specs import MAX_SEED
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.domain.releases.selection import LEAST_SURE, DrawnStratum, compute_chance
from annotation.models import Batch, Dataset, EvaluatedModel, Person, Response
from annotation.selectors.access import refuse_sealed_gold, sealed_datasets
from annotation.selectors.selection import NO_DIMENSION
from annotation.services.audit import record
from annotation.services.batches.batches import create_batch
from annotation.services.batches.draws import record_draw
from scoring.domain.calibration import DEFAULT_COVERAGE
from scoring.domain.verbs import ScoringVerb
from scoring.models import Scorer
from scoring.selectors.predictions import find_abstentions
from scoring.selectors.scorers import get_latest_guideline
from scoring.services.predictions.predictions import check_ready

MAX_RESPONSES = 30_000
"""Responses in one such batch. Each is a parameter of a query, of which a usual SQLite takes 32,766."""

CHUNK = 2000


@transaction.atomic
def create_abstained_batch(
    *,
    name: str,
    scorer: Scorer,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    coverage: float = DEFAULT_COVERAGE,
    limit: int = MAX_RESPONSES,
    annotators: Sequence[Person] = (),
    adjudicators: Sequence[Person] = (),
    policy: Policy = USUAL_POLICY,
    open_now: bool = True,
    actor: Person | None = None,
    random_share: float = 0.0,
    seed: int | None = None,
) -> Batch:
    """A batch of the responses that the scorer abstains from, at most ``limit``, the least sure of them.

    A ``random_share`` of it is drawn from all responses that it predicted and nobody labels, with the seed: the others
    have no chance to weigh by. What was drawn how is recorded. It is judged by the version of the guideline that was
    published last. Raises AssayError where there are none, and what ``create_batch`` raises.
    """
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
        if sealed_datasets(actor).filter(pk=dataset.pk).exists():
            raise Forbidden(
                N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
                name=dataset.name,
            )
    check_ready(scorer)
    if not 1 <= limit <= MAX_RESPONSES:
        raise AssayError(N_("Take from 1 to {most} responses."), most=MAX_RESPONSES)
    abstentions = find_abstentions(scorer, dataset, models, coverage)
    if not abstentions.responses:
        raise AssayError(
            N_(
                "{scorer} abstains from none of the {asked} responses of {dataset} that it predicted and nobody labels."
            ),
            scorer=scorer.name,
            asked=abstentions.predicted,
            dataset=dataset.name,
        )
    size = min(limit, len(abstentions.responses))
    seed = secrets.randbelow(MAX_SEED + 1) if seed is None else seed
    pool = sorted(abstentions.pool)
    # a draw that can be repeated, no secret
    drawn = random.Random(f"{seed}/{scorer.name}").sample(pool, round(size * random_share))  # noqa: S311
    in_draw = frozenset(drawn)
    unsure = [response for response in abstentions.responses if response not in in_draw][: size - len(drawn)]
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=get_latest_guideline(scorer.guideline.name).pk,
            dataset=dataset.pk,
            among=(*drawn, *unsure),
            annotators=tuple(person.pk for person in annotators),
            adjudicators=tuple(person.pk for person in adjudicators),
            policy=policy,
            open_now=open_now,
        ),
        actor=actor,
    )
    if drawn:
        record_draw(batch, _list_strata(batch, drawn, unsure, pool))
    record(
        actor=actor,
        verb=ScoringVerb.BATCH_OF_ABSTAINED,
        target=f"batch:{name}",
        scorer=scorer.name,
        coverage=coverage,
        responses=len(drawn) + len(unsure),
        **({"random": len(drawn), "seed": seed} if drawn else {}),
    )
    return batch


def _list_strata(
    batch: Batch, drawn: Sequence[int], unsure: Sequence[int], pool: Sequence[int]
) -> list[DrawnStratum]:
    """By model and dimension what chance drew, with its chance, and what the scorer's sureness chose."""
    has_dimensions = bool(batch.guideline.document.dimensions)
    datasets = batch.tasks.order_by().values("prompt__dataset")
    cells: dict[int, tuple[str, str]] = {
        pk: (model, dimension if has_dimensions else NO_DIMENSION)
        for pk, model, dimension in Response.objects.filter(prompt__dataset__in=datasets)
        .order_by()
        .values_list("pk", "model__name", "prompt__dimension")
        .iterator(chunk_size=CHUNK)
    }
    pools, free = Counter(cells.values()), Counter(cells[pk] for pk in pool)
    strata = []
    for name, ids in ((LEAST_SURE, unsure), ("", drawn)):
        by_cell: dict[tuple[str, str], list[int]] = defaultdict(list)
        for pk in ids:
            by_cell[cells[pk]].append(pk)
        for cell, own in sorted(by_cell.items()):
            chance, reason = compute_chance(
                len(own), pool=pools[cell], held=pools[cell] - free[cell], drawn_before=0
            )
            chance, reason = (None, name) if name else (chance, reason)
            strata.append(
                DrawnStratum(*cell, 0.0, 1.0, pools[cell], len(own), chance, reason, tuple(sorted(own)))
            )
    return strata
