"""Judges beside scorers and people as tables of text, for a terminal. Pure.

A leaderboard as a table of text, for a terminal. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from annotation.core.terminal import format_lines, format_table, measure_width, measure_widths, pad_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.selection import (
    ABSTAINED,
    EARLIER,
    GROWN,
    LEAST_SURE,
    PART,
    UNFINISHED,
    UNRECORDED,
    sum_unknown,
)
from benchmark.domain.leaderboards import grounds
from benchmark.domain.leaderboards.grounds import (
    FEW_LABELS,
    FEW_PROMPTS,
    MIN_LABELS,
    MIN_PROMPTS,
    NO_GOLD,
    NO_RESPONSES,
    SELECTION,
)
from benchmark.domain.leaderboards.metrics import (
    SMALL,
    format_metric_difference,
    format_metric_interval,
    format_metric_value,
    format_rank,
    list_metrics,
    list_scopes,
)

COMPARISON_HEADS = (
    "",
    "n",
    "coverage",
    "off scale",
    "accuracy",
    "95%",
    "within one",
    "macro-F1",
    "kappa",
    "weighted",
    "calibration error",
)
COMMONEST = {"kind": "commonest", "name": "level"}
TEST_HEADS = ("", "criterion", "winning rate", "advantage", "passes", "people", "p, adjusted")
LEVEL_HEADS = ("", "of", "criterion", "level", "n", "said", "precision", "recall", "F1")


def format_comparison(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{document['release']} ({document['guideline']}): {document['labels']} gold labels"
        f" of {document['responses']} responses"
    )
    if document["common"]:
        yield "only the labels that every judge and scorer said something of"
    yield from _section_lines(
        "",
        format_table(
            [
                COMPARISON_HEADS,
                *(_candidate_row(candidate, document["guideline"]) for candidate in document["candidates"]),
                _candidate_row(COMMONEST | document["commonest"], document["guideline"]),
            ]
        ),
    )
    yield from _section_lines(
        "without the person's own word: against the other annotators alone", _against_others_table(document)
    )
    yield from _section_lines("by model, accuracy and macro-F1", _by_model_table(document))
    yield from _section_lines("by level", _levels_table(document))
    yield from _section_lines("alternative annotator test", _tests_table(document))


def _section_lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        if title:
            yield title
        yield from lines


def format_candidate(candidate: Mapping[str, Any]) -> str:
    if candidate["kind"] == "people":
        return "annotators, all"
    return f"{candidate['kind']} {candidate['name']}"


def _candidate_row(candidate: Mapping[str, Any], gold_by: str) -> tuple[str, ...]:
    version = candidate.get("guideline", gold_by)
    return (
        format_candidate(candidate)
        if version == gold_by
        else f"{format_candidate(candidate)} (by {version})",
        str(candidate["n"]),
        _format_percent(candidate["coverage"]),
        str(candidate["off_scale"]),
        _format_value(candidate["accuracy"]),
        _format_interval(candidate["accuracy"]),
        _format_value(candidate["within_one"]),
        _format_value(candidate["macro_f1"]),
        _format_value(candidate["cohen_kappa"]),
        _format_value(candidate["quadratic_kappa"]),
        _format_value(candidate["calibration_error"]),
    )


def _against_others_table(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            format_candidate(candidate),
            str(candidate["against_others"]["n"]),
            _format_value(candidate["against_others"]["accuracy"]),
            _format_interval(candidate["against_others"]["accuracy"]),
            _format_value(candidate["against_others"]["macro_f1"]),
            _format_percent(candidate["rests_on_own"]),
        )
        for candidate in document["candidates"]
        if "against_others" in candidate
    ]
    heads = ("", "n", "accuracy", "95%", "macro-F1", "gold rests on own word")
    return format_table([heads, *rows]) if rows else []


def _by_model_table(document: Mapping[str, Any]) -> list[str]:
    heads = ("", "model", "n", "accuracy", "95%", "macro-F1", "in training")
    rows = [
        (
            format_candidate(candidate),
            model,
            str(figures["n"]),
            _format_value(figures["accuracy"]),
            _format_interval(figures["accuracy"]),
            _format_value(figures["macro_f1"]),
            _seen_word(candidate, model),
        )
        for candidate in document["candidates"]
        if candidate["kind"] != "annotator"
        for model, figures in candidate["by_model"].items()
    ]
    return format_table([heads, *rows], texts=2) if rows else []


def _seen_word(candidate: Mapping[str, Any], model: str) -> str:
    if candidate.get("models_seen") is None:
        return ""
    return "seen" if model in candidate["models_seen"] else "unseen"


def _levels_table(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            format_candidate(candidate),
            name,
            criterion,
            level,
            str(statistics["n"]),
            str(statistics["said"]),
            *(_format_value(statistics[figure]) for figure in ("precision", "recall", "f1")),
        )
        for candidate in document["candidates"]
        if candidate["kind"] != "annotator"
        for grouping in ("by_criterion", "by_dimension")
        for name, part in candidate[grouping].items()
        for criterion, figures in part["criteria"].items()
        for level, statistics in figures["levels"].items()
    ]
    return format_table([LEVEL_HEADS, *rows], texts=4) if rows else []


def _tests_table(document: Mapping[str, Any]) -> list[str]:
    rows = []
    for candidate in document["candidates"]:
        if "alternative" in candidate:
            parts = {"all": candidate["alternative"]["pooled"], **candidate["alternative"]["by_criterion"]}
            rows += [
                (format_candidate(candidate), name, *_format_verdict(verdict))
                for name, verdict in parts.items()
            ]
    return format_table([TEST_HEADS, *rows], texts=2) if rows else []


def _format_verdict(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    tested = [person for person in verdict["people"] if person["p"] is not None]
    passes = {True: "yes", False: "no", None: "-"}[verdict["passes"]]
    return (
        _format_number(verdict["winning_rate"]),
        _format_number(verdict["advantage_probability"]),
        f"{passes} (fewer than 3 people)" if verdict["few_people"] else passes,
        str(len(tested)),
        " ".join(_format_number(person["p_adjusted"]) for person in tested) or "-",
    )


def _format_value(statistic: Mapping[str, float | None]) -> str:
    return _format_number(statistic["value"])


def _format_interval(statistic: Mapping[str, float | None]) -> str:
    low, high = statistic["low"], statistic["high"]
    return "-" if low is None or high is None else f"{low:.3f}-{high:.3f}"


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _format_percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


NOT_COMPARED_WORDS = {
    NO_RESPONSES: "a column or criterion of it has no response",
    NO_GOLD: "predicted by a scorer",
    SELECTION: "chance did not choose which of its responses have gold",
    FEW_LABELS: f"a column or criterion of it has fewer than {MIN_LABELS} gold labels",
    FEW_PROMPTS: f"a column or criterion of it has fewer than {MIN_PROMPTS} responses",
    grounds.EARLIER: "the run is of an earlier version; run it again",
}
MAX_NAME_CHARACTERS = 5
"""Of a dimension's name, over the number of its responses."""


