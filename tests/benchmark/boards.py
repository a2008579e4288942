"""A finished run of any size, its numbers computed by the product from invented responses; without the responses."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.utils import timezone

from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Collection, Dataset, GoldRelease, Guideline
from annotation.services.studies import find_or_make_study
from benchmark.domain.estimates.board_numbers import StratifiedCombiner
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.responses import CountedResponse, group_prompt
from benchmark.models import BenchmarkRun, BoardPart
from scoring.models import Scorer

MODELS = (
    *("GPT-4", "Claude", "ChatGPT", "MiniMax-abab5.5", "Gemini-Pro", "Baichuan2-13B", "InternLM-20B-SFT"),
    *("InternLM-7B", "ChatGLM2-6B", "Qwen-14B-Chat", "Yi-34B-Chat", "BELLE-7B", "MOSS-16B", "Ziya-LLaMA-13B"),
)
RIGHT = 0.77
"""The share of labels that the invented scorer gets right, as the published one."""
BASES = ("gold", "out_of_fold", "unseen")


def model_names(n: int) -> list[str]:
    return [MODELS[at] if at < len(MODELS) else f"Model-{at:02d}-Chat" for at in range(n)]


def invented(
    document: GuidelineDocument, *, models: int, prompts: int, gold: float, seed: int, predicted: int = 0
) -> Iterator[CountedResponse]:
    """``gold`` is the share of responses that people labelled; of the last ``predicted`` models they labelled none."""
    rng = random.Random(seed)
    names = model_names(models)
    skill = {name: 0.15 + 0.75 * (1 - at / max(1, models - 1)) for at, name in enumerate(names)}
    parts = [
        (dimension.name, part.name) for dimension in document.dimensions for part in dimension.subcomponents
    ]
    methods = ("disguise", "reverse induction", "unsafe inquiry", None)
    for prompt in range(prompts):
        scope, part = parts[prompt % len(parts)]
        groups = {"subcomponent": part, "language": "zh" if prompt % 5 else "en"}
        if (method := methods[prompt % 4]) is not None:
            groups |= {"attack_method": method, "malice": "explicit" if prompt % 3 else "implicit"}
        hard = rng.gauss(0, 0.2)
        for at, name in enumerate(names):
            share = 0.0 if at >= models - predicted else gold
            yield build_row(document, rng, name, prompt, scope, groups, skill[name] - hard, share)


def build_row(
    document: GuidelineDocument,
    rng: random.Random,
    model: str,
    prompt: int,
    scope: str,
    groups: dict[str, str],
    chance: float,
    gold: float,
) -> CountedResponse:
    criterion = document.criteria_for(scope)[0]
    best, worse = criterion.values[-1], criterion.values[:-1]
    true = best if rng.random() < chance else rng.choice(worse)
    answer = (
        true if rng.random() < RIGHT else rng.choice([value for value in criterion.values if value != true])
    )
    labelled = rng.random() < gold
    label = ((criterion.name, true),) if labelled else ()
    predicted = ((criterion.name, answer),)
    basis = "gold" if labelled else "out_of_fold" if rng.random() < 0.1 else "unseen"
    return CountedResponse(
        model=model,
        prompt=prompt,
        scope=scope,
        labels=label or predicted,
        basis=basis,
        gold=label,
        predicted=predicted,
        sureness=round(rng.uniform(0.5, 1.0), 3),
        groups=group_prompt(groups),
    )


def finished_run(
    guideline: Guideline,
    *,
    name: str = "board",
    models: int = 5,
    prompts: int = 240,
    gold: float = 0.3,
    seed: int = 0,
    predicted: int = 0,
    replaces: BenchmarkRun | None = None,
    days_ago: int = 0,
) -> BenchmarkRun:
    """A run with all its parts, of the dataset ``invented``, by a scorer and a release of its own."""
    size = (guideline.sha256, models, prompts, gold, seed, predicted)
    if size not in _COMPUTED:
        rows = list(
            invented(
                guideline.document, models=models, prompts=prompts, gold=gold, seed=seed, predicted=predicted
            )
        )
        _COMPUTED[size] = json.dumps(_figures(guideline.document, rows))
    made = json.loads(_COMPUTED[size])
    run = _row(guideline, name, replaces, days_ago)
    lineage = {"seed": 0, "code_version": run.code_version}
    run.board = made.pop("board") | {"run": run.name, "left_out": 0, "lineage": lineage}
    n = made.pop("responses")
    run.cost = {
        "responses": n,
        "predicted": n,
        "seconds": 0.0124 * n,
        "processor_seconds": 0.021 * n,
        "per_response": 0.0124,
    }
    run.save()
    for part, content in made.items():
        BoardPart.objects.create(run=run, name=part, content=content)
    return run


_COMPUTED: dict[tuple[str, int, int, float, int, int], str] = {}
"""The figures, by what they are of: they are the same whatever the run is called, and take most of its time."""


def _figures(document: GuidelineDocument, rows: list[CountedResponse]) -> dict[str, Any]:
    figures = BoardFigures(document, rows, combiner=StratifiedCombiner(document, rows))
    return {
        "responses": len(rows),
        "board": _composed(figures.board, rows),
        "groups": figures.groups,
        "pairs": figures.pairs | {"as_labels": figures.pairs_as_labels},
        "estimates": compute_estimates(document, rows),
    }


def _row(guideline: Guideline, name: str, replaces: BenchmarkRun | None, days_ago: int) -> BenchmarkRun:
    dataset, _made = Dataset.objects.get_or_create(study=find_or_make_study(), name="invented")
    collection, _made = Collection.objects.get_or_create(name="")
    release = GoldRelease.objects.create(
        study=find_or_make_study(),
        name=f"gold-{name}",
        sha256="5c" * 32,
        labels=1200,
        adjudicated=80,
    )
    scorer = Scorer.objects.create(
        study=find_or_make_study(),
        name=f"scorer-{name}",
        guideline=guideline,
        release=release,
        backbone="ngram",
        weights_sha256="ab" * 32,
        ready_at=timezone.now(),
    )
    run: BenchmarkRun = BenchmarkRun.objects.create(
        study=find_or_make_study(),
        name=name,
        scorer=scorer,
        dataset=dataset,
        collection=collection,
        replaces=replaces,
        code_version="0.9.0",
        weights_sha256=scorer.weights_sha256,
        finished_at=timezone.now() - timedelta(days=days_ago),
    )
    return run


def _composed(board: dict[str, Any], rows: list[CountedResponse]) -> dict[str, Any]:
    """With what each cell rests on, as a run adds it."""
    bases = Counter((row.model, row.scope, row.basis) for row in rows)
    for row in board["rows"]:
        for scope, cell in row["dimensions"].items():
            cell["composition"] = {basis: bases[row["model"], scope, basis] for basis in BASES}
            cell["missing"] = 0
    return board
