"""Judges, scorers and people beside each other on one gold release, each against the same gold labels."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, Max

from annotation.core.errors import N_, AssayError
from annotation.domain.releases.selection import summarize_selection
from annotation.models import GoldRelease, Job
from annotation.selectors.jobs import DEAD, StoredResult, find_job_at_work, hash_basis
from annotation.selectors.releases.selection import find_selection
from benchmark.domain.judges.alternative_annotator import (
    EPSILON,
    Alignment,
    AlignmentScale,
    RatedItem,
    run_annotator_test,
)
from benchmark.domain.judges.metrics import Figures, compute_figures
from benchmark.models import Judge, JudgeComparison, JudgeLabel
from benchmark.selectors.judges.gold import CandidateLabels, RaterLabel, ReleaseComparison
from benchmark.selectors.judges.judges import CHUNK, Key
from scoring.domain.training_data import Head, Value, level_name
from scoring.models import Prediction, Scorer
from scoring.selectors.scorers import find_current_scorer
from scoring.selectors.training import OUT_OF_FOLD, OutOfFoldPredictions, build_heads

COMPARISON_JOB = "compare_judges"
MAX_LABELS_AT_ONCE = 20_000
"""So many gold labels are compared while a page waits: a few seconds; more by a job."""
MAX_SCORERS = 3
MAX_CACHED = 16
"""So many comparisons are kept by one process, those that were asked for last."""
SUMMARY = (
    "n",
    "prompts",
    "off_scale",
    "accuracy",
    "macro_f1",
    "cohen_kappa",
    "quadratic_kappa",
    "calibration_error",
)


def list_judges(release_guideline: str) -> list[Judge]:
    """The judges of any version of the guideline, by name."""
    return list(
        Judge.objects.select_related("guideline", "template").filter(guideline__name=release_guideline)
    )


def list_scorers(comparison: ReleaseComparison) -> list[Scorer]:
    """The guideline's trained scorers: the current one and those of the release first, then the newest."""
    name = comparison.guideline.name
    current = find_current_scorer(name)
    ready = Scorer.objects.filter(guideline__name=name).exclude(ready_at=None)
    ready = ready.select_related("release", "guideline")
    return sorted(
        ready.order_by("-pk"),
        key=lambda scorer: (scorer != current, scorer.release_id != comparison.release.pk),
    )