def build_board_table(board: dict[str, Any], document: GuidelineDocument, *, intervals: bool) -> list[str]:
    """Best first, under two lines of heads: what of, over the names of its metrics. Those of which lower is better have
    a table of their own.

    With a small cell on it the intervals are printed, asked for or not.
    """
    intervals = intervals or has_small_cell(board)
    lines = []
    for better, title in BETTER_TITLES.items():
        metrics = [metric for metric in document.metrics if metric.better == better]
        if metrics:
            lines += [*title, *_build_metrics_table(board, document, metrics, intervals=intervals)]
    return [*lines, *_list_not_compared(board["rows"])]


BETTER_TITLES = {"higher": (), "lower": ("", "lower is better")}


def _build_metrics_table(
    board: dict[str, Any], document: GuidelineDocument, metrics: Sequence[Metric], *, intervals: bool
) -> list[str]:
    columns = [column for column in _list_columns(document) if column[1] in metrics]
    groups = [("", 2), *_column_groups(columns, intervals=intervals), ("n", len(list_scopes(document)))]
    head = ["model", "rank"]
    head += [
        name for _scope, metric in columns for name in _column_names(metric, metrics, intervals=intervals)
    ]
    head += [scope[:MAX_NAME_CHARACTERS].rstrip() for scope in list_scopes(document)]
    body = [_board_line(row, columns, document, intervals=intervals) for row in board["rows"]]
    return _place_under_titles(groups, [head, *body])


