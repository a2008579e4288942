"""What each judge, scorer and annotator said of a release, against its gold labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from benchmark.domain.judges.alternative_annotator import (
    Alignment,
    AlignmentScale,
    RatedItem,
    run_annotator_test,
)
from benchmark.domain.judges.metrics import Figures, compute_figures
from benchmark.models import Judge, JudgeLabel
from benchmark.selectors.judges.gold import CandidateLabels, RaterLabel, ReleaseComparison
from benchmark.selectors.judges.judges import CHUNK, Key
from scoring.domain.training_data import Head, Value, level_name
from scoring.models import Prediction, Scorer
from scoring.selectors.training import OUT_OF_FOLD, OutOfFoldPredictions, build_heads, find_weights

SUMMARY = (
    "n",
    "prompts",
    "off_scale",
    "accuracy",
    "within_one",
    "macro_f1",
    "cohen_kappa",
    "quadratic_kappa",
    "calibration_error",
)


def list_judge_answers(comparison: ReleaseComparison, judge: Judge) -> CandidateLabels:
    labels: CandidateLabels = {}
    for ids in _split_ids(comparison):
        rows = JudgeLabel.objects.filter(judge=judge, response__in=ids)
        for response, criterion, value, probabilities in rows.values_list(
            "response_id", "criterion", "value", "probabilities"
        ):
            share = probabilities.get(level_name(value)) if value is not None else None
            labels[response, criterion] = (value, share)
    return labels


def list_scorer_answers(comparison: ReleaseComparison, scorer: Scorer) -> CandidateLabels:
    """Never in-sample: stored predictions, which are out of fold or of unseen content; and, of the scorer's own
    release, the out-of-fold predictions that lie beside its weights."""
    labels: CandidateLabels = {}
    for response, criterion, value, shares in _read_out_of_fold(comparison, scorer):
        labels[response, criterion] = (value, shares)
    for ids in _split_ids(comparison):
        rows = Prediction.objects.filter(scorer=scorer, response__in=ids)
        for response, criterion, value, probabilities in rows.values_list(
            "response_id", "criterion", "value", "probabilities"
        ):
            labels[response, criterion] = (value, probabilities.get(level_name(value)))
    return labels


def _read_out_of_fold(
    comparison: ReleaseComparison, scorer: Scorer
) -> Iterator[tuple[int, str, Value, float]]:
    folder = find_weights(scorer)
    if not (folder / OUT_OF_FOLD).is_file():
        return
    heads = {head.criterion: head for head in build_heads(scorer.guideline)}  # its own version's
    predictions = OutOfFoldPredictions.load(folder, list(heads.values())).predictions
    for response, example in zip(
        comparison.training_set.responses, comparison.training_set.examples, strict=True
    ):
        _fold, predicted = predictions.get(example.content_key, (0, {}))
        for criterion, distribution in predicted.items():
            value = heads[criterion].most_likely(distribution)
            yield response, criterion, value, distribution[value]


def _split_ids(comparison: ReleaseComparison) -> Iterator[list[int]]:
    ids = comparison.training_set.responses
    yield from (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def build_candidate(
    comparison: ReleaseComparison,
    candidate: Judge | Scorer,
    labels: CandidateLabels,
    test: tuple[float, Alignment | None],
) -> Figures:
    seen = _list_training_models(candidate) if isinstance(candidate, Scorer) else None
    metrics = compute_figures(
        comparison.build_pairs(labels, seen=seen), comparison.heads, n_gold=comparison.n_gold
    )
    return {
        "kind": "scorer" if isinstance(candidate, Scorer) else "judge",
        "name": candidate.name,
        "guideline": str(candidate.guideline),
        **metrics,
        "models_seen": sorted(seen) if seen is not None else None,
        "left_out": _find_left_out(comparison, candidate) if isinstance(candidate, Scorer) else None,
        "alternative": run_annotator_tests(comparison, labels, epsilon=test[0], alignment=test[1]),
    }


def measure_commonest(comparison: ReleaseComparison) -> Figures:
    """What always saying the commonest gold level of a criterion is worth; of equally common ones the first."""
    counts: dict[str, Counter[Value]] = defaultdict(Counter)
    for example in comparison.training_set.examples:
        for criterion, value in example.labels.items():
            counts[criterion][value] += 1
    commonest = {
        head.criterion: max(head.values, key=lambda value, own=counts[head.criterion]: own[value])  # type: ignore[misc]
        for head in comparison.heads
    }
    labels: CandidateLabels = {
        (response, criterion): (commonest[criterion], None)
        for response in comparison.training_set.responses
        for criterion in commonest
    }
    return compute_figures(comparison.build_pairs(labels), comparison.heads, n_gold=comparison.n_gold)


def _list_training_models(scorer: Scorer) -> frozenset[str]:
    """The models from whose responses the scorer learned."""
    names = scorer.release.items.order_by().values_list("task__response__model__name", flat=True)
    return frozenset(names.distinct())


def _find_left_out(comparison: ReleaseComparison, scorer: Scorer) -> Figures | None:
    """What it is worth on a model that it has not seen, if this is its own release: each model left out in training."""
    evaluation = scorer.evaluation.get("leave_one_model_out")
    if scorer.release_id != comparison.release.pk or not evaluation:
        return None
    return {
        **{name: evaluation[name] for name in ("n", "accuracy", "macro_f1")},
        "by_model": {
            model: {name: metrics[name] for name in ("n", "accuracy", "macro_f1")}
            for model, metrics in evaluation["by_model"].items()
        },
    }


def run_annotator_tests(
    comparison: ReleaseComparison,
    candidate_labels: CandidateLabels,
    *,
    epsilon: float,
    alignment: Alignment | None = None,
) -> dict[str, Any]:
    """The alternative annotator test, of each criterion and of all together."""
    scales = {head.criterion: _build_scale(head, alignment) for head in comparison.heads}
    by_task: dict[tuple[int, str], list[RaterLabel]] = defaultdict(list)
    for rater_label in comparison.rater_labels:
        by_task[rater_label.task, rater_label.criterion].append(rater_label)
    items: dict[str, list[RatedItem]] = defaultdict(list)
    for (_task, criterion), rater_labels in by_task.items():
        key = (rater_labels[0].response, criterion)
        if len(rater_labels) > 1 and key in candidate_labels:
            labels: dict[Hashable, float] = {
                rater_label.person: rater_label.value for rater_label in rater_labels
            }
            prompt = comparison.prompts[rater_labels[0].response]
            items[criterion].append(RatedItem(labels, candidate_labels[key][0], scales[criterion], prompt))
    every = [item for part in items.values() for item in part]
    return {
        "pooled": _run_test(comparison, every, epsilon),
        "by_criterion": {name: _run_test(comparison, part, epsilon) for name, part in items.items()},
    }


def _run_test(comparison: ReleaseComparison, items: Sequence[RatedItem], epsilon: float) -> dict[str, Any]:
    verdict = run_annotator_test(items, epsilon=epsilon).to_json()
    people = [{**row, "person": comparison.names[row["person"]]} for row in verdict["people"]]
    return {**verdict, "people": sorted(people, key=lambda row: str(row["person"]))}


def _build_scale(head: Head, alignment: Alignment | None) -> AlignmentScale:
    usual: Alignment = "accuracy" if head.measurement == "nominal" else "distance"
    return AlignmentScale(head.values, alignment or usual, is_interval=head.measurement == "interval")


def measure_annotators(comparison: ReleaseComparison, keep: set[Key] | None) -> list[Figures]:
    """All single annotators as one, and each of them; against gold, and against the others' labels alone."""
    rater_labels = [
        label
        for label in comparison.rater_labels
        if keep is None or (label.response, label.criterion) in keep
    ]
    if not rater_labels:
        return []
    peer_labels = _find_peer_labels(comparison)
    by_person: dict[int, list[RaterLabel]] = defaultdict(list)
    for rater_label in rater_labels:
        by_person[rater_label.person].append(rater_label)
    people = sorted(by_person, key=lambda person: comparison.names[person])
    return [
        _build_person(comparison, "people", "", rater_labels, peer_labels),
        *(
            _build_person(comparison, "annotator", comparison.names[person], by_person[person], peer_labels)
            for person in people
        ),
    ]


