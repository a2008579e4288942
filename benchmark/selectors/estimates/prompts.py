"""What only more prompts narrow: the intervals for all prompts like those of a run, however much of it is labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from annotation.domain.guidelines import Metric
from benchmark.domain.estimates.label_plan.basis import (
    list_ranked_scopes,
    map_metrics,
)
from benchmark.domain.estimates.label_plan.label_plan import (
    PromptNeed,
    count_prompts_needed,
    round_up,
)
from benchmark.domain.estimates.label_plan.separation import ModelPair
from benchmark.domain.leaderboards.withholding import is_gold
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.comparison_plan import ComparisonStatus
from benchmark.selectors.estimates.label_plan import LabellingStatus
from benchmark.selectors.leaderboards.runs import (
    find_part,
    list_board_rows,
)

Statistic = Mapping[str, float | None]


def count_labelled(run: BenchmarkRun) -> int:
    """How many responses the run counts, where all of them and all others have gold; else 0."""
    cells = [cell for row in list_board_rows(run) for cell in row["dimensions"].values()]
    is_complete = all(is_gold(cell) and not cell.get("missing") for cell in cells)
    return sum(cell["n"] for cell in cells) if is_complete else 0


def list_prompt_needs(status: LabellingStatus, half_width: float) -> list[PromptNeed]:
    """By column, for the model that needs the most prompts to be known to plus or minus ``half_width``."""
    estimates = find_part(status.run, "estimates") or {"rows": []}
    combined = {row["model"]: row["cells"] for row in estimates["rows"]}
    return [
        _find_greatest(
            [
                _build_need(scope, n, statistic, half_width)
                for n, statistic in _list_statistics(status.run, combined, scope, metric)
            ]
        )
        for scope, metric in map_metrics(status.document).items()
        if any(row["dimensions"][scope]["n"] for row in list_board_rows(status.run))
    ]


def _list_statistics(
    run: BenchmarkRun, combined: Mapping[str, Any], scope: str, metric: Metric
) -> Iterator[tuple[int, Statistic]]:
    """Each model's prompts and its number: the board's where that is gold alone, else the combined one."""
    for row in list_board_rows(run):
        cell = row["dimensions"][scope]
        estimate = combined.get(row["model"], {}).get(scope, {}).get(metric.name, {})
        yield cell["n"], cell[metric.name] if is_gold(cell) else estimate.get("combined") or {}


def _build_need(scope: str, prompts: int, statistic: Statistic, target: float) -> PromptNeed:
    low, high = statistic.get("low"), statistic.get("high")
    if low is None or high is None:
        return PromptNeed(scope, prompts, None, None)
    half = (high - low) / 2
    return PromptNeed(scope, prompts, half, count_prompts_needed(prompts, half, target))


def _find_greatest(needs: list[PromptNeed]) -> PromptNeed:
    return max(needs, key=lambda need: (need.needed is not None, need.needed or 0, need.half_width or 0.0))


def count_prompts_to_compare(status: LabellingStatus, comparison: ComparisonStatus) -> int:
    """About how many prompts like these would show the gap with everything labelled, of the model that needs the most;
    0 where none has too few. The variance that the choice of prompts leaves falls with their number.
    """
    prompts = {
        row["model"]: sum(cell["n"] for cell in row["dimensions"].values())
        for row in list_board_rows(status.run)
    }
    factors = {plan.model.model: (plan.gap / comparison.gap) ** 2 for plan in comparison.plans}
    return max(
        (round_up(prompts[model] * factor) for model, factor in factors.items() if factor > 1), default=0
    )


def count_prompts_to_separate(status: LabellingStatus, pair: ModelPair) -> int | None:
    """About how many prompts like these would; None where labels do, or where they do not differ at all."""
    times = pair.prompt_factor
    if pair.is_separable or times is None:
        return None
    columns = list_ranked_scopes(status.document)
    rows = [row for row in list_board_rows(status.run) if row["model"] in (pair.first, pair.second)]
    return round_up(times * max(sum(row["dimensions"][scope]["n"] for scope in columns) for row in rows))