def _list_not_compared(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each reason why models have no rank, with their names."""
    compared = sum(row["rank"] is not None for row in rows)
    if compared < len(rows):
        yield f"ranks are among the {compared} compared of {len(rows)} models; no rank, no interval, not compared:"
    for reason, words in NOT_COMPARED_WORDS.items():
        models = [row["model"] for row in rows if row.get("reason") == reason]
        if models:
            yield f"  {', '.join(models)}: {words} (docs/leaderboard.md)"


def _column_groups(columns: Sequence[tuple[str | None, Metric]], *, intervals: bool) -> list[tuple[str, int]]:
    """The title of each part of the board, and over how many columns it stands."""
    sizes = Counter(scope for scope, _metric in columns)
    return [(scope or "overall", size * (2 if intervals else 1)) for scope, size in sizes.items()]


def _place_under_titles(groups: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = measure_widths(rows)
    titles, at = [], 0
    for title, size in groups:
        span = sum(widths[at : at + size]) + 2 * (size - 1)
        widths[at] += max(0, measure_width(title) - span)
        titles.append(pad_text(title, max(span, measure_width(title)), left=False))
        at += size
    return ["  ".join(titles).rstrip(), *format_lines(rows, widths)]


def has_small_cell(board: dict[str, Any]) -> bool:
    return any(0 < cell["n"] < SMALL for row in board["rows"] for cell in row["dimensions"].values())


def _list_columns(document: GuidelineDocument) -> list[tuple[str | None, Metric]]:
    """The overall numbers, then those of each dimension."""
    overall: list[tuple[str | None, Metric]] = [
        (None, metric) for metric in document.metrics if metric.overall != "none"
    ]
    return overall + [
        (scope, metric) for scope in list_scopes(document) for metric in list_metrics(document, scope)
    ]


def _column_names(metric: Metric, metrics: Sequence[Metric], *, intervals: bool) -> list[str]:
    name = shorten_name(metric.name, metrics)
    return [name, "95%"] if intervals else [name]


def shorten_name(name: str, metrics: Sequence[Metric]) -> str:
    """A metric's name without the words that all ``metrics`` begin with: ``rate`` of ``harmless_rate``."""
    words = [metric.name.split("_") for metric in metrics]
    shared = 0
    while len(words) > 1 and all(
        len(word) > shared + 1 and word[shared] == words[0][shared] for word in words
    ):
        shared += 1
    return "_".join(name.split("_")[shared:])


def _board_line(
    row: dict[str, Any],
    columns: Sequence[tuple[str | None, Metric]],
    document: GuidelineDocument,
    *,
    intervals: bool,
) -> list[str]:
    cells = [row["model"], format_rank(row["rank"])]
    for scope, metric in columns:
        held = row["overall"] if scope is None else row["dimensions"][scope]
        statistic = held[metric.name]
        cells.append(format_metric_value(metric, statistic["value"]))
        if intervals:
            cells.append(format_metric_interval(metric, statistic["low"], statistic["high"]))
    return cells + [str(row["dimensions"][scope]["n"]) for scope in list_scopes(document)]


def build_groups_table(groups: dict[str, Any], document: GuidelineDocument, *, intervals: bool) -> list[str]:
    """A line for each model and group that it has a response in; intervals where asked for or where n is small."""
    entries = [
        (row["model"], column, cell)
        for place, column in enumerate(groups["columns"])
        for row in groups["rows"]
        if (cell := row["cells"][place]) is not None
    ]
    metrics = [
        metric for metric in document.metrics if any(metric.name in cell for _model, _column, cell in entries)
    ]
    intervals = intervals or any(cell["n"] < SMALL for _model, _column, cell in entries)
    head = ["group", "model", "n"]
    head += [name for metric in metrics for name in _column_names(metric, metrics, intervals=intervals)]
    body = [
        [
            _format_group(column),
            model,
            str(cell["n"]),
            *_format_statistics(metrics, cell, intervals=intervals),
        ]
        for model, column, cell in entries
    ]
    lower = ", ".join(metric.name for metric in metrics if metric.better == "lower")
    return [*format_table([head, *body], texts=2), *([f"lower is better: {lower}"] if lower else [])]


def _format_group(column: dict[str, Any]) -> str:
    return f"{column['scope']} / {column['name']}" if column["scope"] else str(column["name"])


def _format_statistics(metrics: Sequence[Metric], cell: dict[str, Any], *, intervals: bool) -> list[str]:
    """What the cell has of each metric; a metric of other columns it has not."""
    texts = []
    for metric in metrics:
        statistic = cell.get(metric.name) or {"value": None, "low": None, "high": None}
        texts.append(format_metric_value(metric, statistic["value"]))
        if intervals:
            texts.append(format_metric_interval(metric, statistic["low"], statistic["high"]))
    return texts


def build_pairs_table(pairs: dict[str, Any], document: GuidelineDocument) -> list[str]:
    """A line for each pair, the better first: the difference with its interval, in each column of the board."""
    metric = document.metric(pairs["metric"])
    names = ["model", "less"] if _has_uncompared(pairs) else ["better", "than"]
    head = [*names, *(cell for scope in pairs["scopes"] for cell in (scope, "95%", "n"))]
    body = []
    for key, cells in pairs["pairs"].items():
        first, later = (pairs["models"][int(place)] for place in key.split("-"))
        body.append(
            [
                first,
                later,
                *(text for scope in pairs["scopes"] for text in _format_difference(metric, cells[scope])),
            ]
        )
    notes = ["* not paired: other prompts, or nobody knows which"] if _has_unpaired(pairs) else []
    return [
        *format_table([head, *body], texts=2),
        *notes,
        *(["no interval: not compared (docs/leaderboard.md)"] if _has_uncompared(pairs) else []),
    ]


def _format_difference(metric: Metric, cell: dict[str, Any] | None) -> list[str]:
    if cell is None:
        return ["-", "-", "-"]
    texts = [format_metric_difference(metric, cell[name]) for name in ("value", "low", "high")]
    interval = "-" if "-" in texts[1:] else f"{texts[1]} to {texts[2]}"
    return [texts[0], interval, f"{cell['n']}{'' if cell['paired'] else '*'}"]


def _has_unpaired(pairs: dict[str, Any]) -> bool:
    return any(cell and not cell["paired"] for cells in pairs["pairs"].values() for cell in cells.values())


def _has_uncompared(pairs: dict[str, Any]) -> bool:
    return any(
        cell and not cell.get("compared", True)
        for cells in pairs["pairs"].values()
        for cell in cells.values()
    )


SOURCES = ("people", "scorer", "combined", "finite")


def build_estimates_table(estimates: dict[str, Any], document: GuidelineDocument) -> list[str]:
    """A line for each model, column and metric: what people, the scorer, and both together say."""
    head = ["model", "of", "metric", "gold", *(text for name in SOURCES for text in (name, "95%")), "bias"]
    body = [
        [row["model"], scope, name, *_estimate_cells(document.metric(name), cell)]
        for row in estimates["rows"]
        for scope, cells in row["cells"].items()
        for name, cell in cells.items()
    ]
    return [*format_table([head, *body], texts=3), *_selection_lines(estimates.get("selection") or [])]


def _selection_lines(selection: Sequence[dict[str, Any]]) -> list[str]:
    """What ``combined`` and ``finite`` rest on without a chance that is known."""
    words = {
        ABSTAINED: "which has what the scorer {scorer} abstained from, the difficult ones",
        PART: "which has some of the responses, and nothing says that chance chose them",
        UNFINISHED: "of whose items {without_gold} have no gold",
        GROWN: "which was drawn from other responses than there are now",
        EARLIER: "which was drawn from what earlier labels of unknown selection had left",
        LEAST_SURE: "whose responses were chosen because a scorer was least sure of them",
        UNRECORDED: "and how its responses were selected is not recorded in the release",
    }
    return [
        f"{row['labels']} labels are of the batch {row['batch']}, {words[row['how']].format(**row)}"
        for row in sum_unknown(selection)
    ]


def _estimate_cells(metric: Metric, cell: dict[str, Any]) -> list[str]:
    gold = (cell["people"] or {}).get("n")
    texts = ["-" if gold is None else str(gold)]
    for source in SOURCES:
        statistic = cell[source] or {"value": None, "low": None, "high": None}
        texts += [
            format_metric_value(metric, statistic["value"]),
            format_metric_interval(metric, statistic["low"], statistic["high"]),
        ]
    return [*texts, format_metric_difference(metric, cell["bias"])]
