"""Judges, scorers and people beside each other on one gold release, each against the same gold labels."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
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
)
from benchmark.models import Judge, JudgeComparison
from benchmark.selectors.judges.candidates import (
    build_candidate,
    list_judge_answers,
    list_scorer_answers,
    measure_annotators,
    measure_commonest,
)
from benchmark.selectors.judges.gold import CandidateLabels, ReleaseComparison
from scoring.models import Scorer
from scoring.selectors.scorers import find_current_scorer

COMPARISON_JOB = "compare_judges"
VERSION = 2
"""Of the document: one of an earlier version is made anew."""
MAX_LABELS_AT_ONCE = 20_000
"""So many gold labels are compared while a page waits: a few seconds; more by a job."""
MAX_SCORERS = 3
MAX_CACHED = 16
"""So many comparisons are kept by one process, those that were asked for last."""


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
                VERSION,
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
        rows.append(build_candidate(comparison, candidate, labels, test))
    return {
        "release": comparison.release.name,
        "sha256": comparison.release.sha256,
        "guideline": str(comparison.guideline),
        "labels": comparison.n_gold,
        "responses": len(comparison.rows),
        "selection": summarize_selection(find_selection(comparison.release)),
        "common": common,
        "commonest": measure_commonest(comparison),
        "candidates": [
            *rows,
            *measure_annotators(comparison, keep),
        ],
    }


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