def build_comparison(
    release: GoldRelease,
    *,
    judges: Sequence[Judge] | None = None,
    scorers: Sequence[Scorer] | None = None,
    common: bool = False,
    epsilon: float = EPSILON,
    alignment: Alignment | None = None,
) -> dict[str, Any]:
    """The whole document, as ``compare_judges --json`` prints it; kept, since nothing that it rests on changes.

    Judges: those named, or all that said anything of the release. ``common`` keeps the labels alone that every judge
    and scorer said something of.
    """
    return ComparisonRequest(release, judges, scorers, common, epsilon, alignment).build_cached()


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared on a release: judges and scorers that are named, or None for all with a word on it."""

    release: GoldRelease
    judges: Sequence[Judge] | None = None
    scorers: Sequence[Scorer] | None = None
    common: bool = False
    epsilon: float = EPSILON
    alignment: Alignment | None = None

    def resolve(self) -> tuple[ReleaseComparison, list[Judge], list[Scorer]]:
        comparison = ReleaseComparison(self.release)
        judges = list_judges(comparison.guideline.name) if self.judges is None else list(self.judges)
        scorers = list_scorers(comparison)[:MAX_SCORERS] if self.scorers is None else list(self.scorers)
        _refuse_strangers(comparison, [*judges, *scorers])
        return comparison, judges, scorers

    def to_json(self) -> dict[str, Any]:
        return {
            "judges": None if self.judges is None else [judge.pk for judge in self.judges],
            "scorers": None if self.scorers is None else [scorer.pk for scorer in self.scorers],
            "common": self.common,
            "epsilon": self.epsilon,
            "alignment": self.alignment,
        }

    @classmethod
    def from_json(cls, release: GoldRelease, content: Mapping[str, Any]) -> ComparisonRequest:
        """Who was deleted since is left out."""
        judges, scorers = content["judges"], content["scorers"]
        known_judges = Judge.objects.select_related("guideline", "template").in_bulk(judges or [])
        known_scorers = Scorer.objects.select_related("release", "guideline").in_bulk(scorers or [])
        return cls(
            release,
            None if judges is None else [known_judges[pk] for pk in judges if pk in known_judges],
            None if scorers is None else [known_scorers[pk] for pk in scorers if pk in known_scorers],
            content["common"],
            content["epsilon"],
            content["alignment"],
        )

    @property
    def sha256(self) -> str:
        return hash_basis(self.to_json())

    def read_key(self) -> str:
        """The hash of what the document rests on, as it is now."""
        _comparison, judges, scorers = self.resolve()
        return hash_basis(
            [
                self.to_json(),
                self.release.pk,
                self.release.sha256,
                list(self.release.batches.order_by("pk").values_list("pk", "labels_version")),
                [(judge.pk, judge.name, *_count_rows(judge.labels)) for judge in judges],
                [
                    (scorer.pk, scorer.name, scorer.weights_sha256, *_count_rows(scorer.predictions))
                    for scorer in scorers
                ],
            ]
        )

    def build_cached(self) -> dict[str, Any]:
        """The document, which this process keeps as long as nothing that it rests on changes."""
        return _CACHE.get((str(connection.settings_dict["NAME"]), self.read_key()), self.build)

    def build(self, report: Callable[[float], object] = lambda _done: None) -> dict[str, Any]:
        """The document, computed now; ``report`` hears how much of it is done."""
        comparison, judges, scorers = self.resolve()
        return _build_document(
            comparison,
            judges,
            scorers,
            silent=self.judges is None,
            common=self.common,
            test=(self.epsilon, self.alignment),
            report=report,
        )


def _count_rows(rows: Any) -> tuple[int, int]:
    """How many there are, and the last: rows that are made, or made anew, change it."""
    counted = rows.aggregate(n=Count("pk"), last=Max("pk"))
    return counted["n"], counted["last"] or 0


def _refuse_strangers(comparison: ReleaseComparison, candidates: Sequence[Judge | Scorer]) -> None:
    """Another guideline may have a criterion of the same name, and mean something else by it."""
    for candidate in candidates:
        if candidate.guideline.name != comparison.guideline.name:
            raise AssayError(
                N_(
                    "{name} is of the guideline {other}, and {release} of {guideline}: they cannot be compared."
                ),
                name=candidate.name,
                other=candidate.guideline.name,
                release=comparison.release.name,
                guideline=comparison.guideline.name,
            )


def _build_document(
    comparison: ReleaseComparison,
    judges: Sequence[Judge],
    scorers: Sequence[Scorer],
    *,
    silent: bool,
    common: bool,
    test: tuple[float, Alignment | None],
    report: Callable[[float], object] = lambda _done: None,
) -> dict[str, Any]:
    """``silent``: who said nothing of the release is left out."""
    candidates: list[tuple[Judge | Scorer, CandidateLabels]] = [
        *((scorer, list_scorer_answers(comparison, scorer)) for scorer in scorers),
        *((judge, list_judge_answers(comparison, judge)) for judge in judges),
    ]
    candidates = [(candidate, labels) for candidate, labels in candidates if labels or not silent]
    keep = (
        set.intersection(*(set(labels) for _candidate, labels in candidates))
        if common and candidates
        else None
    )
    if keep is not None:
        candidates = [(candidate, {key: labels[key] for key in keep}) for candidate, labels in candidates]
    rows = []
    for place, (candidate, labels) in enumerate(candidates):
        report((place + 1) / (len(candidates) + 3))  # people take about as long as two of them
        rows.append(_build_candidate(comparison, candidate, labels, test))
    return {
        "release": comparison.release.name,
        "sha256": comparison.release.sha256,
        "guideline": str(comparison.guideline),
        "labels": comparison.n_gold,
        "responses": len(comparison.rows),
        "selection": summarize_selection(find_selection(comparison.release)),
        "common": common,
        "candidates": [
            *rows,
            *_list_people(comparison, keep),
        ],
    }


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
    if not (scorer.weights_folder / OUT_OF_FOLD).is_file():
        return
    heads = {head.criterion: head for head in build_heads(scorer.guideline)}  # its own version's
    predictions = OutOfFoldPredictions.load(scorer.weights_folder, list(heads.values())).predictions
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


def _build_candidate(
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


def _list_people(comparison: ReleaseComparison, keep: set[Key] | None) -> list[Figures]:
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


def find_stored_comparison(request: ComparisonRequest) -> StoredResult:
    """``job`` is at work for the release, on this request or on another one."""
    own = JudgeComparison.objects.filter(release=request.release, request_sha256=request.sha256)
    stored = own.select_related("job").first()
    job = find_comparison_job(request.release)
    failed = stored.job if stored is not None and stored.job and stored.job.state in DEAD else None
    if stored is None or stored.document is None:
        return StoredResult(job=job, failed=failed)
    is_stale = stored.key != request.read_key()
    return StoredResult(stored.document, stored.built_at, is_stale, job, failed)


def find_comparison_job(release: GoldRelease) -> Job | None:
    """The one that compares on the release now: there is one at a time."""
    return find_job_at_work(COMPARISON_JOB, release=release.pk)


class _ComparisonCache:
    """The documents that this process worked out last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        with self._lock:
            if key in self._documents:
                self._documents.move_to_end(key)
                return self._documents[key]
        document = compute()
        with self._lock:
            self._documents[key] = document
            while len(self._documents) > MAX_CACHED:
                self._documents.popitem(last=False)
        return document

    def clear(self) -> None:
        with self._lock:
            self._documents.clear()


_CACHE = _ComparisonCache()


def clear_cache() -> None:
    """For tests, whose databases go back in time."""
    _CACHE.clear()
