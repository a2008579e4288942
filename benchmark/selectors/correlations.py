"""People's gold, judges, scorers and automatic metrics beside each other on one release: each pair correlated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from annotation.core.errors import N_
from annotation.models import GoldRelease, Response
from benchmark.domain.correlations import correlate_models, correlate_responses
from benchmark.domain.metric_files import MetricRow, split_column
from benchmark.models import Judge
from benchmark.selectors.judges.candidates import list_judge_answers, list_scorer_answers
from benchmark.selectors.judges.comparison import ComparisonRequest
from benchmark.selectors.judges.gold import CandidateLabels, ReleaseComparison
from benchmark.selectors.judges.judges import CHUNK
from scoring.models import Scorer

RESPONSE, MODEL = "response", "model"
LEVELS = (RESPONSE, MODEL)
Values = Mapping[int, float]
"""By response."""


@dataclass(frozen=True)
class Series:
    """Numbers of one kind (gold, judge, scorer, metric) and name, by criterion and response."""

    kind: str
    name: str
    values: Mapping[str, Values]


def build_correlations(
    release: GoldRelease,
    metrics: Iterable[MetricRow] = (),
    *,
    judges: Sequence[Judge] | None = None,
    scorers: Sequence[Scorer] | None = None,
    level: str = RESPONSE,
    report: Callable[[float], object] = lambda _done: None,
) -> dict[str, Any]:
    """The document that ``correlate --json`` prints: of each criterion, each two series over the responses of both.

    Judges and scorers: those named, or None for all with a label on the release. With the level ``model`` the models'
    means are compared.
    """
    comparison, known_judges, known_scorers = ComparisonRequest(release, judges, scorers).resolve()
    series = [
        _build_gold(comparison),
        *(_build_series("judge", each.name, list_judge_answers(comparison, each)) for each in known_judges),
        *(
            _build_series("scorer", each.name, list_scorer_answers(comparison, each))
            for each in known_scorers
        ),
        *_build_metrics(comparison, metrics),
    ]
    series = [each for each in series if each.values]
    models = {
        response: example.model
        for response, example in zip(
            comparison.training_set.responses, comparison.training_set.examples, strict=True
        )
    }
    tasks = [
        (criterion, first, second)
        for criterion in comparison.scales
        for first, second in combinations(series, 2)
        if criterion in first.values and criterion in second.values
    ]
    rows = []
    for place, (criterion, first, second) in enumerate(tasks):
        report(place / len(tasks))
        figures = _correlate(
            first.values[criterion], second.values[criterion], comparison.prompts, models, level
        )
        rows.append(
            {
                "criterion": criterion,
                "first": {"kind": first.kind, "name": first.name},
                "second": {"kind": second.kind, "name": second.name},
                **figures,
            }
        )
    report(1.0)
    return {
        "release": release.name,
        "sha256": release.sha256,
        "guideline": str(comparison.guideline),
        "level": level,
        "series": [
            {"kind": each.kind, "name": each.name, "n": {name: len(own) for name, own in each.values.items()}}
            for each in series
        ],
        "rows": rows,
    }


def _correlate(
    first: Values, second: Values, prompts: Mapping[int, str], models: Mapping[int, str], level: str
) -> dict[str, Any]:
    responses = sorted(first.keys() & second.keys())
    columns = [first[each] for each in responses], [second[each] for each in responses]
    of_prompts = [prompts[each] for each in responses]
    if level == MODEL:
        return correlate_models(*columns, of_prompts, [models[each] for each in responses])
    return correlate_responses(*columns, of_prompts)


def _build_gold(comparison: ReleaseComparison) -> Series:
    values: dict[str, dict[int, float]] = defaultdict(dict)
    training_set = comparison.training_set
    for response, example in zip(training_set.responses, training_set.examples, strict=True):
        for criterion, value in example.labels.items():
            values[criterion][response] = value
    return Series("gold", "", values)


def _build_series(kind: str, name: str, labels: CandidateLabels) -> Series:
    """A label off the scale is no number, and left out."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for (response, criterion), (value, _share) in labels.items():
        if value is not None:
            values[criterion][response] = value
    return Series(kind, name, values)


def _build_metrics(comparison: ReleaseComparison, rows: Iterable[MetricRow]) -> list[Series]:
    """A series for each metric of the file; InputError where a row names no response of the release, or one twice."""
    known, by_prompt = _list_responses(comparison)
    criteria = dict.fromkeys(comparison.scales)
    values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    lines: dict[int, int] = {}
    for metric_row in rows:
        response = _find_response(metric_row, known, by_prompt)
        if response in lines:
            raise metric_row.row.error(
                N_("this response stands in line {first} already."), field=None, first=lines[response]
            )
        lines[response] = metric_row.row.line
        for column, number in metric_row.values.items():
            metric, criterion = split_column(column, criteria)
            for name in criteria if criterion is None else [criterion]:
                values[metric][name][response] = number
    return [Series("metric", metric, by_criterion) for metric, by_criterion in values.items()]


def _list_responses(
    comparison: ReleaseComparison,
) -> tuple[dict[tuple[str, str, str], int], dict[str, list[tuple[str, str]]]]:
    """The release's responses by prompt id, model and collection; and the (model, collection) of each prompt id."""
    known: dict[tuple[str, str, str], int] = {}
    by_prompt: dict[str, list[tuple[str, str]]] = defaultdict(list)
    ids = comparison.training_set.responses
    for start in range(0, len(ids), CHUNK):
        rows = Response.objects.filter(pk__in=ids[start : start + CHUNK])
        for pk, prompt, model, collection in rows.values_list(
            "pk", "prompt__key", "model__name", "collection__name"
        ):
            known[prompt, model, collection] = pk
            by_prompt[prompt].append((model, collection))
    return known, by_prompt


def _find_response(
    row: MetricRow,
    known: Mapping[tuple[str, str, str], int],
    by_prompt: Mapping[str, Sequence[tuple[str, str]]],
) -> int:
    places = [
        (model, collection)
        for model, collection in by_prompt.get(row.prompt, ())
        if row.model in {None, model} and row.collection in {None, collection}
    ]
    if len(places) == 1:
        return known[row.prompt, *places[0]]
    if places:
        raise row.row.error(
            N_("the release has {n} responses to this prompt; state the model and the collection."),
            field="prompt_id",
            n=len(places),
        )
    raise row.row.error(
        N_("the release has no response of {model} to the prompt {id}."),
        field="prompt_id",
        model=row.model or "-",
        id=row.prompt,
    )