def _build_person(
    comparison: ReleaseComparison,
    kind: str,
    name: str,
    rater_labels: Sequence[RaterLabel],
    peer_labels: Mapping[tuple[int, int, str], Value],
) -> Figures:
    pairs = [
        comparison.build_pair(rater_label, comparison.get_gold(rater_label)) for rater_label in rater_labels
    ]
    peer_pairs = [
        comparison.build_pair(
            rater_label, peer_labels[rater_label.person, rater_label.task, rater_label.criterion]
        )
        for rater_label in rater_labels
        if (rater_label.person, rater_label.task, rater_label.criterion) in peer_labels
    ]
    labelled = {(rater_label.response, rater_label.criterion) for rater_label in rater_labels}
    compared = compute_figures(peer_pairs, comparison.heads, n_gold=len(peer_pairs))
    return {
        "kind": kind,
        "name": name,
        **compute_figures(pairs, comparison.heads, n_gold=comparison.n_gold),
        "coverage": len(labelled) / comparison.n_gold if comparison.n_gold else None,
        "against_others": {name: compared[name] for name in SUMMARY},
        "rests_on_own": sum(rater_label.supports_gold for rater_label in rater_labels) / len(rater_labels),
    }


def _find_peer_labels(comparison: ReleaseComparison) -> dict[tuple[int, int, str], Value]:
    """By person, task and criterion: what would have been settled without that person.

    The others' label where they agree; where they do not, what the adjudicator decided; else nothing.
    """
    by_task: dict[tuple[int, str], list[RaterLabel]] = defaultdict(list)
    for rater_label in comparison.rater_labels:
        by_task[rater_label.task, rater_label.criterion].append(rater_label)
    peer_labels: dict[tuple[int, int, str], Value] = {}
    for (task, criterion), rater_labels in by_task.items():
        for rater_label in rater_labels:
            values = {other.value for other in rater_labels if other.person != rater_label.person}
            if len(values) == 1:
                peer_labels[rater_label.person, task, criterion] = values.pop()
            elif values and (task, criterion) in comparison.decisions:
                peer_labels[rater_label.person, task, criterion] = comparison.decisions[task, criterion]
    return peer_labels
